/* What is known of a closed segment, looked up in its files when first asked for, and remembered. Of the active one the control page tells. */
#include "base/bytes.h"
#include "format/batch_records.h"
#include "log/log.h"
#include "log/segment_digest.h"

/* Runs over a segment's batches: headers only, or whole when tombstones are wanted. */
typedef struct summary {
  int64_t max_timestamp, records, last_tombstone;
} summary;

/* A batch that cannot be decompressed counts as if its last record were a tombstone: the purge floor may be too high, never too low. */
static void note_tombstones(const sdm_batch *b, const uint8_t *bytes, sdm_buf *plain, summary *out) {
  sdm_record_iter it;
  sdm_record r;
  if (sdm_batch_is(b, SDM_ATTR_CONTROL)) return;
  if (sdm_record_iter_open(&it, b, bytes, plain) < 0) {
    out->last_tombstone = sdm_batch_last_offset(b);
    return;
  }
  while (sdm_record_next(&it, &r) == 1) {
    if (r.value_size < 0) out->last_tombstone = r.offset;
  }
}

static int summarize(sdm_log *l, sdm_segment *s, bool whole, summary *out) {
  sdm_scanner scan = {0};
  sdm_buf plain = SDM_BUF_INIT;
  sdm_batch b;
  const uint8_t *bytes = NULL;
  int64_t limit;
  *out = (summary){.max_timestamp = -1, .last_tombstone = -1};
  int rc = sdm_log_segment_limit(l, s, &limit);
  if (rc == 0) rc = sdm_segment_scan(s, &scan, 0, limit);
  if (rc < 0) return rc;
  while ((rc = sdm_scan_past_damage(&scan, s->base_offset, &b, whole ? &bytes : NULL)) == 1) {
    if (b.max_timestamp > out->max_timestamp) out->max_timestamp = b.max_timestamp;
    if (!sdm_batch_is(&b, SDM_ATTR_CONTROL)) out->records += b.count;
    if (whole) note_tombstones(&b, bytes, &plain, out);
  }
  sdm_scanner_free(&scan);
  sdm_buf_free(&plain);
  return rc;
}

static void remember(sdm_segment *s, bool active, bool whole, const summary *found) {
  if (active) return;
  sdm_mutex_lock(&s->lock);
  s->max_timestamp = found->max_timestamp;
  s->records = found->records;
  if (whole) s->last_tombstone = found->last_tombstone;
  sdm_mutex_unlock(&s->lock);
}

static bool is_active(sdm_log *l, sdm_segment *s, sdm_end *end) {
  sdm_log_last_end(l, end);
  return end->active_base == s->base_offset;
}

static int64_t known(sdm_segment *s, const int64_t *field) {
  sdm_mutex_lock(&s->lock);
  int64_t v = *field;
  sdm_mutex_unlock(&s->lock);
  return v;
}

/* A closed segment's last time index entry is its largest timestamp, as long as the log that it names ends the file. */
static bool from_time_index(sdm_segment *s, int64_t *out) {
  sdm_file *f;
  sdm_file_info info;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  size_t got;
  if (!s->writable || sdm_segment_file(s, SDM_FILE_TIMEINDEX, &f) < 0 || s->fs->info(f, &info) < 0 || info.size < SDM_TIMEINDEX_ENTRY) return false;
  int64_t at = info.size / SDM_TIMEINDEX_ENTRY * SDM_TIMEINDEX_ENTRY - SDM_TIMEINDEX_ENTRY;
  if (s->fs->read(f, bytes, sizeof bytes, at, &got) < 0 || got < sizeof bytes) return false;
  *out = (int64_t)sdm_get64(bytes);
  return *out >= 0;
}

int sdm_log_max_timestamp(sdm_log *l, sdm_segment *s, int64_t *out) {
  summary found;
  sdm_end end;
  bool active = is_active(l, s, &end);
  if (active && l->control) {
    int64_t staged = sdm_end_offset(&end) > end.sealed_end ? end.staged_max_timestamp : -1;
    *out = end.max_timestamp > staged ? end.max_timestamp : staged;
    return 0;
  }
  if (!active && (*out = known(s, &s->max_timestamp)) != SDM_UNKNOWN) return 0;
  if (!active && from_time_index(s, out)) {
    sdm_mutex_lock(&s->lock);
    s->max_timestamp = *out;
    sdm_mutex_unlock(&s->lock);
    return 0;
  }
  int rc = summarize(l, s, false, &found);
  if (rc < 0) return rc;
  remember(s, active, false, &found);
  *out = found.max_timestamp;
  return 0;
}

int sdm_log_largest_timestamp(sdm_log *l, sdm_segment *s, int64_t *out) {
  sdm_end end;
  int rc = sdm_log_max_timestamp(l, s, out);
  if (rc < 0 || *out >= 0) return rc;
  *out = l->control && is_active(l, s, &end) ? end.modified_ms : s->modified_ms;
  return 0;
}

int sdm_first_batch_timestamp(sdm_segment *s, int64_t limit, int64_t *out) {
  sdm_scanner scan = {0};
  sdm_batch b;
  sdm_file *f;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  sdm_scanner_start(&scan, f, 0, limit);
  rc = sdm_scan_header(&scan, &b);
  *out = rc == 1 ? b.max_timestamp : -1;
  sdm_scanner_free(&scan);
  return rc < 0 && rc != SDM_CORRUPT ? rc : 0;
}

int sdm_log_first_timestamp(sdm_log *l, sdm_segment *s, int64_t *out) {
  int64_t limit;
  if ((*out = known(s, &s->first_timestamp)) != SDM_UNKNOWN) return 0;
  int rc = sdm_log_segment_limit(l, s, &limit);
  if (rc == 0) rc = sdm_first_batch_timestamp(s, limit, out);
  if (rc < 0 || limit == 0) return rc;
  sdm_mutex_lock(&s->lock);
  s->first_timestamp = *out;
  sdm_mutex_unlock(&s->lock);
  return 0;
}

int sdm_log_count_segment(sdm_log *l, sdm_segment *s, int64_t *records, int64_t *last_tombstone) {
  summary found;
  sdm_end end;
  bool active = is_active(l, s, &end), whole = last_tombstone != NULL;
  if (active && end.records >= 0 && l->control && !whole) {
    *records = end.records;
  } else if (!active && known(s, &s->records) >= 0 && (!whole || known(s, &s->last_tombstone) != SDM_UNKNOWN)) {
    *records = known(s, &s->records);
    if (whole) *last_tombstone = known(s, &s->last_tombstone);
    return 0;
  } else {
    int rc = summarize(l, s, whole, &found);
    if (rc < 0) return rc;
    remember(s, active, whole, &found);
    *records = found.records;
    if (whole) *last_tombstone = found.last_tombstone;
  }
  if (active && l->control) {
    *records += sdm_end_offset(&end) - end.sealed_end;
    if (whole && sdm_end_offset(&end) > end.sealed_end && end.staged_tombstone > *last_tombstone) *last_tombstone = end.staged_tombstone;
  }
  return 0;
}
