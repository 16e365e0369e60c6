/* The options of records(): which records are wanted, here and on a Kafka cluster. */
#include <string.h>

#include "lua/sdml.h"

static int refuse_from(lua_State *L, int arg) {
  if (lua_type(L, -1) == LUA_TSTRING) {
    return sdml_refuse(L, arg, "from: \"earliest\", \"latest\", an offset or {time = ms} expected, got '%.80s'", lua_tostring(L, -1));
  }
  return sdml_refuse(L, arg, "from: \"earliest\", \"latest\", an offset or {time = ms} expected, got %s", sdml_type(L, -1));
}

/* {time = ms}, on top of the stack. */
static int take_time(lua_State *L, int arg, sdml_range *range) {
  char key[100];
  int from = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, from)) {
    sdml_show_key(L, -2, key, sizeof key);
    if (strcmp(key, "'time'") != 0) return sdml_refuse(L, arg, "from: {time = ms} expected, got the field %s", key);
    range->kind = SDML_FROM_TIME;
    range->from = sdml_int(L, arg, -1, "from.time");
    lua_pop(L, 1);
  }
  return range->kind == SDML_FROM_TIME ? 0 : sdml_refuse(L, arg, "from: {time = ms} expected, got an empty table");
}

static int take_from(lua_State *L, int arg, sdml_range *range) {
  if (lua_istable(L, -1)) return take_time(L, arg, range);
  if (lua_type(L, -1) == LUA_TSTRING) {
    const char *word = lua_tostring(L, -1);
    range->kind = strcmp(word, "latest") == 0 ? SDML_FROM_LATEST : SDML_FROM_EARLIEST;
    return range->kind == SDML_FROM_LATEST || strcmp(word, "earliest") == 0 ? 0 : refuse_from(L, arg);
  }
  if (lua_type(L, -1) != LUA_TNUMBER) return refuse_from(L, arg);
  range->kind = SDML_FROM_OFFSET;
  range->from = sdml_int(L, arg, -1, "from");
  return 0;
}

static int take_isolation(lua_State *L, int arg, sdml_range *range) {
  const char *word = sdml_text(L, arg, -1, "isolation");
  const char *level = strncmp(word, "read_", 5) == 0 ? word + 5 : word;       /* Kafka's names as well */
  range->flags = strcmp(level, "uncommitted") == 0 ? SDM_READ_UNCOMMITTED : 0;
  if (range->flags || strcmp(level, "committed") == 0) return 0;
  return sdml_refuse(L, arg, "isolation: \"committed\" or \"uncommitted\" expected, got '%.80s'", word);
}

static int take_on_corrupt(lua_State *L, int arg, sdml_range *range) {
  const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
  range->skips = lua_isfunction(L, -1) || strcmp(word, "skip") == 0;
  if (range->skips || strcmp(word, "fail") == 0) return 0;
  if (lua_type(L, -1) == LUA_TSTRING) return sdml_refuse(L, arg, "on_corrupt: \"fail\", \"skip\" or a function expected, got '%.80s'", word);
  return sdml_refuse(L, arg, "on_corrupt: \"fail\", \"skip\" or a function expected, got %s", sdml_type(L, -1));
}

static int take_range(lua_State *L, int arg, int which, void *into) {
  sdml_range *range = into;
  switch (which) {
    case 0: return sdml_number_of_partition(L, arg, -1, &range->partition);
    case 1: return take_from(L, arg, range);
    case 2: range->to = sdml_int(L, arg, -1, "to"); return 0;
    case 3: return take_isolation(L, arg, range);
    case 4: return take_on_corrupt(L, arg, range);
    case 5: range->follows = sdml_bool(L, arg, -1, "follow"); return 0;
    default: range->timeout_ms = sdml_timeout(L, arg, -1); return 0;
  }
}

int sdml_range_take(lua_State *L, int arg, sdml_range *out) {
  static const char *const names[] = { "partition", "from", "to", "isolation", "on_corrupt", "follow", "timeout_ms", NULL };
  *out = (sdml_range){ .kind = SDML_FROM_EARLIEST, .to = SDM_TO_END, .timeout_ms = SDML_NO_TIMEOUT };
  int rc = sdml_options(L, arg, names, take_range, out);
  if (out->timeout_ms != SDML_NO_TIMEOUT && !out->follows) sdml_refuse(L, arg, "timeout_ms: only with follow = true");
  return rc;
}
