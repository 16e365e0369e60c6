#include "cleaner/expire.h"

#include "base/mem.h"
#include "cleaner/offset_map.h"

enum { MOST_TRIES = 1000, OVERHEAD = 64 };      /* bytes of a record and of the batch around it */

int sdm_expired_add(sdm_expired *e, const void *key, int32_t size) {
  sdm_expired_key *keys = sdm_grown(e->keys, e->count, &e->capacity, sizeof *keys);
  if (!keys) return sdm_no_memory();
  e->keys = keys;
  keys[e->count] = (sdm_expired_key){.at = e->bytes.size, .size = size};
  int rc = sdm_buf_append(&e->bytes, key, (size_t)size);
  if (rc == 0) e->count++;
  return rc;
}

void sdm_expired_free(sdm_expired *e) {
  sdm_buf_free(&e->bytes);
  sdm_free(e->keys);
  *e = (sdm_expired){0};
}

typedef struct expiry {
  sdm_log *log;
  const sdm_log_config *cfg;
  sdm_expired *expired;
  sdm_offset_map places;                   /* of its keys */
  int64_t now, seen, count;
  sdm_record *records;
  sdm_buf scratch;
} expiry;

static const uint8_t *key_of(const expiry *x, const sdm_expired_key *k) { return (const uint8_t *)x->expired->bytes.data + k->at; }

static int place_keys(expiry *x) {
  size_t count = x->expired->count;
  int rc = sdm_offset_map_init(&x->places, (count + 8) * 4 * sizeof(sdm_offset_slot), 0.9);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    const sdm_expired_key *k = &x->expired->keys[i];
    if (!sdm_offset_map_put(&x->places, sdm_hash128(key_of(x, k), (size_t)k->size), (int64_t)i)) rc = sdm_no_memory();
  }
  return rc;
}

static void note_written(expiry *x, const sdm_record *r) {
  int64_t i = r->key_size < 0 ? -1 : sdm_offset_map_get(&x->places, sdm_hash128(r->key, (size_t)r->key_size));
  if (i >= 0) x->expired->keys[i].written = true;
}

/* Reads what came since. What is of no decided transaction counts: it may turn out to be committed. */
static int catch_up(expiry *x) {
  sdm_reader *reader;
  sdm_record r;
  int64_t end, start;
  int rc = sdm_log_latest(x->log, &end);
  if (rc < 0 || end == x->seen) return rc;
  start = sdm_log_start(x->log);
  rc = sdm_reader_open(x->log, x->seen < start ? start : x->seen, end, SDM_READ_UNCOMMITTED, &reader);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(reader, &r)) == 1) note_written(x, &r);
  sdm_reader_close(reader);
  if (rc == 0) x->seen = end;
  return rc;
}

/* How many keys from i on go into one batch. */
static size_t batch_size(const expiry *x, size_t i) {
  int64_t room = x->cfg->max_message_bytes < x->cfg->segment_bytes ? x->cfg->max_message_bytes : x->cfg->segment_bytes;
  size_t n = 0;
  for (; i + n < x->expired->count; n++) {
    room -= x->expired->keys[i + n].size + OVERHEAD;
    if (room < OVERHEAD && n > 0) break;
  }
  return n;
}

static size_t take_unwritten(expiry *x, size_t i, size_t n) {
  size_t count = 0;
  for (size_t end = i + n; i < end; i++) {
    const sdm_expired_key *k = &x->expired->keys[i];
    if (!k->written) x->records[count++] = (sdm_record){.key = key_of(x, k), .key_size = k->size, .value_size = -1, .timestamp = x->now};
  }
  return count;
}

/* SDM_BUSY: the log has grown. */
static int append(expiry *x, size_t i, size_t n) {
  int64_t first, last;
  sdm_append a = {.records = x->records, .count = take_unwritten(x, i, n), .own_batch = true, .scratch = &x->scratch, .only_at = &x->seen};
  if (a.count == 0) return 0;
  int rc = sdm_log_append(x->log, x->cfg, &a, x->now, &first, &last);
  if (rc < 0) return rc;
  x->seen = last + 1;
  x->count += (int64_t)a.count;
  return 0;
}

static int expire_batch(expiry *x, size_t i, size_t n) {
  int rc = SDM_BUSY;
  for (int tries = 0; rc == SDM_BUSY && tries < MOST_TRIES; tries++) {
    rc = catch_up(x);
    if (rc == 0) rc = append(x, i, n);
  }
  return rc == SDM_BUSY ? 0 : rc;
}

static int expire_all(expiry *x) {
  size_t count = x->expired->count;
  x->records = sdm_malloc(count * sizeof *x->records);
  int rc = x->records ? place_keys(x) : sdm_no_memory();
  for (size_t i = 0, n; rc == 0 && i < count; i += n) {
    n = batch_size(x, i);
    rc = expire_batch(x, i, n);
  }
  sdm_free(x->records);
  sdm_offset_map_free(&x->places);
  sdm_buf_free(&x->scratch);
  return rc;
}

int sdm_expire(sdm_log *l, const sdm_log_config *cfg, sdm_expired *e, int64_t now, int64_t *seen, int64_t *count) {
  expiry x = {.log = l, .cfg = cfg, .expired = e, .now = now, .seen = *seen};
  if (e->count == 0) return 0;
  int rc = expire_all(&x);
  *seen = x.seen;
  *count += x.count;
  e->count = 0;
  sdm_buf_clear(&e->bytes);
  return rc;
}
