/* Partitions whose last cleaning, or retention, failed. They are marked in their control page, where every process sees it and a new incarnation begins without;
** whoever cleans on its own (store/cleaners.c) comes back to them after a while, longer each time, since the damage may have left with its segment or the disk may
** have room again.
*/
#ifndef SDM_CLEANER_UNCLEANABLE_H
#define SDM_CLEANER_UNCLEANABLE_H

#include "log/log.h"

/* Notes how a cleaning at `now` ended; hands `rc` on. That the store was closed or the topic deleted meanwhile says nothing of the partition. */
int sdm_cleaning_ended(sdm_log *l, int64_t now, int rc);
int sdm_retention_ended(sdm_log *l, int rc);                       /* the same of a retention */

/* Whether the last cleaning failed: the code, or 0. */
int sdm_cleaning_failed(const sdm_log *l);

/* Whether it is time to try: always for one that is not marked or whose log start has moved, else after backoff_ms, then twice that, and so on up to an hour. */
bool sdm_cleaning_may_try(sdm_log *l, int64_t now, int64_t backoff_ms);

#endif
