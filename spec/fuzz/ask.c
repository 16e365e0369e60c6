/* Everything that can be asked of a log, with what must hold of the answers. */
#include "fuzz/fuzz.h"

/* Damage is told, and passed over. */
static int next(sdm_reader *r, sdm_record *out) {
  enum { SKIPS_MAX = 2000 };
  int rc = 0;
  for (int i = 0; i < SKIPS_MAX && (rc = sdm_reader_next(r, out)) < 0; i++) {
    int64_t from, to;
    MUST(sdm_errmsg()[0] != 0);
    if (rc != SDM_CORRUPT || sdm_reader_skip(r, &from, &to) < 0) break;
    MUST(to >= from);
  }
  return rc;
}

void fuzz_read_log(sdm_log *l, int64_t from, unsigned flags) {
  sdm_reader *r;
  sdm_record record;
  int64_t last = from - 1;
  int rc = sdm_reader_open(l, from, SDM_TO_END, flags, &r);
  if (rc < 0) return;
  for (int i = 0; i < FUZZ_RECORDS_MAX && (rc = next(r, &record)) == 1; i++) {
    MUST(record.offset > last);
    MUST((record.key == NULL) == (record.key_size == -1) && (record.value == NULL) == (record.value_size == -1));
    last = record.offset;
    MUST(sdm_reader_position(r) > last);
  }
  sdm_reader_close(r);
}

static void ask_segments(sdm_log *l) {
  sdm_segment_info *segments;
  size_t count;
  if (sdm_log_segments(l, &segments, &count) < 0) return;
  for (size_t i = 1; i < count; i++) MUST(segments[i].base_offset > segments[i - 1].base_offset);
  sdm_segments_free(segments);
}

static void ask_latest(sdm_log *l, int64_t from) {
  sdm_reader *r;
  sdm_record record;
  if (sdm_reader_open_latest(l, from, SDM_TO_END, 0, &r) < 0) return;
  for (int i = 0; i < FUZZ_RECORDS_MAX && sdm_reader_next(r, &record) == 1; i++) MUST(record.key != NULL);
  sdm_reader_close(r);
}

/* It tells where, and ends. */
static void verify(sdm_log *l) {
  sdm_verify_report *r;
  if (sdm_log_verify(l, &r) < 0) return;
  for (size_t i = 0; i < r->problem_count; i++) MUST(r->problems[i].code < 0 && *r->problems[i].file && *r->problems[i].message);
  MUST(r->records >= 0 && r->batches >= 0 && r->segments >= 0);
  sdm_verify_report_free(r);
}

void fuzz_ask_log(sdm_log *l, int64_t now) {
  int64_t start, end, offset;
  sdm_log_stats stats;
  if (sdm_log_earliest(l, &start) < 0 || sdm_log_latest(l, &end) < 0) return;
  MUST(0 <= start && start <= end);
  fuzz_read_log(l, start, 0);
  fuzz_read_log(l, start, SDM_READ_UNCOMMITTED);
  fuzz_read_log(l, start + (end - start) / 2, SDM_READ_UNCOMMITTED);
  ask_latest(l, start);
  const int64_t times[] = {0, now - 1, now, INT64_MAX};
  for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
    if (sdm_log_offset_for_time(l, times[i], &offset) == 1) MUST(offset >= 0 && offset < end);
  }
  ask_segments(l);
  verify(l);
  (void)sdm_log_get_stats(l, now, &stats);
}
