/* Where the log begins and ends, and which offset belongs to a time. */
#include "log/log.h"
#include "log/reader.h"
#include "log/seek.h"

int sdm_log_earliest(sdm_log *l, int64_t *offset) {
  sdm_end e;
  int rc = sdm_log_check(l);
  if (rc == 0) rc = sdm_log_read_end(l, &e, NULL);
  if (rc == 0) *offset = sdm_log_start(l);
  return rc;
}

int sdm_log_latest(sdm_log *l, int64_t *offset) {
  sdm_end e;
  int rc = sdm_log_check(l);
  if (rc < 0) return rc;
  if (l->writable) {
    *offset = atomic_load_explicit(&l->control->log_end, memory_order_acquire);
    return 0;
  }
  if ((rc = sdm_log_read_end(l, &e, NULL)) == 0) *offset = sdm_end_offset(&e);
  return rc;
}

/* The first record in [from, to) with a timestamp of at least ms. */
static int first_since(sdm_log *l, int64_t from, int64_t to, int64_t ms, int64_t *offset) {
  sdm_reader *r;
  sdm_record record;
  int rc = sdm_reader_open(l, from, to, SDM_READ_UNCOMMITTED, &r);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(r, &record)) == 1 && record.timestamp < ms) {}
  if (rc == 1) *offset = record.offset;
  sdm_reader_close(r);
  return rc;
}

/* Offset from which on all records of the segment newer than `timestamp` lie. The time index says it, if what it says is true of the log. */
static int64_t nothing_newer_before(sdm_log *l, sdm_segment *s, int64_t timestamp) {
  sdm_scanner scan = {0};
  sdm_timeindex_entry e;
  sdm_batch b;
  int64_t limit, expected;
  if (timestamp < 0 || !sdm_segment_lookup_time(s, timestamp, &e) || sdm_log_segment_limit(l, s, &limit) < 0) return s->base_offset;
  bool so = sdm_seek(s, &scan, e.offset, limit, false, &expected) == 0 && sdm_scan_header(&scan, &b) == 1 && sdm_batch_last_offset(&b) == e.offset &&
            b.max_timestamp == e.timestamp;
  sdm_scanner_free(&scan);
  return so ? e.offset : s->base_offset;
}

/* Whether the time index of a segment that somebody else wrote tells of a newer record than is there: a .log that was cut, which reading it reports. */
static bool was_newer(sdm_log *l, sdm_segment *s, int64_t ms) {
  sdm_told told;
  if (l->control) return false;
  sdm_segment_told(s, &told);
  return told.latest.timestamp >= ms;
}

/* Looks into one segment if a record in it may be new enough. */
static int look_into(sdm_log *l, sdm_segment *s, int64_t to, int64_t ms, int64_t *offset) {
  int64_t newest, start = sdm_log_start(l);
  int rc = sdm_log_max_timestamp(l, s, &newest);
  if (rc < 0 || (newest < ms && !was_newer(l, s, ms))) return rc;
  int64_t from = ms > 0 ? nothing_newer_before(l, s, ms - 1) : s->base_offset;
  if (from < start) from = start;
  return from < to ? first_since(l, from, to, ms, offset) : 0;
}

typedef struct question {
  int64_t ms;
  int64_t *offset;
} question;

static int look_into_all(sdm_log *l, void *context) {
  question *q = context;
  sdm_segment **segments;
  sdm_end e;
  size_t count;
  int rc = sdm_log_read_end(l, &e, NULL);
  if (rc == 0) rc = sdm_log_segment_refs(l, INT64_MAX, &segments, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    int64_t to = i + 1 < count ? segments[i + 1]->base_offset : sdm_end_offset(&e);
    rc = look_into(l, segments[i], to, q->ms, q->offset);
    sdm_segment_rest(segments[i]);
  }
  sdm_segments_unref(segments, count);
  return rc == SDM_OFFSET_OUT_OF_RANGE ? SDM_NOT_FOUND : rc;      /* overtaken by a deletion: look again */
}

int sdm_log_offset_for_time(sdm_log *l, int64_t ms, int64_t *offset) {
  question q = {ms, offset};
  int rc = sdm_log_check(l);
  return rc < 0 ? rc : sdm_log_steadily(l, look_into_all, &q);
}
