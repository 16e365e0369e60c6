/* Invariant: no Lua function of the state runs outside sdml_sandbox_run, which sets the limits anew; so the hook is never without them. */
#include "lua/sandbox.h"

#include <lualib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

#if LUA_VERSION_NUM < 502
#include <luajit.h>
#endif

/* LOOK: instructions between two looks at the clock; each may take as long as SDML_SANDBOX_BYTES take to be copied. FIRST: bytes that making a state needs, and
** more: where memory fails it then, LuaJIT crashes (2.1-20230119), so that is there before. */
enum { LOOK = 100, FIRST = 49152, ALIGNED = 16 };

enum { NESTED = 20 };                    /* matches within the functions of matches: each takes some KiB of the thread's stack */

struct sdml_sandbox {
  lua_State *L;
  size_t used;                           /* bytes */
  int64_t steps, until_ms;
  int nested;
  bool starved;                          /* memory was short, and not for its limit */
  char message[512];
  size_t first_used;
  _Alignas(ALIGNED) unsigned char first[FIRST];      /* the state's first pieces; they are not given back one by one */
};

/* ---- limits ---- */

static bool is_first(const sdml_sandbox *s, const void *p) {
  uintptr_t at = (uintptr_t)p, first = (uintptr_t)s->first;
  return at >= first && at < first + FIRST;
}

static void *take_first(sdml_sandbox *s, size_t size) {
  if (s->L || size > FIRST - s->first_used) return NULL;
  void *p = s->first + s->first_used;
  s->first_used += (size + ALIGNED - 1) / ALIGNED * ALIGNED;
  return s->first_used <= FIRST ? p : NULL;
}

/* `old` may be a first piece, which realloc does not know. */
static void *resize(sdml_sandbox *s, void *old, size_t old_size, size_t size) {
  bool first = old && is_first(s, old);
  void *p = !old || first ? take_first(s, size) : NULL;
  if (!p) p = sdm_realloc(first ? NULL : old, size);
  if (p && first) memcpy(p, old, old_size < size ? old_size : size);
  if (!p) s->starved = true;
  return p;
}

static void *allocate(void *context, void *old, size_t old_size, size_t size) {
  sdml_sandbox *s = context;
  size_t had = old ? old_size : 0;
  if (size > had && s->used + (size - had) > SDML_SANDBOX_BYTES) return NULL;
  void *p = size > 0 ? resize(s, old, had, size) : NULL;
  if (size > 0 && !p) return NULL;
  if (size == 0 && old && !is_first(s, old)) sdm_free(old);
  s->used = s->used - had + size;
  return p;
}

static sdml_sandbox *sandbox_of(lua_State *L) {
  void *context;
  lua_getallocf(L, &context);
  return context;
}

static void check_time(lua_State *L) {
  if (sdm_monotonic_ms() > sandbox_of(L)->until_ms) luaL_error(L, "it runs for more than %d ms", SDML_SANDBOX_MS);
}

static void count_steps(lua_State *L, lua_Debug *unused) {
  (void)unused;
  sdml_sandbox *s = sandbox_of(L);
  if ((s->steps -= LOOK) < 0) luaL_error(L, "it runs for more than %d instructions", SDML_SANDBOX_STEPS);
  check_time(L);
}

/* ---- patterns ---- */

/* An upper bound of the steps that matching takes, about: each quantifier may try every length, from every start. */
static double most_steps(const char *pattern, size_t size, double subject, bool anchors) {
  bool anchored = anchors && size > 0 && pattern[0] == '^';
  double steps = anchored ? 1 : subject;
  for (size_t i = anchored; i < size; i++) {
    if (pattern[i] == '%' && i + 1 < size) {
      char next = pattern[++i];
      if (next == 'b' || (next >= '0' && next <= '9')) steps *= subject;
    } else if (pattern[i] == '*' || pattern[i] == '+' || pattern[i] == '-') {
      steps *= subject;
    } else if (pattern[i] == '?') {
      steps *= 2;
    }
  }
  return steps + (anchored ? 1 : subject) * (double)size;
}

typedef enum matcher { FIND, MATCH, GMATCH, GSUB } matcher;      /* `find` with its fourth argument looks for the text itself; gmatch knows no anchor */

static void check_match(lua_State *L, matcher which) {
  size_t subject, size;
  luaL_checklstring(L, 1, &subject);
  const char *pattern = luaL_checklstring(L, 2, &size);
  double steps = which == FIND && lua_toboolean(L, 4) ? (double)subject * (double)size : most_steps(pattern, size, (double)subject + 1, which != GMATCH);
  if (steps > 3e7) {
    luaL_error(L, "matching this pattern against %d bytes may take too long; anchor it with ^, give it fewer of * + -, or a shorter subject", (int)subject);
  }
}

/* Upvalue 1 is the function of the library. */
static int match_in_time(lua_State *L) {
  sdml_sandbox *s = sandbox_of(L);
  check_match(L, (matcher)lua_tointeger(L, lua_upvalueindex(2)));
  check_time(L);
  if (s->nested >= NESTED) return luaL_error(L, "matches within matches, more than %d", NESTED);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  s->nested++;
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  s->nested--;
  return lua_gettop(L);
}

static void guard(lua_State *L, const char *name, matcher which) {
  lua_getfield(L, -1, name);
  lua_pushinteger(L, which);
  lua_pushcclosure(L, match_in_time, 2);
  lua_setfield(L, -2, name);
}

/* ---- libraries ---- */

/* Opens a library and keeps of it what is listed; its table is on top. */
static void open_part(lua_State *L, const char *name, lua_CFunction open, const char *const *keep) {
  lua_pushcfunction(L, open);
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  lua_pushvalue(L, -1);
  lua_setglobal(L, *name ? name : "_G");
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    const char *field = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    const char *const *kept = keep;
    while (*kept && strcmp(*kept, field) != 0) kept++;
    if (*kept) continue;
    lua_pushvalue(L, -1);
    lua_pushnil(L);
    lua_rawset(L, -4);
  }
}

/* What loops in C for as long as it is told is here in Lua, where its steps count: a border of a table may be anywhere. sort is a merge sort, so that no order of what is
** sorted makes it slow; a comparator that is none gives some order. */
static const char IN_LUA[] =
  "local select, error, type = ...\n"
  "local floor, table = math.floor, table\n"
  "local function less(a, b) return a < b end\n"
  "local function merge(t, into, low, middle, high, before)\n"
  "  local i, j = low, middle + 1\n"
  "  for k = low, high do\n"
  "    if i <= middle and (j > high or not before(t[j], t[i])) then into[k], i = t[i], i + 1\n"
  "    else into[k], j = t[j], j + 1 end\n"
  "  end\n"
  "end\n"
  "function table.sort(t, before)\n"
  "  before = before or less\n"
  "  local n, width, from, to = #t, 1, t, {}\n"
  "  while width < n do\n"
  "    for low = 1, n, 2 * width do\n"
  "      local middle, high = low + width - 1, low + 2 * width - 1\n"
  "      merge(from, to, low, middle < n and middle or n, high < n and high or n, before)\n"
  "    end\n"
  "    from, to, width = to, from, 2 * width\n"
  "  end\n"
  "  if from ~= t then for i = 1, n do t[i] = from[i] end end\n"
  "end\n"
  "function table.insert(t, ...)\n"
  "  local n, position, value = #t, ...\n"
  "  if select('#', ...) == 1 then t[n + 1] = position return end\n"
  "  if select('#', ...) ~= 2 or type(position) ~= 'number' or position < 1 or position > n + 1 then error('insert: a position within the table expected', 2) end\n"
  "  for i = n, position, -1 do t[i + 1] = t[i] end\n"
  "  t[position] = value\n"
  "end\n"
  "function table.remove(t, position)\n"
  "  local n = #t\n"
  "  position = position or n\n"
  "  if n == 0 or position == n + 1 then return nil end\n"
  "  if position < 1 or position > n then error('remove: a position within the table expected', 2) end\n"
  "  local value = t[position]\n"
  "  for i = position, n - 1 do t[i] = t[i + 1] end\n"
  "  t[n] = nil\n"
  "  return value\n"
  "end\n";

static void put_in_lua(lua_State *L) {
  if (luaL_loadbuffer(L, IN_LUA, sizeof IN_LUA - 1, "=table") != 0) lua_error(L);
  lua_getglobal(L, "select");
  lua_getglobal(L, "error");
  lua_getglobal(L, "type");
  lua_call(L, 3, 0);
}

/* Without pcall nothing can catch what the limits raise. */
static void open_libraries(lua_State *L) {
  static const char *const base[] = { "assert", "error", "ipairs", "next", "pairs", "select", "tonumber", "tostring", "type", "unpack", NULL };
  static const char *const strings[] = { "byte", "char", "find", "format", "gmatch", "gsub", "len", "lower", "match", "reverse", "sub", "upper", NULL };
  static const char *const tables[] = { "concat", "unpack", NULL };
  static const char *const numbers[] = { "abs", "ceil", "exp", "floor", "fmod", "huge", "log", "max", "min", "modf", "pi", "sqrt", NULL };
  open_part(L, "", luaopen_base, base);
  lua_pop(L, 1);
  open_part(L, LUA_STRLIBNAME, luaopen_string, strings);
  guard(L, "find", FIND);
  guard(L, "match", MATCH);
  guard(L, "gmatch", GMATCH);
  guard(L, "gsub", GSUB);
  lua_pop(L, 1);
  open_part(L, LUA_TABLIBNAME, luaopen_table, tables);
#if LUA_VERSION_NUM < 502
  lua_getglobal(L, "unpack");
  lua_setfield(L, -2, "unpack");
  lua_pushnil(L);
  lua_setglobal(L, "unpack");
#endif
  lua_pop(L, 1);
  open_part(L, LUA_MATHLIBNAME, luaopen_math, numbers);
  lua_pop(L, 1);
  put_in_lua(L);
}

static int set_up(lua_State *L) {
#if LUA_VERSION_NUM < 502
  luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);      /* compiled code calls no hooks */
  lua_gc(L, LUA_GCSETPAUSE, 100);          /* it does not collect when memory ends */
#endif
  open_libraries(L);
  return 0;
}

/* ---- the whole ---- */

lua_State *sdml_sandbox_state(sdml_sandbox *s) { return s->L; }

void sdml_sandbox_close(sdml_sandbox *s) {
  if (!s) return;
  if (s->L) lua_close(s->L);
  sdm_free(s);
}

#if LUA_VERSION_NUM >= 502
static int protect(lua_State *L, lua_CFunction f, void *argument) {
  lua_pushcfunction(L, f);
  lua_pushlightuserdata(L, argument);
  return lua_pcall(L, 1, 0, 0);
}
#else
static int protect(lua_State *L, lua_CFunction f, void *argument) { return lua_cpcall(L, f, argument); }
#endif

/* A line of its own: what a script says must not look like something else. */
static void flatten(char *text) {
  for (; *text; text++) {
    if ((unsigned char)*text < ' ' || *text == 127) *text = ' ';
  }
}

/* The message is read where it lies: nothing is allocated. */
static void take_message(sdml_sandbox *s, int rc) {
  const char *text = lua_type(s->L, -1) == LUA_TSTRING ? lua_tostring(s->L, -1) : "an error that is not a string";
  if (rc != LUA_ERRMEM && strcmp(text, "not enough memory") != 0) snprintf(s->message, sizeof s->message, "%s", text);
  else snprintf(s->message, sizeof s->message, "it needs more than the %d MiB of memory that it may have", SDML_SANDBOX_BYTES >> 20);
  flatten(s->message);
}

int sdml_sandbox_run(sdml_sandbox *s, lua_CFunction f, void *argument, const char **message) {
  s->steps = SDML_SANDBOX_STEPS;
  s->nested = 0;
  s->starved = false;
  s->until_ms = sdm_monotonic_ms() + SDML_SANDBOX_MS;
  lua_sethook(s->L, count_steps, LUA_MASKCOUNT, LOOK);
  int rc = protect(s->L, f, argument);
  lua_sethook(s->L, NULL, 0, 0);
  if (rc != 0) take_message(s, rc);
  lua_settop(s->L, 0);
  *message = s->message;
  if (rc == 0) return 0;
  return s->starved ? sdm_no_memory() : SDM_POLICY;
}

static int no_state(const sdml_sandbox *s) {
  return s->starved ? sdm_no_memory() : sdm_fail(SDM_UNSUPPORTED, "this Lua makes no state with memory of its own");
}

int sdml_sandbox_open(sdml_sandbox **out) {
  const char *why;
  sdml_sandbox *s = sdm_calloc(1, sizeof *s);
  if (!s) return sdm_no_memory();
  s->L = lua_newstate(allocate, s);
  int rc = s->L ? sdml_sandbox_run(s, set_up, NULL, &why) : no_state(s);
  if (rc == 0) *out = s;
  else sdml_sandbox_close(s);
  return rc;
}
