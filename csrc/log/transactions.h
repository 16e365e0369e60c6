/* Which records of a log a read_committed reader may see: nothing of an aborted transaction, nothing from the first record of one that is still open
** (the last stable offset). Found by one walk over the batch headers; only logs that Kafka wrote have transactions.
*/
#ifndef SDM_LOG_TRANSACTIONS_H
#define SDM_LOG_TRANSACTIONS_H

#include "log/log.h"

typedef struct sdm_transaction {
  int64_t producer_id, first, last;        /* offsets; last: of the marker */
} sdm_transaction;

typedef struct sdm_transactions {
  sdm_transaction *aborted;
  size_t count, capacity;
  int64_t stable_end;                      /* the last stable offset */
} sdm_transactions;                        /* zero-initialised is empty */

int sdm_transactions_read(sdm_log *l, int64_t end, sdm_transactions *out);
bool sdm_transactions_hide(const sdm_transactions *t, const sdm_batch *b);
void sdm_transactions_free(sdm_transactions *t);

#endif
