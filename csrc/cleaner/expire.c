#include "cleaner/expire.h"

#include "base/mem.h"

/* Bytes of keys that are gathered; bytes of a record around its key, and of the batch around it. */
enum { AT_ONCE = 1 << 20, MOST_TRIES = 1000, OVERHEAD = 64 };

/* What is of no decided transaction counts: it may turn out to be committed. */
static int catch_up(sdm_expiry *x) {
  sdm_reader *reader;
  sdm_record r;
  int64_t end, start;
  int rc = sdm_log_latest(x->log, &end);
  if (rc < 0 || end == x->seen) return rc;
  start = sdm_log_start(x->log);
  rc = sdm_reader_open(x->log, x->seen < start ? start : x->seen, end, SDM_READ_UNCOMMITTED, &reader);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(reader, &r)) == 1) {
    sdm_key_versions *k = r.key_size < 0 ? NULL : sdm_versions_find(x->versions, &r);
    if (k) k->written = true;
  }
  sdm_reader_close(reader);
  if (rc == 0) x->seen = end;
  return rc;
}

/* How many keys from i on go into one batch. */
static size_t batch_size(const sdm_expiry *x, size_t i) {
  int64_t room = x->cfg->max_message_bytes < x->cfg->segment_bytes ? x->cfg->max_message_bytes : x->cfg->segment_bytes;
  size_t n = 0;
  for (; i + n < x->key_count; n++) {
    room -= x->keys[i + n].size + OVERHEAD;
    if (room < OVERHEAD && n > 0) break;
  }
  return n;
}

static size_t take_unwritten(const sdm_expiry *x, size_t i, size_t n, sdm_record *out) {
  size_t count = 0;
  for (size_t end = i + n; i < end; i++) {
    const sdm_expired_key *k = &x->keys[i];
    if (!k->counts->written) out[count++] = (sdm_record){.key = x->bytes.data + k->at, .key_size = k->size, .value_size = -1, .timestamp = x->now};
  }
  return count;
}

/* SDM_BUSY: the log has grown. */
static int append(sdm_expiry *x, size_t i, size_t n, sdm_record *records) {
  int64_t first, last;
  sdm_append a = {.records = records, .count = take_unwritten(x, i, n, records), .own_batch = true, .scratch = &x->scratch, .only_at = &x->seen};
  if (a.count == 0) return 0;
  int rc = sdm_log_append(x->log, x->cfg, &a, x->now, &first, &last);
  if (rc < 0) return rc;
  x->seen = last + 1;
  x->count += (int64_t)a.count;
  return 0;
}

static int append_batch(sdm_expiry *x, size_t i, size_t n) {
  sdm_record *records = sdm_malloc(n * sizeof *records);
  int rc = records ? SDM_BUSY : sdm_no_memory();
  for (int tries = 0; rc == SDM_BUSY && tries < MOST_TRIES; tries++) {
    rc = catch_up(x);
    if (rc == 0) rc = append(x, i, n, records);
  }
  sdm_free(records);
  if (rc == SDM_TOO_LARGE) sdm_failure_note(&x->too_large, rc);
  return rc == SDM_BUSY || rc == SDM_TOO_LARGE ? 0 : rc;
}

int sdm_expiry_end(sdm_expiry *x) {
  int rc = 0;
  for (size_t i = 0, n; rc == 0 && i < x->key_count; i += n) {
    n = batch_size(x, i);
    rc = append_batch(x, i, n);
  }
  x->key_count = 0;
  sdm_buf_clear(&x->bytes);
  return rc;
}

int sdm_expiry_add(sdm_expiry *x, const sdm_record *r, sdm_key_versions *counts) {
  sdm_expired_key *keys = sdm_grown(x->keys, x->key_count, &x->capacity, sizeof *keys);
  if (!keys) return sdm_no_memory();
  x->keys = keys;
  keys[x->key_count] = (sdm_expired_key){counts, x->bytes.size, r->key_size};
  int rc = sdm_buf_append(&x->bytes, r->key, (size_t)r->key_size);
  if (rc < 0) return rc;
  x->key_count++;
  return x->bytes.size >= AT_ONCE ? sdm_expiry_end(x) : 0;
}

void sdm_expiry_free(sdm_expiry *x) {
  sdm_buf_free(&x->bytes);
  sdm_buf_free(&x->scratch);
  sdm_free(x->keys);
  x->keys = NULL;
}
