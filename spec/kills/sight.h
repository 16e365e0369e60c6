/* What one reading of a topic sees, held against the ledger record by record. What is wrong ends the process (slot.h).
**
** Every record must be one that its author has begun, as it was appended, at the offset that was acknowledged, once, and in its author's order. From
** `dense` on nothing was ever taken out: there offsets have no gap, no acknowledged record is missing, and of a batch all or nothing is there. Below it only
** a cleaning may have taken records out: check_keys knows which.
*/
#ifndef SPEC_KILLS_SIGHT_H
#define SPEC_KILLS_SIGHT_H

#include "kills/ledger.h"

typedef struct sight {
  int topic;
  int64_t dense;
  int64_t last;                            /* offset of the last record, -1 */
  uint32_t next[AUTHORS];                  /* number that an author's next record has at least */
  bool came[AUTHORS];                      /* whether the record before that was seen */
  int64_t newest[KEYS];                    /* offset of the last record of each key, -1 */
  uint64_t count;
} sight;

void sight_begin(sight *s, int topic, int64_t dense);
void sight_begin_again(sight *s, int64_t start);                   /* the log's start has passed this reader */
void sight_take(sight *s, const sdm_record *r);                    /* the next record */
int64_t sight_read(sight *s, sdm_log *log, int64_t from);          /* to the end of the log; the position; negative: a failure that the caller judges */
void sight_end(const sight *s, int64_t end);                       /* everything below `end` was to be seen */

/* Of each key the last record below `end` must have been seen, or a later one; or its tombstone has gone, as the purge floor tells, and all before it. `still`:
** nothing at or above `end` has ever been in what was read, so that nothing later can have taken its place unseen. */
void check_keys(const sight *s, int64_t end, int64_t floor, bool still);

#endif
