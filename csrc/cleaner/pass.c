#include "cleaner/pass.h"

#include "base/clock.h"
#include "log/segment_digest.h"

#define LONGEST_NAP 0.1                  /* seconds */

/* In naps, for the ground may move meanwhile. */
int sdm_pass_go_on(sdm_pass *p) {
  int rc = sdm_log_check_going(p->log);
  if (!p->throttle) return rc;
  double now = sdm_monotonic_seconds(), until = sdm_throttle_take(p->throttle, p->moved, now);
  p->moved = 0;
  for (; rc == 0 && now < until; now = sdm_monotonic_seconds()) {
    sdm_sleep(until - now < LONGEST_NAP ? until - now : LONGEST_NAP);
    rc = sdm_log_check_going(p->log);
  }
  return rc;
}

int sdm_pass_scan(sdm_pass *p, sdm_segment *s) {
  p->scanned = s;
  p->dense = sdm_log_is_dense(p->log, s);
  p->expected = s->base_offset;
  return sdm_segment_scan(s, &p->scan, 0, s->size);
}

/* No CRC covers a base offset: what is out of place is damage, and must not be written as if it was not. */
static int check_place(sdm_pass *p, const sdm_batch *b) {
  bool fits = sdm_segment_places(p->scanned, b, p->expected, p->dense);
  p->expected = sdm_batch_last_offset(b) + 1;
  if (fits) return 1;
  return sdm_fail(SDM_CORRUPT, "%s: the batch before position %lld claims the offsets %lld to %lld, which do not fit there: a base offset is damaged",
                  p->scan.file->path, (long long)p->scan.position, (long long)b->base_offset, (long long)sdm_batch_last_offset(b));
}

int sdm_pass_next(sdm_pass *p, sdm_batch *b, const uint8_t **bytes) {
  int rc = sdm_pass_go_on(p);
  if (rc == 0) rc = sdm_scan_batch(&p->scan, b, bytes);
  if (rc == 1) rc = check_place(p, b);
  if (rc == 1) p->moved += b->size;
  if (rc == 0 && p->scan.torn) rc = sdm_fail(SDM_CORRUPT, "%s is cut off in the batch at position %lld", p->scan.file->path, (long long)p->scan.position);
  if (rc == SDM_CORRUPT) p->report->corrupt++;
  return rc;
}

int sdm_pass_begin(sdm_pass *p) {
  int rc = sdm_txn_pass_begin(&p->transactions, p->log);
  if (rc == SDM_CORRUPT) p->report->corrupt++;
  return rc < 0 ? rc : sdm_log_segment_refs(p->log, p->bound, &p->segments, &p->count);
}

void sdm_pass_end(sdm_pass *p) {
  sdm_segments_unref(p->segments, p->count);
  sdm_offset_map_free(&p->map);
  sdm_txn_pass_end(&p->transactions);
  sdm_rewrite_free(&p->rewrite);
  sdm_output_free(&p->output);
  sdm_scanner_free(&p->scan);
  sdm_buf_free(&p->plain);
}
