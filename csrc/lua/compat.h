/* The differences between Lua 5.1 with LuaJIT and Lua 5.4 that the binding meets. */
#ifndef SDM_LUA_COMPAT_H
#define SDM_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

/* A userdata's companion table: what it keeps alive. Pushes it, or pops it off. */
#if LUA_VERSION_NUM >= 504
#define sdml_getcompanion(L, index) lua_getiuservalue(L, index, 1)
#define sdml_setcompanion(L, index) lua_setiuservalue(L, index, 1)
#elif LUA_VERSION_NUM >= 502
#define sdml_getcompanion(L, index) lua_getuservalue(L, index)
#define sdml_setcompanion(L, index) lua_setuservalue(L, index)
#else
#define sdml_getcompanion(L, index) lua_getfenv(L, index)
#define sdml_setcompanion(L, index) lua_setfenv(L, index)
#define lua_rawlen lua_objlen
#define luaL_checkversion(L) ((void)(L))
#endif

/* Offsets, times and sizes are Lua numbers: integers where Lua has them. */
#if LUA_VERSION_NUM >= 503
#define sdml_pushint(L, n) lua_pushinteger(L, (lua_Integer)(n))
#define sdml_isint(L, index) lua_isinteger(L, index)
#define sdml_toint(L, index) ((int64_t)lua_tointeger(L, index))
#else
#define sdml_pushint(L, n) lua_pushnumber(L, (lua_Number)(n))
#define sdml_isint(L, index) ((void)(L), (void)(index), 0)
#define sdml_toint(L, index) ((void)(L), (void)(index), (int64_t)0)
#endif

#endif
