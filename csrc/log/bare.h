/* Logs that are only read: a bare partition directory, or one of a store that is opened read-only. Nothing is written, created or locked. While
** processes have the store open the end is what their control page says; else it is where the valid batches of the last segment end, looked for anew
** at each call, since a broker may be appending.
*/
#ifndef SDM_LOG_BARE_H
#define SDM_LOG_BARE_H

#include "log/log.h"

int sdm_bare_open(sdm_log *l);           /* finds out which of the two it is */
int sdm_bare_open_on(sdm_fs *fs, const char *dir, sdm_log **out);      /* sdm_log_open_bare, on any disk */
int sdm_bare_refresh(sdm_log *l);        /* brings list, start and end up to date; or the store is open by now, and the page tells (log->control) */
void sdm_bare_end(sdm_log *l, sdm_end *out);      /* what the last look found. A log that was closed in order ends no earlier than was noted then */
int sdm_bare_find_end(sdm_log *l, sdm_segment *last, bool only);       /* bare_end.c: that of the last segment, which may be the only one */

/* SDM_CORRUPT: the last segment holds less than it did when the log was closed in order. *found (may be NULL): what it holds. */
int sdm_bare_check_end(sdm_log *l, sdm_end *found);

/* SDM_CORRUPT: the indexes of a closed segment tell of more than its .log has, which ends at position `size` and offset
** `next_offset`. */
int sdm_bare_check_cut(sdm_log *l, sdm_segment *s, int64_t size, int64_t next_offset);
sdm_log *sdm_log_new(sdm_fs *fs, const char *dir, const char *topic, int32_t partition);   /* log.c */
int sdm_log_reload_bare(sdm_log *l);     /* segment_list.c: reads the list of segments. SDM_BUSY: files went meanwhile */

#endif
