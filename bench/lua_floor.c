/* The workload and the floors for Lua: require "floor". */
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>
#include <string.h>

#include "floors.h"

static workload w;

/* open(name): which workload; count, live */
static int open_workload(lua_State *L) {
  if (workload_make(&w, luaL_checkstring(L, 1)) < 0) return luaL_error(L, "no workload %s", lua_tostring(L, 1));
  lua_pushnumber(L, w.count);
  lua_pushnumber(L, w.live);
  return 2;
}

static int record(lua_State *L) {
  uint32_t i = (uint32_t)luaL_checkinteger(L, 1) - 1;
  lua_pushlstring(L, workload_key(&w, i), KEY_BYTES);
  lua_pushlstring(L, workload_value(&w, i), w.value_bytes);
  return 2;
}

/* key(i): the key of record i alone, so that the keys lie together in memory as a program's own do */
static int record_key(lua_State *L) {
  lua_pushlstring(L, workload_key(&w, (uint32_t)luaL_checkinteger(L, 1) - 1), KEY_BYTES);
  return 1;
}

/* last(key number) -> record number of the key's last record, or nil */
static int last(lua_State *L) {
  uint32_t k = (uint32_t)luaL_checkinteger(L, 1) - 1;
  if (w.last[k] == UINT32_MAX) return 0;
  lua_pushnumber(L, w.last[k] + 1.0);
  return 1;
}

static int clock_seconds(lua_State *L) {
  lua_pushnumber(L, bench_now());
  return 1;
}

/* write1(dir, count) -> seconds */
static int write1(lua_State *L) {
  lua_pushnumber(L, floor_write1(luaL_checkstring(L, 1), (uint32_t)luaL_checkinteger(L, 2)));
  return 1;
}

/* strings(count) -> seconds: making count keys and values as Lua strings, nothing else */
static int strings(lua_State *L) {
  uint32_t count = (uint32_t)luaL_checkinteger(L, 1);
  double t = bench_now();
  for (uint32_t i = 0; i < count; i++) {
    lua_pushlstring(L, workload_key(&w, i), KEY_BYTES);
    lua_pushlstring(L, workload_value(&w, i), w.value_bytes);
    lua_pop(L, 2);
  }
  lua_pushnumber(L, bench_now() - t);
  return 1;
}

static void set_entry(void *context, const uint8_t *key, const uint8_t *value, uint32_t value_size) {
  lua_State *L = context;
  lua_pushlstring(L, (const char *)key, KEY_BYTES);
  lua_pushlstring(L, (const char *)value, value_size);
  lua_rawset(L, -3);
}

/* rebuild(dir) -> seconds, table: a Lua table from a log of the live records only */
static int rebuild(lua_State *L) {
  char path[512];
  floor_make_log(luaL_checkstring(L, 1), &w, 1, path, sizeof path);
  double t = bench_now();
  lua_newtable(L);
  floor_walk(path, 0, set_entry, L);
  lua_pushnumber(L, bench_now() - t);
  lua_insert(L, -2);
  return 2;
}

__attribute__((visibility("default"))) int luaopen_floor(lua_State *L) {
  static const luaL_Reg functions[] = {{"open", open_workload}, {"record", record}, {"key", record_key}, {"last", last}, {"clock", clock_seconds},
                                       {"write1", write1}, {"strings", strings}, {"rebuild", rebuild}, {NULL, NULL}};
  lua_newtable(L);
  for (const luaL_Reg *f = functions; f->name; f++) {
    lua_pushcfunction(L, f->func);
    lua_setfield(L, -2, f->name);
  }
  return 1;
}
