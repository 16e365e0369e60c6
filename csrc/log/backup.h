/* A copy of one partition as it stands at one moment, while others append, delete and clean: what a store that was closed in order then would have left.
**
** The .log of a closed segment is shared by a hard link, where there can be one: nobody writes to such a file any more (segment.h, sdm_segment_unshare).
** Everything else is copied.
*/
#ifndef SDM_LOG_BACKUP_H
#define SDM_LOG_BACKUP_H

#include "log/log.h"

typedef struct sdm_backed_up {
  int64_t log_start, log_end;
  int64_t clean_offset;                  /* the cleaner's checkpoint, -1: none */
} sdm_backed_up;

/* Fills the empty folder `to`, durably, with all that was acknowledged before the call. A log that may be written is flushed first;
** of one that is only read the stage is copied.
** SDM_BUSY: its segments kept changing; or it was neither closed in order nor is it open. SDM_UNKNOWN_TOPIC: deleted meanwhile. */
int sdm_backup_log(sdm_log *l, const char *to, int64_t now, sdm_backed_up *out);

#endif
