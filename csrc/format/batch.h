/* Kafka's record batch, version 2: bytes in, bytes out, no I/O. The layout is docs/format.md 1.
**
** A batch is a 61-byte header and its records. CRC-32C covers the bytes from `attributes` (21) to the end, so the base offset, the
** length and the leader epoch may be filled in later without a new checksum.
*/
#ifndef SDM_FORMAT_BATCH_H
#define SDM_FORMAT_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SDM_BATCH_HEADER 61           /* bytes before the first record */
#define SDM_BATCH_PREFIX 12           /* base offset and length: what must be read to know a batch's size */
#define SDM_NO_TIMESTAMP (-1)
#define SDM_NO_PRODUCER (-1)

enum {                                /* attributes */
  SDM_ATTR_CODEC = 0x07,
  SDM_ATTR_APPEND_TIME = 0x08,        /* LogAppendTime: max_timestamp is every record's timestamp */
  SDM_ATTR_TRANSACTIONAL = 0x10,
  SDM_ATTR_CONTROL = 0x20,
  SDM_ATTR_DELETE_HORIZON = 0x40      /* base_timestamp is the delete horizon of the batch's tombstones (KIP-534) */
};

typedef enum sdm_codec { SDM_CODEC_NONE, SDM_CODEC_GZIP, SDM_CODEC_SNAPPY, SDM_CODEC_LZ4, SDM_CODEC_ZSTD } sdm_codec;

/* A batch's header, decoded. */
typedef struct sdm_batch {
  int64_t base_offset;
  int32_t size;                       /* of the whole batch in bytes, >= 61 (the length field says size - 12) */
  int32_t leader_epoch;
  uint32_t crc;                       /* as stored */
  int16_t attributes;
  int32_t last_offset_delta;
  int64_t base_timestamp;
  int64_t max_timestamp;
  int64_t producer_id;
  int16_t producer_epoch;
  int32_t base_sequence;
  int32_t count;                      /* of records; 0 in a batch that cleaning emptied */
} sdm_batch;

static inline int64_t sdm_batch_last_offset(const sdm_batch *b) { return b->base_offset + b->last_offset_delta; }
static inline sdm_codec sdm_batch_codec(const sdm_batch *b) { return (sdm_codec)(b->attributes & SDM_ATTR_CODEC); }
static inline bool sdm_batch_is(const sdm_batch *b, int attribute) { return (b->attributes & attribute) != 0; }

/* Decodes the header at p, of which `available` bytes may be read.
** 0: it stands in *out (the records may still lie beyond `available`: compare out->size).
** 1: fewer than SDM_BATCH_HEADER bytes are there: nothing can be said.
** SDM_CORRUPT: the header contradicts itself: size < 61 or > 2^31-1, a magic that is not 2, count < 0, last_offset_delta < 0 or smaller
** than count - 1, base_offset < 0 or base_offset + last_offset_delta beyond 2^63-1, codec 5-7. SDM_UNSUPPORTED: magic 0 or 1 (the
** formats before Kafka 0.11), with the way to convert them in the message. Does not look at the CRC. *out is untouched on failure. */
int sdm_batch_decode(const uint8_t *p, size_t available, sdm_batch *out);

/* Whether the CRC of the whole batch at p (sdm_batch.size bytes) is the one in its header. */
bool sdm_batch_crc_ok(const uint8_t *p, const sdm_batch *b);

/* Writes the header in front of records that already stand at p + 61, and the CRC over everything. */
void sdm_batch_seal(uint8_t *p, const sdm_batch *b);

/* The same for records whose CRC-32C is known. It is believed: bytes that changed since it was taken make a batch that reads as corrupt. */
void sdm_batch_seal_known(uint8_t *p, const sdm_batch *b, uint32_t records_crc);

/* Fills in what is known last, outside the CRC. */
void sdm_batch_set_base_offset(uint8_t *p, int64_t base_offset);
void sdm_batch_set_leader_epoch(uint8_t *p, int32_t leader_epoch);

/* ---- records ---- */

/* Headers of one record, of which a reader makes one table each. More is refused at append, and in a batch of others is damage: it is there to take all
** memory. */
#define SDM_HEADERS_MAX 100000

/* A record. Bytes are borrowed: from the batch when read, from the caller when written. `headers` holds header_count headers in Kafka's
** encoding one after the other, so that they are copied and compared without being taken apart. */
typedef struct sdm_record {
  int64_t offset;
  int64_t timestamp;                  /* SDM_NO_TIMESTAMP when it has none */
  const void *key;                    /* NULL iff key_size is -1 */
  const void *value;                  /* NULL iff value_size is -1: a tombstone */
  const uint8_t *headers;
  int32_t key_size;
  int32_t value_size;
  int32_t header_count;
  int32_t headers_size;
} sdm_record;

/* Walks the uncompressed records of one batch. */
typedef struct sdm_record_iter {
  sdm_batch batch;
  const uint8_t *p, *end;
  int32_t left;                       /* records still to come */
  int64_t last_offset;                /* of the record before; records must ascend */
} sdm_record_iter;

/* `records` is what follows the header (decompressed when the batch was compressed), `size` bytes. */
void sdm_record_iter_init(sdm_record_iter *it, const sdm_batch *b, const uint8_t *records, size_t size);

/* 1: *out is the next record. 0: that was all. SDM_CORRUPT: the records do not add up (a record's length not consumed exactly, bytes left
** over or missing after `count` records, offsets not ascending or beyond last_offset_delta, a key, value or header that leaves its
** record). Under LogAppendTime the timestamp is the batch's max_timestamp. Headers are checked to be well formed. */
int sdm_record_next(sdm_record_iter *it, sdm_record *out);

/* One header of a record: *p moves from headers to headers + headers_size. The bytes were checked by sdm_record_next. */
typedef struct sdm_header {
  const char *name;
  const void *value;                  /* NULL iff value_size is -1 */
  int32_t name_size;
  int32_t value_size;
} sdm_header;

const uint8_t *sdm_header_decode(const uint8_t *p, const uint8_t *end, sdm_header *out);   /* the byte after it; NULL when malformed */
int sdm_header_encode(sdm_buf *out, const sdm_header *h);                                  /* appends; 0 or SDM_NO_MEMORY */

/* ---- writing ---- */

/* Bytes that the record takes in a batch with this base offset and base timestamp. Up to 2^31; more is the caller's to refuse. */
size_t sdm_record_size(const sdm_record *r, int64_t base_offset, int64_t base_timestamp);

/* Writes the record at p, where sdm_record_size bytes are free, and returns the byte after it. */
uint8_t *sdm_record_encode(uint8_t *p, const sdm_record *r, int64_t base_offset, int64_t base_timestamp);

/* Builds a batch at the end of a buffer: begin, add..., end. The caller sets in `batch` before begin: base_offset, leader_epoch,
** attributes, base_timestamp, producer_id, producer_epoch, base_sequence. `end` sets count, max_timestamp (unless the batch is
** LogAppendTime or has no record: then it is the caller's), last_offset_delta (unless the caller set it above that of the last record),
** size, CRC. It compresses the records when the attributes name a codec, with `level`; when more would come out of that than a reader takes
** (batch_records.h) they stay as they are, and the codec goes from the attributes. SDM_UNSUPPORTED: the codec is not built in. */
typedef struct sdm_batch_writer {
  sdm_batch batch;
  int level;                          /* of the codec: sdm_codec_default_level, or as configured */
  sdm_buf *out;
  size_t start;                       /* where in `out` the batch begins */
} sdm_batch_writer;

int sdm_batch_begin(sdm_batch_writer *w, sdm_buf *out);
int sdm_batch_add(sdm_batch_writer *w, const sdm_record *r);   /* offset and timestamp as they shall read; SDM_TOO_LARGE over 2^31-1 */
int sdm_batch_end(sdm_batch_writer *w);

#endif
