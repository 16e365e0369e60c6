/* Topics: everything but appending (append.c) and iteration (reader.c). */
#include <string.h>

#include "lua/sdml.h"
#include "store/config.h"
#include "store/topics_file.h"

static sdml_topic *require_open(lua_State *L, sdml_topic *t) {
  if (t->store->closed) sdml_use_after_close(L, "store");
  if (!t->topic) sdml_use_after_close(L, "topic");
  return t;
}

/* The clock is asked first, since it is the caller's function and may do anything, even close the store. */
sdml_topic *sdml_topic_self(lua_State *L, int64_t *now) {
  sdml_topic *t = sdml_self(L, SDML_TOPIC);
  if (t->store->has_clock) require_open(L, t);
  *now = sdml_now(L, 1, t->store);
  return require_open(L, t);
}

/* For what does not depend on the time. */
static sdml_topic *timeless_self(lua_State *L) {
  return require_open(L, sdml_self(L, SDML_TOPIC));
}

sdml_topic *sdml_topic_check(lua_State *L, int arg) {
  return require_open(L, luaL_checkudata(L, arg, SDML_TOPIC));
}

int sdml_store_topic(lua_State *L) {
  lua_settop(L, 3);
  sdml_store *s = sdml_self(L, SDML_STORE);
  if (s->closed) return sdml_use_after_close(L, "store");
  const char *name = sdml_text(L, 2, 2, "name");
  int64_t now = sdml_now(L, 1, s);
  sdml_topic *t = sdml_new(L, sizeof *t, SDML_TOPIC, 1);
  t->store = s;
  if (s->has_clock) {
    sdml_getcompanion(L, 4);
    sdml_getcompanion(L, 1);
    lua_rawgeti(L, -1, SDML_CLOCK);
    lua_rawseti(L, -3, SDML_CLOCK);
    lua_settop(L, 4);
  }
  sdm_settings config = { NULL, 0 };
  if (!lua_isnil(L, 3)) sdml_settings(L, 3, 3, "config", &config);
  if (s->closed) return sdml_use_after_close(L, "store");
  int rc = sdm_topic_open(s->store, name, lua_isnil(L, 3) ? NULL : &config, now, &t->topic);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushvalue(L, 4);
  return 1;
}

static int topic_close(lua_State *L) {
  sdml_topic *t = sdml_self(L, SDML_TOPIC);
  sdm_topic *topic = t->topic;
  t->topic = NULL;
  sdm_topic_release(topic);
  sdml_gathered_free(&t->gathered);
  return 0;
}

/* core.store_of(topic) */
int sdml_store_of(lua_State *L) {
  timeless_self(L);
  return sdml_push_owner(L, 1);
}

static int topic_tostring(lua_State *L) {
  sdml_topic *t = sdml_self(L, SDML_TOPIC);
  bool open = t->topic && !t->store->closed;
  lua_pushfstring(L, "%s (%s)", SDML_TOPIC, open ? sdm_topic_name(t->topic) : "closed");
  return 1;
}

/* ---- partitions ---- */

static int topic_partitions(lua_State *L) {
  int count = sdm_topic_partitions(timeless_self(L)->topic);
  if (count < 0) return sdml_fail(L, count);
  sdml_pushint(L, count);
  return 1;
}

/* For what does not depend on the time: the log of the partition at `index`, or a failure's code. */
static int log_to_read(lua_State *L, int index, sdm_log **log) {
  int32_t partition;
  sdml_topic *t = timeless_self(L);
  int rc = sdml_number_of_partition(L, index, index, &partition);
  return rc < 0 ? rc : sdm_topic_log(t->topic, partition, sdml_last_now(t->store), log);
}

/* The open topic and the log of the partition at `index`, or a failure's code. */
static int log_at(lua_State *L, int index, int64_t *now, sdm_log **log) {
  int32_t partition;
  sdml_topic *t = sdml_topic_self(L, now);
  int rc = sdml_number_of_partition(L, index, index, &partition);
  return rc < 0 ? rc : sdm_topic_log(t->topic, partition, *now, log);
}

static int push_offset(lua_State *L, int rc, int64_t offset) {
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, offset);
  return 1;
}

static int topic_earliest(lua_State *L) {
  int64_t offset = 0;
  sdm_log *log;
  int rc = log_to_read(L, 2, &log);
  if (rc >= 0) rc = sdm_log_earliest(log, &offset);
  return push_offset(L, rc, offset);
}

static int topic_latest(lua_State *L) {
  int64_t offset = 0;
  sdm_log *log;
  int rc = log_to_read(L, 2, &log);
  if (rc >= 0) rc = sdm_log_latest(log, &offset);
  return push_offset(L, rc, offset);
}

static int topic_offset_for_time(lua_State *L) {
  int64_t offset = 0, ms = sdml_int(L, 2, 2, "time");
  sdm_log *log;
  int rc = log_to_read(L, 3, &log);
  if (rc >= 0) rc = sdm_log_offset_for_time(log, ms, &offset);
  if (rc != 0) return push_offset(L, rc, offset);
  lua_pushnil(L);
  return 1;
}

/* wait(offset [, timeout_ms [, partition]]) */
static int topic_wait(lua_State *L) {
  sdm_log *log;
  lua_settop(L, 4);
  int64_t offset = sdml_int(L, 2, 2, "offset"), until = sdml_until(sdml_timeout(L, 3, 3));
  int rc;
  do {
    rc = log_to_read(L, 4, &log);
    if (rc >= 0) rc = sdm_log_wait(log, offset, sdml_slice(until));
  } while (sdml_waits_on(L, rc, until));
  return sdml_push_waited(L, rc, log);
}

static int topic_delete_records(lua_State *L) {
  int64_t now, start = 0, before = sdml_int(L, 2, 2, "offset");
  sdm_log *log;
  int rc = log_at(L, 3, &now, &log);
  if (rc >= 0) rc = sdm_log_delete_records(log, before, now, &start);
  return push_offset(L, rc, start);
}

static int topic_roll(lua_State *L) {
  int64_t now, base = 0;
  sdm_log *log;
  int rc = log_at(L, 2, &now, &log);
  if (rc >= 0) rc = sdm_log_roll(log, now, &base);
  return push_offset(L, rc, base);
}

static int topic_flush(lua_State *L) {
  int64_t now, durable = 0;
  sdm_log *log;
  int rc = log_at(L, 2, &now, &log);
  if (rc >= 0) rc = sdm_log_flush(log, now, &durable);
  return push_offset(L, rc, durable);
}

static int topic_segments(lua_State *L) {
  sdm_log *log;
  lua_settop(L, 2);
  sdml_held *held = sdml_hold_segments(L);
  int rc = log_to_read(L, 2, &log);
  return rc < 0 ? sdml_fail(L, rc) : sdml_push_segments(L, held, log);
}

static int topic_records(lua_State *L) {
  sdm_log *log;
  sdml_range range;
  lua_settop(L, 2);
  timeless_self(L);
  int rc = sdml_range_take(L, 2, &range);
  if (rc < 0) return sdml_throw(L, rc);
  sdml_reader *r = sdml_new_reader(L, &range);
  sdml_topic *t = timeless_self(L);
  rc = sdm_topic_log(t->topic, range.partition, sdml_last_now(t->store), &log);
  return rc < 0 ? sdml_throw(L, rc) : sdml_records(L, r, &range, log, &t->store->closed);
}

/* Pushes { partitions = { [0] = {...}, ... } }; 0 or a failure's code. */
int sdml_push_topic_stats(lua_State *L, sdm_topic *topic, int64_t now) {
  int count = sdm_topic_partitions(topic);
  if (count < 0) return count;
  lua_createtable(L, 0, 1);
  lua_createtable(L, count, 1);
  for (int i = 0; i < count; i++) {
    sdm_log *log;
    int rc = sdm_topic_log(topic, i, now, &log);
    if (rc >= 0) rc = sdml_push_log_stats(L, log, now);
    if (rc < 0) return rc;
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, -2, "partitions");
  return 0;
}

static int topic_stats(lua_State *L) {
  int64_t now;
  sdml_topic *t = sdml_topic_self(L, &now);
  int rc = sdml_push_topic_stats(L, t->topic, now);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

/* ---- retention and compaction ---- */

static int topic_retain(lua_State *L) {
  lua_settop(L, 2);
  sdml_topic *t = sdml_self(L, SDML_TOPIC);
  require_open(L, t);
  sdm_retain_report report;
  int64_t now = sdml_when(L, 2, t->store, NULL);
  int rc = sdm_topic_retain(require_open(L, t)->topic, now, &report);
  if (rc < 0) return sdml_fail(L, rc);
  lua_createtable(L, 0, 2);
  sdml_set_int(L, "segments", report.segments);
  sdml_set_int(L, "bytes", report.bytes);
  return 1;
}

static int topic_compact(lua_State *L) {
  lua_settop(L, 2);
  sdml_topic *t = sdml_self(L, SDML_TOPIC);
  require_open(L, t);
  bool force = false;
  sdm_compact_report report;
  int64_t now = sdml_when(L, 2, t->store, &force);
  int rc = sdm_topic_compact(require_open(L, t)->topic, force, now, &report);
  if (rc < 0) return sdml_fail(L, rc);
  lua_createtable(L, 0, 9);
  sdml_set_int(L, "partitions", report.partitions);
  sdml_set_int(L, "records_read", report.records_read);
  sdml_set_int(L, "records_written", report.records_written);
  sdml_set_int(L, "bytes_read", report.bytes_read);
  sdml_set_int(L, "bytes_written", report.bytes_written);
  sdml_set_int(L, "tombstones_removed", report.tombstones_removed);
  sdml_set_int(L, "keyless_dropped", report.keyless_dropped);
  sdml_set_int(L, "expired", report.expired);
  sdml_set_int(L, "corrupt", report.corrupt);
  lua_pushnumber(L, report.seconds);
  lua_setfield(L, -2, "seconds");
  return 1;
}

/* ---- configs ---- */

static void push_value(lua_State *L, const sdm_value *v) {
  switch (v->type) {
    case SDM_VALUE_STRING: lua_pushstring(L, v->string); break;
    case SDM_VALUE_INT: sdml_pushint(L, v->integer); break;
    case SDM_VALUE_DOUBLE: lua_pushnumber(L, v->number); break;
    default: lua_pushboolean(L, v->integer != 0); break;
  }
}

static int push_configs(lua_State *L, bool with_source) {
  static const char *const sources[] = { "default", "store", "topic" };
  sdml_topic *t = timeless_self(L);
  size_t count = sdm_config_count();
  lua_createtable(L, 0, (int)count);
  for (size_t i = 0; i < count; i++) {
    sdm_described d;
    int rc = sdm_topic_describe(t->topic, i, &d);
    if (rc < 0) return sdml_fail(L, rc);
    if (with_source) lua_createtable(L, 0, 2);
    push_value(L, &d.value);
    if (with_source) {
      lua_setfield(L, -2, "value");
      lua_pushstring(L, sources[d.source]);
      lua_setfield(L, -2, "source");
    }
    lua_setfield(L, -2, d.name);
  }
  return 1;
}

/* core.configs({configs}) -> {dotted name = value as describe tells it}, partitions or nil: what they mean. Raises what store:topic does. */
int sdml_configs(lua_State *L) {
  sdm_settings given;
  sdm_config_set set;
  sdm_log_config effective;
  int32_t partitions = 0;
  memset(&set, 0, sizeof set);
  lua_settop(L, 1);
  sdml_settings(L, 1, 1, "config", &given);
  int rc = sdm_config_apply(&set, &given, &partitions);
  if (rc == 0) rc = sdm_config_effective(&set, NULL, &effective);
  if (rc < 0) return sdml_fail(L, rc);
  lua_newtable(L);
  for (size_t i = 0; i < sdm_config_count(); i++) {
    sdm_described d;
    sdm_config_describe(&set, NULL, i, &d);
    if (d.source != SDM_SOURCE_TOPIC) continue;
    push_value(L, &d.value);
    lua_setfield(L, -2, d.name);
  }
  if (partitions == 0) return 1;
  lua_pushinteger(L, partitions);
  return 2;
}

/* core.check_topic_name(name) -> true | nil, message */
int sdml_check_topic_name(lua_State *L) {
  size_t size;
  const char *name = luaL_checklstring(L, 1, &size);
  int rc = strlen(name) == size ? sdm_topic_name_check(name) : sdm_fail(SDM_MISUSE, "topic name: a string without NUL expected");
  if (rc < 0) {
    lua_pushnil(L);
    lua_pushstring(L, sdm_errmsg());
    return 2;
  }
  lua_pushboolean(L, 1);
  return 1;
}

static int topic_config(lua_State *L) { return push_configs(L, false); }
static int topic_describe(lua_State *L) { return push_configs(L, true); }

/* Names of the configs to reset; what keeps them in memory is pushed. */
static const char **take_names(lua_State *L, int arg, size_t *count) {
  *count = 0;
  if (lua_isnil(L, arg)) return NULL;
  if (!lua_istable(L, arg)) sdml_refuse(L, arg, "names: array of config names expected, got %s", sdml_type(L, arg));
  *count = lua_rawlen(L, arg);
  luaL_checkstack(L, *count < 100000 ? (int)*count + 4 : 1000000, "names");
  const char **names = lua_newuserdata(L, (*count + 1) * sizeof *names);
  for (size_t i = 0; i < *count; i++) {
    lua_rawgeti(L, arg, (int)i + 1);
    names[i] = sdml_text(L, arg, -1, "names");
  }
  return names;
}

/* core.check_topic(store, name, {configs}, {names of configs to reset}) -> true: store:topic would make it so, or topic:alter change the one that is
** there. Fails, and raises, as they do. */
int sdml_check_topic(lua_State *L) {
  size_t count;
  sdm_settings set;
  lua_settop(L, 4);
  sdml_store *s = sdml_store_check(L, 1);
  const char *name = sdml_text(L, 2, 2, "name");
  sdml_settings(L, 3, 3, "config", &set);
  const char **reset = take_names(L, 4, &count);
  int rc = sdm_topic_check_change(s->store, name, &set, reset, count);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

static int topic_alter(lua_State *L) {
  int64_t now;
  size_t count;
  sdm_settings set;
  lua_settop(L, 3);
  sdml_topic *t = sdml_topic_self(L, &now);
  sdml_settings(L, 2, 2, "config", &set);
  const char **reset = take_names(L, 3, &count);
  int rc = sdm_topic_alter(require_open(L, t)->topic, &set, reset, count, now);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

void sdml_open_topic(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "append", sdml_topic_append }, { "records", topic_records }, { "earliest", topic_earliest }, { "latest", topic_latest },
    { "offset_for_time", topic_offset_for_time }, { "delete_records", topic_delete_records }, { "roll", topic_roll },
    { "flush", topic_flush }, { "retain", topic_retain }, { "compact", topic_compact }, { "segments", topic_segments },
    { "config", topic_config }, { "describe", topic_describe }, { "alter", topic_alter }, { "stats", topic_stats },
    { "wait", topic_wait },
    { "partitions", topic_partitions }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", topic_close }, { "__close", topic_close }, { "__tostring", topic_tostring }, { NULL, NULL } };
  sdml_class(L, SDML_TOPIC, methods, meta);
  sdml_push_append_batch(L, false);
  lua_setfield(L, -2, "append_batch");
}
