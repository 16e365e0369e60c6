/* require "sediment.kafka.core": the C half of sediment.kafka. lua/sediment/kafka/init.lua is the half that sediment.open calls. */
#include "lua_kafka/sdkl.h"

/* core.check_open(store): raises use after close */
static int core_check_open(lua_State *L) {
  sdkl_store_check(L, 1);
  return 0;
}

/* core.idle(store, ms): waits so long at most */
static int core_idle(lua_State *L) {
  sdkl_store *s = sdkl_store_check(L, 1);
  int64_t ms = sdml_int(L, 2, 2, "ms");
  if (sdkl_is_here(s) && ms > 0) sdk_client_idle(s->client, ms < 200 ? (int)ms : 200);
  return 0;
}

/* core.timeout_ms(store) -> how long it waits for the cluster */
static int core_timeout_ms(lua_State *L) {
  sdml_pushint(L, sdk_client_timeout_ms(sdkl_store_check(L, 1)->client));
  return 1;
}

static void add_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "open", sdkl_store_open }, { "life", sdkl_store_life }, { "check_open", core_check_open }, { "topic_of", sdkl_topic_open }, { "name", sdkl_topic_name },
    { "store_of", sdkl_store_of },
    { "bounds", sdkl_bounds }, { "create_topic", sdkl_create_topic }, { "grow_topic", sdkl_grow_topic }, { "set_configs", sdkl_set_configs },
    { "describe", sdkl_describe }, { "groups", sdkl_groups }, { "group", sdkl_group }, { "delete_group", sdkl_delete_group },
    { "begin", sdkl_begin }, { "reports", sdkl_reports }, { "give_up", sdkl_give_up },
    { "source", sdkl_source_open }, { "reader", sdkl_reader_open }, { "idle", core_idle }, { "timeout_ms", core_timeout_ms }, { "monotonic_ms", sdml_monotonic_ms }, { NULL, NULL },
  };
  sdml_functions(L, functions);
}

__attribute__((visibility("default"))) int luaopen_sediment_kafka_core(lua_State *L);

/* librdkafka's threads may run in its library while the Lua state that opened it closes: both stay loaded for good. */
int luaopen_sediment_kafka_core(lua_State *L) {
  luaL_checkversion(L);
  sdml_stay_loaded((const void *)(uintptr_t)&luaopen_sediment_kafka_core);
  sdml_open_error(L);
  lua_newtable(L);
  sdkl_open_store(L);
  lua_setfield(L, -2, "store");           /* the methods of stores: Lua code adds to them */
  sdkl_open_topic(L);
  lua_setfield(L, -2, "topic");
  sdkl_open_append(L);
  sdkl_open_reader(L);
  sdkl_open_request(L);
  sdkl_open_held(L);
  sdkl_open_source(L);
  lua_pop(L, 5);
  add_functions(L);
  lua_pushliteral(L, SDM_VERSION);
  lua_setfield(L, -2, "_VERSION");
  return 1;
}
