/* Where a consumer's records come from: a reader of partitions, or a member of a group. The consumer itself is Lua (lua/sediment/kafka/consumer.lua). */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

typedef struct sdkl_source {
  sdml_object object;
  sdk_reader *reader;                     /* one of the two; both NULL once it is closed */
  sdk_member *member;
  sdkl_store *store;                      /* kept alive by the companion */
  uint32_t forks;
  bool busy;                              /* a record of it is being pushed */
} sdkl_source;

/* ---- life ---- */

static void let_go(sdkl_source *o) {
  sdk_reader *reader = o->reader;
  sdk_member *member = o->member;
  o->reader = NULL;
  o->member = NULL;
  if (o->forks != sdm_fork_count()) return;
  sdk_reader_free(reader);
  sdk_member_free(member);
}

/* A group finds out soon, and at once when it is left in order. */
static int source_gc(lua_State *L) {
  enum { PATIENCE_MS = 500 };
  sdkl_source *o = sdml_self(L, SDKL_SOURCE);
  if (o->member && o->forks == sdm_fork_count()) sdk_member_leave(o->member, PATIENCE_MS);
  let_go(o);
  return 0;
}

static sdkl_source *new_source(lua_State *L, sdkl_store *s) {
  sdkl_source *o = sdml_new(L, sizeof *o, SDKL_SOURCE, 1);
  o->store = s;
  o->forks = sdm_fork_count();
  return o;
}

static sdkl_source *self(lua_State *L) {
  sdkl_source *o = sdml_self(L, SDKL_SOURCE);
  sdkl_require_open(L, o->store);
  if (!o->reader && !o->member) sdml_use_after_close(L, "consumer");
  return o;
}

/* The names stay in the table. */
static const char **names_of(lua_State *L, int index, size_t *count) {
  luaL_checktype(L, index, LUA_TTABLE);
  *count = lua_rawlen(L, index);
  const char **names = lua_newuserdata(L, (*count + 1) * sizeof *names);
  for (size_t i = 0; i < *count; i++) {
    lua_rawgeti(L, index, (int)i + 1);
    names[i] = luaL_checkstring(L, -1);
    lua_pop(L, 1);
  }
  return names;
}

/* core.source(store, uncommitted) -> reader of partitions; core.source(store, uncommitted, group, {topics}, reset) -> member of a group */
int sdkl_source_open(lua_State *L) {
  size_t count = 0;
  lua_settop(L, 5);
  sdkl_store *s = sdkl_store_check(L, 1);
  bool uncommitted = lua_toboolean(L, 2) != 0, grouped = !lua_isnil(L, 3);
  const char *group = grouped ? luaL_checkstring(L, 3) : NULL, *reset = grouped ? luaL_checkstring(L, 5) : NULL;
  const char **topics = grouped ? names_of(L, 4, &count) : NULL;
  sdkl_source *o = new_source(L, s);
  int rc = grouped ? sdkl_writable(s) : sdkl_usable(s);
  if (rc == 0 && grouped) rc = sdk_member_new(s->client, group, topics, count, reset, uncommitted, &o->member);
  else if (rc == 0) rc = sdk_reader_new(s->client, uncommitted, &o->reader);
  return rc < 0 ? sdml_fail(L, rc) : 1;
}

/* source:close() -> true | nil, message, code. It is closed in any case. */
static int source_close(lua_State *L) {
  sdkl_source *o = sdml_self(L, SDKL_SOURCE);
  int rc = 1;
  if (o->member && sdkl_is_here(o->store)) {
    int64_t until = o->store->client ? sdkl_patience(o->store) : sdm_monotonic_ms() + 500;
    do rc = sdk_member_leave(o->member, (int)sdml_slice(until)); while (rc == 0 && o->store->client && sdkl_goes_on(L, o->store, rc, until) && o->member);
  }
  let_go(o);
  if (rc == 0) rc = sdm_fail(SDM_TIMEOUT, "leave the group: no answer in time; it will miss this member by itself");
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- records ---- */

static void push_partition(lua_State *L, const sdk_record *r) {
  lua_pushstring(L, r->topic);
  sdml_pushint(L, r->partition);
}

static int push_failure(lua_State *L, int rc, const sdk_record *r) {
  if (!r->topic) return sdml_fail(L, rc);
  char topic[260];
  snprintf(topic, sizeof topic, "%s", r->topic);
  int32_t partition = r->partition;
  int64_t offset = r->offset;
  int pushed = sdml_fail(L, rc);
  lua_pushstring(L, topic);
  sdml_pushint(L, partition);
  sdml_pushint(L, offset);
  return pushed + 3;
}

static void set_field(lua_State *L, const char *name) { lua_setfield(L, -2, name); }

static int push_table(lua_State *L, const sdk_record *r) {
  lua_createtable(L, 0, 7);
  push_partition(L, r);
  lua_setfield(L, -3, "partition");
  set_field(L, "topic");
  int table = lua_gettop(L);
  sdkl_push_record(L, r);
  lua_setfield(L, table, "headers");
  lua_setfield(L, table, "timestamp");
  lua_setfield(L, table, "value");
  lua_setfield(L, table, "key");
  lua_setfield(L, table, "offset");
  return 1;
}

/* source:next(wait_ms) -> {topic=, partition=, offset=, key=, value=, timestamp=, headers=}
**   | nil                                    none came in time
**   | false, topic, partition, offset        the partition has been read up to its end; that comes next
**   | false                                  other partitions are this member's now
**   | nil, message, code [, topic, partition, offset]      the offset below 0: it began at none */
static int source_next(lua_State *L) {
  sdk_record r;
  sdkl_source *o = self(L);
  int wait_ms = (int)sdml_int(L, 2, 2, "wait_ms"), rc = sdkl_usable(o->store);
  if (o->busy) return luaL_error(L, "this consumer was asked by a finalizer as it gave a record, or memory had run out; open another");
  r.topic = NULL;
  if (rc == 0) rc = o->member ? sdk_member_next(o->member, wait_ms, &r) : sdk_reader_next(o->reader, wait_ms, &r);
  if (rc < 0) return push_failure(L, rc, &r);
  if (rc == SDK_RECORD) {
    o->busy = true;
    int pushed = push_table(L, &r);
    o->busy = false;
    return pushed;
  }
  if (rc == SDK_NOTHING) lua_pushnil(L);
  else lua_pushboolean(L, 0);
  if (rc != SDK_END) return 1;
  push_partition(L, &r);
  sdml_pushint(L, r.offset);
  return 4;
}

/* ---- places: (topic, partition ...) are arguments 2, 3 ---- */

static int push_true(lua_State *L, int rc) {
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushboolean(L, 1);
  return 1;
}

/* source:start(topic, partition, offset), of a reader */
static int source_start(lua_State *L) {
  sdkl_source *o = self(L);
  const char *topic = luaL_checkstring(L, 2);
  int32_t partition = (int32_t)sdml_int(L, 3, 3, "partition");
  int64_t from = sdml_int(L, 4, 4, "offset");
  int rc = sdkl_usable(o->store);
  return push_true(L, rc < 0 ? rc : sdk_reader_start(o->reader, topic, partition, from));
}

/* source:stop(topic, partition), of a reader */
static int source_stop(lua_State *L) {
  sdkl_source *o = self(L);
  int rc = sdkl_usable(o->store);
  return push_true(L, rc < 0 ? rc : sdk_reader_stop(o->reader, luaL_checkstring(L, 2), (int32_t)sdml_int(L, 3, 3, "partition")));
}

/* source:assignment() -> {topic, partition, topic, partition, ...}, epoch, whether it was ever told; of a member. In another epoch what is its own
** begins at the commits again. */
static int source_assignment(lua_State *L) {
  sdk_place place;
  sdkl_source *o = self(L);
  lua_newtable(L);
  for (size_t i = 0; sdk_member_holds(o->member, i, &place); i++) {
    lua_pushstring(L, place.topic);
    lua_rawseti(L, -2, (int)(2 * i + 1));
    sdml_pushint(L, place.partition);
    lua_rawseti(L, -2, (int)(2 * i + 2));
  }
  sdml_pushint(L, sdk_member_epoch(o->member));
  lua_pushboolean(L, sdk_member_joined(o->member));
  return 3;
}

typedef struct asking {
  sdkl_source *source;
  sdk_place place;
} asking;

static int try_seek(sdkl_store *s, void *of, int timeout_ms) {
  asking *a = of;
  (void)s;
  if (!a->source->member) return sdm_fail(SDM_CLOSED, "the consumer is closed");
  return sdk_member_seek(a->source->member, a->place.topic, a->place.partition, a->place.offset, timeout_ms);
}

/* source:seek(topic, partition, offset), of a member */
static int source_seek(lua_State *L) {
  sdkl_source *o = self(L);
  asking a = { o, { .topic = luaL_checkstring(L, 2), .partition = (int32_t)sdml_int(L, 3, 3, "partition"), .offset = sdml_int(L, 4, 4, "offset") } };
  int rc = sdkl_usable(o->store);
  return push_true(L, rc < 0 ? rc : sdkl_try_for(L, o->store, try_seek, &a));
}

static int try_end(sdkl_store *s, void *of, int timeout_ms) {
  asking *a = of;
  sdkl_source *o = a->source;
  (void)s;
  if (o->member) return sdk_member_end(o->member, a->place.topic, a->place.partition, timeout_ms, &a->place.offset);
  if (o->reader) return sdk_reader_end(o->reader, a->place.topic, a->place.partition, timeout_ms, &a->place.offset);
  return sdm_fail(SDM_CLOSED, "the consumer is closed");
}

/* source:log_end(topic, partition) -> where reading it ends | nil, message, code */
static int source_log_end(lua_State *L) {
  sdkl_source *o = self(L);
  asking a = { o, { .topic = luaL_checkstring(L, 2), .partition = (int32_t)sdml_int(L, 3, 3, "partition") } };
  int rc = sdkl_usable(o->store);
  if (rc == 0) rc = sdkl_try_for(L, o->store, try_end, &a);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, a.place.offset);
  return 1;
}

static int try_look(sdkl_store *s, void *of, int timeout_ms) {
  sdkl_source *o = of;
  (void)s;
  if (!o->member) return sdm_fail(SDM_CLOSED, "the consumer is closed");
  return sdk_member_look(o->member, timeout_ms);
}

/* source:look() -> true | nil, message, code: a member's topics are asked for anew */
static int source_look(lua_State *L) {
  sdkl_source *o = self(L);
  int rc = sdkl_usable(o->store);
  return push_true(L, rc < 0 ? rc : sdkl_try_for(L, o->store, try_look, o));
}

/* source:pause(topic, partition, paused), of a member */
static int source_pause(lua_State *L) {
  sdkl_source *o = self(L);
  int rc = sdkl_usable(o->store);
  bool paused = lua_toboolean(L, 4) != 0;
  return push_true(L, rc < 0 ? rc : sdk_member_pause(o->member, luaL_checkstring(L, 2), (int32_t)sdml_int(L, 3, 3, "partition"), paused));
}

/* ---- commits ---- */

static int try_committed(sdkl_store *s, void *of, int timeout_ms) {
  asking *a = of;
  (void)s;
  if (!a->source->member) return sdm_fail(SDM_CLOSED, "the consumer is closed");
  return sdk_member_committed(a->source->member, &a->place, timeout_ms);
}

/* source:committed(topic, partition) -> offset, metadata | nil | nil, message, code; of a member */
static int source_committed(lua_State *L) {
  lua_settop(L, 3);
  sdkl_source *o = self(L);
  asking a = { o, { .topic = luaL_checkstring(L, 2), .partition = (int32_t)sdml_int(L, 3, 3, "partition") } };
  sdkl_held *held = sdkl_hold(L);
  int rc = sdkl_usable(o->store);
  if (rc == 0) rc = sdkl_try_for(L, o->store, try_committed, &a);
  if (rc < 0) return sdml_fail(L, rc);
  if (rc == 0) return 0;
  held->memory = (void *)(uintptr_t)a.place.metadata;
  sdml_pushint(L, a.place.offset);
  lua_pushlstring(L, a.place.metadata, a.place.metadata_size);
  return 2;
}

/* Places out of the table at 2: topic, partition, offset and metadata or false, in turn. The strings stay in it. */
static sdk_place *places_of(lua_State *L, size_t *count) {
  luaL_checktype(L, 2, LUA_TTABLE);
  *count = lua_rawlen(L, 2) / 4;
  sdk_place *places = lua_newuserdata(L, (*count + 1) * sizeof *places);
  for (size_t i = 0; i < *count; i++) {
    sdk_place *p = &places[i];
    for (int k = 1; k <= 4; k++) lua_rawgeti(L, 2, (int)(4 * i) + k);
    *p = (sdk_place){ .topic = luaL_checkstring(L, -4), .partition = (int32_t)sdml_int(L, 2, -3, "partition"), .offset = sdml_int(L, 2, -2, "offset") };
    if (lua_isstring(L, -1)) p->metadata = lua_tolstring(L, -1, &p->metadata_size);
    lua_pop(L, 4);
  }
  return places;
}

/* source:commit({topic, partition, offset, metadata or false, ...}) -> true | nil, message, code; of a member */
static int source_commit(lua_State *L) {
  size_t count;
  lua_settop(L, 2);
  sdk_place *places = places_of(L, &count);
  sdkl_source *o = self(L);
  int64_t until = sdkl_patience(o->store);
  int rc = sdkl_writable(o->store);
  if (rc == 0) rc = sdk_member_commit(o->member, places, count);
  if (rc < 0) return sdml_fail(L, rc);
  while (sdkl_goes_on(L, o->store, rc = sdk_member_commit_poll(o->member, (int)sdml_slice(until)), until)) self(L);
  if (rc == 0) rc = sdm_fail(SDM_TIMEOUT, "commit: no answer in time; it may be noted, or not");
  return push_true(L, rc);
}

void sdkl_open_source(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "next", source_next }, { "start", source_start }, { "stop", source_stop }, { "assignment", source_assignment }, { "seek", source_seek }, { "log_end", source_log_end }, { "look", source_look },
    { "pause", source_pause }, { "committed", source_committed }, { "commit", source_commit }, { "close", source_close }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", source_gc }, { "__close", source_close }, { NULL, NULL } };
  sdml_class(L, SDKL_SOURCE, methods, meta);
}
