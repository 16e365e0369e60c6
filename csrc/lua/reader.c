/* Reading: the iteration of records(), and the readers that state tables are rebuilt with.
**
** An iterator is a C function whose upvalue is the reader. It makes no table for a record and calls no Lua function but on_corrupt, so that a loop
** over it may yield. One that follows the log blocks at its end. On Lua 5.4 the reader is the loop's closing value, too: leaving the loop early lets go of the file.
*/
#include <string.h>

#include "lua/sdml.h"

/* ---- pushing records ---- */

static void push_headers(lua_State *L, const sdm_record *r) {
  const uint8_t *p = r->headers, *end = p + r->headers_size;
  sdm_header h;
  lua_createtable(L, r->header_count, 0);
  for (int i = 1; i <= r->header_count && (p = sdm_header_decode(p, end, &h)) != NULL; i++) {
    lua_createtable(L, 2, 0);
    lua_pushlstring(L, h.name, (size_t)h.name_size);
    lua_rawseti(L, -2, 1);
    if (h.value_size >= 0) {
      lua_pushlstring(L, h.value, (size_t)h.value_size);
      lua_rawseti(L, -2, 2);
    }
    lua_rawseti(L, -2, i);
  }
}

static void push_bytes(lua_State *L, const void *bytes, int32_t size) {
  if (size < 0) lua_pushnil(L);
  else lua_pushlstring(L, bytes ? bytes : "", (size_t)size);
}

static int push_record(lua_State *L, const sdm_record *r) {
  sdml_pushint(L, r->offset);
  push_bytes(L, r->key, r->key_size);
  push_bytes(L, r->value, r->value_size);
  sdml_pushint(L, r->timestamp);
  if (r->header_count > 0) push_headers(L, r);
  else lua_pushnil(L);
  return 5;
}

/* ---- the userdata ---- */

static void close_reader(sdml_reader *r) {
  sdm_reader *reader = r->reader;
  r->reader = NULL;
  sdm_reader_close(reader);
}

static int reader_close(lua_State *L) {
  close_reader(sdml_self(L, SDML_READER));
  return 0;
}

static int reader_tostring(lua_State *L) {
  sdml_reader *r = sdml_self(L, SDML_READER);
  if (r->reader) lua_pushfstring(L, "%s (%p)", SDML_READER, (void *)r);
  else lua_pushfstring(L, "%s (closed)", SDML_READER);
  return 1;
}

/* At the end: 1 when more has come, 0 when none came in time, or none will. */
static int follow(lua_State *L, sdml_reader *r) {
  int64_t until = sdml_until(r->timeout_ms);
  int rc;
  while (sdml_waits_on(L, rc = sdm_reader_wait(r->reader, sdml_slice(until)), until)) {
    if (*r->closed) sdml_use_after_close(L, "store or partition");
    if (!r->reader) return 0;
  }
  if (rc != SDM_ENDED) return rc;
  close_reader(r);
  return 0;
}

/* 1 and a record, 0 at and after the end, or a failure's code. One that follows without waiting may be asked again: there may be more. */
static int advance(lua_State *L, sdml_reader *r, sdm_record *record) {
  if (*r->closed) sdml_use_after_close(L, "store or partition");
  if (!r->reader) return 0;
  int rc = sdm_reader_next(r->reader, record);
  while (rc == 0 && r->follows && (rc = follow(L, r)) == 1) rc = sdm_reader_next(r->reader, record);
  if (rc == 0 && !(r->follows && r->timeout_ms == 0)) close_reader(r);
  return rc;
}

/* Behind the damage that was just met. Who wants to know what is left out is told: from, to (exclusive), message. */
static int step_over(lua_State *L, sdml_reader *r) {
  int64_t from, to;
  r->busy = true;
  lua_pushstring(L, sdm_errmsg());
  r->busy = false;
  int rc = sdm_reader_skip(r->reader, &from, &to);
  if (rc < 0) return rc;
  sdml_getcompanion(L, lua_upvalueindex(1));
  lua_rawgeti(L, -1, SDML_ON_CORRUPT);
  if (lua_isfunction(L, -1)) {
    sdml_pushint(L, from);
    sdml_pushint(L, to);
    lua_pushvalue(L, -5);
    lua_call(L, 3, 0);
  }
  lua_settop(L, 0);
  return 0;
}

/* Each string that is made may run a finalizer. Were that to move the reader on, the bytes of the record would be gone. */
static int give(lua_State *L, sdml_reader *r, const sdm_record *record) {
  r->busy = true;
  int pushed = push_record(L, record);
  r->busy = false;
  return pushed;
}

/* The function that a generic `for` calls. */
static int iterate(lua_State *L) {
  sdm_record record;
  sdml_reader *r = lua_touserdata(L, lua_upvalueindex(1));
  if (r->busy) return luaL_error(L, "this iterator was called by a finalizer as it gave a record, or memory had run out; open another");
  int rc = advance(L, r, &record);
  while (rc == SDM_CORRUPT && r->skips && (rc = step_over(L, r)) == 0) rc = advance(L, r, &record);
  if (rc == 1) return give(L, r, &record);
  if (rc < 0) return sdml_throw(L, rc);
  lua_pushnil(L);
  return 1;
}

/* ---- records{} ---- */

static int locate(const sdml_range *range, sdm_log *log, int64_t *from) {
  int rc;
  switch (range->kind) {
    case SDML_FROM_OFFSET: *from = range->from; return 0;
    case SDML_FROM_EARLIEST: return sdm_log_earliest(log, from);
    case SDML_FROM_LATEST: return sdm_log_latest(log, from);
    default:
      rc = sdm_log_offset_for_time(log, range->from, from);
      return rc == 0 ? sdm_log_latest(log, from) : rc;
  }
}

/* Retention may pass a start that was looked up before the reader stands on it: then it is looked up again. */
static int open_range(const sdml_range *range, sdm_log *log, sdm_reader **out) {
  enum { TRIES = 5 };
  int rc = 0;
  for (int i = 0; i < TRIES; i++) {
    int64_t from = 0;
    rc = locate(range, log, &from);
    if (rc >= 0) rc = sdm_reader_open(log, from, range->to, range->flags, out);
    if (rc != SDM_OFFSET_OUT_OF_RANGE || range->kind == SDML_FROM_OFFSET) break;
  }
  return rc;
}

/* The options are argument 2. */
static void keep_on_corrupt(lua_State *L, int reader) {
  sdml_getcompanion(L, reader);
  lua_pushliteral(L, "on_corrupt");
  lua_rawget(L, 2);
  lua_rawseti(L, -2, SDML_ON_CORRUPT);
  lua_pop(L, 1);
}

sdml_reader *sdml_new_reader(lua_State *L, const sdml_range *range) {
  sdml_reader *r = sdml_new(L, sizeof *r, SDML_READER, 1);
  r->skips = range->skips;
  r->follows = range->follows;
  r->timeout_ms = range->timeout_ms;
  if (r->skips) keep_on_corrupt(L, lua_gettop(L));
  return r;
}

int sdml_records(lua_State *L, sdml_reader *r, const sdml_range *range, sdm_log *log, const bool *closed) {
  int reader = lua_gettop(L);
  r->closed = closed;
  int rc = open_range(range, log, &r->reader);
  if (rc < 0) return sdml_throw(L, rc);
  lua_pushvalue(L, reader);
  lua_pushcclosure(L, iterate, 1);
#if LUA_VERSION_NUM >= 504
  lua_pushnil(L);
  lua_pushnil(L);
  lua_pushvalue(L, reader);
  return 4;
#else
  return 1;
#endif
}

/* ---- for state tables and consumers ---- */

/* core.reader(topic, partition, from, latest, uncommitted) -> reader | nil, message, code. With `latest`, of each key only the last record comes. */
int sdml_reader_of_topic(lua_State *L) {
  sdm_log *log;
  sdml_topic *t = sdml_topic_check(L, 1);
  int64_t partition = sdml_int(L, 2, 2, "partition"), from = sdml_int(L, 3, 3, "from");
  unsigned flags = lua_toboolean(L, 5) ? SDM_READ_UNCOMMITTED : 0;
  sdml_reader *r = sdml_new(L, sizeof *r, SDML_READER, 1);
  r->closed = &t->store->closed;
  int rc = sdm_topic_log(t->topic, (int32_t)partition, sdml_last_now(t->store), &log);
  if (rc >= 0) rc = (lua_toboolean(L, 4) ? sdm_reader_open_latest : sdm_reader_open)(log, from, SDM_TO_END, flags, &r->reader);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

static sdml_reader *open_self(lua_State *L) {
  sdml_reader *r = sdml_self(L, SDML_READER);
  if (*r->closed) sdml_use_after_close(L, "store");
  if (!r->reader) sdml_use_after_close(L, "reader");
  return r;
}

/* reader:next() -> offset, key, value, timestamp, headers | nil at the end | nil, message, code */
static int reader_next(lua_State *L) {
  sdm_record record;
  sdml_reader *r = open_self(L);
  int rc = sdm_reader_next(r->reader, &record);
  if (rc == 1) return push_record(L, &record);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushnil(L);
  return 1;
}

/* reader:more(), at the end -> whether more has been appended, which next() goes on with | nil, message, code */
static int reader_more(lua_State *L) {
  int rc = sdm_reader_wait(open_self(L)->reader, 0);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, rc == 1);
  return 1;
}

/* reader:skip(), after `corrupt` -> from, to: the offsets that are left out, `to` exclusive | nil, message, code */
static int reader_skip(lua_State *L) {
  int64_t from, to;
  int rc = sdm_reader_skip(open_self(L)->reader, &from, &to);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, from);
  sdml_pushint(L, to);
  return 2;
}

/* The offset that the next record has at least; at the end, where the log ended when the reader was opened. */
static int reader_position(lua_State *L) {
  sdml_reader *r = sdml_self(L, SDML_READER);
  if (!r->reader) return sdml_use_after_close(L, "reader");
  sdml_pushint(L, sdm_reader_position(r->reader));
  return 1;
}

/* core.load(reader, values) -> number of keys | nil, message, code. Puts every record's value under its key into an empty table: for a
** reader that brings each key once. Tombstones are left out. */
int sdml_reader_load(lua_State *L) {
  sdml_reader *r = luaL_checkudata(L, 1, SDML_READER);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  if (*r->closed) return sdml_use_after_close(L, "store");
  int64_t count = 0;
  sdm_record record;
  int rc = 0;
  while (r->reader && (rc = sdm_reader_next(r->reader, &record)) == 1) {
    if (record.value_size < 0 || record.key_size < 0) continue;
    push_bytes(L, record.key, record.key_size);
    push_bytes(L, record.value, record.value_size);
    lua_rawset(L, 2);
    count++;
  }
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, count);
  return 1;
}

void sdml_open_reader(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "next", reader_next }, { "more", reader_more }, { "skip", reader_skip }, { "position", reader_position }, { "close", reader_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = {
    { "__gc", reader_close }, { "__close", reader_close }, { "__tostring", reader_tostring }, { NULL, NULL },
  };
  sdml_class(L, SDML_READER, methods, meta);
}
