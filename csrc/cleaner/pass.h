/* One pass of a cleaning over a partition: what it goes by, and its way through the segments, batch by batch, at the pace that is allowed. */
#ifndef SDM_CLEANER_PASS_H
#define SDM_CLEANER_PASS_H

#include "cleaner/rewrite.h"
#include "cleaner/throttle.h"
#include "log/scanner.h"

typedef struct sdm_pass {
  sdm_log *log;
  const sdm_log_config *cfg;
  sdm_compact_report *report;
  sdm_throttle *throttle;
  int64_t moved;                         /* bytes read and written since the last rest */
  sdm_segment **segments;                /* those below `bound`, ascending */
  size_t count;
  const bool *held;                      /* which of them stay as they are; NULL: none */
  int64_t from, bound;                   /* dirty range */
  int64_t now;
  sdm_scanner scan;
  sdm_segment *scanned;                  /* the segment in hand; its offsets have no gaps; where its next batch begins, or at least begins */
  bool dense;
  int64_t expected;
  sdm_buf plain;                         /* records of a compressed batch */
  sdm_offset_map map;
  sdm_txn_pass transactions;
  sdm_rewrite rewrite;
  sdm_output output;
} sdm_pass;                              /* zeroed but for what is given: log, cfg, report, throttle, from, bound, now */

int sdm_pass_begin(sdm_pass *p);
void sdm_pass_end(sdm_pass *p);

/* Between batches: rests as long as the throttle asks for what was read and written since the last one. SDM_CLOSED, SDM_UNKNOWN_TOPIC: the ground has moved. */
int sdm_pass_go_on(sdm_pass *p);

int sdm_pass_scan(sdm_pass *p, sdm_segment *s);

/* 1: the next batch of it, as of sdm_scan_batch, in its place; 0: the end. SDM_CORRUPT is counted in the report. */
int sdm_pass_next(sdm_pass *p, sdm_batch *b, const uint8_t **bytes);

/* Base offset of the segment behind the i-th, or the bound. */
static inline int64_t sdm_pass_next_base(const sdm_pass *p, size_t i) { return i + 1 < p->count ? p->segments[i + 1]->base_offset : p->bound; }

#endif
