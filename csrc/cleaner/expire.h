/* Deleting keys that a policy script gives up: each gets a tombstone at the end of the log, as if somebody had deleted it, so that every reader, table and consumer
** learns of it as of any deletion, and what it deletes goes by the rules of tombstone.h.
**
** A key that has been written since the script was told of it must not be deleted. So from the end that the log had then every record is looked at, of whatever key
** (`written` in versions.h), and the tombstones are appended only where the log still ends behind the last one.
*/
#ifndef SDM_CLEANER_EXPIRE_H
#define SDM_CLEANER_EXPIRE_H

#include "cleaner/versions.h"
#include "log/log.h"

typedef struct sdm_expired_key {
  sdm_key_versions *counts;
  size_t at;                             /* of its bytes */
  int32_t size;
} sdm_expired_key;

typedef struct sdm_expiry {
  sdm_log *log;
  const sdm_log_config *cfg;
  sdm_versions *versions;                /* nothing is added to it any more */
  int64_t now;
  int64_t seen;                          /* all records below were looked at */
  int64_t count;                         /* of tombstones */
  sdm_failure too_large;                 /* the first tombstone that the topic does not take: it stays away, and keeps no other */
  sdm_buf bytes, scratch;
  sdm_expired_key *keys;
  size_t key_count, capacity;
} sdm_expiry;                            /* zeroed but for what is given: log, cfg, versions, now, seen */

/* The key of a record. When many are gathered their tombstones are appended. */
int sdm_expiry_add(sdm_expiry *x, const sdm_record *r, sdm_key_versions *counts);

/* Appends those that are left. Where others append without a pause some may be left for the next time. Codes of sdm_log_append. */
int sdm_expiry_end(sdm_expiry *x);
void sdm_expiry_free(sdm_expiry *x);

#endif
