/* topic:append and topic:append_batch. Records are copied by librdkafka before anything of Lua runs again. */
#include "base/mem.h"
#include "base/murmur2.h"
#include "lua_kafka/sdkl.h"
#include "os/host.h"

typedef struct sdkl_append {
  sdml_object object;
  sdk_append *append;
  uint32_t forks;
} sdkl_append;

static void end_append(sdkl_append *a) {
  sdk_append *append = a->append;
  a->append = NULL;
  if (append && a->forks == sdm_fork_count()) sdk_append_free(append);
}

static int append_gc(lua_State *L) {
  end_append(sdml_self(L, SDKL_APPEND));
  return 0;
}

static sdkl_append *new_append(lua_State *L) {
  sdkl_append *a = sdml_new(L, sizeof *a, SDKL_APPEND, 1);
  a->forks = sdm_fork_count();
  return a;
}

void sdkl_open_append(lua_State *L) {
  static const luaL_Reg methods[] = { { NULL, NULL } }, meta[] = { { "__gc", append_gc }, { NULL, NULL } };
  sdml_class(L, SDKL_APPEND, methods, meta);
}

/* ---- records ---- */

static int copy_headers(const sdm_record *r, sdk_headers **out) {
  const uint8_t *p = r->headers, *end = p + r->headers_size;
  sdm_header h;
  sdk_headers *headers = sdk_headers_new((size_t)r->header_count);
  int rc = headers ? 0 : sdm_no_memory();
  while (rc == 0 && p && p < end) {
    p = sdm_header_decode(p, end, &h);
    if (p) rc = sdk_headers_add(headers, h.name, h.name_size, h.value, h.value_size);
  }
  if (rc < 0) sdk_headers_free(headers);
  else *out = headers;
  return rc;
}

int sdkl_record_of(const sdm_record *r, int32_t partition, sdk_record *out) {
  sdk_headers *headers = NULL;
  int rc = r->header_count > 0 ? copy_headers(r, &headers) : 0;
  if (rc < 0) return rc;
  *out = (sdk_record){
    .partition = partition == SDM_ANY_PARTITION ? SDK_ANY_PARTITION : partition, .timestamp = r->timestamp,
    .key = r->key, .key_size = r->key_size, .value = r->value, .value_size = r->value_size, .headers = headers,
  };
  return 0;
}

static int add(sdk_append *a, const sdm_record *r, int32_t partition) {
  sdk_record record;
  int rc = sdkl_record_of(r, partition, &record);
  return rc < 0 ? rc : sdk_append_add(a, &record);
}

/* ---- waiting for the reports ---- */

static int wait_for_reports(lua_State *L, sdkl_store *s, sdkl_append *a, sdk_appended *out) {
  int64_t until = sdkl_patience(s);
  int rc;
  do rc = sdk_append_poll(a->append, (int)sdml_slice(until), out); while (sdkl_goes_on(L, s, rc, until));
  if (rc == 0) rc = sdm_fail(SDM_TIMEOUT, "append: no answer in time; the record may be in the log, or not, or come to it later");
  return rc;
}

static int begin(sdkl_topic *t, sdkl_append *a, int codec) {
  int rc = sdkl_writable(t->store);
  return rc < 0 ? rc : sdk_append_new(t->store->client, t->name, codec, &a->append);
}

/* The results of a failure, if it is one: taken before the append goes, which may fail in its turn. */
static int end(lua_State *L, sdkl_append *a, int rc) {
  int pushed = rc < 0 ? sdml_fail(L, rc) : 0;
  end_append(a);
  return pushed;
}

sdkl_topic *sdkl_timed_topic(lua_State *L, int64_t *now) {
  *now = sdml_now(L, 1, &sdkl_topic_self(L)->store->plain);
  return sdkl_topic_self(L);
}

int sdkl_topic_append(lua_State *L) {
  int64_t now;
  sdm_record r;
  sdk_appended done;
  lua_settop(L, 4);
  sdkl_timed_topic(L, &now);
  sdkl_append *a = new_append(L);
  sdkl_topic *t = sdkl_topic_self(L);
  sdml_append_options o = { .partition = SDM_ANY_PARTITION };
  int rc = sdml_gather_one(L, &t->gathered, now, &r, &o);
  if (rc == 0) rc = begin(t, a, 0);
  if (rc == 0) rc = add(a->append, &r, o.partition);
  if (rc == 0) rc = wait_for_reports(L, t->store, a, &done);
  int pushed = end(L, a, rc);
  if (rc < 0) return pushed;
  sdml_pushint(L, done.first);
  sdml_pushint(L, done.partition);
  return 2;
}

/* ---- batches ---- */

/* Where all keys of a batch belong; one without keys goes to the partitions in turn. */
static int choose(sdkl_topic *t, size_t count, int32_t *out) {
  int32_t found = -1, n = t->partitions;
  for (size_t i = 0; n > 1 && i < count; i++) {
    const sdm_record *r = &t->gathered.records[i];
    if (r->key_size < 0) continue;
    int32_t p = sdm_key_partition(r->key, (size_t)r->key_size, n);
    if (found >= 0 && p != found) {
      return sdm_fail(SDM_INVALID_RECORD, "record %zu belongs to partition %d and one before it to %d; a batch goes to one partition: give partition=, or sort the records by it",
                      i + 1, p, found);
    }
    found = p;
  }
  *out = found >= 0 ? found : sdk_next_partition(t->store->client, n);
  return 0;
}

/* What one record could be refused for is looked for in all of them, before any is sent. */
static int check_all(const sdkl_topic *t, size_t count) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    rc = sdk_check_timestamp(t->gathered.records[i].timestamp);
    if (rc < 0) return sdm_fail_within(rc, "record %zu: ", i + 1);
  }
  return rc;
}

static int add_all(sdkl_topic *t, sdkl_append *a, size_t count, int32_t partition) {
  int rc = check_all(t, count);
  if (rc == 0 && partition == SDM_ANY_PARTITION) rc = choose(t, count, &partition);
  for (size_t i = 0; rc == 0 && i < count; i++) rc = add(a->append, &t->gathered.records[i], partition);
  return rc;
}

static int empty_batch(void) { return sdm_fail(SDM_INVALID_RECORD, "append_batch: an empty batch"); }

static int append_batch(lua_State *L) {
  int64_t now;
  size_t count = 0;
  sdk_appended done;
  lua_settop(L, 3);
  sdkl_timed_topic(L, &now);
  sdkl_append *a = new_append(L);
  sdkl_topic *t = sdkl_topic_self(L);
  sdml_append_options o = { .partition = SDM_ANY_PARTITION };
  int rc = sdml_gather_batch(L, &t->gathered, now, &count, &o);
  if (rc == 0 && count == 0) rc = empty_batch();
  if (rc == 0) rc = begin(t, a, (int)o.codec);
  if (rc == 0) rc = add_all(t, a, count, o.partition);
  sdml_gathered_trim(&t->gathered);
  if (rc == 0) rc = wait_for_reports(L, t->store, a, &done);
  int pushed = end(L, a, rc);
  if (rc < 0) return pushed;
  sdml_pushint(L, done.first);
  sdml_pushint(L, done.last);
  if (!sdml_wants_partition(L)) return 2;
  sdml_pushint(L, done.partition);
  return 3;
}

void sdkl_push_append_batch(lua_State *L) { sdml_push_batch_function(L, append_batch, false); }
