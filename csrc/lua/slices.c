/* Waiting in slices, between which what a signal's handler has asked of Lua is done. */
#include "base/clock.h"
#include "lua/sdml.h"

int64_t sdml_timeout(lua_State *L, int arg, int index) {
  if (lua_isnil(L, index)) return SDML_NO_TIMEOUT;
  int64_t ms = sdml_int(L, arg, index, "timeout_ms");
  if (ms < 0) sdml_refuse(L, arg, "timeout_ms: 0 or more expected, got %d", (int)ms);
  return ms;
}

int64_t sdml_until(int64_t timeout_ms) { return timeout_ms == SDML_NO_TIMEOUT ? INT64_MAX : sdm_add_sat(sdm_monotonic_ms(), timeout_ms); }

static int64_t left_until(int64_t until) {
  int64_t left = until == INT64_MAX ? INT64_MAX : until - sdm_monotonic_ms();
  return left > 0 ? left : 0;
}

int64_t sdml_slice(int64_t until) {
  enum { SLICE_MS = 200 };
  int64_t left = left_until(until);
  return left < SLICE_MS ? left : SLICE_MS;
}

/* The handler of lua's Ctrl-C, like others', only sets a hook, which runs when Lua code runs next; it may have been called just before the wait began. */
bool sdml_waits_on(lua_State *L, int rc, int64_t until) {
  if (rc != SDM_INTERRUPTED && (rc != 0 || left_until(until) == 0)) return false;
  if (luaL_loadstring(L, "local _ = nil") != 0) lua_error(L);
  lua_call(L, 0, 0);
  return true;
}
