/* require "sediment.core": the C half of the module. lua/sediment/init.lua is the half that programs require. */
#include <stdlib.h>

#include "lua/sdml.h"
#include "os/host.h"
#include "os/signals.h"
#include "store/store.h"

/* core.bounds(topic, partition) -> log start offset, log end offset, purge floor, end of what may be rewritten | nil, message, code */
static int core_bounds(lua_State *L) {
  sdm_log *log;
  sdm_log_bounds b;
  sdml_topic *t = sdml_topic_check(L, 1);
  int64_t partition = sdml_int(L, 2, 2, "partition");
  int rc = sdm_topic_log(t->topic, (int32_t)partition, sdml_last_now(t->store), &log);
  if (rc >= 0) rc = sdm_log_get_bounds(log, &b);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, b.log_start_offset);
  sdml_pushint(L, b.log_end_offset);
  sdml_pushint(L, b.purge_floor);
  sdml_pushint(L, b.rewritten_end);
  return 4;
}

/* core.forks() -> how many forks lie between the process that loaded the library and this one */
static int core_forks(lua_State *L) {
  sdml_pushint(L, sdm_fork_count());
  return 1;
}

/* core.now(store) -> the time by its clock */
static int core_now(lua_State *L) {
  sdml_store *s = sdml_store_check(L, 1);
  sdml_pushint(L, sdml_now(L, 1, s));
  return 1;
}

/* core.topic_id(topic) -> 16 bytes: another topic of the same name has others */
static int core_topic_id(lua_State *L) {
  uint8_t id[SDM_TOPIC_ID_BYTES];
  sdm_topic_id(sdml_topic_check(L, 1)->topic, id);
  lua_pushlstring(L, (const char *)id, sizeof id);
  return 1;
}

/* core.random_id() -> 32 hex digits that nobody else has */
static int core_random_id(lua_State *L) {
  uint8_t id[16];
  char text[2 * sizeof id + 1];
  int rc = sdm_random(id, sizeof id);
  if (rc < 0) return sdml_fail(L, rc);
  for (size_t i = 0; i < sizeof id; i++) snprintf(text + 2 * i, 3, "%02x", id[i]);
  lua_pushstring(L, text);
  return 1;
}

/* core.option(store, name) -> value of a store option that is a whole number */
static int core_option(lua_State *L) {
  int64_t value = 0;
  sdml_store *s = sdml_store_check(L, 1);
  if (sdm_store_option(s->store, luaL_checkstring(L, 2), &value) < 0) return luaL_argerror(L, 2, "no such option");
  sdml_pushint(L, value);
  return 1;
}

/* core.let_interrupt(): SIGINT ends the process from now on, without an error of Lua's. For the command */
static int core_let_interrupt(lua_State *L) {
  (void)L;
  sdm_let_interrupt();
  return 0;
}

/* core.catch_signals(): requests to end are noted from now on. For the command */
static int core_catch_signals(lua_State *L) {
  (void)L;
  sdm_catch_signals();
  return 0;
}

/* core.caught_signal() -> its number | nil */
static int core_caught_signal(lua_State *L) {
  int signal = sdm_caught_signal();
  if (signal == 0) return 0;
  lua_pushinteger(L, signal);
  return 1;
}

static void add_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "open", sdml_store_open }, { "open_partition", sdml_partition_open }, { "bounds", core_bounds },
    { "reader", sdml_reader_of_topic }, { "load", sdml_reader_load }, { "life", sdml_store_life },
    { "begin", sdml_begin }, { "store_of", sdml_store_of }, { "forks", core_forks },
    { "wait_any", sdml_wait_any }, { "flush_begin", sdml_flush_begin }, { "flush_poll", sdml_flush_poll },
    { "snapshot_open", sdml_snapshot_open }, { "snapshot_begin", sdml_snapshot_begin },
    { "key", sdml_key }, { "now", core_now }, { "topic_id", core_topic_id }, { "roster", sdml_roster_open },
    { "random_id", core_random_id }, { "monotonic_ms", sdml_monotonic_ms }, { "option", core_option },
    { "configs", sdml_configs }, { "check_topic", sdml_check_topic }, { "check_policy", sdml_check_policy }, { "check_topic_name", sdml_check_topic_name },
    { "catch_signals", core_catch_signals }, { "caught_signal", core_caught_signal },
    { "let_interrupt", core_let_interrupt }, { "error", sdml_error }, { "digest", sdml_digest }, { NULL, NULL },
  };
  sdml_functions(L, functions);
  sdml_push_append_batch(L, true);
  lua_setfield(L, -2, "append_batch");
}

__attribute__((visibility("default"))) int luaopen_sediment_core(lua_State *L);

/* A Lua state that closes unloads its libraries, while the background thread of another state, or of a store that it left open, may still
** run in this one: it stays loaded for good. */
int luaopen_sediment_core(lua_State *L) {
  luaL_checkversion(L);
  sdml_stay_loaded((const void *)(uintptr_t)&luaopen_sediment_core);
  sdml_policy_install();
  sdml_open_error(L);
  lua_newtable(L);
  sdml_open_store(L);
  lua_setfield(L, -2, "store");           /* the methods of stores: Lua code adds to them */
  sdml_open_topic(L);
  lua_setfield(L, -2, "topic");
  sdml_open_partition(L);
  lua_pop(L, 1);
  sdml_open_reader(L);
  sdml_open_held(L);
  sdml_open_roster(L);
  sdml_open_snapshot(L);
  lua_pop(L, 5);
  add_functions(L);
  lua_pushliteral(L, SDM_VERSION);
  lua_setfield(L, -2, "_VERSION");
  return 1;
}
