/* Three batches whose bytes were made by an independent encoder and read by Kafka itself (docs/format.md 1).
**   A  (k="k", v="v1", T), (k="", v="", T+1), (k="k", v=none, T-5, headers h=none, ""="x")
**   B  A after cleaning: record 0 gone, the delete horizon as base timestamp
**   C  the same range with no record left
*/
#ifndef SPEC_C_GOLDEN_H
#define SPEC_C_GOLDEN_H

#include "format/batch.h"
#include "test.h"

#define GOLDEN_T 1700000000000
#define GOLDEN_HORIZON 1700086500000
#define GOLDEN_A                                                                                                                  \
  "00000000000000000000005000000000025cf9edd50000000000020000018bcfe568000000018bcfe56801ffffffffffffffffffffffffffff"           \
  "0000000312000000026b047631000c0002020000001a000904026b0104026801000278"
#define GOLDEN_B                                                                                                                  \
  "00000000000000000000004c0000000002470e42160040000000020000018bd50d4aa00000018bcfe56801ffffffffffffffffffffffffffff"           \
  "000000021200bd8abf52020000002000c98abf5204026b0104026801000278"
#define GOLDEN_C                                                                                                                  \
  "0000000000000000000000310000000002d81926ce000000000002ffffffffffffffff0000018bcfe56801ffffffffffffffffffffffffffff00000000"

/* And an entry of a table's snapshot (docs/format.md 14): k = { "a", 24, x = 0.5 }, in partition 0. */
#define GOLDEN_D "00026b05040261023006040278033fe000000000000006"

enum { GOLDEN_MAX = 128 };

/* The batches' headers, CRC left out. */
static inline sdm_batch golden_batch(char which) {
  sdm_batch b = {
    .size = which == 'A' ? 92 : which == 'B' ? 88 : 61,
    .attributes = which == 'B' ? SDM_ATTR_DELETE_HORIZON : 0,
    .last_offset_delta = 2,
    .base_timestamp = which == 'A' ? GOLDEN_T : which == 'B' ? GOLDEN_HORIZON : SDM_NO_TIMESTAMP,
    .max_timestamp = GOLDEN_T + 1,
    .producer_id = SDM_NO_PRODUCER,
    .producer_epoch = -1,
    .base_sequence = -1,
    .count = which == 'A' ? 3 : which == 'B' ? 2 : 0,
  };
  return b;
}

/* The three records of A; B's are the last two. */
static inline const sdm_record *golden_records(void) {
  static const uint8_t headers[] = { 2, 'h', 1, 0, 2, 'x' };
  static const sdm_record records[] = {
    { 0, GOLDEN_T, "k", "v1", headers, 1, 2, 0, 0 },
    { 1, GOLDEN_T + 1, "", "", headers, 0, 0, 0, 0 },
    { 2, GOLDEN_T - 5, "k", NULL, headers, 1, -1, 2, sizeof headers },
  };
  return records;
}

static inline void check_record(const sdm_record *r, const sdm_record *expected) {
  CHECK_INT(r->offset, expected->offset);
  CHECK_INT(r->timestamp, expected->timestamp);
  CHECK_INT(r->key_size, expected->key_size);
  CHECK_INT(r->value_size, expected->value_size);
  CHECK_INT(r->header_count, expected->header_count);
  CHECK((r->key == NULL) == (r->key_size == -1));
  CHECK((r->value == NULL) == (r->value_size == -1));
  if (r->key_size > 0) CHECK_BYTES(r->key, (size_t)r->key_size, expected->key, (size_t)expected->key_size);
  if (r->value_size > 0) CHECK_BYTES(r->value, (size_t)r->value_size, expected->value, (size_t)expected->value_size);
  CHECK_BYTES(r->headers, (size_t)r->headers_size, expected->headers, (size_t)expected->headers_size);
}

#endif
