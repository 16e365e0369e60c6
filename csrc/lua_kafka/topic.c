/* Topics of a cluster: look-ups. Appending is in append.c, iteration in records.c, what changes a topic in admin.c. */
#include "base/mem.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

/* ---- checks ---- */

static sdkl_topic *require_open(lua_State *L, sdkl_topic *t) {
  sdkl_require_open(L, t->store);
  if (!t->name) sdml_use_after_close(L, "topic");
  return t;
}

sdkl_topic *sdkl_topic_self(lua_State *L) { return require_open(L, sdml_self(L, SDKL_TOPIC)); }
sdkl_topic *sdkl_topic_check(lua_State *L, int arg) { return require_open(L, luaL_checkudata(L, arg, SDKL_TOPIC)); }

/* ---- opening and closing ---- */

typedef struct counting {
  char *const *topic;                     /* NULL: it was closed meanwhile */
  bool fresh;                             /* it was just made: brokers that do not know it yet will */
  bool quick;                             /* it is made when it is missing: whoever knows better says so then */
  bool missing;
  int32_t count;
} counting;

static int try_count(sdkl_store *s, void *of, int timeout_ms) {
  counting *c = of;
  if (!*c->topic) return sdm_fail(SDM_CLOSED, "the topic is closed");
  int rc = sdk_partitions(s->client, *c->topic, c->fresh, timeout_ms, &c->count);
  c->missing = rc == SDM_UNKNOWN_TOPIC;
  return c->missing && c->fresh ? SDM_TIMEOUT : c->missing && c->quick ? 0 : rc;
}

/* From the store, argument 1, to the topic on top. */
static void copy_clock(lua_State *L) {
  sdml_getcompanion(L, -1);
  sdml_getcompanion(L, 1);
  lua_rawgeti(L, -1, SDML_CLOCK);
  lua_rawseti(L, -3, SDML_CLOCK);
  lua_pop(L, 2);
}

/* core.topic_of(store, name [, "fresh" or "quick"]) -> topic | nil, message, code */
int sdkl_topic_open(lua_State *L) {
  sdkl_store *s = sdkl_store_check(L, 1);
  char *name = (char *)(uintptr_t)sdml_text(L, 2, 2, "name");
  const char *how = luaL_optstring(L, 3, "");
  counting c = { .topic = &name, .fresh = *how == 'f', .quick = *how == 'q' };
  lua_settop(L, 2);
  int rc = sdkl_usable(s);
  if (rc == 0) rc = sdkl_try_for(L, s, try_count, &c);
  if (rc == 0 && c.missing) rc = SDM_UNKNOWN_TOPIC;
  if (rc < 0) return sdml_fail(L, rc);
  sdkl_topic *t = sdml_new(L, sizeof *t, SDKL_TOPIC, 1);
  t->store = s;
  if (s->plain.has_clock) copy_clock(L);
  t->partitions = c.count;
  t->name = sdm_strdup(name);
  return t->name ? 1 : sdml_fail(L, sdm_no_memory());
}

static int topic_close(lua_State *L) {
  sdkl_topic *t = sdml_self(L, SDKL_TOPIC);
  sdm_free(t->name);
  t->name = NULL;
  sdml_gathered_free(&t->gathered);
  return 0;
}

static int topic_tostring(lua_State *L) {
  sdkl_topic *t = sdml_self(L, SDKL_TOPIC);
  lua_pushfstring(L, "sediment.topic (%s)", t->name && t->store->client ? t->name : "closed");
  return 1;
}

/* core.name(topic) */
int sdkl_topic_name(lua_State *L) {
  lua_pushstring(L, sdkl_topic_check(L, 1)->name);
  return 1;
}

/* core.store_of(topic) */
int sdkl_store_of(lua_State *L) {
  sdkl_topic_check(L, 1);
  return sdml_push_owner(L, 1);
}

/* ---- look-ups ---- */

static int topic_partitions(lua_State *L) {
  sdkl_topic *t = sdkl_topic_self(L);
  counting c = { .topic = &t->name };
  int rc = sdkl_usable(t->store);
  if (rc == 0) rc = sdkl_try_for(L, t->store, try_count, &c);
  if (rc < 0) return sdml_fail(L, rc);
  t->partitions = c.count;
  sdml_pushint(L, c.count);
  return 1;
}

typedef struct looking {
  sdkl_topic *topic;
  int32_t partition;
  int64_t ms, start, end, found;
} looking;

static int topic_is_open(const looking *l) { return l->topic->name ? 0 : sdm_fail(SDM_CLOSED, "the topic is closed"); }

static int try_bounds(sdkl_store *s, void *of, int timeout_ms) {
  looking *l = of;
  int rc = topic_is_open(l);
  return rc < 0 ? rc : sdk_bounds(s->client, l->topic->name, l->partition, timeout_ms, &l->start, &l->end);
}

static int try_time(sdkl_store *s, void *of, int timeout_ms) {
  looking *l = of;
  int rc = topic_is_open(l);
  return rc < 0 ? rc : sdk_offset_for_time(s->client, l->topic->name, l->partition, l->ms, timeout_ms, &l->found);
}

int sdkl_try_bounds(lua_State *L, sdkl_topic *t, int32_t partition, int64_t *start, int64_t *end) {
  looking l = { .topic = t, .partition = partition };
  int rc = sdkl_usable(t->store);
  if (rc == 0) rc = sdkl_try_for(L, t->store, try_bounds, &l);
  *start = l.start;
  *end = l.end;
  return rc;
}

int sdkl_try_time(lua_State *L, sdkl_topic *t, int32_t partition, int64_t ms, int64_t *offset) {
  looking l = { .topic = t, .partition = partition, .ms = ms };
  int rc = sdkl_usable(t->store);
  if (rc == 0) rc = sdkl_try_for(L, t->store, try_time, &l);
  *offset = l.found;
  return rc;
}

static int bounds_at(lua_State *L, int index, int64_t *start, int64_t *end) {
  int32_t partition;
  sdkl_topic *t = sdkl_topic_self(L);
  int rc = sdml_number_of_partition(L, index, index, &partition);
  return rc < 0 ? rc : sdkl_try_bounds(L, t, partition, start, end);
}

static int topic_earliest(lua_State *L) {
  int64_t start, end;
  int rc = bounds_at(L, 2, &start, &end);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, start);
  return 1;
}

static int topic_latest(lua_State *L) {
  int64_t start, end;
  int rc = bounds_at(L, 2, &start, &end);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, end);
  return 1;
}

/* core.bounds(topic, partition [, ms]) -> log start offset, log end offset | nil, message, code. With ms one try that takes no longer. */
int sdkl_bounds(lua_State *L) {
  int64_t start, end;
  sdkl_topic *t = sdkl_topic_check(L, 1);
  int32_t partition = (int32_t)sdml_int(L, 2, 2, "partition");
  int ms = lua_isnoneornil(L, 3) ? 0 : (int)sdml_int(L, 3, 3, "ms"), rc = sdkl_usable(t->store);
  if (rc == 0 && ms > 0) rc = sdk_bounds(t->store->client, t->name, partition, ms, &start, &end);
  else if (rc == 0) rc = sdkl_try_bounds(L, t, partition, &start, &end);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, start);
  sdml_pushint(L, end);
  return 2;
}

static int topic_offset_for_time(lua_State *L) {
  int32_t partition;
  int64_t offset, ms = sdml_int(L, 2, 2, "time");
  sdkl_topic *t = sdkl_topic_self(L);
  int rc = sdml_number_of_partition(L, 3, 3, &partition);
  if (rc == 0) rc = sdkl_try_time(L, t, partition, ms, &offset);
  if (rc < 0) return sdml_fail(L, rc);
  if (rc == 1) sdml_pushint(L, offset);
  else lua_pushnil(L);
  return 1;
}

/* All replicas in sync have what was acknowledged: there is nothing to flush. flush([partition]) -> log end offset */
static int topic_flush(lua_State *L) { return topic_latest(L); }

void sdkl_open_topic(lua_State *L) {
  static const luaL_Reg methods[] = {
    { "append", sdkl_topic_append }, { "records", sdkl_topic_records }, { "earliest", topic_earliest }, { "latest", topic_latest },
    { "offset_for_time", topic_offset_for_time }, { "delete_records", sdkl_topic_delete_records }, { "flush", topic_flush },
    { "partitions", topic_partitions }, { NULL, NULL },
  };
  static const luaL_Reg meta[] = { { "__gc", topic_close }, { "__close", topic_close }, { "__tostring", topic_tostring }, { NULL, NULL } };
  sdml_class(L, SDKL_TOPIC, methods, meta);
  sdkl_push_append_batch(L);
  lua_setfield(L, -2, "append_batch");
}
