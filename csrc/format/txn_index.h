/* Entries of a broker's .txnindex: the aborted transactions that end in a segment (docs/format.md 2.1). No I/O. */
#ifndef SDM_FORMAT_TXN_INDEX_H
#define SDM_FORMAT_TXN_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SDM_TXNINDEX_ENTRY 34

typedef struct sdm_txnindex_entry {
  int64_t producer_id;
  int64_t first, last;        /* offsets: of its first record, of its marker */
  int64_t stable;             /* last stable offset once it had ended: a search for what overlaps a range below ends with it */
} sdm_txnindex_entry;

void sdm_txnindex_encode(uint8_t *p, const sdm_txnindex_entry *e);
bool sdm_txnindex_decode(const uint8_t *p, sdm_txnindex_entry *out);     /* false: not of version 0 */

#endif
