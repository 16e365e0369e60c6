/* Snapshots of state tables: files in the store's root, `sediment.table-<topic id>`, or `-<name>` behind that for those that have one.
**
** One that was opened was read once from end to end, and its checksum was right; in memory it has its index and a hash of each block. An entry is read when it is
** asked for, and its block held against the hash: so that what has become of the file since is noticed. Whoever has taken an entry's value over drops it: from then
** on the snapshot has the rest. Others may replace or remove the file meanwhile.
**
** One that is written takes the place of the old one in a single step, and only once everything is durable that it tells of: else a loss of power could leave a
** snapshot of records that are lost.
*/
#ifndef SDM_STORE_SNAPSHOT_H
#define SDM_STORE_SNAPSHOT_H

#include "format/snapshot.h"
#include "sediment.h"

typedef struct sdm_snapshot sdm_snapshot;
typedef struct sdm_snapshot_writer sdm_snapshot_writer;

enum { SDM_SNAPSHOT_NAME_MAX = 64 };

/* 0, or SDM_MISUSE with the rule: "" for the one without a name, or up to 64 of [a-zA-Z0-9_-]. */
int sdm_snapshot_name_check(const char *name);

/* ---- reading ---- */

/* SDM_NOT_FOUND: there is none. SDM_CORRUPT, SDM_UNSUPPORTED (another version), SDM_IO, SDM_NO_MEMORY, and what becomes of topics. */
int sdm_snapshot_open(sdm_topic *t, const char *name, sdm_snapshot **out);
void sdm_snapshot_free(sdm_snapshot *s);                                   /* NULL is fine */
const sdm_snapshot_head *sdm_snapshot_head_of(const sdm_snapshot *s);
bool sdm_snapshot_is_wide(const sdm_snapshot *s);                          /* it has a whole number beyond 2^53 */
uint64_t sdm_snapshot_left(const sdm_snapshot *s);                         /* entries that were not dropped */

/* Of those: by its key; the first one at *cursor (0: the first of all) or behind it, behind which *cursor stands then. 1, 0: there is none, SDM_IO, SDM_CORRUPT,
** SDM_NO_MEMORY. The entry lasts until the next question; *slot is for sdm_snapshot_drop. */
int sdm_snapshot_find(sdm_snapshot *s, const void *key, size_t size, sdm_snapshot_entry *out, uint64_t *slot);
int sdm_snapshot_next(sdm_snapshot *s, uint64_t *cursor, sdm_snapshot_entry *out, uint64_t *slot);
void sdm_snapshot_drop(sdm_snapshot *s, uint64_t slot);                    /* may be done again */

/* ---- writing ---- */

/* Begins one of `count` keys; topic id and size of the head do not matter. SDM_BUSY: somebody else is just writing it. SDM_READONLY, SDM_IO, SDM_DISK_FULL. */
int sdm_snapshot_begin(sdm_topic *t, const char *name, const sdm_snapshot_head *head, const sdm_snapshot_place *places, sdm_snapshot_writer **out);

/* Adds an entry that is encoded, of a key that has none yet; or all that `s` has left. */
int sdm_snapshot_add(sdm_snapshot_writer *w, const void *entry, size_t size);
int sdm_snapshot_add_rest(sdm_snapshot_writer *w, sdm_snapshot *s);

/* Puts it in place, durably; *bytes are its size. The writer is to be freed in any case, which, before, leaves nothing behind. SDM_UNKNOWN_TOPIC, SDM_IO, SDM_DISK_FULL. */
int sdm_snapshot_commit(sdm_snapshot_writer *w, sdm_topic *t, int64_t now, int64_t *bytes);
void sdm_snapshot_writer_free(sdm_snapshot_writer *w);                     /* NULL is fine */

#endif
