/* What both libraries for Lua, sediment.core and sediment.kafka.core, are the same in as libraries: they stay loaded, and tell the time. */
#include <dlfcn.h>

#include "base/clock.h"
#include "lua/sdml.h"

void sdml_stay_loaded(const void *inside) {
  Dl_info info;
  if (dladdr(inside, &info) && info.dli_fname) dlopen(info.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

int sdml_monotonic_ms(lua_State *L) {
  sdml_pushint(L, sdm_monotonic_ms());
  return 1;
}
