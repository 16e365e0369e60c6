/* Deleting keys that a policy script gives up: each gets a tombstone at the end of the log, as if somebody had deleted it, so that every reader, table and consumer
** learns of it as of any deletion, and what it deletes goes by the rules of tombstone.h.
**
** A key that has been written since the script was asked must not be deleted: the tombstones are appended only where the log still ends behind the last record that
** was looked at.
*/
#ifndef SDM_CLEANER_EXPIRE_H
#define SDM_CLEANER_EXPIRE_H

#include "base/xxh.h"
#include "log/log.h"

typedef struct sdm_expired_key {
  size_t at;                             /* of its bytes */
  int32_t size;
  bool written;                          /* it has a newer record */
} sdm_expired_key;

typedef struct sdm_expired {
  sdm_buf bytes;
  sdm_expired_key *keys;
  size_t count, capacity;
} sdm_expired;                           /* zero-initialised is empty */

int sdm_expired_add(sdm_expired *e, const void *key, int32_t size);
void sdm_expired_free(sdm_expired *e);

/* Appends the tombstones and empties *e. *seen: the log was looked at up to there, and now is up to what it is set to. Adds to *count. Where others append without a pause the rest
** is left for the next time. Codes of sdm_log_append. */
int sdm_expire(sdm_log *l, const sdm_log_config *cfg, sdm_expired *e, int64_t now, int64_t *seen, int64_t *count);

#endif
