/* Stores that are Kafka clusters. */
#include "kafka/pipeline.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

const char SDKL_STORE[] = "sediment.kafka.store", SDKL_TOPIC[] = "sediment.kafka.topic", SDKL_READER[] = "sediment.kafka.reader";
const char SDKL_REQUEST[] = "sediment.kafka.request", SDKL_APPEND[] = "sediment.kafka.append", SDKL_HELD[] = "sediment.kafka.held", SDKL_SOURCE[] = "sediment.kafka.source";

/* ---- checks ---- */

void sdkl_require_open(lua_State *L, const sdkl_store *s) {
  if (!s->client) sdml_use_after_close(L, "store");
}

sdkl_store *sdkl_store_self(lua_State *L) {
  sdkl_store *s = sdml_self(L, SDKL_STORE);
  sdkl_require_open(L, s);
  return s;
}

sdkl_store *sdkl_store_check(lua_State *L, int arg) {
  sdkl_store *s = luaL_checkudata(L, arg, SDKL_STORE);
  sdkl_require_open(L, s);
  return s;
}

bool sdkl_is_here(const sdkl_store *s) { return s->forks == sdm_fork_count(); }

int sdkl_usable(const sdkl_store *s) {
  return sdkl_is_here(s) ? 0 : sdm_fail(SDM_FORKED, "the store was opened before a fork; open it anew in this process");
}

int sdkl_writable(const sdkl_store *s) {
  int rc = sdkl_usable(s);
  return rc == 0 && s->readonly ? sdm_fail(SDM_READONLY, "the store was opened with readonly = true") : rc;
}

/* ---- opening ---- */

/* None of the brokers that were named is to be reached, or they refuse us: that is told at once, and not tried again. */
static int try_opening(sdkl_store *s, void *of, int timeout_ms) {
  bool final;
  int rc = sdk_client_probe(s->client, timeout_ms, &final);
  *(int *)of = rc;
  return final ? 0 : rc;
}

static void keep_clock(lua_State *L, sdkl_store *s, int index) {
  if (lua_isnil(L, index)) return;
  sdml_getcompanion(L, -1);
  lua_pushvalue(L, index);
  lua_rawseti(L, -2, SDML_CLOCK);
  lua_pop(L, 1);
  s->plain.has_clock = true;
}

static void let_go(sdkl_store *s) {
  sdk_client *client = s->client;
  s->client = NULL;
  s->plain.closed = true;
  if (client && sdkl_is_here(s)) sdk_client_close(client);
}

/* core.open(path, servers, {setting = text}, timeout_ms, readonly, clock) -> store | nil, message, code */
int sdkl_store_open(lua_State *L) {
  size_t count;
  int probed = 0;
  luaL_checkstring(L, 1);
  const char *servers = luaL_checkstring(L, 2);
  int64_t timeout_ms = sdml_int(L, 4, 4, "timeout_ms");
  lua_settop(L, 6);
  sdk_setting *settings = sdkl_settings(L, 3, &count);
  sdkl_store *s = sdml_new(L, sizeof *s, SDKL_STORE, 0);
  s->forks = sdm_fork_count();
  s->readonly = lua_toboolean(L, 5) != 0;
  keep_clock(L, s, 6);
  sdml_getcompanion(L, -1);
  lua_pushvalue(L, 1);
  lua_rawseti(L, -2, SDML_PATH);
  lua_pop(L, 1);
  int rc = sdk_client_new(servers, settings, count, timeout_ms, &s->client);
  if (rc == 0) rc = sdkl_try_for(L, s, try_opening, &probed);
  if (rc == 0) rc = probed;
  if (rc == 0) return 1;
  int pushed = sdml_fail(L, rc);
  let_go(s);
  return pushed;
}

/* ---- life ---- */

/* core.life(store or topic) -> {closed = boolean} of the store, the same at each call */
int sdkl_store_life(lua_State *L) {
  sdml_be_owner(L, SDKL_TOPIC);
  const sdkl_store *s = sdml_self(L, SDKL_STORE);
  return sdml_push_life(L, s->client == NULL);
}

static int store_close(lua_State *L) {
  sdkl_store *s = sdml_self(L, SDKL_STORE);
  sdml_end_life(L);
  let_go(s);
  lua_pushboolean(L, 1);
  return 1;
}

/* Who has not closed it is not there to be told, but what he appended shall come to the log. */
static int store_gc(lua_State *L) {
  sdkl_store *s = sdml_self(L, SDKL_STORE);
  if (s->client && sdkl_is_here(s)) sdk_pipeline_drain(s->client);
  let_go(s);
  return 0;
}

static int store_tostring(lua_State *L) {
  sdkl_store *s = sdml_self(L, SDKL_STORE);
  sdml_getcompanion(L, 1);
  lua_rawgeti(L, -1, SDML_PATH);
  lua_pushfstring(L, "sediment.store (%s)", s->client ? lua_tostring(L, -1) : "closed");
  return 1;
}

/* ---- topics ---- */

typedef struct listing {
  char **names;
  size_t count;
} listing;

static int try_topics(sdkl_store *s, void *of, int timeout_ms) {
  listing *l = of;
  return sdk_topics(s->client, timeout_ms, &l->names, &l->count);
}

static int store_topics(lua_State *L) {
  listing l = { NULL, 0 };
  sdkl_store *s = sdkl_store_self(L);
  lua_settop(L, 1);
  lua_newtable(L);
  sdkl_held *held = sdkl_hold(L);
  int rc = sdkl_usable(s);
  if (rc == 0) rc = sdkl_try_for(L, s, try_topics, &l);
  if (rc < 0) return sdml_fail(L, rc);
  held->memory = l.names;
  for (size_t i = 0; i < l.count; i++) {
    lua_pushstring(L, l.names[i]);
    lua_rawseti(L, 2, (int)i + 1);
  }
  lua_settop(L, 2);
  return 1;
}

void sdkl_open_store(lua_State *L) {
  static const luaL_Reg methods[] = { { "topics", store_topics }, { "delete_topic", sdkl_store_delete_topic }, { "close", store_close }, { NULL, NULL } };
  static const luaL_Reg meta[] = { { "__gc", store_gc }, { "__close", sdml_call_close }, { "__tostring", store_tostring }, { NULL, NULL } };
  sdml_class(L, SDKL_STORE, methods, meta);
}
