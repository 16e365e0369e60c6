#include "cleaner/tombstone.h"

#include "base/clock.h"
#include "format/batch_records.h"
#include "log/segment_digest.h"

int64_t sdm_batch_horizon(const sdm_batch *b) { return sdm_batch_is(b, SDM_ATTR_DELETE_HORIZON) ? b->base_timestamp : SDM_NO_HORIZON; }

static bool past_horizon(const sdm_batch *b, int64_t now) {
  int64_t horizon = sdm_batch_horizon(b);
  return horizon != SDM_NO_HORIZON && now >= horizon;
}

bool sdm_tombstone_expired(const sdm_batch *b, const sdm_record *r, int64_t now) { return r->value_size < 0 && past_horizon(b, now); }

sdm_fate sdm_version_fate(sdm_key_versions *k, const sdm_batch *b, const sdm_record *r, bool held, int64_t now) {
  bool superseded = sdm_versions_next(k);
  if (!held && superseded) return SDM_SUPERSEDED;
  if (!held && !k->older_stays && sdm_tombstone_expired(b, r, now)) return SDM_TIME_IS_UP;
  k->older_stays = true;
  return SDM_STAYS;
}

int64_t sdm_horizon_after(const sdm_batch *b, bool keeps_tombstone, const sdm_log_config *cfg, int64_t now) {
  int64_t horizon = sdm_batch_horizon(b);
  if (horizon != SDM_NO_HORIZON || !keeps_tombstone) return horizon;
  horizon = sdm_add_sat(now, cfg->delete_retention_ms);
  return horizon == SDM_NO_HORIZON ? horizon - 1 : horizon;
}

bool sdm_marker_expired(const sdm_batch *b, int64_t now) { return past_horizon(b, now); }

int64_t sdm_marker_horizon_after(const sdm_batch *b, const sdm_log_config *cfg, int64_t now) { return sdm_horizon_after(b, true, cfg, now); }

/* ---- which are due ---- */

/* Whether a batch has a tombstone below `offset`. 1 yes, 0 no. */
static int holds_tombstone(const sdm_batch *b, const uint8_t *bytes, int64_t offset, sdm_buf *plain) {
  sdm_record_iter it;
  sdm_record r;
  int rc = sdm_record_iter_open(&it, b, bytes, plain);
  if (rc < 0) return rc;
  while (sdm_record_next(&it, &r) == 1 && r.offset < offset) {
    if (r.value_size < 0) return 1;
  }
  return 0;
}

/* The earliest horizon of a segment that still has a tombstone to it; remembered, since only cleaning can change it. */
static int earliest_horizon(sdm_log *l, sdm_segment *s, int64_t offset, int64_t *out) {
  sdm_scanner scan = {0};
  sdm_buf plain = SDM_BUF_INIT;
  sdm_batch b;
  const uint8_t *bytes;
  int64_t limit;
  *out = SDM_NO_HORIZON;
  int rc = sdm_log_segment_limit(l, s, &limit);
  if (rc == 0) rc = sdm_segment_scan(s, &scan, 0, limit);
  if (rc < 0) return rc;
  while ((rc = sdm_scan_batch(&scan, &b, &bytes)) == 1) {
    if (sdm_batch_horizon(&b) >= *out) continue;
    if ((rc = holds_tombstone(&b, bytes, offset, &plain)) < 0) break;
    if (rc == 1) *out = sdm_batch_horizon(&b);
  }
  sdm_scanner_free(&scan);
  sdm_buf_free(&plain);
  return rc;
}

static int horizon_of(sdm_log *l, sdm_segment *s, int64_t offset, bool whole, int64_t *out) {
  sdm_mutex_lock(&s->lock);
  *out = s->horizon;
  sdm_mutex_unlock(&s->lock);
  if (*out != SDM_UNKNOWN) return 0;
  int rc = earliest_horizon(l, s, offset, out);
  if (rc < 0 || !whole) return rc;
  sdm_mutex_lock(&s->lock);
  s->horizon = *out;
  sdm_mutex_unlock(&s->lock);
  return 0;
}

int sdm_tombstones_due(sdm_log *l, int64_t offset, int64_t now) {
  sdm_segment **segments;
  size_t count;
  int rc = sdm_log_segment_refs(l, offset, &segments, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    int64_t horizon;
    rc = horizon_of(l, segments[i], offset, i + 1 < count, &horizon);
    sdm_segment_rest(segments[i]);
    if (rc == 0 && horizon != SDM_NO_HORIZON && now >= horizon) rc = 1;
  }
  sdm_segments_unref(segments, count);
  return rc;
}

/* ---- leaving with their segment ---- */

int sdm_tombstones_leave_with(sdm_log *l, sdm_segment *const *segments, size_t count) {
  int64_t floor = -1;
  for (size_t i = count; i-- > 0 && floor < 0;) {      /* offsets ascend: the last segment that has one has the highest */
    int64_t records;
    int rc = sdm_log_count_segment(l, segments[i], &records, &floor);
    sdm_segment_rest(segments[i]);
    if (rc < 0) return rc;
  }
  return sdm_log_raise_floor(l, floor);
}
