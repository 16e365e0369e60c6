#include "cleaner/transactional.h"

#include "base/err.h"
#include "base/mem.h"

int sdm_txn_pass_begin(sdm_txn_pass *t, sdm_log *l) {
  int rc = sdm_transactions_get(l, &t->known);
  if (rc < 0 || !t->known || t->known->uncertain_count == 0) return rc;
  return sdm_fail(SDM_CORRUPT, "%s: damage hides how a transaction ended", l->dir);
}

void sdm_txn_pass_end(sdm_txn_pass *t) {
  sdm_transactions_unref(t->known);
  sdm_producers_free(&t->met);
  *t = (sdm_txn_pass){0};
}

bool sdm_txn_is_aborted(const sdm_txn_pass *t, const sdm_batch *b) { return t->known && sdm_transactions_hide(t->known, b); }

bool sdm_txn_is_needed(const sdm_txn_pass *t, const sdm_batch *b, int64_t now) { return t->known && sdm_producers_need(&t->known->producers, b, now); }

int sdm_txn_met_data(sdm_txn_pass *t, const sdm_batch *b) {
  if (!t->known || b->producer_id < 0 || !sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL)) return 0;
  sdm_producer *p = sdm_producers_at(&t->met, b->producer_id);
  if (!p) return sdm_no_memory();
  if (p->first_open < 0) p->first_open = b->base_offset;
  return 0;
}

bool sdm_txn_met_marker(sdm_txn_pass *t, const sdm_batch *b) {
  sdm_producer *p = sdm_producers_find(&t->met, b->producer_id);
  bool without_data = !p || p->first_open < 0;
  if (p) p->first_open = -1;
  return without_data;
}

const sdm_txnindex_entry *sdm_txn_entry(const sdm_txn_pass *t, const sdm_batch *b) {
  const sdm_txnindex_entry *e = t->known ? sdm_transactions_find(t->known, b) : NULL;
  return e && e->last == sdm_batch_last_offset(b) ? e : NULL;
}
