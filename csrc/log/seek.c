#include "log/seek.h"

#include "log/segment_digest.h"

int sdm_seek_near(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit) {
  sdm_index_entry e;
  sdm_batch b;
  if (sdm_segment_lookup(s, offset, limit, &e)) {
    int rc = sdm_segment_scan(s, scan, e.position, limit);
    if (rc < 0) return rc;
    if (sdm_scan_header(scan, &b) == 1 && sdm_batch_last_offset(&b) == e.offset) {
      scan->position = e.position;
      return 0;
    }
  }
  return sdm_segment_scan(s, scan, 0, limit);
}

typedef struct search {
  sdm_segment *segment;
  sdm_scanner *scan;
  int64_t offset;                          /* that is looked for */
  bool dense;
  int64_t seen;                            /* what was passed ends there */
  int64_t expected;                        /* where the next batch begins, -1: that cannot be told */
  int64_t before, seen_before;             /* position of the batch that was passed last, INT64_MAX: none was; `seen` then */
} search;

/* What does not fit may be where a damaged size led, or follow a damaged end: then the damage begins with the batch before. */
static int64_t where_damage_begins(search *q, int64_t at) {
  sdm_batch b;
  const uint8_t *bytes;
  q->scan->position = q->before;
  if (q->before >= at || sdm_scan_batch(q->scan, &b, &bytes) != SDM_CORRUPT) return at;
  q->seen = q->seen_before;
  return q->before;
}

/* Whether the batch that was just read claims offsets that cannot be its own. 1, 0, or a failure. */
static int misplaced(search *q, const sdm_batch *b) {
  if (q->dense && q->expected >= 0) return b->base_offset != q->expected;
  if (b->base_offset < q->seen || !sdm_segment_can_hold(q->segment, b)) return 1;
  int rc = q->dense ? sdm_scan_joins(q->scan, b, NULL) : sdm_scan_displaced(q->scan, b, q->seen, NULL);
  return rc < 0 ? rc : rc == !q->dense;
}

/* The next batch behind damage that is where it says. 1: the scanner has passed its header. */
static int find_behind(search *q, sdm_batch *b) {
  int rc;
  while ((rc = sdm_scan_resync(q->scan, q->seen)) == 1 && (rc = sdm_scan_header(q->scan, b)) == 1) {
    if ((rc = misplaced(q, b)) <= 0) return rc < 0 ? rc : 1;
    q->scan->position--;                   /* the search goes on behind the place where it begins */
  }
  return rc;
}

/* 1: a batch from which the offset can be reached lies behind the damage, and the scanner stands there; else it stands at the damage. */
static int pass_damage(search *q, int64_t at) {
  sdm_batch b;
  at = where_damage_begins(q, at);
  q->scan->position = at;
  q->expected = -1;
  q->before = INT64_MAX;
  int rc = find_behind(q, &b);
  bool reaches = rc == 1 && b.base_offset <= q->offset;
  q->scan->position = reaches ? q->scan->position - b.size : at;
  if (q->dense) q->expected = reaches ? b.base_offset : q->seen;
  return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : reaches;
}

/* 1: a batch or damage was passed. 0: the scanner stands where to look for the offset. */
static int pass(search *q) {
  sdm_batch b;
  const uint8_t *bytes;
  int64_t at = q->scan->position;
  int rc = sdm_scan_header(q->scan, &b);
  if (rc == SDM_CORRUPT || (rc == 0 && q->scan->torn)) return pass_damage(q, at);
  if (rc <= 0) return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : 0;
  if ((rc = misplaced(q, &b)) != 0) return rc < 0 ? rc : pass_damage(q, at);
  int64_t end = sdm_batch_last_offset(&b) + 1;
  if (end > q->offset) {                   /* unless it is its end that is damaged */
    q->scan->position = at;
    rc = sdm_scan_batch(q->scan, &b, &bytes);
    q->scan->position = at;
    return rc == SDM_CORRUPT || (rc == 0 && q->scan->torn) ? pass_damage(q, at) : rc == 1 ? 0 : rc;
  }
  q->before = at;
  q->seen_before = q->seen;
  q->expected = q->seen = end;
  return 1;
}

/* At 0 with the segment; elsewhere the index has confirmed where the batch ends. */
static int64_t where_it_begins(search *q) {
  sdm_batch b;
  int64_t at = q->scan->position;
  if (at == 0) return q->segment->base_offset;
  int rc = sdm_scan_header(q->scan, &b);
  q->scan->position = at;
  return rc == 1 ? b.base_offset : -1;
}

int sdm_seek(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit, bool dense, int64_t *expected) {
  search q = {.segment = s, .scan = scan, .offset = offset, .dense = dense, .seen = s->base_offset, .before = INT64_MAX};
  int rc = sdm_seek_near(s, scan, offset, limit);
  if (rc < 0) return rc;
  q.expected = dense ? where_it_begins(&q) : -1;
  if (q.expected >= 0) q.seen = q.expected;
  while ((rc = pass(&q)) == 1) {}
  *expected = q.expected;
  return rc;
}
