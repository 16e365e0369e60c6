/* Classes and their userdata.
**
** Every userdata has a companion table (a user value, or an environment before Lua 5.2) with what it keeps alive: its owner, the clock. A
** store's clock may refer to the store again; through the companion that is a cycle that the collector sees.
*/
#include <string.h>

#include "base/clock.h"
#include "lua/sdml.h"

const char SDML_STORE[] = "sediment.store", SDML_TOPIC[] = "sediment.topic", SDML_PARTITION[] = "sediment.partition";
const char SDML_READER[] = "sediment.reader", SDML_ROSTER[] = "sediment.roster", SDML_ERROR[] = "sediment.error", SDML_HELD[] = "sediment.held";
const char SDML_SNAPSHOT[] = "sediment.snapshot", SDML_SNAPSHOT_WRITER[] = "sediment.snapshot_writer";

void sdml_set_int(lua_State *L, const char *name, int64_t value) {
  sdml_pushint(L, value);
  lua_setfield(L, -2, name);
}

void sdml_functions(lua_State *L, const luaL_Reg *functions) {
  for (; functions->name; functions++) {
    lua_pushcfunction(L, functions->func);
    lua_setfield(L, -2, functions->name);
  }
}

void sdml_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta) {
  lua_newtable(L);
  sdml_functions(L, methods);
  luaL_newmetatable(L, name);
  sdml_functions(L, meta);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, name);
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}

int sdml_call_close(lua_State *L) {
  lua_settop(L, 1);
  lua_getfield(L, 1, "close");
  lua_insert(L, 1);
  lua_call(L, 1, 0);
  return 0;
}

void *sdml_new(lua_State *L, size_t size, const char *class, int owner) {
  sdml_object *object = lua_newuserdata(L, size);
  memset(object, 0, size);
  object->class = class;
  lua_createtable(L, 3, 0);
  if (owner) {
    lua_pushvalue(L, owner);
    lua_rawseti(L, -2, SDML_OWNER);
  }
  sdml_setcompanion(L, -2);
  luaL_getmetatable(L, class);
  lua_setmetatable(L, -2);
  return object;
}

int sdml_push_owner(lua_State *L, int index) {
  sdml_getcompanion(L, index);
  lua_rawgeti(L, -1, SDML_OWNER);
  lua_remove(L, -2);
  return 1;
}

void sdml_be_owner(lua_State *L, const char *class) {
  lua_settop(L, 1);
  if (!sdml_object_at(L, 1, class)) return;
  sdml_push_owner(L, 1);
  lua_replace(L, 1);
}

/* ---- the life of a store ---- */

int sdml_push_life(lua_State *L, bool closed) {
  sdml_getcompanion(L, 1);
  lua_rawgeti(L, 2, SDML_LIFE);
  if (!lua_isnil(L, -1)) return 1;
  lua_createtable(L, 0, 1);
  lua_pushboolean(L, closed);
  lua_setfield(L, -2, "closed");
  lua_pushvalue(L, -1);
  lua_rawseti(L, 2, SDML_LIFE);
  return 1;
}

/* The field is there already. */
void sdml_end_life(lua_State *L) {
  sdml_getcompanion(L, 1);
  lua_rawgeti(L, -1, SDML_LIFE);
  if (lua_istable(L, -1)) {
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "closed");
  }
  lua_pop(L, 2);
}

/* ---- holders ---- */

void sdml_drop(sdml_held *h) {
  void *memory = h->memory;
  h->memory = NULL;
  if (memory) h->release(memory);
}

sdml_held *sdml_hold(lua_State *L, void (*release)(void *)) {
  sdml_held *h = sdml_new(L, sizeof *h, SDML_HELD, 0);
  h->release = release;
  return h;
}

static int held_gc(lua_State *L) {
  sdml_drop(sdml_self(L, SDML_HELD));
  return 0;
}

void sdml_open_held(lua_State *L) {
  static const luaL_Reg methods[] = { { NULL, NULL } }, meta[] = { { "__gc", held_gc }, { NULL, NULL } };
  sdml_class(L, SDML_HELD, methods, meta);
}

/* ---- time ---- */

int64_t sdml_last_now(const sdml_store *s) {
  return s->has_clock ? s->last_now : sdm_wall_ms();
}

static void push_clock(lua_State *L, int index) {
  sdml_getcompanion(L, index);
  lua_rawgeti(L, -1, SDML_CLOCK);
  lua_remove(L, -2);
}

/* Takes what the clock returned off the stack; false, with the message in its place, when it is no time. */
static bool take_now(lua_State *L, sdml_store *s, int64_t *now) {
  if (sdml_whole(L, -1, now)) {
    lua_pop(L, 1);
    s->last_now = *now;
    return true;
  }
  char shown[SDML_NUMBER_ROOM];
  sdml_show_number(L, -1, shown);
  luaL_where(L, 1);
  lua_pushfstring(L, "clock: a whole number of milliseconds expected, got %s", shown);
  lua_concat(L, 2);
  lua_remove(L, -2);
  return false;
}

int64_t sdml_now(lua_State *L, int index, sdml_store *s) {
  int64_t now = 0;
  if (!s->has_clock) return sdm_wall_ms();
  push_clock(L, index);
  lua_call(L, 0, 1);
  if (!take_now(L, s, &now)) lua_error(L);
  return now;
}

bool sdml_try_now(lua_State *L, int index, sdml_store *s, int64_t *now) {
  *now = sdml_last_now(s);
  if (!s->has_clock) return true;
  push_clock(L, index);
  return lua_pcall(L, 0, 1, 0) == 0 && take_now(L, s, now);
}

typedef struct when {
  bool has_now, force;
  int64_t now;
} when;

static int take_when(lua_State *L, int arg, int which, void *into) {
  when *w = into;
  if (which == 0) w->now = sdml_int(L, arg, -1, "now");
  else w->force = sdml_bool(L, arg, -1, "force");
  w->has_now = w->has_now || which == 0;
  return 0;
}

int64_t sdml_when(lua_State *L, int arg, sdml_store *s, bool *force) {
  static const char *const names[] = { "now", NULL }, *const both[] = { "now", "force", NULL };
  when w = { false, false, 0 };
  sdml_options(L, arg, force ? both : names, take_when, &w);
  if (force) *force = w.force;
  return w.has_now ? w.now : sdml_now(L, 1, s);
}
