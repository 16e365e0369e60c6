/* Bare partitions: a Kafka partition directory, read only; and the tables that tell about a partition, which topics use as well. */
#include "base/clock.h"
#include "lua/sdml.h"

/* ---- reports ---- */

static void free_segments(void *segments) {
  sdm_segments_free(segments);
}

sdml_held *sdml_hold_segments(lua_State *L) { return sdml_hold(L, free_segments); }

int sdml_push_segments(lua_State *L, sdml_held *held, sdm_log *log) {
  static const char *const states[] = { "clean", "dirty", "active" };
  sdm_segment_info *list;
  size_t count;
  int rc = sdm_log_segments(log, &list, &count);
  if (rc < 0) return sdml_fail(L, rc);
  held->memory = list;
  lua_createtable(L, (int)count, 0);
  for (size_t i = 0; i < count; i++) {
    lua_createtable(L, 0, 6);
    sdml_set_int(L, "base_offset", list[i].base_offset);
    sdml_set_int(L, "size", list[i].size);
    sdml_set_int(L, "records", list[i].records);
    sdml_set_int(L, "max_timestamp", list[i].max_timestamp);
    lua_pushstring(L, states[list[i].state]);
    lua_setfield(L, -2, "state");
    lua_pushstring(L, list[i].path);
    lua_setfield(L, -2, "path");
    lua_rawseti(L, -2, (int)i + 1);
  }
  sdml_drop(held);
  return 1;
}

int sdml_push_log_stats(lua_State *L, sdm_log *log, int64_t now) {
  sdm_log_stats s;
  int rc = sdm_log_get_stats(log, now, &s);
  if (rc < 0) return rc;
  lua_createtable(L, 0, 14);
  sdml_set_int(L, "log_start_offset", s.log_start_offset);
  sdml_set_int(L, "log_end_offset", s.log_end_offset);
  sdml_set_int(L, "last_stable_offset", s.last_stable_offset);
  sdml_set_int(L, "durable_offset", s.durable_offset);
  sdml_set_int(L, "size", s.size);
  sdml_set_int(L, "segments", s.segments);
  sdml_set_int(L, "clean_offset", s.clean_offset);
  sdml_set_int(L, "purge_floor", s.purge_floor);
  sdml_set_int(L, "truncated_bytes", s.truncated_bytes);
  sdml_set_int(L, "corrupt_batches", s.corrupt_batches);
  sdml_set_int(L, "keyless_dropped", s.keyless_dropped);
  sdml_set_int(L, "cleaned_ms", s.cleaned_ms);
  if (s.retention_failed < 0) {
    lua_pushstring(L, sdm_code_name(s.retention_failed));
    lua_setfield(L, -2, "retention_failed");
  }
  if (s.uncleanable < 0) {
    lua_pushstring(L, sdm_code_name(s.uncleanable));
    lua_setfield(L, -2, "uncleanable");
  }
  lua_pushnumber(L, s.dirty_ratio);
  lua_setfield(L, -2, "dirty_ratio");
  return 0;
}

/* ---- the userdata ---- */

static sdml_partition *self(lua_State *L) {
  sdml_partition *p = sdml_self(L, SDML_PARTITION);
  if (p->closed) sdml_use_after_close(L, "partition");
  return p;
}

int sdml_partition_open(lua_State *L) {
  const char *dir = sdml_path(L, 1, "dir");
  lua_settop(L, 1);
  sdml_partition *p = sdml_new(L, sizeof *p, SDML_PARTITION, 0);
  int rc = sdm_log_open_bare(dir, &p->log);
  if (rc >= 0) return 1;
  p->closed = true;
  return sdml_fail(L, rc);
}

static int partition_close(lua_State *L) {
  sdml_partition *p = sdml_self(L, SDML_PARTITION);
  sdm_log *log = p->log;
  p->closed = true;
  p->log = NULL;
  if (log) sdm_log_release(log);
  lua_pushboolean(L, 1);
  return 1;
}

static int partition_tostring(lua_State *L) {
  sdml_partition *p = sdml_self(L, SDML_PARTITION);
  if (p->closed) lua_pushfstring(L, "%s (closed)", SDML_PARTITION);
  else lua_pushfstring(L, "%s (%p)", SDML_PARTITION, (void *)p);
  return 1;
}

/* A partition argument may say 0: the same script then runs over a topic and over a bare partition. */
static int check_number(lua_State *L, int32_t n) {
  (void)L;
  return n == 0 ? 0 : sdm_fail(SDM_UNKNOWN_PARTITION, "there is no partition %d: a bare partition is number 0", (int)n);
}

static int take_number(lua_State *L, int index) {
  int32_t n;
  int rc = sdml_number_of_partition(L, index, index, &n);
  return rc < 0 ? rc : check_number(L, n);
}

static int push_offset(lua_State *L, int rc, int64_t offset) {
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, offset);
  return 1;
}

static int partition_earliest(lua_State *L) {
  int64_t offset = 0;
  sdml_partition *p = self(L);
  int rc = take_number(L, 2);
  if (rc >= 0) rc = sdm_log_earliest(p->log, &offset);
  return push_offset(L, rc, offset);
}

static int partition_latest(lua_State *L) {
  int64_t offset = 0;
  sdml_partition *p = self(L);
  int rc = take_number(L, 2);
  if (rc >= 0) rc = sdm_log_latest(p->log, &offset);
  return push_offset(L, rc, offset);
}

static int partition_offset_for_time(lua_State *L) {
  int64_t offset = 0;
  sdml_partition *p = self(L);
  int64_t ms = sdml_int(L, 2, 2, "time");
  int rc = take_number(L, 3);
  if (rc >= 0) rc = sdm_log_offset_for_time(p->log, ms, &offset);
  if (rc != 0) return push_offset(L, rc, offset);
  lua_pushnil(L);
  return 1;
}

/* wait(offset [, timeout_ms [, partition]]) */
static int partition_wait(lua_State *L) {
  lua_settop(L, 4);
  int64_t offset = sdml_int(L, 2, 2, "offset"), until = sdml_until(sdml_timeout(L, 3, 3));
  sdml_partition *p = self(L);
  int rc = take_number(L, 4);
  if (rc < 0) return sdml_fail(L, rc);
  while (sdml_waits_on(L, rc = sdm_log_wait(p->log, offset, sdml_slice(until)), until)) self(L);
  return sdml_push_waited(L, rc, p->log);
}

static int partition_segments(lua_State *L) {
  lua_settop(L, 2);
  sdml_held *held = sdml_hold_segments(L);
  int rc = take_number(L, 2);
  return rc < 0 ? sdml_fail(L, rc) : sdml_push_segments(L, held, self(L)->log);
}

static int partition_records(lua_State *L) {
  sdml_range range;
  lua_settop(L, 2);
  self(L);
  int rc = sdml_range_take(L, 2, &range);
  if (rc >= 0) rc = check_number(L, range.partition);
  if (rc < 0) return sdml_throw(L, rc);
  sdml_reader *r = sdml_new_reader(L, &range);
  sdml_partition *p = self(L);
  return sdml_records(L, r, &range, p->log, &p->closed);
}

/* As a topic's: under partitions[0]. */
static int partition_stats(lua_State *L) {
  lua_createtable(L, 0, 1);
  lua_createtable(L, 0, 1);
  int rc = sdml_push_log_stats(L, self(L)->log, sdm_wall_ms());
  if (rc < 0) return sdml_fail(L, rc);
  lua_rawseti(L, -2, 0);
  lua_setfield(L, -2, "partitions");
  return 1;
}

static int verify_log(void *log, const char *topic, sdm_verify_report **out) {
  (void)topic;
  return sdm_log_verify(log, out);
}

static int partition_verify(lua_State *L) {
  lua_settop(L, 1);
  return sdml_verify(L, verify_log, self(L)->log, NULL);
}

void sdml_open_partition(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "records", partition_records }, { "earliest", partition_earliest }, { "latest", partition_latest },
    { "offset_for_time", partition_offset_for_time }, { "segments", partition_segments }, { "stats", partition_stats },
    { "wait", partition_wait }, { "verify", partition_verify }, { "close", partition_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = {
    { "__gc", partition_close }, { "__close", partition_close }, { "__tostring", partition_tostring }, { NULL, NULL },
  };
  sdml_class(L, SDML_PARTITION, methods, meta);
}
