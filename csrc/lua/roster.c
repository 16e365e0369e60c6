/* The files of consumer groups (store/roster.h), for lua/sediment/group.lua. A roster goes with the store's handle that it came from. */
#include "lua/sdml.h"

#include "store/roster.h"

struct sdml_roster {
  sdml_object object;
  sdm_roster *roster;                     /* NULL once it is closed */
  sdml_store *store;                      /* kept alive by the companion */
  sdml_roster *next;                      /* of the same store's handle */
  sdm_buf text;                           /* reused */
};

static void close_roster(sdml_roster *r) {
  sdml_roster **at = &r->store->rosters;
  while (*at && *at != r) at = &(*at)->next;
  if (*at) *at = r->next;
  sdm_roster *roster = r->roster;
  r->roster = NULL;
  sdm_roster_close(roster);
  sdm_buf_free(&r->text);
}

void sdml_rosters_close(sdml_store *s) {
  while (s->rosters) close_roster(s->rosters);
}

/* core.roster(store, group) -> roster | nil, message, code */
int sdml_roster_open(lua_State *L) {
  size_t size;
  sdml_store_check(L, 1);
  const char *group = luaL_checklstring(L, 2, &size);
  sdml_roster *r = sdml_new(L, sizeof *r, SDML_ROSTER, 1);
  r->store = sdml_store_check(L, 1);
  int rc = sdm_roster_open(r->store->store, group, size, &r->roster);
  if (rc < 0) return sdml_fail(L, rc);
  r->next = r->store->rosters;
  r->store->rosters = r;
  return 1;
}

static sdml_roster *open_self(lua_State *L) {
  sdml_roster *r = sdml_self(L, SDML_ROSTER);
  if (!r->roster) sdml_use_after_close(L, r->store && r->store->closed ? "store" : "consumer group");
  return r;
}

static int roster_close(lua_State *L) {
  sdml_roster *r = sdml_self(L, SDML_ROSTER);
  if (r->store) close_roster(r);
  return 0;
}

/* True, or nil, message, code. */
static int done(lua_State *L, int rc) {
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

static int answer(lua_State *L, int rc) {
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, rc);
  return 1;
}

static int push_token(lua_State *L, int rc, uint64_t token) {
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushlstring(L, (const char *)&token, token ? sizeof token : 0);
  return 1;
}

/* Tokens are strings; "" is that of no text. */
static int roster_token(lua_State *L) {
  uint64_t token = 0;
  int rc = sdm_roster_token(open_self(L)->roster, &token);
  return push_token(L, rc, token);
}

static int roster_lock(lua_State *L) { return done(L, sdm_roster_lock(open_self(L)->roster)); }

static int roster_unlock(lua_State *L) {
  sdm_roster_unlock(open_self(L)->roster);
  return 0;
}

/* text, token */
static int roster_read(lua_State *L) {
  uint64_t token;
  sdml_roster *r = open_self(L);
  int rc = sdm_roster_read(r->roster, &r->text, &token);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushlstring(L, r->text.size ? (const char *)r->text.data : "", r->text.size);
  return 1 + push_token(L, 0, token);
}

static int roster_write(lua_State *L) {
  size_t size;
  uint64_t token = 0;
  const char *text = luaL_checklstring(L, 2, &size);
  int rc = sdm_roster_write(open_self(L)->roster, text, size, &token);
  return push_token(L, rc, token);
}

static int slot_at(lua_State *L, int arg) {
  int64_t slot = sdml_int(L, arg, arg, "slot");
  if (slot < 0 || slot >= SDM_ROSTER_SLOTS) sdml_refuse(L, arg, "slot: 0 to %d expected", SDM_ROSTER_SLOTS - 1);
  return (int)slot;
}

static int roster_claim(lua_State *L) {
  int slot = slot_at(L, 2);
  return answer(L, sdm_roster_claim(open_self(L)->roster, slot));
}

static int roster_is_alive(lua_State *L) {
  int slot = slot_at(L, 2);
  return answer(L, sdm_roster_is_alive(open_self(L)->roster, slot));
}

static int roster_release(lua_State *L) { return done(L, sdm_roster_release(open_self(L)->roster)); }
static int roster_remove(lua_State *L) { return done(L, sdm_roster_remove(open_self(L)->roster)); }

void sdml_open_roster(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "lock", roster_lock }, { "unlock", roster_unlock }, { "token", roster_token }, { "read", roster_read }, { "write", roster_write },
    { "claim", roster_claim }, { "release", roster_release }, { "is_alive", roster_is_alive }, { "remove", roster_remove },
    { "close", roster_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", roster_close }, { NULL, NULL } };
  sdml_class(L, SDML_ROSTER, methods, meta);
}
