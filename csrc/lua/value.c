/* Lua values as a snapshot has them (format/snapshot.h). What cannot come back as it was is refused: functions, userdata, threads, and tables with a metatable or
** within themselves. A number keeps its kind: a whole one of Lua 5.4 is one there again, and LuaJIT, which has doubles alone, gives those that are whole as such.
*/
#include <math.h>

#include "base/bytes.h"
#include "format/snapshot.h"
#include "lua/sdml.h"

enum { VALUE_MAX = 1 << 28 };              /* bytes of one value: a table that leads to itself by many ways would have no end */

/* ---- saving ---- */

static int encode(lua_State *L, int index, sdm_buf *out, int depth);

static int refuse_value(const char *what) { return sdm_fail(SDM_UNSUPPORTED, "%s cannot be saved in a snapshot", what); }

static int encode_number(lua_State *L, int index, sdm_buf *out) {
  if (sdml_isint(L, index)) return sdm_saved_put_whole(out, sdml_toint(L, index));
  lua_Number v = lua_tonumber(L, index);
#if LUA_VERSION_NUM < 503
  int64_t whole;
  if (sdml_whole(L, index, &whole) && !(whole == 0 && signbit(v))) return sdm_saved_put_whole(out, whole);
#endif
  return sdm_saved_put_double(out, v);
}

static int encode_string(lua_State *L, int index, sdm_buf *out) {
  size_t size;
  const char *bytes = lua_tolstring(L, index, &size);
  return size > VALUE_MAX ? refuse_value("a string of more than 256 MiB") : sdm_saved_put_string(out, bytes, size);
}

/* The values of 1, 2, ... up to the first that is missing; *n is how many. */
static int encode_array(lua_State *L, int table, sdm_buf *out, int depth, int64_t *n) {
  int rc = 0;
  for (*n = 0; rc == 0 && *n < INT32_MAX; ++*n) {
    lua_rawgeti(L, table, (int)*n + 1);
    if (lua_isnil(L, -1)) break;
    rc = encode(L, lua_gettop(L), out, depth);
    lua_settop(L, -2);
  }
  if (rc == 0) lua_settop(L, -2);
  return rc == 0 ? sdm_saved_put(out, SDM_SAVED_END) : rc;
}

static int encode_pair(lua_State *L, int key, sdm_buf *out, int depth) {
  if (lua_istable(L, key)) return refuse_value("a table that is a key");
  int rc = encode(L, key, out, depth);
  return rc == 0 ? encode(L, key + 1, out, depth) : rc;
}

static int encode_others(lua_State *L, int table, sdm_buf *out, int depth, int64_t n) {
  int64_t i;
  int rc = 0;
  lua_pushnil(L);
  while (rc == 0 && lua_next(L, table)) {
    int key = lua_gettop(L) - 1;
    if (!(lua_type(L, key) == LUA_TNUMBER && sdml_whole(L, key, &i) && i >= 1 && i <= n)) rc = encode_pair(L, key, out, depth);
    lua_settop(L, key);
  }
  return rc == 0 ? sdm_saved_put(out, SDM_SAVED_END) : rc;
}

static int encode_table(lua_State *L, int index, sdm_buf *out, int depth) {
  int64_t n;
  if (depth == 0) return refuse_value("a table that is 100 tables deep, or in itself,");
  if (lua_getmetatable(L, index)) return refuse_value("a table with a metatable");
  luaL_checkstack(L, 6, "a value for a snapshot");
  int rc = sdm_saved_put(out, SDM_SAVED_TABLE);
  if (rc == 0) rc = encode_array(L, index, out, depth - 1, &n);
  return rc == 0 ? encode_others(L, index, out, depth - 1, n) : rc;
}

static int encode(lua_State *L, int index, sdm_buf *out, int depth) {
  char what[40];
  if (out->size > VALUE_MAX) return refuse_value("a value of more than 256 MiB");
  switch (lua_type(L, index)) {
    case LUA_TBOOLEAN: return sdm_saved_put(out, lua_toboolean(L, index) ? SDM_SAVED_TRUE : SDM_SAVED_FALSE);
    case LUA_TNUMBER: return encode_number(L, index, out);
    case LUA_TSTRING: return encode_string(L, index, out);
    case LUA_TTABLE: return encode_table(L, index, out, depth);
    default:
      snprintf(what, sizeof what, "a %s", lua_typename(L, lua_type(L, index)));
      return refuse_value(what);
  }
}

int sdml_encode_value(lua_State *L, int index, sdm_buf *out) {
  int top = lua_gettop(L), rc = encode(L, index, out, SDM_SAVED_DEPTH);
  lua_settop(L, top);
  return rc;
}

/* ---- giving back ---- */

static const uint8_t *decode(lua_State *L, const uint8_t *p, const uint8_t *end);

static const uint8_t *push_whole(lua_State *L, const uint8_t *p, const uint8_t *end) {
  int64_t v = 0;
  p = sdm_get_varlong(p, end, &v);
  sdml_pushint(L, v);
  return p;
}

static const uint8_t *push_string(lua_State *L, const uint8_t *p, const uint8_t *end) {
  int32_t size = 0;
  p = sdm_get_varint(p, end, &size);
  lua_pushlstring(L, (const char *)p, (size_t)size);
  return p + size;
}

static const uint8_t *push_table(lua_State *L, const uint8_t *p, const uint8_t *end) {
  luaL_checkstack(L, 4, "a value of a snapshot");
  lua_newtable(L);
  for (int i = 1; *p != SDM_SAVED_END; i++) {
    p = decode(L, p, end);
    lua_rawseti(L, -2, i);
  }
  for (p++; *p != SDM_SAVED_END;) {
    p = decode(L, p, end);
    p = decode(L, p, end);
    lua_rawset(L, -3);
  }
  return p + 1;
}

static const uint8_t *decode(lua_State *L, const uint8_t *p, const uint8_t *end) {
  switch (*p++) {
    case SDM_SAVED_FALSE: lua_pushboolean(L, 0); return p;
    case SDM_SAVED_TRUE: lua_pushboolean(L, 1); return p;
    case SDM_SAVED_WHOLE: return push_whole(L, p, end);
    case SDM_SAVED_DOUBLE: lua_pushnumber(L, sdm_saved_get_double(p)); return p + 8;
    case SDM_SAVED_STRING: return push_string(L, p, end);
    default: return push_table(L, p, end);
  }
}

void sdml_push_value(lua_State *L, const sdm_snapshot_entry *e) { decode(L, e->value, e->at + e->size); }
