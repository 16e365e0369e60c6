#include "format/txn_index.h"

#include "base/bytes.h"

void sdm_txnindex_encode(uint8_t *p, const sdm_txnindex_entry *e) {
  sdm_put16(p, 0);
  sdm_put64(p + 2, (uint64_t)e->producer_id);
  sdm_put64(p + 10, (uint64_t)e->first);
  sdm_put64(p + 18, (uint64_t)e->last);
  sdm_put64(p + 26, (uint64_t)e->stable);
}

bool sdm_txnindex_decode(const uint8_t *p, sdm_txnindex_entry *out) {
  out->producer_id = (int64_t)sdm_get64(p + 2);
  out->first = (int64_t)sdm_get64(p + 10);
  out->last = (int64_t)sdm_get64(p + 18);
  out->stable = (int64_t)sdm_get64(p + 26);
  return sdm_get16(p) == 0;
}
