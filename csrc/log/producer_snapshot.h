/* `<offset>.snapshot`: what a broker knows of producers at an offset. Sediment does not read them; but a broker that takes the directory over goes by the
** latest one and reads only what follows it. So one must stand at the end when a log is closed in order, and none below what cleaning has changed: a
** marker that is gone would leave its transaction open.
*/
#ifndef SDM_LOG_PRODUCER_SNAPSHOT_H
#define SDM_LOG_PRODUCER_SNAPSHOT_H

#include "log/log.h"

/* For a log whose batches a broker's producers wrote: writes the one at `end`, and removes those of earlier closes. */
int sdm_producer_snapshot_write(sdm_log *l, int64_t end);

/* Removes those below what Sediment itself has appended. Holds control->lock. */
int sdm_producer_snapshots_drop_locked(sdm_log *l);

#endif
