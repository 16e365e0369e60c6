/* Segments that retention has deleted and whose files still wait for it: readers that began before may go on through them. */
#ifndef SDM_LOG_RETIRED_H
#define SDM_LOG_RETIRED_H

#include "log/log.h"

/* 1 and a reference on the deleted segment that holds `offset`, with *next_base lowered to that of the next deleted one behind it. 0: there is none. */
int sdm_retired_find(sdm_log *l, int64_t offset, sdm_segment **out, int64_t *next_base);

/* Takes a segment's files out of the way: renamed to .deleted, their time set to now. Holds control->lock. */
int sdm_retire(sdm_log *l, sdm_segment *s, int64_t now);

/* Unlinks the files of segments that were retired before now - delay_ms; counts segments. Holds control->maintenance. */
int sdm_retired_unlink(sdm_log *l, int64_t now, int64_t delay_ms, int64_t *segments);

#endif
