/* Retention and cleaning of topics and of the whole store, on the caller's thread. */
#ifndef SDM_STORE_UPKEEP_H
#define SDM_STORE_UPKEEP_H

#include "cleaner/clean.h"
#include "store/store.h"

/* How a cleaning by this store goes: its share of log.cleaner.dedupe.buffer.size, and as fast as all of them together may. */
sdm_clean_options sdm_store_clean_options(sdm_store *s, bool force);

/* Seals and rolls what is old enough, by the wall clock: segment.ms reaches an idle log too. */
int sdm_log_age(sdm_log *l, const sdm_log_config *cfg, int64_t linger_ms, int64_t now, sdm_maintain_report *report);

int sdm_log_flush_if_due(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_maintain_report *report);

#endif
