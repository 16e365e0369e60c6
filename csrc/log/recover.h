/* Putting a partition right at its first opening in an incarnation: what a crash left behind, indexes, the tail, the stage.
** The rules are told at the head of recover.c and in docs/format.md 7.
*/
#ifndef SDM_LOG_RECOVER_H
#define SDM_LOG_RECOVER_H

#include "log/log.h"
#include "log/walk.h"

/* Makes l->control anew for l->env->incarnation, holding the control file's lock. `now` becomes the birth of a log that is empty. */
int sdm_recover(sdm_log *l, const sdm_log_config *cfg, int64_t now);

/* recover_files.c: undoes or finishes what .cleaned, .swap and .deleted files tell of; removes index files without a .log; a closed segment that was lost, of
** the offsets from known_from to before known_to that the log is known to have had, gets an empty .log, which its digest tells of. Returns the base
** offsets of the segments, ascending (freed with sdm_free). */
int sdm_recover_files(sdm_fs *fs, const char *dir, int64_t known_from, int64_t known_to, int64_t **bases, size_t *count);

/* The same for the death of an owner of control->lock, while others live on: finishes or undoes the swap that a note tells of, and removes
** what an unfinished roll left behind the active segment. Holds control->lock. */
int sdm_recover_set(sdm_fs *fs, const char *dir, int64_t active_base);

/* reindex.c */
typedef struct sdm_scan_result {
  int64_t position;                      /* end of the last valid batch */
  int64_t next_offset;                   /* after it; the segment's base when there is none */
  int64_t max_timestamp, max_timestamp_offset, first_timestamp;
  int64_t records, last_tombstone;
  int64_t index_entries, timeindex_entries, indexed_timestamp, bytes_since_index;
  int64_t corrupt_batches;               /* damaged ones with valid batches behind them */
  int64_t corrupt_position;              /* of the first of them, -1 */
  bool unsure;                           /* the digest denied many, of which one is damaged, or more */
  bool doubtful;                         /* behind `position` there may be valid ones, which cannot be told from what records hold */
} sdm_scan_result;

/* Reads a whole segment, verifying every batch, and writes both its indexes anew. */
enum {
  SDM_REINDEX_FINAL = 1,                 /* with the closing time index entry */
  SDM_REINDEX_DENSE = SDM_WALK_DENSE,
  SDM_REINDEX_RECORDS = SDM_WALK_RECORDS,
  SDM_REINDEX_DIGEST = 8                 /* and its digest, unless it is damaged; else it is held against the one it has */
};
int sdm_reindex(sdm_segment *s, int64_t size, int64_t interval, unsigned flags, sdm_scan_result *out);

enum { SDM_SURELY_INDEXED = 1 << 20 };   /* with so many bytes behind its first batch a closed segment has an entry in its offset index */

/* Whether both index files exist and pass the glance of format/index.h. Errors of reading count as no. Closes the segment's files. */
bool sdm_indexes_sound(sdm_segment *s, int64_t size, int64_t next_base, bool closed);

#endif
