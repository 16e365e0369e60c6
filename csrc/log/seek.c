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

int sdm_seek(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit) {
  sdm_batch b;
  int rc = sdm_seek_near(s, scan, offset, limit);
  if (rc < 0) return rc;
  for (;;) {
    int64_t at = scan->position;
    rc = sdm_scan_header(scan, &b);
    if (rc == SDM_IO || rc == SDM_NO_MEMORY) return rc;
    if (rc <= 0) return 0;
    if (sdm_batch_last_offset(&b) < offset) continue;
    scan->position = at;
    return 0;
  }
}
