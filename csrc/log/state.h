/* Reading and writing a partition's `sediment.state` (format/state_file.h). */
#ifndef SDM_LOG_STATE_H
#define SDM_LOG_STATE_H

#include "format/state_file.h"
#include "log/log.h"

enum { SDM_RESERVE_STEP_MAX = 16777216 };        /* offsets that are reserved at once, at most */

/* A missing or damaged file reads as nothing written. */
int sdm_log_state_read(sdm_fs *fs, const char *dir, sdm_state_file *out);

/* What it says of the last segment, when that begins at `base`: after a roll without an append the file still tells where the one before it ended. */
void sdm_log_state_place(sdm_state_file *s, int64_t base);

/* Writes the next slot, durable on return, from what the control page knows; holding control->lock. clean: the log ends here, in order. */
int sdm_log_state_write_locked(sdm_log *l, int64_t reserved_end, bool clean);

#endif
