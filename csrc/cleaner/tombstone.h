/* Every rule about tombstones, and nowhere else. A tombstone is a record with a key and a null value (an empty value is a value).
**
**   1. A tombstone deletes: the first cleaning that maps it drops every older record of its key (that is rule 3 of rewrite.c).
**   2. It stays for delete.retention.ms from the cleaning that first keeps it: its batch then gets a delete horizon (KIP-534), which later
**      cleanings and later values of the config leave as it is.
**   3. It goes in a cleaning at or after the horizon, which may be one that has nothing else to do.
**   4. By then every older record of its key is gone for good: the cleaning that set the horizon rewrote all older segments, in ascending order and
**      each durably, before or together with the one that holds the tombstone.
**   5. Before it goes, the partition's purge floor is durably raised to its offset, so that a reader who was not here to see it is told (resync).
**      That holds for a tombstone which retention deletes as well.
**   8. Where a policy script keeps older records, 4 does not hold: then a tombstone stays, whatever its horizon, as long as an older record of its key does, and the
**      cleaner's checkpoint does not move, so that a cleaning without the script, by us or by a broker, begins with all of it.
** The marker that ends a transaction goes by rules of the same kind:
**
**   6. It stays as it is while a pass meets a batch of its transaction, an emptied one included. What a pass meets it may drop: of an aborted
**      transaction all data.
**   7. The first pass that meets none gives it a delete horizon as in 2; it goes in a pass at or after that. Nobody has to be told: what it ended was
**      gone before. A purge (3 with nothing else to do) leaves markers alone.
** Source of 1-3, 6 and 7: Kafka's cleaner (docs/format.md 8). 4, 5 and 8 are ours.
*/
#ifndef SDM_CLEANER_TOMBSTONE_H
#define SDM_CLEANER_TOMBSTONE_H

#include "cleaner/versions.h"
#include "format/batch.h"
#include "log/log.h"

#define SDM_NO_HORIZON INT64_MAX

/* Delete horizon of a batch, SDM_NO_HORIZON when it has none yet. */
int64_t sdm_batch_horizon(const sdm_batch *b);

/* Whether the tombstone's time is up (rule 3). */
bool sdm_tombstone_expired(const sdm_batch *b, const sdm_record *r, int64_t now);

/* What becomes of the key's next record in a walk (versions.h), in batch `b`; `held`: its segment stays as it is (rule 8). */
typedef enum sdm_fate { SDM_STAYS, SDM_SUPERSEDED, SDM_TIME_IS_UP } sdm_fate;
sdm_fate sdm_version_fate(sdm_key_versions *k, const sdm_batch *b, const sdm_record *r, bool held, int64_t now);

/* The horizon that a batch has after a cleaning at `now` (rule 2); `keeps_tombstone`: one of the records that stay is a tombstone. */
int64_t sdm_horizon_after(const sdm_batch *b, bool keeps_tombstone, const sdm_log_config *cfg, int64_t now);

/* Whether the marker of a transaction that has no data left goes (rule 7), and else the horizon that it has from now on. */
bool sdm_marker_expired(const sdm_batch *b, int64_t now);
int64_t sdm_marker_horizon_after(const sdm_batch *b, const sdm_log_config *cfg, int64_t now);

/* Whether a log's part below `offset` holds a tombstone whose time is up at `now`. 1 yes, 0 no. */
int sdm_tombstones_due(sdm_log *l, int64_t offset, int64_t now);

/* Rule 5 for segments that retention is about to delete. */
int sdm_tombstones_leave_with(sdm_log *l, sdm_segment *const *segments, size_t count);

#endif
