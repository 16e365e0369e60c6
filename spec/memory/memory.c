/* Every allocation of a Lua program fails once: those of the Lua state and those of the library, each by itself, and each with all that follow until the
** program is told. The state survives, as do the program's other states; nothing that was acknowledged is lost; no memory and no descriptor stays behind.
**
** Linked with the module for one Lua; history.lua is the program, check.lua looks what is left.
*/
#include <dirent.h>
#include <lauxlib.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "command.h"

static const char usage[] =
    "memory [--every N]                                         N: only each Nth failure\n"
    "memory --pass PASS --call N                                one of them again\n";

int luaopen_sediment_core(lua_State *L);

enum { HANGS_AFTER_S = 20, FAILURES_SHOWN = 20 };

typedef struct pass {
  const char *name;
  bool lua, sticky;                       /* whose allocations; and all behind it */
} pass;

static const pass passes[] = {{"lua", true, false}, {"lua-sticky", true, true}, {"library", false, false}, {"library-sticky", false, true}};
enum { PASSES = sizeof passes / sizeof *passes };

static struct {
  const pass *pass;                       /* NULL: nothing fails */
  uint64_t target, count;
  bool watching, hit;
  int64_t kept;                           /* pieces of the library's memory in use */
  lua_Alloc alloc;
  void *context;
  char folder[300];
  uint64_t every, injected, told, failed;
} t;

/* ---- failing ---- */

static bool strikes(bool lua) {
  if (!t.watching || !t.pass || t.pass->lua != lua) return false;
  t.count++;
  t.hit = t.hit || t.count == t.target;
  return t.target && (t.count == t.target || (t.pass->sticky && t.count > t.target));
}

static void *allocate_for_lua(void *context, void *old, size_t old_size, size_t size) {
  (void)context;
  bool more = size > 0 && (!old || size > old_size);
  return more && strikes(true) ? NULL : t.alloc(t.context, old, old_size, size);
}

static void *allocate(void *context, void *old, size_t size) {
  (void)context;
  if (size == 0) {
    t.kept -= old != NULL;
    free(old);
    return NULL;
  }
  if (strikes(false)) return NULL;
  void *p = realloc(old, size);
  t.kept += p && !old;
  return p;
}

/* ---- a state ---- */

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  if (!L) abort();
  luaL_openlibs(L);
  lua_getglobal(L, "package");
  lua_pushliteral(L, "lua/?.lua;lua/?/init.lua");
  lua_setfield(L, -2, "path");
  lua_getfield(L, -1, "preload");
  lua_pushcfunction(L, luaopen_sediment_core);
  lua_setfield(L, -2, "sediment.core");
  lua_settop(L, 0);
  return L;
}

/* The function that a file of this folder returns. */
static void push_file(lua_State *L, const char *name) {
  char path[200];
  snprintf(path, sizeof path, "spec/memory/%s", name);
  if (luaL_loadfile(L, path) != 0 || lua_pcall(L, 0, 1, 0) != 0) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(2);
  }
}

/* The ledger, a table of the state `from` on top of its stack, into `to`. */
static void copy_ledger(lua_State *from, lua_State *to) {
  lua_newtable(to);
  for (int p = 0; p < 2; p++) {
    lua_newtable(to);
    lua_rawgeti(from, -1, p);
    for (lua_pushnil(from); lua_next(from, -2); lua_pop(from, 1)) {
      lua_pushnumber(to, lua_tonumber(from, -2));
      lua_pushstring(to, lua_tostring(from, -1));
      lua_rawset(to, -3);
    }
    lua_pop(from, 1);
    lua_rawseti(to, -2, p);
  }
}

static void push_ledger(lua_State *L) {
  lua_newtable(L);
  for (int p = 0; p < 2; p++) {
    lua_newtable(L);
    lua_rawseti(L, -2, p);
  }
}

/* ---- one failure ---- */

static int descriptors(void) {
  DIR *d = opendir("/proc/self/fd");
  int count = 0;
  while (d && readdir(d)) count++;
  if (d) closedir(d);
  return count;
}

static void on_alarm(int number) {
  (void)number;
  printf("hangs\n  repeat: memory --pass %s --call %llu\n", t.pass ? t.pass->name : "none", (unsigned long long)t.target);
  fflush(stdout);
  _exit(1);
}

/* Runs the history in L with the ledger at index 1. NULL: it ended, or was told that memory is short; else what went wrong. */
static const char *run_history(lua_State *L) {
  push_file(L, "history.lua");
  lua_pushstring(L, t.folder);
  lua_pushvalue(L, 1);
  t.alloc = lua_getallocf(L, &t.context);
  lua_setallocf(L, allocate_for_lua, NULL);
  t.watching = true;
  int status = lua_pcall(L, 2, 1, 0);
  t.watching = false;
  lua_setallocf(L, t.alloc, t.context);
  bool short_of = status != 0 && lua_isstring(L, -1) && strstr(lua_tostring(L, -1), "not enough memory");       /* the handler itself had none */
  t.told += short_of || (status == 0 && lua_isstring(L, -1));
  return status == 0 || short_of ? NULL : lua_isstring(L, -1) ? lua_tostring(L, -1) : "an error that is no text";
}

static const char *check_store(lua_State *L, lua_State *fresh) {
  push_file(fresh, "check.lua");
  lua_pushstring(fresh, t.folder);
  lua_settop(L, 1);
  copy_ledger(L, fresh);
  return lua_pcall(fresh, 2, 0, 0) == 0 ? NULL : lua_tostring(fresh, -1);
}

static void wrong(const char *when, const char *why) {
  if (t.failed++ >= FAILURES_SHOWN) return;
  progress_clear();
  printf("%s: %s\n  repeat: memory --pass %s --call %llu\n", when, why, t.pass ? t.pass->name : "none", (unsigned long long)t.target);
}

/* The state in which memory was short closes before or after a fresh one has looked: its stores are open in this process until then. */
static void run(const pass *p, uint64_t target) {
  char backup[600];
  int before = descriptors();
  t.pass = p;
  t.target = target;
  t.count = 0;
  t.hit = false;
  int64_t kept = t.kept;
  lua_State *L = new_state(), *fresh = new_state();
  alarm(HANGS_AFTER_S);
  push_ledger(L);
  const char *why = run_history(L);
  if (why) wrong("the program", why);
  lua_gc(L, LUA_GCCOLLECT, 0);
  if ((why = check_store(L, fresh))) wrong("afterwards", why);
  lua_close(fresh);
  lua_close(L);
  alarm(0);
  if (t.kept != kept) wrong("ended", "memory was not freed");
  if (descriptors() != before) wrong("ended", "a descriptor stayed open");
  snprintf(backup, sizeof backup, "%s-backup", t.folder);
  remove_tree(backup);
  remove_tree(t.folder);
  if (is_to_leave()) leave();
}

static void run_all(const pass *p) {
  run(p, 0);
  uint64_t count = t.count;
  for (uint64_t n = 1; n <= count; n += t.every) {
    run(p, n);
    t.injected += t.hit;
    progress("pass %s: %llu of %llu allocations", p->name, (unsigned long long)n, (unsigned long long)count);
  }
}

int main(int argc, char **argv) {
  const char *base = getenv("TMPDIR"), *name = NULL;
  uint64_t call = 0;
  t.every = 1;
  command_line(argc, argv, (command_option[]){{"--every", .number = &t.every}, {"--pass", .text = &name}, {"--call", .number = &call}, {NULL}}, usage);
  leave_in_order();
  signal(SIGALRM, on_alarm);
  sdm_set_allocator(allocate, NULL);
  snprintf(t.folder, sizeof t.folder, "%s/sediment-memory.%d", base ? base : "/tmp", (int)getpid());
  printf("memory: allocations of a program in %s\n", LUA_VERSION_NUM >= 504 ? "Lua 5.4" : "LuaJIT");
  fflush(stdout);
  run(NULL, 0);                            /* what is allocated once and for all */
  for (int p = 0; p < PASSES; p++) {
    if (!name) run_all(&passes[p]);
    else if (strcmp(name, passes[p].name) == 0) run(&passes[p], call), t.injected++;
  }
  progress_clear();
  printf("%llu allocations failed, %llu times the program was told\n", (unsigned long long)t.injected, (unsigned long long)t.told);
  printf("%llu passed, %llu failed\n", (unsigned long long)(t.injected - (t.failed < t.injected ? t.failed : t.injected)), (unsigned long long)t.failed);
  return t.failed > 0 || t.injected == 0;
}
