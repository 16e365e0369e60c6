/* Which records of a log a read_committed reader may see: nothing of an aborted transaction, nothing from the first record of one that is still open
** (the last stable offset). Found by one walk over the batch headers of what a broker wrote; Sediment's own records are committed as they are appended.
*/
#ifndef SDM_LOG_TRANSACTIONS_H
#define SDM_LOG_TRANSACTIONS_H

#include "format/txn_index.h"
#include "log/log.h"
#include "log/producers.h"

/* Data of a transaction that was open where damage begins: whether it was committed is not known. */
typedef struct sdm_uncertain {
  int64_t producer_id, first, last;        /* offsets of that data */
  int64_t segment_base, position;          /* of the damage */
} sdm_uncertain;

typedef struct sdm_transactions {
  atomic_int refs;
  sdm_txnindex_entry *aborted;             /* ascending by producer, then offset */
  size_t count, capacity;
  sdm_uncertain *uncertain;
  size_t uncertain_count, uncertain_capacity;
  int64_t first_open;                      /* offset at which the first open one begins: the last stable offset; INT64_MAX: none is open */
  sdm_producers producers;
} sdm_transactions;

/* What the log, as it stands, has of transactions: a reference; NULL: nothing, the log was written by Sediment alone. A store's log remembers it
** until its segments change. */
int sdm_transactions_get(sdm_log *l, sdm_transactions **out);
bool sdm_transactions_may_be(const sdm_log *l);
void sdm_transactions_unref(sdm_transactions *t);                                 /* NULL is fine */

/* The aborted transaction that the batch is of, or ends; NULL: none. */
const sdm_txnindex_entry *sdm_transactions_find(const sdm_transactions *t, const sdm_batch *b);

/* Whether a batch of data is of an aborted transaction. */
bool sdm_transactions_hide(const sdm_transactions *t, const sdm_batch *b);

/* SDM_CORRUPT: what the batch is of cannot be told, for damage lies between it and the end of its transaction. Else 0. */
int sdm_transactions_check(const sdm_transactions *t, const sdm_batch *b, const char *dir);

/* What the control batch says: the end of a transaction (*coordinator_epoch, which may be NULL, is set), or something else. */
typedef enum sdm_marker { SDM_MARKER_NONE = -1, SDM_MARKER_ABORT, SDM_MARKER_COMMIT } sdm_marker;
sdm_marker sdm_marker_of(const sdm_batch *b, const uint8_t *bytes, int32_t *coordinator_epoch);

#endif
