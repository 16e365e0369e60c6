/* topic:records: an iterator over a partition.
**
** It ends at the log end that there was at the call, or before a transaction that is open. That the last offsets there may have no record, being
** a transaction's markers or what it has aborted, is no trouble: librdkafka tells when a partition has been read up to its end, and where that is.
** But a leader that has just come back may take an older offset for it: one before the end that is looked for is asked after.
*/
#include "base/clock.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

typedef struct sdkl_reader {
  sdml_object object;
  sdk_reader *reader;                     /* NULL: it is at its end, or closed */
  sdkl_store *store;                      /* kept alive by the topic, which the companion has */
  sdkl_topic *topic;
  uint32_t forks;
  bool busy;                              /* a record of it is being pushed */
  bool follows, at_end;
  int64_t timeout_ms;
  int64_t position, to;
  int32_t partition;
} sdkl_reader;

/* ---- pushing records ---- */

static void push_headers(lua_State *L, const sdk_headers *headers) {
  sdk_header h;
  lua_createtable(L, (int)sdk_header_count(headers), 0);
  for (int i = 0; sdk_header_at(headers, (size_t)i, &h); i++) {
    lua_createtable(L, 2, 0);
    lua_pushstring(L, h.name);
    lua_rawseti(L, -2, 1);
    if (h.value_size >= 0) {
      lua_pushlstring(L, h.value, (size_t)h.value_size);
      lua_rawseti(L, -2, 2);
    }
    lua_rawseti(L, -2, i + 1);
  }
}

static void push_bytes(lua_State *L, const void *bytes, int64_t size) {
  if (size < 0) lua_pushnil(L);
  else lua_pushlstring(L, bytes, (size_t)size);
}

int sdkl_push_record(lua_State *L, const sdk_record *r) {
  sdml_pushint(L, r->offset);
  push_bytes(L, r->key, r->key_size);
  push_bytes(L, r->value, r->value_size);
  sdml_pushint(L, r->timestamp);
  if (sdk_header_count(r->headers) > 0) push_headers(L, r->headers);
  else lua_pushnil(L);
  return 5;
}

/* ---- the userdata ---- */

static void close_reader(sdkl_reader *r) {
  sdk_reader *reader = r->reader;
  r->reader = NULL;
  if (reader && r->forks == sdm_fork_count()) sdk_reader_free(reader);
}

static int reader_close(lua_State *L) {
  close_reader(sdml_self(L, SDKL_READER));
  return 0;
}

/* ---- iterating ---- */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* Until when to wait. Whether there is anything is not known before the cluster has answered: for that the store's own time is taken. */
static int64_t limit(const sdkl_reader *r) {
  int64_t patience = sdk_client_timeout_ms(r->store->client);
  if (!r->follows) return sdm_monotonic_ms() + patience;
  if (r->timeout_ms == SDML_NO_TIMEOUT) return INT64_MAX;
  return sdm_monotonic_ms() + (r->at_end ? r->timeout_ms : later(r->timeout_ms, patience));
}

static int no_answer(const sdkl_reader *r) {
  int64_t start, end;
  int rc = sdk_bounds(r->store->client, r->topic->name ? r->topic->name : "", r->partition, 1, &start, &end);
  return rc < 0 ? rc : sdm_fail(SDM_TIMEOUT, "read partition %d: no answer in time", (int)r->partition);
}

typedef struct ending {
  sdkl_reader *reader;
  int64_t end;
} ending;

static int try_end(sdkl_store *s, void *of, int timeout_ms) {
  ending *e = of;
  (void)s;
  if (!e->reader->reader || !e->reader->topic->name) return sdm_fail(SDM_CLOSED, "the reader or its topic is closed");
  return sdk_reader_end(e->reader->reader, e->reader->topic->name, e->reader->partition, timeout_ms, &e->end);
}

/* Whether an end that was told before `to` is one: 1, 0, or a failure. */
static int is_end(lua_State *L, sdkl_reader *r) {
  ending e = { r, 0 };
  if (r->position >= r->to) return 1;
  int rc = sdkl_try_for(L, r->store, try_end, &e);
  return rc < 0 ? rc : r->position >= e.end;
}

/* SDK_RECORD and a record; SDK_NOTHING at the end, or when none came in time; or a failure. */
static int advance(lua_State *L, sdkl_reader *r, sdk_record *record) {
  if (!r->reader || r->position >= r->to) return SDK_NOTHING;
  int64_t until = r->at_end && r->timeout_ms == 0 ? 0 : limit(r);
  do {
    int rc = sdk_reader_next(r->reader, (int)sdml_slice(until), record);
    if (rc < 0) return rc;
    if (rc == SDK_RECORD) {
      r->at_end = false;
      r->position = record->offset < r->to ? record->offset + 1 : r->to;
      return record->offset < r->to ? SDK_RECORD : SDK_NOTHING;
    }
    if (rc == SDK_END) {
      r->position = later(record->offset, r->position);
      rc = is_end(L, r);
      if (rc < 0) return rc;
      r->at_end = rc == 1;
      if (r->at_end && (!r->follows || r->position >= r->to)) return SDK_NOTHING;
      until = limit(r);
    }
  } while (sdkl_goes_on(L, r->store, 0, until) && r->reader);
  return r->at_end || !r->reader ? SDK_NOTHING : no_answer(r);
}

/* Each string that is made may run a finalizer. Were that to move the reader on, the bytes of the record would be gone. */
static int give(lua_State *L, sdkl_reader *r, const sdk_record *record) {
  r->busy = true;
  int pushed = sdkl_push_record(L, record);
  r->busy = false;
  return pushed;
}

static int iterate(lua_State *L) {
  sdk_record record;
  sdkl_reader *r = lua_touserdata(L, lua_upvalueindex(1));
  if (r->busy) return luaL_error(L, "this iterator was called by a finalizer as it gave a record, or memory had run out; open another");
  sdkl_require_open(L, r->store);
  int rc = sdkl_usable(r->store);
  if (rc == 0) rc = advance(L, r, &record);
  if (rc < 0) {
    int code = rc;
    lua_pushstring(L, sdm_errmsg());      /* closing may say something else */
    close_reader(r);
    sdm_fail(code, "%s", lua_tostring(L, -1));
    return sdml_throw(L, code);
  }
  if (rc == SDK_RECORD) return give(L, r, &record);
  if (!(r->follows && r->timeout_ms == 0 && r->position < r->to)) close_reader(r);
  lua_pushnil(L);
  return 1;
}

/* ---- records{} ---- */

static int out_of_range(int64_t offset, int64_t start, int64_t end) {
  return sdm_fail(SDM_OFFSET_OUT_OF_RANGE, "offset %lld is outside the log, which begins at %lld (log start offset) and ends at %lld (log end offset)",
                  (long long)offset, (long long)start, (long long)end);
}

static int locate(lua_State *L, sdkl_topic *t, const sdml_range *range, sdkl_reader *r) {
  int64_t start, end;
  int rc = sdkl_try_bounds(L, t, range->partition, &start, &end);
  if (rc < 0) return rc;
  r->position = range->kind == SDML_FROM_EARLIEST ? start : range->kind == SDML_FROM_OFFSET ? range->from : end;
  if (range->kind == SDML_FROM_TIME && (rc = sdkl_try_time(L, t, range->partition, range->from, &r->position)) < 0) return rc;
  if (range->kind == SDML_FROM_TIME && rc == 0) r->position = end;
  if (r->position < start || (range->kind == SDML_FROM_OFFSET && r->position > end)) return out_of_range(r->position, start, end);
  r->to = range->follows || range->to < end ? range->to : end;
  return 0;
}

static int start_reading(sdkl_topic *t, sdkl_reader *r, unsigned flags) {
  if (r->position >= r->to) return 0;
  int rc = sdk_reader_new(t->store->client, (flags & SDM_READ_UNCOMMITTED) != 0, &r->reader);
  return rc < 0 ? rc : sdk_reader_start(r->reader, t->name, r->partition, r->position);
}

static sdkl_reader *new_reader(lua_State *L, sdkl_topic *t, const sdml_range *range) {
  sdkl_reader *r = sdml_new(L, sizeof *r, SDKL_READER, 1);
  r->forks = sdm_fork_count();
  r->store = t->store;
  r->topic = t;
  r->follows = range->follows;
  r->timeout_ms = range->timeout_ms;
  r->partition = range->partition;
  return r;
}

/* ---- for state tables ---- */

/* core.reader(topic, partition, from) -> reader | nil, message, code */
int sdkl_reader_open(lua_State *L) {
  sdml_range range = { .kind = SDML_FROM_OFFSET, .to = SDM_TO_END, .timeout_ms = SDML_NO_TIMEOUT };
  sdkl_topic_check(L, 1);
  range.partition = (int32_t)sdml_int(L, 2, 2, "partition");
  range.from = sdml_int(L, 3, 3, "from");
  lua_settop(L, 1);
  sdkl_reader *r = new_reader(L, sdkl_topic_check(L, 1), &range);
  int rc = locate(L, sdkl_topic_check(L, 1), &range, r);
  if (rc >= 0) rc = start_reading(sdkl_topic_check(L, 1), r, 0);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

/* reader:next() -> offset, key, value, timestamp, headers | nil at the end | nil, message, code */
static int reader_next(lua_State *L) {
  sdk_record record;
  sdkl_reader *r = sdml_self(L, SDKL_READER);
  if (r->busy) return luaL_error(L, "this reader was asked by a finalizer as it gave a record, or memory had run out; open another");
  sdkl_require_open(L, r->store);
  int rc = sdkl_usable(r->store);
  if (rc == 0) rc = advance(L, r, &record);
  if (rc < 0) return sdml_fail(L, rc);
  if (rc == SDK_RECORD) return give(L, r, &record);
  lua_pushnil(L);
  return 1;
}

/* reader:position() -> the offset that comes next; at the end, behind all that was there, whether it had records or not */
static int reader_position(lua_State *L) {
  sdkl_reader *r = sdml_self(L, SDKL_READER);
  sdml_pushint(L, r->position);
  return 1;
}

void sdkl_open_reader(lua_State *L) {
  static const luaL_Reg methods[] = { { "next", reader_next }, { "position", reader_position }, { "close", reader_close }, { NULL, NULL } };
  static const luaL_Reg meta[] = { { "__gc", reader_close }, { "__close", reader_close }, { NULL, NULL } };
  sdml_class(L, SDKL_READER, methods, meta);
}

/* ---- the method ---- */

static int check_range(const sdml_range *range) {
  return range->skips ? sdm_fail(SDM_UNSUPPORTED, "on_corrupt: what is damaged in a cluster's log is the broker's affair; only \"fail\" is there") : 0;
}

int sdkl_topic_records(lua_State *L) {
  sdml_range range;
  lua_settop(L, 2);
  sdkl_topic_self(L);
  int rc = sdml_range_take(L, 2, &range);
  if (rc >= 0) rc = check_range(&range);
  if (rc < 0) return sdml_throw(L, rc);
  sdkl_reader *r = new_reader(L, sdkl_topic_self(L), &range);
  rc = locate(L, sdkl_topic_self(L), &range, r);
  if (rc >= 0) rc = start_reading(sdkl_topic_self(L), r, range.flags);
  if (rc < 0) return sdml_throw(L, rc);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, iterate, 1);
#if LUA_VERSION_NUM >= 504
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, 3);
  return 4;
#else
  return 1;
#endif
}
