/* Records out of Lua values, for whatever appends them: topics here and on a Kafka cluster.
**
** A record's bytes are borrowed from Lua strings. What has no string, a number or an encoded header, goes into the scratch buffer of
** whoever gathers, which may move while it grows: until it has stopped growing a record holds the place in it instead of a pointer, and its
** offset field, which means nothing in an append, says which of its pointers are such places.
*/
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "lua/sdml.h"

enum { KEY_IN_SCRATCH = 1, VALUE_IN_SCRATCH = 2, HEADERS_IN_SCRATCH = 4 };
enum { CAPACITY_KEPT = 65536, SCRATCH_KEPT = 1 << 20 };    /* what a topic keeps for its next batch */

/* Upvalues of a function that gathers a batch: the names of a record's fields. */
enum { UP_KEY = 1, UP_VALUE, UP_TIMESTAMP, UP_HEADERS, UP_WITH_PARTITION };

typedef struct gathering {
  int arg;                                /* of the records, for messages */
  size_t i;                               /* number of the record, from 1; 0: the only one, of append */
  sdm_buf *scratch;
  int64_t now;
} gathering;

/* "record 3: " in front of what is wrong with it. */
static const char *place(const gathering *g, char *out, size_t size) {
  if (g->i > 0) snprintf(out, size, "record %zu: ", g->i);
  else *out = '\0';
  return out;
}

static int refuse(lua_State *L, const gathering *g, const char *name, const char *expected, int index) {
  char where[40];
  return sdml_refuse(L, g->arg, "%s%s: %s expected, got %s", place(g, where, sizeof where), name, expected, sdml_type(L, index));
}

static void add_scratch(lua_State *L, sdm_buf *scratch, const void *bytes, size_t size) {
  if (sdm_buf_append(scratch, bytes, size) < 0) luaL_error(L, "not enough memory");
}

/* What a string of a record is: how it is called, which part, and whether it names something, so that a number in its place is whole. */
typedef struct part {
  const char *name, *suffix;              /* "headers[1]", " as name" */
  bool is_name;
} part;

static int refuse_part(lua_State *L, const gathering *g, const part *p, const char *got) {
  char where[40];
  return sdml_refuse(L, g->arg, "%s%s: string or %s number%s expected, got %s", place(g, where, sizeof where), p->name,
                     p->is_name ? "whole" : "finite", p->suffix, got);
}

static void refuse_number(lua_State *L, const gathering *g, const part *p, const char *text, sdml_number kind) {
  char got[SDML_NUMBER_ROOM + 20];
  snprintf(got, sizeof got, "%s%s", text, p->is_name && kind == SDML_BEYOND ? ", beyond 2^53" : "");
  refuse_part(L, g, p, got);
}

/* The string at `index`; for a number its text, put into `text`. NULL for anything else. */
static const char *bytes_of(lua_State *L, const gathering *g, const part *p, int index, char text[SDML_NUMBER_ROOM], size_t *size) {
  if (lua_type(L, index) == LUA_TSTRING) return lua_tolstring(L, index, size);
  if (lua_type(L, index) != LUA_TNUMBER) return NULL;
  sdml_number kind = sdml_number_text(L, index, text);
  if (kind == SDML_NOT_FINITE || (p->is_name && kind != SDML_WHOLE)) refuse_number(L, g, p, text, kind);
  *size = strlen(text);
  return text;
}

static int too_large(const gathering *g, const char *name, size_t size) {
  char where[40];
  return sdm_fail(SDM_TOO_LARGE, "%s%s: %zu bytes, 2147483647 are the most", place(g, where, sizeof where), name, size);
}

/* One of key and value. 0, or SDM_TOO_LARGE. */
static int gather_bytes(lua_State *L, const gathering *g, int index, int which, sdm_record *r) {
  static const part key = { "key", "", true }, value = { "value", "", false };
  char text[SDML_NUMBER_ROOM];
  size_t size = 0;
  const part *p = which == KEY_IN_SCRATCH ? &key : &value;
  const char *bytes = bytes_of(L, g, p, index, text, &size);
  if (!bytes && !lua_isnoneornil(L, index)) return refuse_part(L, g, p, sdml_type(L, index));
  if (size > INT32_MAX) return too_large(g, p->name, size);
  const void *from = bytes;
  if (bytes == text) {
    from = (const void *)(uintptr_t)g->scratch->size;
    r->offset |= which;
    add_scratch(L, g->scratch, text, size);
  }
  *(which == KEY_IN_SCRATCH ? &r->key : &r->value) = from;
  *(which == KEY_IN_SCRATCH ? &r->key_size : &r->value_size) = bytes ? (int32_t)size : -1;
  return 0;
}

/* Whether the key at `index` is one of 1..count of an array; *n is which. */
static bool is_element(lua_State *L, int index, size_t count, size_t *n) {
  int64_t i = 0;
  if (!sdml_whole(L, index, &i) || i < 1 || (uint64_t)i > count) return false;
  *n = (size_t)i;
  return true;
}

/* ---- headers ---- */

static int gather_header(lua_State *L, const gathering *g, int n) {
  char name_text[SDML_NUMBER_ROOM], value_text[SDML_NUMBER_ROOM], called[32];
  size_t name_size = 0, value_size = 0;
  snprintf(called, sizeof called, "headers[%d]", n);
  if (!lua_istable(L, -1)) return refuse(L, g, called, "a pair {name, value}", -1);
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, 2);
  const part of_name = { called, " as name", true }, of_value = { called, " as value, or nil,", false };
  const char *name = bytes_of(L, g, &of_name, -2, name_text, &name_size);
  const char *value = bytes_of(L, g, &of_value, -1, value_text, &value_size);
  if (!name) return refuse_part(L, g, &of_name, sdml_type(L, -2));
  if (!value && !lua_isnil(L, -1)) return refuse_part(L, g, &of_value, sdml_type(L, -1));
  if (name_size > INT32_MAX || value_size > INT32_MAX) return too_large(g, called, name_size > value_size ? name_size : value_size);
  sdm_header h = { name, value, (int32_t)name_size, value ? (int32_t)value_size : -1 };
  int rc = sdm_header_encode(g->scratch, &h);
  lua_pop(L, 2);
  return rc;
}

/* {trace = "abc"} would count as an array of no headers. */
static void check_headers(lua_State *L, const gathering *g, int index, size_t count) {
  size_t n;
  char where[40], key[100];
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pop(L, 1);
    if (is_element(L, -1, count, &n)) continue;
    sdml_show_key(L, -1, key, sizeof key);
    sdml_refuse(L, g->arg, "%sheaders: an array of {name, value} pairs expected, got the key %s", place(g, where, sizeof where), key);
  }
}

static int gather_headers(lua_State *L, const gathering *g, int index, sdm_record *r) {
  if (lua_isnil(L, index)) return 0;
  if (!lua_istable(L, index)) return refuse(L, g, "headers", "an array of {name, value} pairs", index);
  size_t count = lua_rawlen(L, index), start = g->scratch->size;
  luaL_checkstack(L, 6, "headers");
  check_headers(L, g, index, count);
  for (size_t n = 1; n <= count; n++) {
    lua_rawgeti(L, index, (int)n);
    int rc = gather_header(L, g, (int)n);
    if (rc < 0) return rc;
    lua_pop(L, 1);
  }
  size_t size = g->scratch->size - start;
  if (size > INT32_MAX) return too_large(g, "headers", size);
  if (count == 0) return 0;
  r->headers = (const uint8_t *)(uintptr_t)start;
  r->headers_size = (int32_t)size;
  r->header_count = (int32_t)count;
  r->offset |= HEADERS_IN_SCRATCH;
  return 0;
}

/* ---- records ---- */

static void begin_record(sdm_record *r, int64_t now) {
  *r = (sdm_record){ .timestamp = now, .key_size = -1, .value_size = -1 };
}

/* Turns places in the scratch buffer into pointers, now that it stays where it is. */
static void settle(sdm_record *r, const uint8_t *scratch) {
  if (r->offset & KEY_IN_SCRATCH) r->key = scratch + (uintptr_t)r->key;
  if (r->offset & VALUE_IN_SCRATCH) r->value = scratch + (uintptr_t)r->value;
  if (r->offset & HEADERS_IN_SCRATCH) r->headers = scratch + (uintptr_t)r->headers;
  r->offset = 0;
}

static int64_t timestamp_at(lua_State *L, const gathering *g, int index) {
  int64_t ms = 0;
  char name[60];
  if (sdml_whole(L, index, &ms)) return ms;
  snprintf(name, sizeof name, "record %zu: timestamp", g->i);
  return sdml_int(L, g->arg, index, name);
}

static int refuse_field(lua_State *L, const gathering *g, int index) {
  char key[100];
  sdml_show_key(L, index, key, sizeof key);
  return sdml_refuse(L, g->arg, "record %zu: unknown field %s; key=, value=, timestamp=, headers= expected", g->i, key);
}

/* The record in the table on top. Field names are interned strings and compare by address: the same string is the same pointer. */
static int gather_record(lua_State *L, const gathering *g, const char *const *names, sdm_record *r) {
  int record = lua_gettop(L), rc = 0;
  begin_record(r, g->now);
  lua_pushnil(L);
  while (rc == 0 && lua_next(L, record)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
    if (name == names[0]) rc = gather_bytes(L, g, record + 2, KEY_IN_SCRATCH, r);
    else if (name == names[1]) rc = gather_bytes(L, g, record + 2, VALUE_IN_SCRATCH, r);
    else if (name == names[2]) r->timestamp = timestamp_at(L, g, record + 2);
    else if (name == names[3]) rc = gather_headers(L, g, record + 2, r);
    else return refuse_field(L, g, -2);
    lua_pop(L, 1);
  }
  return rc;
}

static void make_room(lua_State *L, sdml_gathered *t, size_t count) {
  if (count <= t->capacity) return;
  sdm_record *grown = count <= SIZE_MAX / sizeof *grown ? sdm_realloc(t->records, count * sizeof *grown) : NULL;
  if (!grown) luaL_error(L, "not enough memory");
  t->records = grown;
  t->capacity = count;
}

static int refuse_element(lua_State *L, int index) {
  char key[100];
  sdml_show_key(L, index, key, sizeof key);
  return sdml_refuse(L, 2, "records: an array of records expected, got the field %s", key);
}

/* Some of 1..count are nil: the first of them is told. */
static int refuse_hole(lua_State *L, size_t count) {
  for (size_t i = 1; i <= count; i++) {
    lua_rawgeti(L, 2, (int)i);
    if (lua_isnil(L, -1)) return sdml_refuse(L, 2, "record %zu: table expected, got nil", i);
    lua_pop(L, 1);
  }
  return 0;
}

/* Walks the table instead of counting up, so that a field that is no element is met. The order does not matter. */
static int gather_batch(lua_State *L, sdml_gathered *t, size_t count, int64_t now) {
  gathering g = { 2, 0, &t->scratch, now };
  size_t met = 0;
  const char *names[4];
  for (int i = 0; i < 4; i++) names[i] = lua_tostring(L, lua_upvalueindex(UP_KEY + i));
  luaL_checkstack(L, 12, "records");
  sdm_buf_clear(&t->scratch);
  make_room(L, t, count);
  lua_pushnil(L);
  for (; lua_next(L, 2); met++) {
    if (!is_element(L, -2, count, &g.i)) return refuse_element(L, -2);
    if (!lua_istable(L, -1)) return sdml_refuse(L, 2, "record %zu: table expected, got %s", g.i, sdml_type(L, -1));
    int rc = gather_record(L, &g, names, &t->records[g.i - 1]);
    if (rc < 0) return rc;
    lua_pop(L, 1);
  }
  if (met < count) return refuse_hole(L, count);
  for (size_t i = 0; t->scratch.size > 0 && i < count; i++) settle(&t->records[i], t->scratch.data);
  return 0;
}

static void free_records(sdml_gathered *t) {
  sdm_free(t->records);
  t->records = NULL;
  t->capacity = 0;
}

void sdml_gathered_trim(sdml_gathered *t) {
  if (t->scratch.capacity > SCRATCH_KEPT) sdm_buf_free(&t->scratch);
  if (t->capacity > CAPACITY_KEPT) free_records(t);
}

void sdml_gathered_free(sdml_gathered *t) {
  free_records(t);
  sdm_buf_free(&t->scratch);
}

/* ---- options ---- */

typedef struct taking {
  sdml_append_options *o;
  const gathering *g;
  sdm_record *record;                     /* of append, whose options belong to the record, too */
} taking;

static int take_common(lua_State *L, int arg, int which, sdml_append_options *o) {
  if (which == 0) return sdml_number_of_partition(L, arg, -1, &o->partition);
  if (sdml_bool(L, arg, -1, "sync")) o->flags |= SDM_SYNC;
  return 0;
}

static int take_append(lua_State *L, int arg, int which, void *into) {
  taking *t = into;
  if (which < 2) return take_common(L, arg, which, t->o);
  if (which == 2) t->record->timestamp = sdml_int(L, arg, -1, "timestamp");
  if (which == 3) return gather_headers(L, t->g, lua_gettop(L), t->record);
  if (which == 4 && !lua_isfunction(L, -1)) return sdml_refuse(L, arg, "on_done: function expected, got %s", sdml_type(L, -1));
  return 0;
}

static int take_batch(lua_State *L, int arg, int which, void *into) {
  static const char *const codecs[] = { "none", "gzip", "snappy", "lz4", "zstd" };
  sdml_append_options *o = into;
  if (which < 2) return take_common(L, arg, which, o);
  const char *codec = sdml_text(L, arg, -1, "compression");
  for (int i = 0; i < 5; i++) {
    if (strcmp(codecs[i], codec) != 0) continue;
    o->codec = (sdm_codec)i;
    return 0;
  }
  return sdml_refuse(L, arg, "compression: one of none, gzip, snappy, lz4, zstd expected, got '%.80s'", codec);
}

/* ---- the arguments of append and append_batch ---- */

int sdml_gather_one(lua_State *L, sdml_gathered *t, int64_t now, sdm_record *r, sdml_append_options *o) {
  static const char *const names[] = { "partition", "sync", "timestamp", "headers", NULL };
  static const char *const async_names[] = { "partition", "sync", "timestamp", "headers", "on_done", NULL };
  gathering g = { 2, 0, &t->scratch, now };
  taking taken = { o, &g, r };
  sdm_buf_clear(&t->scratch);
  begin_record(r, now);
  int rc = gather_bytes(L, &g, 2, KEY_IN_SCRATCH, r);
  g.arg = 3;
  if (rc == 0) rc = gather_bytes(L, &g, 3, VALUE_IN_SCRATCH, r);
  g.arg = 4;
  if (rc == 0 && !lua_isnoneornil(L, 4)) rc = sdml_options(L, 4, o->async ? async_names : names, take_append, &taken);
  if (rc == 0) settle(r, t->scratch.data);
  return rc;
}

int sdml_gather_batch(lua_State *L, sdml_gathered *t, int64_t now, size_t *count, sdml_append_options *o) {
  static const char *const names[] = { "partition", "sync", "compression", NULL };
  if (!lua_istable(L, 2)) return sdml_refuse(L, 2, "records: an array of records expected, got %s", sdml_type(L, 2));
  *count = lua_rawlen(L, 2);
  int rc = sdml_options(L, 3, names, take_batch, o);
  return rc == 0 ? gather_batch(L, t, *count, now) : rc;
}

void sdml_push_batch_function(lua_State *L, lua_CFunction f, bool with_partition) {
  lua_pushliteral(L, "key");
  lua_pushliteral(L, "value");
  lua_pushliteral(L, "timestamp");
  lua_pushliteral(L, "headers");
  lua_pushboolean(L, with_partition);
  lua_pushcclosure(L, f, UP_WITH_PARTITION);
}

bool sdml_wants_partition(lua_State *L) { return lua_toboolean(L, lua_upvalueindex(UP_WITH_PARTITION)) != 0; }
