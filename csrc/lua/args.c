/* Checking arguments. Numbers are checked here and not by lauxlib, which truncates on LuaJIT: offsets, times and partition numbers are
** whole and within 2^53, where the doubles of LuaJIT are exact. Messages name the argument's number and what in it is wrong.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/sdml.h"

static const int64_t EXACT = INT64_C(1) << 53;

const char *sdml_type(lua_State *L, int index) {
  return lua_type(L, index) == LUA_TNONE ? "no value" : luaL_typename(L, index);
}

void *sdml_object_at(lua_State *L, int index, const char *class) {
  sdml_object *object = lua_touserdata(L, index);
  return object && lua_rawlen(L, index) >= sizeof *object && object->class == class ? object : NULL;
}

void *sdml_self(lua_State *L, const char *class) {
  void *self = sdml_object_at(L, 1, class);
  if (!self) sdml_refuse(L, 1, "%s expected, got %s; call it with ':'", class, sdml_type(L, 1));
  return self;
}

bool sdml_whole(lua_State *L, int index, int64_t *out) {
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  if (sdml_isint(L, index)) {
    *out = sdml_toint(L, index);
    return *out >= -EXACT && *out <= EXACT;
  }
  double d = lua_tonumber(L, index);
  if (!(d >= (double)-EXACT && d <= (double)EXACT)) return false;
  *out = (int64_t)d;
  return (double)*out == d;
}

void sdml_show_number(lua_State *L, int index, char out[SDML_NUMBER_ROOM]) {
  if (lua_type(L, index) == LUA_TNUMBER) snprintf(out, SDML_NUMBER_ROOM, "%.17g", (double)lua_tonumber(L, index));
  else snprintf(out, SDML_NUMBER_ROOM, "%s", sdml_type(L, index));
}

int64_t sdml_int(lua_State *L, int arg, int index, const char *name) {
  int64_t n = 0;
  char shown[SDML_NUMBER_ROOM];
  if (sdml_whole(L, index, &n)) return n;
  sdml_show_number(L, index, shown);
  sdml_refuse(L, arg, "%s: a whole number within 2^53 expected, got %s", name, shown);
  return 0;
}

bool sdml_bool(lua_State *L, int arg, int index, const char *name) {
  if (!lua_isboolean(L, index)) sdml_refuse(L, arg, "%s: boolean expected, got %s", name, sdml_type(L, index));
  return lua_toboolean(L, index) != 0;
}

const char *sdml_text(lua_State *L, int arg, int index, const char *name) {
  size_t size;
  if (lua_type(L, index) != LUA_TSTRING) sdml_refuse(L, arg, "%s: string expected, got %s", name, sdml_type(L, index));
  const char *text = lua_tolstring(L, index, &size);
  if (strlen(text) != size) sdml_refuse(L, arg, "%s: a string without NUL expected", name);
  return text;
}

const char *sdml_path(lua_State *L, int arg, const char *name) {
  const char *path = sdml_text(L, arg, arg, name);
  if (*path == '\0') sdml_refuse(L, arg, "%s: an empty string", name);
  return path;
}

void sdml_show_key(lua_State *L, int index, char *out, size_t size) {
  char text[SDML_NUMBER_ROOM];
  switch (lua_type(L, index)) {
    case LUA_TSTRING: snprintf(out, size, "'%.80s'", lua_tostring(L, index)); break;
    case LUA_TNUMBER: sdml_number_text(L, index, text); snprintf(out, size, "[%s]", text); break;
    case LUA_TBOOLEAN: snprintf(out, size, "[%s]", lua_toboolean(L, index) ? "true" : "false"); break;
    default: snprintf(out, size, "[a %s]", sdml_type(L, index));
  }
}

/* ---- numbers as text ---- */

/* printf and strtod go by the locale's decimal point; bytes of records must not. */
static void put_point(char *text) {
  char *p = text + strspn(text, "-0123456789");
  size_t n = strcspn(p, "0123456789e");
  if (n == 0) return;
  memmove(p + 1, p + n, strlen(p + n) + 1);
  *p = '.';
}

static sdml_number double_text(double d, char out[SDML_NUMBER_ROOM]) {
  if (isnan(d) || isinf(d)) {
    snprintf(out, SDML_NUMBER_ROOM, "%s", isnan(d) ? "nan" : d > 0 ? "inf" : "-inf");
    return SDML_NOT_FINITE;
  }
  if (fabs(d) <= (double)EXACT && (double)(int64_t)d == d) {
    snprintf(out, SDML_NUMBER_ROOM, "%lld", (long long)d);
    return SDML_WHOLE;
  }
  for (int digits = 14; digits <= 17; digits++) {
    snprintf(out, SDML_NUMBER_ROOM, "%.*g", digits, d);
    if (strtod(out, NULL) == d) break;
  }
  put_point(out);
  return fabs(d) > (double)EXACT ? SDML_BEYOND : SDML_FRACTION;
}

sdml_number sdml_number_text(lua_State *L, int index, char out[SDML_NUMBER_ROOM]) {
  if (!sdml_isint(L, index)) return double_text(lua_tonumber(L, index), out);
  snprintf(out, SDML_NUMBER_ROOM, "%lld", (long long)sdml_toint(L, index));
  return SDML_WHOLE;
}

int sdml_key(lua_State *L) {
  char text[SDML_NUMBER_ROOM];
  if (lua_type(L, 1) != LUA_TNUMBER) {
    lua_pushnil(L);
    lua_pushfstring(L, "string or whole number expected, got %s", sdml_type(L, 1));
    return 2;
  }
  sdml_number kind = sdml_number_text(L, 1, text);
  if (kind == SDML_WHOLE) {
    lua_pushstring(L, text);
    return 1;
  }
  lua_pushnil(L);
  lua_pushfstring(L, "string or whole number expected, got %s%s", text, kind == SDML_BEYOND ? ", beyond 2^53" : "");
  return 2;
}

/* ---- partitions and options ---- */

int sdml_number_of_partition(lua_State *L, int arg, int index, int32_t *out) {
  *out = 0;
  if (lua_isnoneornil(L, index)) return 0;
  int64_t n = sdml_int(L, arg, index, "partition");
  if (n < 0 || n > INT32_MAX) return sdm_fail(SDM_UNKNOWN_PARTITION, "there is no partition %lld", (long long)n);
  *out = (int32_t)n;
  return 0;
}

static int which_option(const char *const *names, const char *name) {
  for (int i = 0; names[i]; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return -1;
}

/* Which there are is more than a guess at which was meant. */
static int refuse_option(lua_State *L, int arg, const char *const *names, const char *given) {
  char known[200] = "";
  size_t n = 0;
  for (; *names && n + strlen(*names) + 3 < sizeof known; names++) n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", *names);
  return sdml_refuse(L, arg, "unknown option '%.80s'; there %s %s", given, strchr(known, ',') ? "are" : "is", known);
}

int sdml_options(lua_State *L, int arg, const char *const *names, sdml_take *take, void *into) {
  if (lua_isnoneornil(L, arg)) return 0;
  if (!lua_istable(L, arg)) return sdml_refuse(L, arg, "table of options expected, got %s", sdml_type(L, arg));
  int rc = 0;
  lua_pushnil(L);
  while (rc == 0 && lua_next(L, arg)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    if (!name) return sdml_refuse(L, arg, "options have names, got a field whose key is a %s", sdml_type(L, -2));
    int which = which_option(names, name);
    if (which < 0) return refuse_option(L, arg, names, name);
    rc = take(L, arg, which, into);
    lua_pop(L, 1);
  }
  if (rc != 0) lua_pop(L, 1);
  return rc;
}

/* ---- settings ---- */

static bool take_value(lua_State *L, int index, sdm_value *v) {
  memset(v, 0, sizeof *v);
  switch (lua_type(L, index)) {
    case LUA_TSTRING:
      v->type = SDM_VALUE_STRING;
      v->string = lua_tostring(L, index);
      return strlen(v->string) == lua_rawlen(L, index);
    case LUA_TBOOLEAN:
      v->type = SDM_VALUE_BOOL;
      v->integer = lua_toboolean(L, index);
      return true;
    case LUA_TNUMBER:
      v->type = sdml_isint(L, index) ? SDM_VALUE_INT : SDM_VALUE_DOUBLE;
      if (v->type == SDM_VALUE_INT) v->integer = sdml_toint(L, index);
      else v->number = lua_tonumber(L, index);
      return true;
    default: return false;
  }
}

static size_t count_fields(lua_State *L, int index) {
  size_t n = 0;
  lua_pushnil(L);
  for (; lua_next(L, index); n++) lua_pop(L, 1);
  return n;
}

/* Names and values stay on the stack, so that what points into them outlives whatever a step of the collector does to the table. */
void sdml_settings(lua_State *L, int arg, int index, const char *what, sdm_settings *out) {
  if (!lua_istable(L, index)) sdml_refuse(L, arg, "%s: table expected, got %s", what, sdml_type(L, index));
  if (index < 0) index = lua_gettop(L) + index + 1;
  size_t room = count_fields(L, index);
  luaL_checkstack(L, (int)(room < 100000 ? 2 * room + 4 : 1000000), what);
  sdm_setting *items = lua_newuserdata(L, (room + 1) * sizeof *items);
  out->items = items;
  out->count = 0;
  lua_pushnil(L);
  while (out->count < room && lua_next(L, index)) {
    sdm_setting *s = &items[out->count++];
    if (lua_type(L, -2) != LUA_TSTRING) sdml_refuse(L, arg, "%s: names of settings are strings, got a %s", what, sdml_type(L, -2));
    s->name = lua_tostring(L, -2);
    if (strlen(s->name) != lua_rawlen(L, -2)) sdml_refuse(L, arg, "%s: a name has a NUL", what);
    if (!take_value(L, -1, &s->value)) {
      sdml_refuse(L, arg, "%s '%.80s': string, number or boolean expected, got %s", what, s->name, sdml_type(L, -1));
    }
    lua_pushvalue(L, -2);
  }
}
