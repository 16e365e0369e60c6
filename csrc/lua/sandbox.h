/* A Lua state of its own for a script that must not be trusted: it can compute, and nothing else. It has text chunks only, no way to files, processes, other
** code or the host's state, and limits: SDML_SANDBOX_BYTES of memory; of each call SDML_SANDBOX_STEPS instructions, and SDML_SANDBOX_MS by the clock.
**
** Of the libraries there is what ends soon: no pattern that could take long on its subject, nothing that loops in C for as long as it is told. What is compiled
** must be short.
*/
#ifndef SDM_LUA_SANDBOX_H
#define SDM_LUA_SANDBOX_H

#include "base/err.h"
#include "lua/compat.h"

enum { SDML_SANDBOX_BYTES = 8 << 20, SDML_SANDBOX_STEPS = 1000000, SDML_SANDBOX_MS = 1000 };

typedef struct sdml_sandbox sdml_sandbox;

/* 0, or SDM_NO_MEMORY; SDM_UNSUPPORTED: this Lua takes no allocator (a LuaJIT for x86-64 without GC64). */
int sdml_sandbox_open(sdml_sandbox **out);
void sdml_sandbox_close(sdml_sandbox *s);

lua_State *sdml_sandbox_state(sdml_sandbox *s);

/* Runs f(L) with `argument` as light userdata at index 1, protected and within the limits. 0; SDM_NO_MEMORY: the machine's is short; SDM_POLICY: *message, valid until the
** next call, says why. */
int sdml_sandbox_run(sdml_sandbox *s, lua_CFunction f, void *argument, const char **message);

#endif
