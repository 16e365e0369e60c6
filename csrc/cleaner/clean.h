/* Compaction of one partition: passes of map, rewrite and swap. */
#ifndef SDM_CLEANER_CLEAN_H
#define SDM_CLEANER_CLEAN_H

#include "cleaner/throttle.h"
#include "log/log.h"

typedef struct sdm_clean_options {
  size_t map_bytes;                      /* budget of the offset map */
  double load_factor;
  sdm_throttle *throttle;                /* NULL: as fast as it can */
  bool force;                            /* whatever the dirty ratio */
  bool once;                             /* one pass only, as Kafka's cleaner thread does; else until nothing is left to clean */
} sdm_clean_options;

/* Cleans what is to be cleaned at `now`, or else removes the tombstones whose time is up. Adds to *report. Holds control->maintenance while it
** runs; appends and reads go on. A partition with a damaged batch is left as it was: report->corrupt counts it, and the call succeeds. One that cannot
** be cleaned, for this or another reason, is marked as such (cleaner/uncleanable.h).
** SDM_CLOSED or SDM_UNKNOWN_TOPIC when that happened meanwhile, SDM_DISK_FULL, SDM_IO: what was swapped stays, the rest is as it was. */
int sdm_clean(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t now, sdm_compact_report *report);

#endif
