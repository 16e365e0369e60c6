/* Snapshots of state tables: those that were read, and those that are written. For lua/sediment/table_snapshot.lua alone. */
#include "base/mem.h"
#include "store/snapshot.h"

#include "lua/sdml.h"

typedef struct sdml_snapshot {
  sdml_object object;
  sdm_snapshot *snapshot;                 /* NULL once it was closed */
  uint64_t cursor;                        /* of next */
  bool busy;                              /* an entry of it is being pushed */
} sdml_snapshot;

typedef struct sdml_snapshot_writer {
  sdml_object object;
  sdm_snapshot_writer *writer;            /* NULL once it has ended */
  sdml_topic *topic;                      /* kept alive by the companion */
  sdm_buf entry;                          /* reused */
} sdml_snapshot_writer;

/* ---- those that were read ---- */

static sdml_snapshot *self(lua_State *L) {
  sdml_snapshot *s = sdml_self(L, SDML_SNAPSHOT);
  if (!s->snapshot) sdml_use_after_close(L, "snapshot");
  return s;
}

/* For what moves the window of the file that the entry lies in. */
static sdml_snapshot *idle_self(lua_State *L) {
  sdml_snapshot *s = self(L);
  if (s->busy) luaL_error(L, "a state table was asked by a finalizer as it gave a value of its snapshot, or memory had run out; open it anew");
  return s;
}

/* core.snapshot_open(topic, name) -> snapshot | nil, message, code */
int sdml_snapshot_open(lua_State *L) {
  const char *name = luaL_checkstring(L, 2);
  sdml_snapshot *s = sdml_new(L, sizeof *s, SDML_SNAPSHOT, 0);
  int rc = sdm_snapshot_open(sdml_topic_check(L, 1)->topic, name, &s->snapshot);
#if LUA_VERSION_NUM < 503
  if (rc == 0 && sdm_snapshot_is_wide(s->snapshot)) rc = sdm_fail(SDM_UNSUPPORTED, "it has a whole number beyond 2^53, which this Lua does not");
#endif
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

/* One whose entry is just being pushed stays until it is collected: this is a finalizer's call. */
static int snapshot_close(lua_State *L) {
  sdml_snapshot *s = sdml_self(L, SDML_SNAPSHOT);
  sdm_snapshot *snapshot = s->snapshot;
  if (s->busy) return 0;
  s->snapshot = NULL;
  sdm_snapshot_free(snapshot);
  return 0;
}

static int snapshot_gc(lua_State *L) {
  sdml_snapshot *s = sdml_self(L, SDML_SNAPSHOT);
  s->busy = false;
  return snapshot_close(L);
}

/* snapshot:head() -> schema, partitions, keys left */
static int snapshot_head(lua_State *L) {
  sdml_snapshot *s = self(L);
  const sdm_snapshot_head *h = sdm_snapshot_head_of(s->snapshot);
  s->busy = true;
  lua_pushlstring(L, h->schema, h->schema_size);
  s->busy = false;
  sdml_pushint(L, h->partitions);
  sdml_pushint(L, sdm_snapshot_left(s->snapshot));
  return 3;
}

/* snapshot:place(partition) -> position, checked, start | nil: the table had not read it */
static int snapshot_place(lua_State *L) {
  const sdm_snapshot_head *h = sdm_snapshot_head_of(self(L)->snapshot);
  int64_t partition = sdml_int(L, 2, 2, "partition");
  lua_pushnil(L);
  if (partition < 0 || partition >= h->partitions) return 1;
  sdm_snapshot_place place = sdm_snapshot_place_at(h, (uint32_t)partition);
  if (place.position < 0) return 1;
  sdml_pushint(L, place.position);
  sdml_pushint(L, place.checked);
  sdml_pushint(L, place.start);
  return 3;
}

/* Pushes value, partition, slot. */
static int give(lua_State *L, sdml_snapshot *s, const sdm_snapshot_entry *e, uint64_t slot) {
  s->busy = true;
  sdml_push_value(L, e);
  s->busy = false;
  sdml_pushint(L, e->partition);
  sdml_pushint(L, slot);
  return 3;
}

/* Pushes nil, or raises. */
static int nothing(lua_State *L, int rc) {
  if (rc < 0) return sdml_throw(L, rc);
  lua_pushnil(L);
  return 1;
}

/* snapshot:get(key) -> value, partition, slot | nil. Raises as iterators do. */
static int snapshot_get(lua_State *L) {
  sdm_snapshot_entry e;
  uint64_t slot;
  size_t size;
  sdml_snapshot *s = idle_self(L);
  const char *key = luaL_checklstring(L, 2, &size);
  int rc = sdm_snapshot_find(s->snapshot, key, size, &e, &slot);
  return rc == 1 ? give(L, s, &e, slot) : nothing(L, rc);
}

/* snapshot:next([key]) -> key, value, partition, slot | nil: what is left, one after the other, from the beginning when key is nil. For a generic `for`. */
static int snapshot_next(lua_State *L) {
  sdm_snapshot_entry e;
  uint64_t slot;
  sdml_snapshot *s = idle_self(L);
  if (lua_isnoneornil(L, 2)) s->cursor = 0;
  int rc = sdm_snapshot_next(s->snapshot, &s->cursor, &e, &slot);
  if (rc != 1) return nothing(L, rc);
  s->busy = true;
  lua_pushlstring(L, (const char *)e.key, (size_t)e.key_size);
  return give(L, s, &e, slot) + 1;
}

/* The next entry that is left, as a key and a value of the table at `values`; dropped once it is there. 1, 0 at the end, or a failure. */
static int load_next(lua_State *L, sdml_snapshot *s, int values) {
  sdm_snapshot_entry e;
  uint64_t slot;
  int rc = sdm_snapshot_next(s->snapshot, &s->cursor, &e, &slot);
  if (rc != 1) return rc;
  lua_pushlstring(L, (const char *)e.key, (size_t)e.key_size);
  sdml_push_value(L, &e);
  lua_rawset(L, values);
  sdm_snapshot_drop(s->snapshot, slot);
  return 1;
}

/* snapshot:load(values): all that is left at once, into a table. Raises as get does. */
static int snapshot_load(lua_State *L) {
  int rc;
  sdml_snapshot *s = idle_self(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  s->cursor = 0;
  s->busy = true;
  while ((rc = load_next(L, s, 2)) == 1) {}
  s->busy = false;
  return rc < 0 ? sdml_throw(L, rc) : 0;
}

/* snapshot:drop(slot) -> keys left. Allocates nothing: the value is elsewhere by now. */
static int snapshot_drop(lua_State *L) {
  sdml_snapshot *s = self(L);
  sdm_snapshot_drop(s->snapshot, (uint64_t)sdml_int(L, 2, 2, "slot"));
  sdml_pushint(L, sdm_snapshot_left(s->snapshot));
  return 1;
}

/* ---- those that are written ---- */

static sdml_snapshot_writer *writer_self(lua_State *L) {
  sdml_snapshot_writer *w = sdml_self(L, SDML_SNAPSHOT_WRITER);
  if (!w->writer) sdml_use_after_close(L, "snapshot");
  return w;
}

static int writer_close(lua_State *L) {
  sdml_snapshot_writer *w = sdml_self(L, SDML_SNAPSHOT_WRITER);
  sdm_snapshot_writer *writer = w->writer;
  w->writer = NULL;
  sdm_snapshot_writer_free(writer);
  sdm_buf_free(&w->entry);
  return 0;
}

static int64_t number_at(lua_State *L, int table, int i) {
  lua_rawgeti(L, table, i);
  int64_t v = sdml_int(L, table, -1, "place");
  lua_settop(L, -2);
  return v;
}

/* core.snapshot_begin(topic, name, schema, keys, {position, checked, start of each partition in turn}) -> writer | nil, message, code */
int sdml_snapshot_begin(lua_State *L) {
  const char *name = luaL_checkstring(L, 2);
  size_t size;
  const char *schema = luaL_checklstring(L, 3, &size);
  luaL_checktype(L, 5, LUA_TTABLE);
  sdm_snapshot_head head = { .schema = schema, .schema_size = (uint32_t)size, .count = (uint64_t)sdml_int(L, 4, 4, "keys") };
  head.partitions = (uint32_t)lua_rawlen(L, 5) / 3;
  sdm_snapshot_place *places = lua_newuserdata(L, sizeof *places * (head.partitions + 1));
  for (int p = 0; p < (int)head.partitions; p++) {
    places[p] = (sdm_snapshot_place){ number_at(L, 5, 3 * p + 1), number_at(L, 5, 3 * p + 2), number_at(L, 5, 3 * p + 3) };
  }
  sdml_snapshot_writer *w = sdml_new(L, sizeof *w, SDML_SNAPSHOT_WRITER, 1);
  w->topic = sdml_topic_check(L, 1);
  int rc = sdm_snapshot_begin(w->topic->topic, name, &head, places, &w->writer);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

/* true, or a failure */
static int push_done(lua_State *L, int rc) {
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

/* writer:add(key, value, partition) -> true | nil, message, code */
static int writer_add(lua_State *L) {
  size_t size;
  sdml_snapshot_writer *w = writer_self(L);
  const char *key = luaL_checklstring(L, 2, &size);
  luaL_checkany(L, 3);
  sdm_buf_clear(&w->entry);
  int rc = sdm_snapshot_entry_begin(&w->entry, (int32_t)sdml_int(L, 4, 4, "partition"), key, (int32_t)size);
  if (rc == 0) rc = sdml_encode_value(L, 3, &w->entry);
  if (rc == SDM_UNSUPPORTED) rc = sdm_fail_within(rc, "key '%.80s': ", key);
  if (rc == 0) rc = sdm_snapshot_add(w->writer, w->entry.data, w->entry.size);
  return push_done(L, rc);
}

/* writer:add_rest(snapshot) -> true | nil, message, code */
static int writer_add_rest(lua_State *L) {
  sdml_snapshot_writer *w = writer_self(L);
  sdml_snapshot *s = luaL_checkudata(L, 2, SDML_SNAPSHOT);
  if (s->busy) return luaL_error(L, "the snapshot is just being read");
  return push_done(L, s->snapshot ? sdm_snapshot_add_rest(w->writer, s->snapshot) : 0);
}

/* writer:commit() -> bytes | nil, message, code */
static int writer_commit(lua_State *L) {
  int64_t bytes = 0;
  sdml_snapshot_writer *w = writer_self(L);
  if (w->topic->store->closed || !w->topic->topic) return sdml_use_after_close(L, "store");
  int rc = sdm_snapshot_commit(w->writer, w->topic->topic, sdml_last_now(w->topic->store), &bytes);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, bytes);
  return 1;
}

void sdml_open_snapshot(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "head", snapshot_head }, { "place", snapshot_place }, { "get", snapshot_get }, { "drop", snapshot_drop }, { "next", snapshot_next },
    { "load", snapshot_load },    { "close", snapshot_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", snapshot_gc }, { NULL, NULL } };
  static const luaL_Reg writer_methods[] = {
    { "add", writer_add }, { "add_rest", writer_add_rest }, { "commit", writer_commit }, { "close", writer_close }, { NULL, NULL },
  };
  static const luaL_Reg writer_meta[] = { { "__gc", writer_close }, { NULL, NULL } };
  sdml_class(L, SDML_SNAPSHOT, methods, meta);
  sdml_class(L, SDML_SNAPSHOT_WRITER, writer_methods, writer_meta);
}
