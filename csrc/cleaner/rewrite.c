/* Offsets never change: a rewritten batch keeps its base offset and its last offset delta, whatever left it. A batch of which all stays, and that
** gets no delete horizon, is copied byte for byte.
*/
#include "cleaner/rewrite.h"

#include "base/mem.h"
#include "cleaner/tombstone.h"
#include "format/batch_records.h"
#include "format/codec.h"

enum { GROUP = 32 };                     /* map slots fetched ahead */

static void free_records(sdm_rewrite *w) {
  sdm_free(w->records);
  sdm_free(w->stays);
  w->records = NULL;
  w->stays = NULL;
  w->capacity = 0;
}

void sdm_rewrite_free(sdm_rewrite *w) {
  free_records(w);
  sdm_buf_free(&w->plain);
}

static int make_room(sdm_rewrite *w, size_t count) {
  if (count <= w->capacity) return 0;
  free_records(w);
  w->records = sdm_malloc(count * sizeof *w->records);
  w->stays = sdm_malloc(count * sizeof *w->stays);
  if (!w->records || !w->stays) return sdm_no_memory();
  w->capacity = count;
  return 0;
}

static void note_removed(sdm_rewrite *w, const sdm_record *r) {
  w->tombstones_removed++;
  if (r->offset > w->floor) w->floor = r->offset;
}

static bool stays_as_version(sdm_rewrite *w, const sdm_batch *b, const sdm_record *r) {
  sdm_key_versions *k = r->offset < w->start ? NULL : sdm_versions_find(w->versions, r);
  sdm_fate fate = k ? sdm_version_fate(k, b, r, false, w->now) : SDM_STAYS;
  if (fate == SDM_TIME_IS_UP) note_removed(w, r);
  return fate == SDM_STAYS;
}

static bool is_purge(const sdm_rewrite *w) { return !w->map && !w->versions; }

/* `latest`: offset that the map has for the key, -1. In Kafka's order. */
static bool stays(sdm_rewrite *w, const sdm_batch *b, const sdm_record *r, int64_t latest) {
  if (r->offset >= w->mapped_end) return true;
  if (!is_purge(w) && r->key_size < 0) {
    w->keyless_dropped++;
    return false;
  }
  if (w->versions) return stays_as_version(w, b, r);
  if (r->offset < latest) return false;
  if (!sdm_tombstone_expired(b, r, w->now)) return true;
  note_removed(w, r);
  return false;
}

static size_t decide_group(sdm_rewrite *w, const sdm_batch *b, size_t from, size_t to) {
  struct sdm_hash128 hashes[GROUP];
  size_t kept = 0;
  for (size_t i = from; w->map && i < to; i++) {
    const sdm_record *r = &w->records[i];
    if (r->key_size < 0) continue;
    hashes[i - from] = sdm_hash128(r->key, (size_t)r->key_size);
    sdm_offset_map_prefetch(w->map, hashes[i - from]);
  }
  for (size_t i = from; i < to; i++) {
    const sdm_record *r = &w->records[i];
    int64_t latest = w->map && r->key_size >= 0 ? sdm_offset_map_get(w->map, hashes[i - from]) : -1;
    w->stays[i] = stays(w, b, r, latest);
    kept += w->stays[i];
  }
  return kept;
}

/* No more than the bytes can hold, whatever the header claims. */
static size_t most_records(const sdm_record_iter *it) {
  enum { RECORD_LEAST = 7 };
  size_t most = (size_t)(it->end - it->p) / RECORD_LEAST + 1;
  return (size_t)it->left < most ? (size_t)it->left : most;
}

static int read_records(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, size_t *count) {
  sdm_record_iter it;
  size_t n = 0;
  int rc = sdm_record_iter_open(&it, b, bytes, &w->plain);
  *count = 0;
  if (rc < 0 || it.left == 0) return rc;   /* an emptied batch may be the first of all: there is no room yet */
  if ((rc = make_room(w, most_records(&it))) < 0) return rc;
  while ((rc = sdm_record_next(&it, &w->records[n])) == 1) {
    if (++n == (size_t)b->count) break;
  }
  if (rc < 0) return rc;
  *count = n;
  return 0;
}

/* Nothing of an aborted transaction stays. Who reads uncommitted data may have seen its tombstones, so they count for the purge floor. */
static void decide_aborted(sdm_rewrite *w, size_t count) {
  for (size_t i = 0; i < count; i++) {
    w->stays[i] = false;
    if (w->records[i].value_size < 0 && w->records[i].offset > w->floor) w->floor = w->records[i].offset;
  }
}

/* Decodes all records and marks those that stay. */
static int decide(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, size_t *count, size_t *kept) {
  int rc = read_records(w, bytes, b, count);
  if (rc < 0) return rc;
  *kept = 0;
  if (!is_purge(w) && sdm_txn_is_aborted(w->transactions, b)) {
    decide_aborted(w, *count);
    return 0;
  }
  for (size_t i = 0; i < *count; i += GROUP) *kept += decide_group(w, b, i, i + GROUP < *count ? i + GROUP : *count);
  return 0;
}

static int write_empty(sdm_rewrite *w, const sdm_batch *b, sdm_output *out) {
  sdm_batch e = *b;
  int rc = sdm_buf_reserve(&out->pending, SDM_BATCH_HEADER);
  if (rc < 0) return rc;
  e.size = SDM_BATCH_HEADER;
  e.attributes = (int16_t)(b->attributes & (SDM_ATTR_APPEND_TIME | SDM_ATTR_TRANSACTIONAL | SDM_ATTR_CONTROL));
  e.base_timestamp = SDM_NO_TIMESTAMP;
  e.count = 0;
  sdm_batch_seal(out->pending.data + out->pending.size, &e);
  out->pending.size += SDM_BATCH_HEADER;
  w->changed = w->changed || b->count > 0;
  return sdm_output_added(out, &e);
}

static int write_rebuilt(sdm_rewrite *w, const sdm_batch *b, size_t count, int64_t horizon, sdm_output *out) {
  sdm_batch_writer rebuilt = {.batch = *b, .level = sdm_codec_default_level(sdm_batch_codec(b))};
  size_t first = 0;
  while (!w->stays[first]) first++;
  rebuilt.batch.base_timestamp = w->records[first].timestamp;
  if (horizon != SDM_NO_HORIZON) {
    rebuilt.batch.attributes |= SDM_ATTR_DELETE_HORIZON;
    rebuilt.batch.base_timestamp = horizon;
  }
  int rc = sdm_batch_begin(&rebuilt, &out->pending);
  for (size_t i = first; rc == 0 && i < count; i++) {
    if (w->stays[i]) rc = sdm_batch_add(&rebuilt, &w->records[i]);
  }
  if (rc == 0) rc = sdm_batch_end(&rebuilt);
  w->changed = true;
  return rc < 0 ? rc : sdm_output_added(out, &rebuilt.batch);
}

static bool keeps_a_tombstone(const sdm_rewrite *w, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (w->stays[i] && w->records[i].value_size < 0) return true;
  }
  return false;
}

/* What to do with a batch of which nothing stays. */
static int leave_out(sdm_rewrite *w, const sdm_batch *b, sdm_output *out) {
  if (sdm_batch_last_offset(b) + 1 == w->bound || sdm_txn_is_needed(w->transactions, b, w->now)) return write_empty(w, b, out);
  w->changed = true;
  return 0;
}

/* A marker whose transaction has no data left. */
static int rewrite_idle_marker(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, sdm_output *out) {
  size_t count;
  if (sdm_marker_expired(b, w->now)) return leave_out(w, b, out);
  int64_t horizon = sdm_marker_horizon_after(b, w->cfg, w->now);
  if (horizon == sdm_batch_horizon(b)) return sdm_output_add(out, bytes, b);
  int rc = read_records(w, bytes, b, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; i < count; i++) w->stays[i] = true;
  return write_rebuilt(w, b, count, horizon, out);
}

/* A marker of an abort goes with its entry in .txnindex: a broker's cleaner would take it for one without data else. */
static int rewrite_control(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, sdm_output *out) {
  if (!is_purge(w) && b->count == 0) return leave_out(w, b, out);
  sdm_marker type = sdm_marker_of(b, bytes, NULL);
  if (!is_purge(w) && type != SDM_MARKER_NONE && sdm_txn_met_marker(w->transactions, b)) return rewrite_idle_marker(w, bytes, b, out);
  const sdm_txnindex_entry *e = type == SDM_MARKER_ABORT ? sdm_txn_entry(w->transactions, b) : NULL;
  int rc = e ? sdm_output_add_aborted(out, e) : 0;
  return rc < 0 ? rc : sdm_output_add(out, bytes, b);
}

int sdm_rewrite_batch(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, sdm_output *out) {
  size_t count = 0, kept = 0;
  if (sdm_batch_is(b, SDM_ATTR_CONTROL)) return rewrite_control(w, bytes, b, out);
  int rc = sdm_txn_met_data(w->transactions, b);
  if (rc == 0) rc = decide(w, bytes, b, &count, &kept);
  if (rc < 0) return rc;
  w->records_read += (int64_t)count;
  w->records_written += (int64_t)kept;
  if (kept == 0) return leave_out(w, b, out);
  int64_t horizon = sdm_horizon_after(b, keeps_a_tombstone(w, count), w->cfg, w->now);
  if (kept == count && horizon == sdm_batch_horizon(b)) return sdm_output_add(out, bytes, b);
  return write_rebuilt(w, b, count, horizon, out);
}
