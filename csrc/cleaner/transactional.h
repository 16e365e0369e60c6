/* What a cleaning pass must know of transactions: which data is of an aborted one, and which markers have lost all of their data. The rules of when a
** marker goes are with those of tombstones (tombstone.h).
*/
#ifndef SDM_CLEANER_TRANSACTIONAL_H
#define SDM_CLEANER_TRANSACTIONAL_H

#include "log/transactions.h"

typedef struct sdm_txn_pass {
  sdm_transactions *known;               /* of the log as the pass began; NULL: Sediment alone wrote it */
  sdm_producers met;                     /* first_open: first batch of data since its producer's last marker that this pass has met, -1 */
} sdm_txn_pass;                          /* zero-initialised is valid for a log without transactions */

int sdm_txn_pass_begin(sdm_txn_pass *t, sdm_log *l);
void sdm_txn_pass_end(sdm_txn_pass *t);

bool sdm_txn_is_aborted(const sdm_txn_pass *t, const sdm_batch *b);                  /* a batch of data */
bool sdm_txn_is_needed(const sdm_txn_pass *t, const sdm_batch *b, int64_t now);      /* a broker knows its producer by it: at least its header stays */

/* Batches are told in the order of the log. */
int sdm_txn_met_data(sdm_txn_pass *t, const sdm_batch *b);

/* Of a marker: whether the pass met no data of its transaction. It ends the transaction for what follows. */
bool sdm_txn_met_marker(sdm_txn_pass *t, const sdm_batch *b);

/* The entry of .txnindex for a marker of an abort, NULL when there is none. */
const sdm_txnindex_entry *sdm_txn_entry(const sdm_txn_pass *t, const sdm_batch *b);

#endif
