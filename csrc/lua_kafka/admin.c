/* What makes, changes and deletes topics and their records. */
#include "base/clock.h"
#include "lua_kafka/sdkl.h"

/* The strings are kept by the table: nothing may change it while the array is in use. */
sdk_setting *sdkl_settings(lua_State *L, int index, size_t *count) {
  size_t n = 0;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_pushnil(L);
  for (; lua_next(L, index); n++) lua_pop(L, 1);
  sdk_setting *list = lua_newuserdata(L, (n + 1) * sizeof *list);
  lua_pushnil(L);
  for (*count = 0; *count < n && lua_next(L, index); (*count)++) {
    if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "settings: names and texts expected");
    list[*count] = (sdk_setting){ lua_tostring(L, -2), lua_tostring(L, -1) };
    lua_pop(L, 1);
  }
  if (*count == n) return list;
  luaL_error(L, "settings: the table changed");
  return NULL;
}

/* Waits for the request on top of the stack, which is freed, and pushes true, or the failure. */
static int finish(lua_State *L, sdkl_store *s, sdkl_request *r, int rc) {
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc < 0) return sdml_fail(L, rc);
  sdkl_drop_request(r, 0);
  lua_pushboolean(L, 1);
  return 1;
}

/* core.create_topic(store, name, partitions or -1, replication or -1, {config = text}) -> true | nil, message, code */
int sdkl_create_topic(lua_State *L) {
  size_t count;
  sdkl_store *s = sdkl_store_check(L, 1);
  const char *name = sdml_text(L, 2, 2, "name");
  int32_t partitions = (int32_t)sdml_int(L, 3, 3, "partitions"), replication = (int32_t)sdml_int(L, 4, 4, "replication");
  lua_settop(L, 5);
  sdk_setting *configs = sdkl_settings(L, 5, &count);
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_writable(s);
  if (rc == 0) rc = sdkl_reach(L, s);
  if (rc == 0) rc = sdk_create_topic(s->client, name, partitions, replication, configs, count, &r->request);
  return finish(L, s, r, rc);
}

/* core.grow_topic(topic, partitions) -> true | nil, message, code */
int sdkl_grow_topic(lua_State *L) {
  sdkl_topic *t = sdkl_topic_check(L, 1);
  int32_t partitions = (int32_t)sdml_int(L, 2, 2, "partitions");
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_writable(t->store);
  if (rc == 0) rc = sdkl_reach(L, t->store);
  sdkl_topic_check(L, 1);                 /* still open, behind the wait */
  if (rc == 0) rc = sdk_grow_topic(t->store->client, t->name, partitions, &r->request);
  return finish(L, t->store, r, rc);
}

/* core.set_configs(topic, {config = text}) -> true | nil, message, code: these are its own then, and no others */
int sdkl_set_configs(lua_State *L) {
  size_t count;
  lua_settop(L, 2);
  sdkl_topic *t = sdkl_topic_check(L, 1);
  sdk_setting *configs = sdkl_settings(L, 2, &count);
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_writable(t->store);
  if (rc == 0) rc = sdkl_reach(L, t->store);
  sdkl_topic_check(L, 1);                 /* still open, behind the wait */
  if (rc == 0) rc = sdk_set_configs(t->store->client, t->name, configs, count, &r->request);
  return finish(L, t->store, r, rc);
}

static int ask_configs(lua_State *L, sdkl_topic *t, sdkl_request *r) {
  enum { TURN_MS = 50 };
  int64_t since = sdm_monotonic_ms();
  while (true) {
    int rc = sdkl_reach(L, t->store);
    sdkl_topic_check(L, 1);               /* still open, behind the wait */
    if (rc == 0) rc = sdk_describe_topic(t->store->client, t->name, &r->request);
    if (rc == 0) rc = sdkl_await(L, t->store, r);
    if (!sdk_client_settles(t->store->client, rc, since)) return rc;
    sdk_client_idle(t->store->client, TURN_MS);
  }
}

/* core.describe(topic) -> {name = {value = text, source = "topic"/"store"/"default"}} | nil, message, code */
int sdkl_describe(lua_State *L) {
  static const char *const sources[] = { "default", "store", "topic" };
  sdk_config config;
  lua_settop(L, 1);
  sdkl_topic *t = sdkl_topic_check(L, 1);
  sdkl_request *r = sdkl_new_request(L);
  int rc = ask_configs(L, t, r);
  if (rc < 0) return sdml_fail(L, rc);
  lua_newtable(L);
  for (size_t i = 0; sdk_config_at(r->request, i, &config); i++) {
    lua_createtable(L, 0, 2);
    lua_pushstring(L, config.value ? config.value : "");
    lua_setfield(L, -2, "value");
    lua_pushstring(L, sources[config.source]);
    lua_setfield(L, -2, "source");
    lua_setfield(L, -2, config.name);
  }
  sdkl_drop_request(r, 0);
  return 1;
}

/* ---- deletion ---- */

static int take_if_exists(lua_State *L, int arg, int which, void *into) {
  (void)which;
  *(bool *)into = sdml_bool(L, arg, -1, "if_exists");
  return 0;
}

/* Deletion is done when no broker knows the topic any more. Whom we ask is chosen at random. */
static int try_gone(sdkl_store *s, void *of, int timeout_ms) {
  enum { TURNS = 4 };
  int32_t count;
  int rc = SDM_UNKNOWN_TOPIC, turns = sdk_client_brokers(s->client) > 1 ? TURNS * sdk_client_brokers(s->client) : 1;
  for (int i = 0; i < turns && rc == SDM_UNKNOWN_TOPIC; i++) rc = sdk_partitions(s->client, of, false, timeout_ms, &count);
  if (rc == SDM_UNKNOWN_TOPIC) return 0;
  return rc == 0 ? sdm_fail(SDM_TIMEOUT, "delete topic '%s': it is still there", (const char *)of) : rc;
}

int sdkl_store_delete_topic(lua_State *L) {
  static const char *const names[] = { "if_exists", NULL };
  bool if_exists = false;
  lua_settop(L, 3);
  sdkl_store *s = sdkl_store_self(L);
  const char *name = sdml_text(L, 2, 2, "name");
  sdml_options(L, 3, names, take_if_exists, &if_exists);
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdkl_writable(s);
  if (rc == 0) rc = sdkl_reach(L, s);
  if (rc == 0) rc = sdk_delete_topic(s->client, name, &r->request);
  if (rc == 0) rc = sdkl_await(L, s, r);
  if (rc == 0) rc = sdkl_try_for(L, s, try_gone, (void *)(uintptr_t)name);
  if (rc < 0 && !(rc == SDM_UNKNOWN_TOPIC && if_exists)) return sdml_fail(L, rc);
  sdkl_drop_request(r, 0);
  lua_pushboolean(L, 1);
  return 1;
}

/* At or below the log start there is nothing to do. Offsets below 0 have another meaning to Kafka. */
int sdkl_topic_delete_records(lua_State *L) {
  int32_t partition;
  int64_t start = 0, end = 0, before = sdml_int(L, 2, 2, "offset");
  lua_settop(L, 3);
  sdkl_topic *t = sdkl_topic_self(L);
  sdkl_request *r = sdkl_new_request(L);
  int rc = sdml_number_of_partition(L, 3, 3, &partition);
  if (rc == 0) rc = sdkl_writable(t->store);
  if (rc == 0) rc = sdkl_try_bounds(L, t, partition, &start, &end);
  if (rc == 0 && (before < 0 || before > end)) {
    rc = sdm_fail(SDM_OFFSET_OUT_OF_RANGE, "offset %lld is outside the log, which begins at %lld (log start offset) and ends at %lld (log end offset)",
                  (long long)before, (long long)start, (long long)end);
  }
  sdkl_topic_self(L);                     /* still open, behind the wait */
  if (rc == 0) rc = sdk_delete_records(t->store->client, t->name, partition, before, &r->request);
  if (rc == 0) rc = sdkl_await(L, t->store, r);
  if (rc < 0) return sdml_fail(L, rc);
  start = sdk_deleted_up_to(r->request);
  sdkl_drop_request(r, 0);
  sdml_pushint(L, start);
  return 1;
}
