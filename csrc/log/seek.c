#include "log/seek.h"

int sdm_seek_near(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit) {
  sdm_file *f;
  sdm_index_entry e;
  sdm_batch b;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  if (sdm_segment_lookup(s, offset, limit, &e)) {
    sdm_scanner_start(scan, f, e.position, limit);
    if (sdm_scan_header(scan, &b) == 1 && sdm_batch_last_offset(&b) == e.offset) {
      scan->position = e.position;
      return 0;
    }
  }
  sdm_scanner_start(scan, f, 0, limit);
  return 0;
}

/* What stands at `at` is no batch. True: a batch from which `offset` can be reached lies behind the damage, and the scanner stands there. */
static bool pass_damage(sdm_scanner *scan, int64_t at, int64_t seen, int64_t offset) {
  sdm_batch b;
  scan->position = at;
  if (sdm_scan_resync(scan, seen) == 1) {
    int64_t found = scan->position;
    bool before = sdm_scan_header(scan, &b) == 1 && b.base_offset <= offset;
    scan->position = before ? found : at;
    return before;
  }
  scan->position = at;
  return false;
}

/* Where the batch ends: as it says, or, when it is known where it must begin, as many offsets behind that. No CRC covers what it says. */
static int64_t end_of(const sdm_batch *b, bool dense, int64_t expected) {
  return (dense && expected >= 0 ? expected + b->last_offset_delta : sdm_batch_last_offset(b)) + 1;
}

int sdm_seek(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit, bool dense, int64_t *expected) {
  sdm_batch b;
  int64_t seen = s->base_offset;
  int rc = sdm_seek_near(s, scan, offset, limit);
  *expected = dense && scan->position == 0 ? s->base_offset : -1;
  while (rc == 0) {
    int64_t at = scan->position;
    rc = sdm_scan_header(scan, &b);
    if (rc == SDM_IO || rc == SDM_NO_MEMORY) return rc;
    if (rc == SDM_CORRUPT || (rc == 0 && scan->torn)) {
      if (!pass_damage(scan, at, seen, offset)) return 0;
      *expected = -1;
      rc = 0;
      continue;
    }
    if (rc <= 0) return 0;
    int64_t end = end_of(&b, dense, *expected);
    if (end > offset) {
      scan->position = at;
      return 0;
    }
    *expected = seen = end;
    rc = 0;
  }
  return rc;
}
