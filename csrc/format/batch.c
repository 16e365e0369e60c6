/* The header of a record batch.
**
** Field positions are those of docs/format.md 1. Everything before CRC_FROM may change without a new checksum.
*/
#include "format/batch.h"

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/err.h"

enum {
  AT_BASE_OFFSET = 0,
  AT_LENGTH = 8,
  AT_LEADER_EPOCH = 12,
  AT_MAGIC = 16,
  AT_CRC = 17,
  CRC_FROM = 21,
  AT_ATTRIBUTES = 21,
  AT_LAST_OFFSET_DELTA = 23,
  AT_BASE_TIMESTAMP = 27,
  AT_MAX_TIMESTAMP = 35,
  AT_PRODUCER_ID = 43,
  AT_PRODUCER_EPOCH = 51,
  AT_BASE_SEQUENCE = 53,
  AT_COUNT = 57
};

enum { MAGIC = 2, OLDEST_LENGTH = 14 };   /* the least length field of any format: of a magic 0 message */

/* Says why the header at p, which failed a check of sdm_batch_decode, is refused. */
__attribute__((cold, noinline)) static int refuse(const uint8_t *p, const sdm_batch *b) {
  int32_t length = (int32_t)sdm_get32(p + AT_LENGTH);
  long long base = (long long)b->base_offset;
  if (length < OLDEST_LENGTH) return sdm_fail(SDM_CORRUPT, "batch at offset %lld: length field is %d, not a batch", base, length);
  if (p[AT_MAGIC] < MAGIC) {
    return sdm_fail(SDM_UNSUPPORTED,
                    "batch at offset %lld: message format %d, from before Kafka 0.11; let Kafka 0.11 to 3.9 copy the topic into a new one "
                    "(MirrorMaker does), and take that", base, p[AT_MAGIC]);
  }
  if (p[AT_MAGIC] != MAGIC) return sdm_fail(SDM_CORRUPT, "batch at offset %lld: magic is %d instead of 2", base, p[AT_MAGIC]);
  if (length < SDM_BATCH_HEADER - SDM_BATCH_PREFIX || length > INT32_MAX - SDM_BATCH_PREFIX) {
    return sdm_fail(SDM_CORRUPT, "batch at offset %lld: length field %d is impossible", base, length);
  }
  if (base < 0) return sdm_fail(SDM_CORRUPT, "batch with negative base offset %lld", base);
  if (b->count < 0) return sdm_fail(SDM_CORRUPT, "batch at offset %lld: record count is %d", base, b->count);
  if (sdm_batch_codec(b) > SDM_CODEC_ZSTD) {
    return sdm_fail(SDM_CORRUPT, "batch at offset %lld: codec %d does not exist", base, sdm_batch_codec(b));
  }
  return sdm_fail(SDM_CORRUPT, "batch at offset %lld: last offset delta %d does not fit base offset and %d records", base,
                  b->last_offset_delta, b->count);
}

int sdm_batch_decode(const uint8_t *p, size_t available, sdm_batch *out) {
  if (available < SDM_BATCH_HEADER) return 1;
  uint32_t length = sdm_get32(p + AT_LENGTH);
  sdm_batch b = {
    .base_offset = (int64_t)sdm_get64(p + AT_BASE_OFFSET),
    .size = (int32_t)(length + SDM_BATCH_PREFIX),
    .leader_epoch = (int32_t)sdm_get32(p + AT_LEADER_EPOCH),
    .crc = sdm_get32(p + AT_CRC),
    .attributes = (int16_t)sdm_get16(p + AT_ATTRIBUTES),
    .last_offset_delta = (int32_t)sdm_get32(p + AT_LAST_OFFSET_DELTA),
    .base_timestamp = (int64_t)sdm_get64(p + AT_BASE_TIMESTAMP),
    .max_timestamp = (int64_t)sdm_get64(p + AT_MAX_TIMESTAMP),
    .producer_id = (int64_t)sdm_get64(p + AT_PRODUCER_ID),
    .producer_epoch = (int16_t)sdm_get16(p + AT_PRODUCER_EPOCH),
    .base_sequence = (int32_t)sdm_get32(p + AT_BASE_SEQUENCE),
    .count = (int32_t)sdm_get32(p + AT_COUNT),
  };
  bool bad = p[AT_MAGIC] != MAGIC;
  bad |= length - (SDM_BATCH_HEADER - SDM_BATCH_PREFIX) > (uint32_t)(INT32_MAX - SDM_BATCH_HEADER);
  bad |= (b.count | b.last_offset_delta) < 0;
  bad |= b.last_offset_delta < b.count - (b.count > 0);
  bad |= b.base_offset < 0;
  bad |= b.base_offset > INT64_MAX - (b.last_offset_delta & INT32_MAX);
  bad |= (b.attributes & SDM_ATTR_CODEC) > SDM_CODEC_ZSTD;
  if (__builtin_expect(bad, 0)) return refuse(p, &b);
  *out = b;
  return 0;
}

bool sdm_batch_crc_ok(const uint8_t *p, const sdm_batch *b) {
  return sdm_crc32c(0, p + CRC_FROM, (size_t)b->size - CRC_FROM) == b->crc;
}

void sdm_batch_seal_known(uint8_t *p, const sdm_batch *b, uint32_t records_crc) {
  sdm_put64(p + AT_BASE_OFFSET, (uint64_t)b->base_offset);
  sdm_put32(p + AT_LENGTH, (uint32_t)b->size - SDM_BATCH_PREFIX);
  sdm_put32(p + AT_LEADER_EPOCH, (uint32_t)b->leader_epoch);
  p[AT_MAGIC] = MAGIC;
  sdm_put16(p + AT_ATTRIBUTES, (uint16_t)b->attributes);
  sdm_put32(p + AT_LAST_OFFSET_DELTA, (uint32_t)b->last_offset_delta);
  sdm_put64(p + AT_BASE_TIMESTAMP, (uint64_t)b->base_timestamp);
  sdm_put64(p + AT_MAX_TIMESTAMP, (uint64_t)b->max_timestamp);
  sdm_put64(p + AT_PRODUCER_ID, (uint64_t)b->producer_id);
  sdm_put16(p + AT_PRODUCER_EPOCH, (uint16_t)b->producer_epoch);
  sdm_put32(p + AT_BASE_SEQUENCE, (uint32_t)b->base_sequence);
  sdm_put32(p + AT_COUNT, (uint32_t)b->count);
  uint32_t header_crc = sdm_crc32c(0, p + CRC_FROM, SDM_BATCH_HEADER - CRC_FROM);
  sdm_put32(p + AT_CRC, sdm_crc32c_join(header_crc, records_crc, (size_t)b->size - SDM_BATCH_HEADER));
}

void sdm_batch_seal(uint8_t *p, const sdm_batch *b) {
  sdm_batch_seal_known(p, b, sdm_crc32c(0, p + SDM_BATCH_HEADER, (size_t)b->size - SDM_BATCH_HEADER));
}

void sdm_batch_set_base_offset(uint8_t *p, int64_t base_offset) {
  sdm_put64(p + AT_BASE_OFFSET, (uint64_t)base_offset);
}

void sdm_batch_set_leader_epoch(uint8_t *p, int32_t leader_epoch) {
  sdm_put32(p + AT_LEADER_EPOCH, (uint32_t)leader_epoch);
}
