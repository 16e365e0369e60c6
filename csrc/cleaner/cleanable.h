/* What of a partition is to be cleaned, and whether it is time: docs/format.md 8, reference section 8.1. */
#ifndef SDM_CLEANER_CLEANABLE_H
#define SDM_CLEANER_CLEANABLE_H

#include "log/log.h"

typedef struct sdm_cleanable {
  int64_t first_dirty;                   /* cleaning begins to map here */
  int64_t bound;                         /* and ends here: base of a segment, not beyond the active one's */
  int64_t clean_bytes, dirty_bytes;      /* below first_dirty; from it to bound */
  bool overdue;                          /* max.compaction.lag.ms */
} sdm_cleanable;

int sdm_cleanable_range(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_cleanable *out);

double sdm_dirty_ratio(const sdm_cleanable *c);                                      /* 0 when there is nothing */
bool sdm_cleaning_due(const sdm_cleanable *c, const sdm_log_config *cfg);            /* strictly above the ratio, or overdue */
int64_t sdm_first_dirty(sdm_log *l);                                                 /* the cleaner's checkpoint, else the log start */

#endif
