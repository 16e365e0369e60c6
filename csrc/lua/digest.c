/* core.digest: a hash over what records say, in their order, that goes on from call to call. For `sediment copy`. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh.h"
#include "lua/sdml.h"

enum { DIGITS = 16 };

static uint64_t add_number(uint64_t h, int64_t n) { return sdm_hash64_on(h, &n, sizeof n); }

/* Bytes behind their length, -1 for none: no two lists of fields are the same row of bytes. */
static uint64_t add_bytes(lua_State *L, uint64_t h, int index) {
  size_t size = 0;
  const char *bytes = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &size) : NULL;
  h = add_number(h, bytes ? (int64_t)size : -1);
  return bytes ? sdm_hash64_on(h, bytes, size) : h;
}

static uint64_t add_field(lua_State *L, uint64_t h, const char *name) {
  lua_getfield(L, -1, name);
  h = add_bytes(L, h, -1);
  lua_pop(L, 1);
  return h;
}

static uint64_t add_headers(lua_State *L, uint64_t h) {
  lua_getfield(L, -1, "headers");
  size_t count = lua_istable(L, -1) ? lua_rawlen(L, -1) : 0;
  h = add_number(h, (int64_t)count);
  for (size_t i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, (int)i);
    luaL_checktype(L, -1, LUA_TTABLE);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    h = add_bytes(L, add_bytes(L, h, -2), -1);
    lua_pop(L, 3);
  }
  lua_pop(L, 1);
  return h;
}

static uint64_t add_record(lua_State *L, uint64_t h, bool with_times) {
  luaL_checktype(L, -1, LUA_TTABLE);
  if (with_times) {
    lua_getfield(L, -1, "timestamp");
    h = add_number(h, (int64_t)luaL_checknumber(L, -1));
    lua_pop(L, 1);
  }
  return add_headers(L, add_field(L, add_field(L, h, "key"), "value"));
}

/* core.digest(before, {records}, with_times) -> 16 hex digits. `before` is what the records in front of them gave; "" : there are none */
int sdml_digest(lua_State *L) {
  char text[DIGITS + 1];
  uint64_t h = strtoull(luaL_checkstring(L, 1), NULL, 16);
  bool with_times = lua_toboolean(L, 3) != 0;
  luaL_checktype(L, 2, LUA_TTABLE);
  size_t count = lua_rawlen(L, 2);
  for (size_t i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, (int)i);
    h = add_record(L, h, with_times);
    lua_pop(L, 1);
  }
  snprintf(text, sizeof text, "%016" PRIx64, h);
  lua_pushstring(L, text);
  return 1;
}
