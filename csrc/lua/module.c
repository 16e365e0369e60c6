/* require "sediment.core": the C half of the module. lua/sediment/init.lua is the half that programs require. */
#include <dlfcn.h>
#include <stdlib.h>

#include "lua/sdml.h"

/* A Lua state that closes unloads its libraries, while the background thread of another state, or of a store that it left open, may still
** run in this one: it stays loaded for good. */
static void pin(const void *inside) {
  Dl_info info;
  if (dladdr(inside, &info) && info.dli_fname) dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* core.bounds(topic, partition) -> log start offset, log end offset, purge floor, end of what may be rewritten | nil, message, code.
** The last two as far as a reader comes: what is imported counts as rewritten, but nothing from the last stable offset on is cleaned. */
static int core_bounds(lua_State *L) {
  sdm_log *log;
  sdm_log_stats s;
  sdml_topic *t = sdml_topic_check(L, 1);
  int64_t partition = sdml_int(L, 2, 2, "partition"), now = sdml_last_now(t->store);
  int rc = sdm_topic_log(t->topic, (int32_t)partition, now, &log);
  if (rc >= 0) rc = sdm_log_get_stats(log, now, &s);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, s.log_start_offset);
  sdml_pushint(L, s.log_end_offset);
  sdml_pushint(L, least(s.purge_floor, s.last_stable_offset - 1));
  sdml_pushint(L, least(s.rewritten_end, s.last_stable_offset));
  return 4;
}

static void add_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "open", sdml_store_open }, { "open_partition", sdml_partition_open }, { "bounds", core_bounds },
    { "reader", sdml_reader_of_topic }, { "load", sdml_reader_load }, { "life", sdml_store_life },
    { "wait_any", sdml_wait_any }, { "flush_begin", sdml_flush_begin }, { "flush_poll", sdml_flush_poll },
    { "snapshot_open", sdml_snapshot_open }, { "snapshot_begin", sdml_snapshot_begin },
    { "key", sdml_key }, { NULL, NULL },
  };
  for (const luaL_Reg *f = functions; f->name; f++) {
    lua_pushcfunction(L, f->func);
    lua_setfield(L, -2, f->name);
  }
}

__attribute__((visibility("default"))) int luaopen_sediment_core(lua_State *L);

int luaopen_sediment_core(lua_State *L) {
  luaL_checkversion(L);
  pin((const void *)(uintptr_t)&luaopen_sediment_core);
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
  sdml_open_snapshot(L);
  lua_pop(L, 4);
  add_functions(L);
  lua_pushliteral(L, SDM_VERSION);
  lua_setfield(L, -2, "_VERSION");
  return 1;
}
