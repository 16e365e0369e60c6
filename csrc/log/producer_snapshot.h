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

/* Whether it is the name of one, "00000000000000000042.snapshot", and of which offset. */
bool sdm_snapshot_name_decode(const char *name, int64_t *offset);

/* The end that the log had when a broker last rolled or closed it: it leaves a .snapshot of that offset then. Segments with a base below may have
** been cleaned by it. -1: no broker was here. */
int sdm_broker_end(sdm_fs *fs, const char *dir, int64_t *end);

#endif
