/* How many records each key of a partition has, and how many of them stay: what a compaction goes by where a policy script is asked. Keys are told apart as in
** offset_map.h. Needs some 110 bytes a key.
**
** The log is walked from its start to count (sdm_versions_count), to have the script asked, and to rewrite (both: sdm_versions_next). Each walk meets a key's
** records in the same order.
*/
#ifndef SDM_CLEANER_VERSIONS_H
#define SDM_CLEANER_VERSIONS_H

#include "cleaner/offset_map.h"
#include "format/batch.h"

typedef struct sdm_key_versions {
  int64_t offset, timestamp, bytes;      /* of the last record; bytes of all */
  int64_t keeps;                         /* how many of the last stay, 1 at least; 0: not known yet */
  uint32_t records;                      /* all */
  uint32_t closed;                       /* of them, in what may be rewritten */
  uint32_t met;                          /* by this walk, of closed */
  bool tombstone;                        /* the last one is */
  bool older_stays;                      /* one that this walk has met stays */
  bool given_up;                         /* the key is to be deleted, and has no tombstone yet (expire.h) */
  bool written;                          /* since it was counted */
} sdm_key_versions;

typedef struct sdm_versions {
  sdm_offset_map map;                    /* index into keys */
  sdm_key_versions *keys;
  size_t count, capacity, limit;
} sdm_versions;

int sdm_versions_init(sdm_versions *v, size_t budget, double load_factor);
void sdm_versions_free(sdm_versions *v);

/* The next record in the walk that counts; `closed`: it lies in what may be rewritten. SDM_POLICY: there are more keys than the budget has room for. */
int sdm_versions_count(sdm_versions *v, const sdm_record *r, bool closed);

sdm_key_versions *sdm_versions_find(const sdm_versions *v, const sdm_record *r);     /* NULL: its key was not counted */

void sdm_versions_restart(sdm_versions *v);                                          /* a walk begins */

/* The key's next record of what may be rewritten: whether it is superseded, in that as many newer ones are there as stay. */
bool sdm_versions_next(sdm_key_versions *k);

#endif
