/* Policy scripts in Lua: how the library has one run, and the store's methods for them.
**
** A script is a chunk that returns a table with `segment`, `key` or both. It runs in a sandbox of its own (sandbox.h), on whatever thread maintenance
** runs, and knows nothing of the Lua state that opened the store.
*/
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "lua/sandbox.h"
#include "lua/sdml.h"

typedef struct script {
  sdml_sandbox *sandbox;
  char name[64];
} script;

/* Fields of the registry of a sandbox. */
static const char SEGMENT[] = "segment", KEY[] = "key";

/* What a function within the sandbox is given, and gives. */
typedef struct call {
  const char *name, *text;                 /* loading */
  size_t size;
  unsigned asks;
  const sdm_policy_segment *segment;
  const sdm_policy_key *key;
  sdm_ruling ruling;
} call;

static int failed(const script *s, int rc, const char *message) {
  if (rc != SDM_POLICY) return rc;
  size_t n = strlen(s->name);
  if (strncmp(message, s->name, n) == 0 && message[n] == ':') return sdm_fail(SDM_POLICY, "policy script %s", message);      /* name:line: */
  return sdm_fail(SDM_POLICY, "policy script '%s': %s", s->name, message);
}

/* ---- loading ---- */

static unsigned take_function(lua_State *L, const char *name, unsigned asks) {
  lua_getfield(L, -1, name);
  if (!lua_isnil(L, -1) && !lua_isfunction(L, -1)) luaL_error(L, "%s: function expected, got %s", name, luaL_typename(L, -1));
  bool there = lua_isfunction(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, name);
  return there ? asks : 0;
}

static void check_fields(lua_State *L) {
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pop(L, 1);
    const char *field = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (strcmp(field, SEGMENT) != 0 && strcmp(field, KEY) != 0) {
      luaL_error(L, "the table that it returns has segment = function, key = function, or both; got %s", *field ? field : luaL_typename(L, -1));
    }
  }
}

/* LuaJIT takes more for the beginning of a chunk than Lua does. */
static int load_text(lua_State *L, const char *text, size_t size, const char *chunk) {
  bool foreign = size > 0 && (text[0] == LUA_SIGNATURE[0] || text[0] == '#' || text[0] == '\xef');
  if (!foreign) return luaL_loadbuffer(L, text, size, chunk);
  lua_pushliteral(L, "Lua text expected, without a byte order mark or a line that begins with #, and nothing compiled");
  return LUA_ERRSYNTAX;
}

static int load_script(lua_State *L) {
  call *c = lua_touserdata(L, 1);
  char chunk[80];
  snprintf(chunk, sizeof chunk, "=%s", c->name);
  if (load_text(L, c->text, c->size, chunk) != 0) return lua_error(L);
  lua_call(L, 0, 1);
  if (!lua_istable(L, -1)) return luaL_error(L, "it returns %s, not a table with segment = function, key = function, or both", luaL_typename(L, -1));
  check_fields(L);
  c->asks = take_function(L, SEGMENT, SDM_POLICY_ASKS_SEGMENTS) | take_function(L, KEY, SDM_POLICY_ASKS_KEYS);
  if (c->asks == 0) return luaL_error(L, "the table that it returns has neither segment = function nor key = function");
  return 0;
}

static void close_script(void *opened) {
  script *s = opened;
  sdml_sandbox_close(s->sandbox);
  sdm_free(s);
}

static int open_script(const char *name, const char *text, size_t size, void **out, unsigned *asks) {
  const char *why;
  call c = {.name = name, .text = text, .size = size};
  script *s = sdm_calloc(1, sizeof *s);
  if (!s) return sdm_no_memory();
  snprintf(s->name, sizeof s->name, "%s", name);
  int rc = sdml_sandbox_open(&s->sandbox);
  if (rc == 0 && (rc = sdml_sandbox_run(s->sandbox, load_script, &c, &why)) < 0) rc = failed(s, rc, why);
  if (rc == 0) {
    *out = s;
    *asks = c.asks;
  } else {
    close_script(s);
  }
  return rc;
}

/* ---- asking ---- */

static void set_int(lua_State *L, const char *name, int64_t n) {
  sdml_pushint(L, n);
  lua_setfield(L, -2, name);
}

static void set_time(lua_State *L, const char *name, int64_t ms) {
  if (ms < 0) return;
  set_int(L, name, ms);
}

static sdm_verdict verdict_at(lua_State *L, int index) {
  static const struct { const char *word; sdm_verdict verdict; } words[] = {
    { "keep", SDM_VERDICT_KEEP }, { "delete", SDM_VERDICT_DELETE }, { "compact", SDM_VERDICT_COMPACT },
  };
  if (lua_isnil(L, index)) return SDM_VERDICT_NONE;
  const char *word = lua_type(L, index) == LUA_TSTRING ? lua_tostring(L, index) : luaL_typename(L, index);
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (lua_type(L, index) == LUA_TSTRING && strcmp(word, words[i].word) == 0) return words[i].verdict;
  }
  luaL_error(L, "it says '%s'; \"keep\", \"delete\", \"compact\" or nil expected", word);
  return SDM_VERDICT_NONE;
}

static int64_t versions_at(lua_State *L, int index) {
  int64_t n;
  if (lua_isnil(L, index)) return INT64_MAX;
  if (lua_type(L, index) == LUA_TNUMBER && lua_tonumber(L, index) >= 9007199254740992.0) return INT64_MAX;
  if (!sdml_whole(L, index, &n) || n < 1) luaL_error(L, "it keeps no number of records that is whole and at least 1");
  return n;
}

/* Calls the function of that name with the table on top. */
static void rule(lua_State *L, const char *name, sdm_ruling *out) {
  lua_getfield(L, LUA_REGISTRYINDEX, name);
  lua_insert(L, -2);
  lua_call(L, 1, 2);
  out->verdict = verdict_at(L, -2);
  if (out->verdict != SDM_VERDICT_KEEP && !lua_isnil(L, -1)) luaL_error(L, "only \"keep\" is followed by a number of records");
  out->versions = out->verdict == SDM_VERDICT_KEEP ? versions_at(L, -1) : 1;
}

static int ask_of_segment(lua_State *L) {
  call *c = lua_touserdata(L, 1);
  const sdm_policy_segment *s = c->segment;
  lua_createtable(L, 0, 16);
  lua_pushstring(L, s->topic);
  lua_setfield(L, -2, "topic");
  set_int(L, "partition", s->partition);
  set_int(L, "now", s->now);
  set_int(L, "base_offset", s->base_offset);
  set_int(L, "next_offset", s->next_offset);
  set_int(L, "records", s->records);
  set_int(L, "size", s->size);
  set_time(L, "first_timestamp", s->first_timestamp);
  set_time(L, "max_timestamp", s->max_timestamp);
  set_int(L, "age", s->age);
  set_int(L, "index", s->index);
  set_int(L, "segments", s->segments);
  set_int(L, "log_size", s->log_size);
  lua_pushstring(L, s->clean ? "clean" : "dirty");
  lua_setfield(L, -2, "state");
  rule(L, SEGMENT, &c->ruling);
  return 0;
}

static int ask_of_key(lua_State *L) {
  call *c = lua_touserdata(L, 1);
  const sdm_policy_key *k = c->key;
  lua_createtable(L, 0, 10);
  lua_pushlstring(L, k->key, k->key_size);
  lua_setfield(L, -2, "key");
  lua_pushstring(L, k->topic);
  lua_setfield(L, -2, "topic");
  set_int(L, "partition", k->partition);
  set_int(L, "now", k->now);
  set_int(L, "records", k->records);
  set_int(L, "bytes", k->bytes);
  set_int(L, "offset", k->offset);
  set_time(L, "timestamp", k->timestamp);
  if (k->timestamp >= 0) set_int(L, "age", k->now - k->timestamp);
  lua_pushboolean(L, k->tombstone);
  lua_setfield(L, -2, "tombstone");
  rule(L, KEY, &c->ruling);
  return 0;
}

static int run(script *s, lua_CFunction f, call *c, sdm_ruling *out) {
  const char *why;
  int rc = sdml_sandbox_run(s->sandbox, f, c, &why);
  if (rc != 0) return failed(s, rc, why);
  *out = c->ruling;
  return 0;
}

static int of_segment(void *opened, const sdm_policy_segment *segment, sdm_ruling *out) {
  return run(opened, ask_of_segment, &(call){.segment = segment}, out);
}

static int of_key(void *opened, const sdm_policy_key *key, sdm_ruling *out) { return run(opened, ask_of_key, &(call){.key = key}, out); }

void sdml_policy_install(void) {
  static const sdm_policy_engine engine = { open_script, of_segment, of_key, close_script };
  sdm_policy_engine_set(&engine);
}

/* ---- methods of stores ---- */

static void free_text(void *text) { sdm_policy_text_free(text); }

static int get_policy(lua_State *L, const char *name) {
  char *text;
  size_t size;
  sdml_held *held = sdml_hold(L, free_text);
  int rc = sdm_store_policy_get(sdml_store_check(L, 1)->store, name, &text, &size);
  if (rc < 0) return sdml_fail(L, rc);
  held->memory = text;
  lua_pushlstring(L, text, size);
  sdml_drop(held);
  return 1;
}

/* core.check_policy(name, script) -> true: store:policy would take it, whether it decides of keys | nil, message, code */
int sdml_check_policy(lua_State *L) {
  size_t size;
  const char *text = luaL_checklstring(L, 2, &size), *name = sdml_text(L, 1, 1, "name");
  unsigned asks;
  int rc = sdm_store_policy_check(name, text, size, &asks);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  lua_pushboolean(L, (asks & SDM_POLICY_ASKS_KEYS) != 0);
  return 2;
}

static bool is_file_name(const char *text, size_t size) {
  return size > 4 && memcmp(text + size - 4, ".lua", 4) == 0 && strcspn(text, " \t\r\n(){}\"'") == size;
}

/* store:policy(name [, script]) -> the script | true. false for the script removes it. */
int sdml_store_policy(lua_State *L) {
  lua_settop(L, 3);
  sdml_self(L, SDML_STORE);
  sdml_store *s = sdml_store_check(L, 1);
  const char *name = sdml_text(L, 2, 2, "name");
  int rc;
  if (lua_isnil(L, 3)) return get_policy(L, name);
  if (lua_isboolean(L, 3) && !lua_toboolean(L, 3)) {
    rc = sdm_store_policy_remove(s->store, name);
  } else {
    size_t size;
    if (lua_type(L, 3) != LUA_TSTRING) return sdml_refuse(L, 3, "script: a string, or false to remove it, expected, got %s", sdml_type(L, 3));
    const char *text = lua_tolstring(L, 3, &size);
    rc = sdm_store_policy_set(s->store, name, text, size);
    if (rc == SDM_POLICY && is_file_name(text, size)) rc = sdm_fail(rc, "policy script '%s': the script itself is expected, not the name of its file", name);
  }
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}
