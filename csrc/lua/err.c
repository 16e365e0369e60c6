/* Where failures of the library become Lua's: nil, message, code for facts about the data or the machine; a raised string for misuse.
**
** Inside iteration there is nobody to look at a nil, so there a failure is raised as an error object: a table with the fields `message`
** and `code` whose tostring is the message, and which `..` takes as that.
*/
#include <stdarg.h>
#include <stdio.h>

#include "lua/sdml.h"

int sdml_use_after_close(lua_State *L, const char *what) {
  return luaL_error(L, "use after close: the %s is closed", what);
}

static void raise_misuse(lua_State *L, int code) {
  if (code == SDM_MISUSE) luaL_error(L, "%s", sdm_errmsg());
  if (code == SDM_CLOSED) luaL_error(L, "use after close: %s", sdm_errmsg());
  if (code == SDM_NO_MEMORY) luaL_error(L, "not enough memory");
}

int sdml_fail(lua_State *L, int code) {
  raise_misuse(L, code);
  lua_pushnil(L);
  lua_pushstring(L, sdm_errmsg());
  lua_pushstring(L, sdm_code_name(code));
  return 3;
}

/* Takes a message and a code's name, the upper one, for an error object. */
static void make_error(lua_State *L) {
  lua_createtable(L, 0, 2);
  lua_insert(L, -3);
  lua_setfield(L, -3, "code");
  lua_setfield(L, -2, "message");
  luaL_getmetatable(L, SDML_ERROR);
  lua_setmetatable(L, -2);
}

int sdml_throw(lua_State *L, int code) {
  raise_misuse(L, code);
  lua_pushstring(L, sdm_errmsg());         /* at once: a finalizer that runs meanwhile may fail as well */
  lua_pushstring(L, sdm_code_name(code));
  make_error(L);
  return lua_error(L);
}

int sdml_error(lua_State *L) {
  luaL_checkstring(L, 1);
  luaL_checkstring(L, 2);
  lua_settop(L, 2);
  make_error(L);
  return 1;
}

int sdml_refuse(lua_State *L, int arg, const char *format, ...) {
  char text[300];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  lua_pushstring(L, text);
  return luaL_argerror(L, arg, lua_tostring(L, -1));
}

static int error_tostring(lua_State *L) {
  lua_getfield(L, 1, "message");
  return 1;
}

/* Either of the two may be the error object, or both. */
static int error_concat(lua_State *L) {
  luaL_getmetatable(L, SDML_ERROR);
  for (int i = 1; i <= 2; i++) {
    if (!lua_getmetatable(L, i)) continue;
    if (lua_rawequal(L, -1, 3)) {
      lua_getfield(L, i, "message");
      lua_replace(L, i);
    }
    lua_settop(L, 3);
  }
  lua_settop(L, 2);
  lua_concat(L, 2);
  return 1;
}

void sdml_open_error(lua_State *L) {
  static const luaL_Reg meta[] = { { "__tostring", error_tostring }, { "__concat", error_concat }, { NULL, NULL } };
  luaL_newmetatable(L, SDML_ERROR);
  sdml_functions(L, meta);
  lua_pushstring(L, SDML_ERROR);
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}
