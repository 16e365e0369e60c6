#include "log/walk.h"

#include "format/batch_records.h"
#include "log/segment_digest.h"

int sdm_walk_open(sdm_walk *w, sdm_segment *s, int64_t size, unsigned flags) {
  *w = (sdm_walk){.segment = s, .flags = flags, .next_offset = s->base_offset};
  return sdm_segment_scan(s, &w->scan, 0, size);
}

void sdm_walk_close(sdm_walk *w) {
  sdm_scanner_free(&w->scan);
  sdm_buf_free(&w->plain);
}

/* 1: all its records can be read. 0: not, though its CRC holds. */
static int records_ok(sdm_walk *w, const sdm_batch *b, const uint8_t *bytes) {
  sdm_record_iter it;
  sdm_record record;
  int rc = sdm_record_iter_open(&it, b, bytes, &w->plain);
  if (rc == 0) rc = 1;
  while (rc == 1) rc = sdm_record_next(&it, &record);
  return rc == 0 ? 1 : rc == SDM_CORRUPT ? 0 : rc;
}

/* Batches must lie in the segment's range and ascend; one that does not is damage as well, since no CRC covers its base offset. */
static int in_place(sdm_walk *w, const sdm_batch *b, const uint8_t **bytes) {
  if (b->base_offset < w->next_offset || !sdm_segment_can_hold(w->segment, b)) return 0;
  if (w->flags & SDM_WALK_DENSE) return w->lost ? sdm_scan_joins(&w->scan, b, bytes) : b->base_offset == w->next_offset;
  int rc = sdm_scan_displaced(&w->scan, b, w->next_offset, bytes);
  return rc < 0 ? rc : !rc;
}

static void misplaced(sdm_walk *w, const sdm_batch *b) {
  sdm_failure_note(&w->why, sdm_fail(SDM_CORRUPT, "%s: the batch at position %lld claims the offsets %lld to %lld, which do not fit those around it (from %lld "
                                     "on): a base offset is damaged", w->scan.file->path, (long long)w->at, (long long)b->base_offset,
                                     (long long)sdm_batch_last_offset(b), (long long)w->next_offset));
}

/* 1: it is where it belongs, and its records can be read if that is asked for. 0: not; then w->why says so. */
static int check(sdm_walk *w, const sdm_batch *b, const uint8_t **bytes) {
  int rc = in_place(w, b, bytes);
  if (rc == 0) misplaced(w, b);
  if (rc != 1 || !(w->flags & SDM_WALK_RECORDS)) return rc;
  rc = records_ok(w, b, *bytes);
  if (rc == 0) sdm_failure_note(&w->why, SDM_CORRUPT);
  return rc;
}

/* Its records are whole: it is not for us to cut them. */
static int pass_batch(sdm_walk *w, const sdm_batch *b) {
  if (w->flags & SDM_WALK_DENSE) w->next_offset += b->last_offset_delta + 1;
  return SDM_WALK_DAMAGE;
}

static int pass_damage(sdm_walk *w) {
  sdm_failure_note(&w->why, SDM_CORRUPT);
  w->scan.position = w->at;
  int rc = sdm_scan_resync(&w->scan, w->next_offset);
  w->doubtful = rc == 0 && w->scan.doubtful;
  if (rc <= 0) return rc < 0 ? rc : SDM_WALK_END;
  w->lost = true;
  return SDM_WALK_DAMAGE;
}

int sdm_walk_next(sdm_walk *w, sdm_batch *b, const uint8_t **bytes) {
  w->why.code = 0;
  w->at = w->scan.position;
  w->begins = w->next_offset;
  int rc = sdm_scan_batch(&w->scan, b, bytes);
  if (rc == 0 && w->scan.torn) rc = sdm_fail(SDM_CORRUPT, "%s is cut off in the batch at position %lld", w->scan.file->path, (long long)w->at);
  if (rc == SDM_CORRUPT) return pass_damage(w);
  if (rc <= 0) return rc;
  if ((rc = check(w, b, bytes)) < 0) return rc;
  w->position = w->scan.position;
  if (rc == 0) return pass_batch(w, b);
  w->lost = false;
  w->next_offset = sdm_batch_last_offset(b) + 1;
  return SDM_WALK_BATCH;
}
