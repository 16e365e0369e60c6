/* Stores. */
#include <string.h>

#include "base/clock.h"
#include "lua/sdml.h"
#include "store/config.h"

/* ---- opening and closing ---- */

typedef struct opening {
  sdm_store_options options;
  sdml_store *store;
  int companion;                          /* stack index of the store's companion table */
} opening;

static int take_open(lua_State *L, int arg, int which, void *into) {
  static const char *const names[] = { "readonly", "create", "background" };
  opening *o = into;
  bool *flags[] = { &o->options.readonly, &o->options.create, &o->options.background };
  if (which < 3) {
    *flags[which] = sdml_bool(L, arg, -1, names[which]);
  } else if (which == 3) {
    if (!lua_isfunction(L, -1)) return sdml_refuse(L, arg, "clock: function expected, got %s", sdml_type(L, -1));
    lua_pushvalue(L, -1);
    lua_rawseti(L, o->companion, SDML_CLOCK);
    o->store->has_clock = true;
  } else if (!lua_istable(L, -1)) {
    return sdml_refuse(L, arg, "%s: table expected, got %s", which == 4 ? "defaults" : "options", sdml_type(L, -1));
  }
  return 0;
}

/* The settings tables leave values on the stack, which the walk over the options could not bear: they are read behind it. */
static void take_settings(lua_State *L, const char *name, sdm_settings *out) {
  if (!lua_istable(L, 2)) return;
  lua_getfield(L, 2, name);
  if (!lua_isnil(L, -1)) sdml_settings(L, 2, -1, name, out);
}

/* Settings are easily put one level too high: where they belong is said. */
static void check_names(lua_State *L, const char *const *names) {
  if (!lua_istable(L, 2)) return;
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    lua_pop(L, 1);
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    const char *const *known = names;
    while (*known && strcmp(*known, name) != 0) known++;
    if (*known) continue;
    const char *there = sdm_config_has(name) ? "it is a topic config: put it in defaults= or in store:topic(name, {...})"
                        : strcmp(name, "partitions") == 0 ? "it is a topic config: put it in store:topic(name, {...})"
                        : sdm_options_has(name) ? "it is a store option: put it in options=" : NULL;
    if (there) sdml_refuse(L, 2, "unknown option '%s'; %s", name, there);
  }
}

/* sediment.open(path [, options]) */
int sdml_store_open(lua_State *L) {
  static const char *const names[] = { "readonly", "create", "background", "clock", "defaults", "options", NULL };
  const char *path = sdml_path(L, 1, "path");
  lua_settop(L, 2);
  sdml_store *s = sdml_new(L, sizeof *s, SDML_STORE, 0);
  s->closed = true;
  sdml_getcompanion(L, 3);
  lua_pushvalue(L, 1);
  lua_rawseti(L, 4, SDML_PATH);
  check_names(L, names);
  opening o = { .options = { .create = true, .background = true }, .store = s, .companion = 4 };
  sdml_options(L, 2, names, take_open, &o);
  o.options.wall_clock = !s->has_clock;
  int64_t now = sdml_now(L, 3, s);
  take_settings(L, "defaults", &o.options.defaults);
  take_settings(L, "options", &o.options.options);
  int rc = sdm_store_open(path, &o.options, now, &s->store);
  if (rc < 0) return sdml_fail(L, rc);
  s->closed = false;
  lua_pushvalue(L, 3);
  return 1;
}

/* core.life(store or topic) -> {closed = boolean} of the store, the same at each call */
int sdml_store_life(lua_State *L) {
  sdml_be_owner(L, SDML_TOPIC);
  const sdml_store *s = sdml_self(L, SDML_STORE);
  return sdml_push_life(L, s->closed);
}

sdml_store *sdml_store_check(lua_State *L, int arg) {
  sdml_store *s = luaL_checkudata(L, arg, SDML_STORE);
  if (s->closed) sdml_use_after_close(L, "store");
  return s;
}

static int close_store(lua_State *L, sdml_store *s, int64_t now) {
  sdm_store *store = s->store;
  sdml_end_life(L);
  sdml_rosters_close(s);
  s->closed = true;
  s->store = NULL;
  return store ? sdm_store_close(store, now) : 0;
}

static int store_close(lua_State *L) {
  sdml_store *s = sdml_self(L, SDML_STORE);
  int64_t now = 0;
  if (!s->closed && !sdml_try_now(L, 1, s, &now)) {
    close_store(L, s, now);
    return lua_error(L);
  }
  int rc = close_store(L, s, now);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

/* May run while Lua closes down, when the clock cannot be asked. */
static int store_gc(lua_State *L) {
  sdml_store *s = sdml_self(L, SDML_STORE);
  close_store(L, s, sdml_last_now(s));
  return 0;
}

static int store_tostring(lua_State *L) {
  sdml_store *s = sdml_self(L, SDML_STORE);
  sdml_getcompanion(L, 1);
  lua_rawgeti(L, -1, SDML_PATH);
  lua_pushfstring(L, "%s (%s)", SDML_STORE, s->closed ? "closed" : lua_tostring(L, -1));
  return 1;
}

/* ---- topics ---- */

static sdml_store *open_self(lua_State *L) {
  sdml_store *s = sdml_self(L, SDML_STORE);
  if (s->closed) sdml_use_after_close(L, "store");
  return s;
}

/* The store, still open after its clock was asked. */
static sdml_store *timed_self(lua_State *L, int64_t *now) {
  *now = sdml_now(L, 1, open_self(L));
  return open_self(L);
}

static void free_names(void *names) {
  sdm_names_free(names);
}

typedef int lister(sdm_store *s, char ***names, size_t *count);

/* Pushes the array of names; 0 or a failure's code. */
static int push_names(lua_State *L, lister *list) {
  char **names;
  size_t count;
  lua_newtable(L);
  sdml_held *held = sdml_hold(L, free_names);
  int rc = list(open_self(L)->store, &names, &count);
  if (rc < 0) return rc;
  held->memory = names;
  for (size_t i = 0; i < count; i++) {
    lua_pushstring(L, names[i]);
    lua_rawseti(L, -3, (int)i + 1);
  }
  sdml_drop(held);
  lua_pop(L, 1);
  return 0;
}

static int store_topics(lua_State *L) {
  int rc = push_names(L, sdm_store_topics);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

static int store_policies(lua_State *L) {
  int rc = push_names(L, sdm_store_policies);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

static int take_if_exists(lua_State *L, int arg, int which, void *into) {
  (void)which;
  *(bool *)into = sdml_bool(L, arg, -1, "if_exists");
  return 0;
}

static int store_delete_topic(lua_State *L) {
  static const char *const names[] = { "if_exists", NULL };
  int64_t now;
  bool if_exists = false;
  lua_settop(L, 3);
  sdml_store *s = timed_self(L, &now);
  const char *name = sdml_text(L, 2, 2, "name");
  sdml_options(L, 3, names, take_if_exists, &if_exists);
  int rc = sdm_store_delete_topic(s->store, name, if_exists, now);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

static int take_import_option(lua_State *L, int arg, int which, void *into) {
  sdm_import_options *o = into;
  if (which == 0) return sdml_number_of_partition(L, arg, -1, &o->partition);
  o->abort_open = sdml_bool(L, arg, -1, "abort_open");
  return 0;
}

/* store:import(topic_name, dir [, {partition=0, abort_open=false}]) -> log end offset, bytes left out */
static int store_import(lua_State *L) {
  static const char *const names[] = { "partition", "abort_open", NULL };
  sdm_import_options options = { 0 };
  sdm_import_report report;
  int64_t now;
  lua_settop(L, 4);
  sdml_store *s = timed_self(L, &now);
  const char *topic = sdml_text(L, 2, 2, "topic_name");
  const char *dir = sdml_path(L, 3, "dir");
  int rc = sdml_options(L, 4, names, take_import_option, &options);
  if (rc == 0) rc = sdm_store_import(s->store, topic, dir, &options, now, &report);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, report.log_end);
  sdml_pushint(L, report.left_out);
  return 2;
}

/* store:backup(path) -> true */
static int store_backup(lua_State *L) {
  int64_t now;
  lua_settop(L, 2);
  sdml_store *s = timed_self(L, &now);
  int rc = sdm_store_backup(s->store, sdml_path(L, 2, "path"), now);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- work and reports ---- */

static int take_topic(lua_State *L, int arg, int which, void *into) {
  (void)which;
  *(const char **)into = sdml_text(L, arg, -1, "topic");
  return 0;
}

static int verify_store(void *store, const char *topic, sdm_verify_report **out) { return sdm_store_verify(store, topic, out); }

/* store:verify([{topic=}]) -> report. The options keep the name in memory. */
static int store_verify(lua_State *L) {
  static const char *const names[] = { "topic", NULL };
  const char *topic = NULL;
  lua_settop(L, 2);
  sdml_store *s = open_self(L);
  sdml_options(L, 2, names, take_topic, &topic);
  return sdml_verify(L, verify_store, s->store, topic);
}

static int store_maintain(lua_State *L) {
  lua_settop(L, 2);
  sdm_maintain_report report;
  int64_t now = sdml_when(L, 2, open_self(L), NULL);
  int rc = sdm_store_maintain(open_self(L)->store, now, &report);
  if (rc < 0) return sdml_fail(L, rc);
  lua_createtable(L, 0, 12);
  sdml_set_int(L, "rolled", report.rolled);
  sdml_set_int(L, "sealed", report.sealed);
  sdml_set_int(L, "segments", report.segments);
  sdml_set_int(L, "bytes", report.bytes);
  sdml_set_int(L, "cleaned", report.cleaned);
  sdml_set_int(L, "tombstones_removed", report.tombstones_removed);
  sdml_set_int(L, "expired", report.expired);
  sdml_set_int(L, "corrupt", report.corrupt);
  sdml_set_int(L, "uncleanable", report.uncleanable);
  sdml_set_int(L, "files_deleted", report.files_deleted);
  sdml_set_int(L, "flushed", report.flushed);
  sdml_set_int(L, "failed", report.failed);
  if (report.failed > 0) {
    lua_pushstring(L, sdm_errmsg());
    lua_setfield(L, -2, "reason");
  }
  return 1;
}

/* Adds the numbers of the topic whose name is on top to the table at `index`. A topic that is deleted meanwhile is left out. */
static int add_topic_stats(lua_State *L, int index, int64_t now) {
  int top = lua_gettop(L);
  sdml_topic *t = sdml_new(L, sizeof *t, SDML_TOPIC, 1);
  t->store = open_self(L);
  int rc = sdm_topic_open(t->store->store, lua_tostring(L, top), NULL, now, &t->topic);
  if (rc >= 0) rc = sdml_push_topic_stats(L, t->topic, now);
  if (rc >= 0) lua_setfield(L, index, lua_tostring(L, top));
  lua_settop(L, top);
  return rc == SDM_UNKNOWN_TOPIC ? 0 : rc;
}

static int store_stats(lua_State *L) {
  int64_t now;
  lua_settop(L, 1);
  timed_self(L, &now);
  lua_newtable(L);
  int rc = push_names(L, sdm_store_topics);
  if (rc < 0) return sdml_fail(L, rc);
  size_t count = lua_rawlen(L, 3);
  for (size_t i = 1; i <= count; i++) {
    lua_rawgeti(L, 3, (int)i);
    rc = add_topic_stats(L, 2, now);
    if (rc < 0) return sdml_fail(L, rc);
    lua_pop(L, 1);
  }
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 2);
  lua_setfield(L, -2, "topics");
  return 1;
}

void sdml_open_store(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "topic", sdml_store_topic }, { "topics", store_topics }, { "delete_topic", store_delete_topic }, { "policy", sdml_store_policy }, { "policies", store_policies }, { "import", store_import }, { "maintain", store_maintain },
    { "stats", store_stats }, { "backup", store_backup }, { "verify", store_verify }, { "close", store_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", store_gc }, { "__close", sdml_call_close }, { "__tostring", store_tostring }, { NULL, NULL } };
  sdml_class(L, SDML_STORE, methods, meta);
}
