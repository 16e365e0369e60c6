/* Retention: deletion of the oldest segments by log start offset, size and time (docs/format.md 9, reference section 7). */
#ifndef SDM_CLEANER_RETENTION_H
#define SDM_CLEANER_RETENTION_H

#include "log/log.h"

/* Deletes what the configs allow to go at `now`; adds to *report. Holds control->maintenance. Order of what is durable: purge floor, log start
** offset, then the files are renamed; they are unlinked after file.delete.delay.ms (sdm_retention_unlink). */
int sdm_retain(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_retain_report *report);

/* That and sdm_retention_unlink, for a thread that must not wait: a partition that somebody cleans or retains just now is left for the next time. */
int sdm_retain_unless_busy(sdm_log *l, const sdm_log_config *cfg, int64_t now);

/* Unlinks files whose delay is over; counts segments. */
int sdm_retention_unlink(sdm_log *l, const sdm_log_config *cfg, int64_t now, int64_t *segments);

#endif
