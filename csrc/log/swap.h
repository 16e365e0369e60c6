/* Putting a cleaned segment in the place of the segments it was made from, so that a crash at any instant leaves either all of the old ones
** or the new one. The steps are Kafka's (docs/format.md 7), and one of ours: `sediment.swap` names the range that is replaced, since what
** survived in the new segment may end far before the last old one does.
*/
#ifndef SDM_LOG_SWAP_H
#define SDM_LOG_SWAP_H

#include "log/log.h"
#include "os/fs.h"

#define SDM_SWAP_NAME "sediment.swap"

/* `<base>.log.cleaned` and its indexes are complete and synced; they take the place of the segments with from <= base < to (base is `from`).
** Holds control->lock. On failure before the point of no return the old segments stand and the .cleaned files are gone. */
int sdm_swap_locked(sdm_log *l, int64_t from, int64_t to, int64_t now);

/* Writes the note that sdm_swap_locked begins with; durable on return. */
int sdm_swap_note(sdm_log *l, int64_t from, int64_t to);

/* Recovery: the range of an interrupted swap; false when there is no (valid) note of one. */
bool sdm_swap_read(sdm_fs *fs, const char *dir, int64_t *from, int64_t *to);

/* Of a folder with these names: the .swap files with from <= base < to are past their point of no return, and take the place of the segments with bases in
** that range. Those from the lowest .cleaned on are not: their swap had not begun for good. from == to: there are none. */
int sdm_swap_pending(sdm_fs *fs, const char *dir, const sdm_names *names, int64_t *from, int64_t *to);

#endif
