/* A batch put together at the end of a buffer. Invariant between calls: the buffer holds room for the header and, behind it, `count` whole
** records; a failed call leaves it as it was.
*/
#include "format/batch.h"

#include "base/bytes.h"
#include "base/err.h"
#include "format/batch_records.h"
#include "format/codec.h"

/* Bytes of a record besides key, value and headers: six varints of an int at most, one of them a long, and the attributes. */
enum { RECORD_EXTRA = 1 + SDM_VARLONG_MAX + 5 * SDM_VARINT_MAX };

int sdm_batch_begin(sdm_batch_writer *w, sdm_buf *out) {
  int rc = sdm_buf_reserve(out, SDM_BATCH_HEADER);
  if (rc < 0) return rc;
  w->out = out;
  w->start = out->size;
  w->batch.count = 0;
  out->size += SDM_BATCH_HEADER;
  return 0;
}

static int refuse_size(const sdm_batch_writer *w) {
  return sdm_fail(SDM_TOO_LARGE, "batch at offset %lld would pass 2^31-1 bytes; write smaller batches", (long long)w->batch.base_offset);
}

int sdm_batch_add(sdm_batch_writer *w, const sdm_record *r) {
  sdm_buf *out = w->out;
  sdm_batch *b = &w->batch;
  int64_t delta;
  if (__builtin_sub_overflow(r->offset, b->base_offset, &delta) || delta < 0 || delta > INT32_MAX) {
    return sdm_fail(SDM_TOO_LARGE, "offset %lld is too far from the batch's base offset %lld", (long long)r->offset,
                    (long long)b->base_offset);
  }
  size_t bytes = (size_t)(r->key_size < 0 ? 0 : r->key_size) + (size_t)(r->value_size < 0 ? 0 : r->value_size) + (size_t)r->headers_size;
  if (out->size - w->start + bytes > INT32_MAX) return refuse_size(w);
  if (out->capacity - out->size < bytes + RECORD_EXTRA) {
    int rc = sdm_buf_reserve(out, bytes + RECORD_EXTRA);
    if (rc < 0) return rc;
  }
  uint8_t *end = sdm_record_encode(out->data + out->size, r, b->base_offset, b->base_timestamp);
  size_t size = (size_t)(end - out->data);
  if (size - w->start > INT32_MAX) return refuse_size(w);
  out->size = size;
  if (!sdm_batch_is(b, SDM_ATTR_APPEND_TIME) && (b->count == 0 || r->timestamp > b->max_timestamp)) b->max_timestamp = r->timestamp;
  if (delta > b->last_offset_delta) b->last_offset_delta = (int32_t)delta;
  b->count++;
  return 0;
}

/* Puts the compressed bytes in the records' place. */
static int put_packed(sdm_batch_writer *w, size_t plain, const sdm_buf *packed) {
  sdm_buf *out = w->out;
  if (packed->size > INT32_MAX - SDM_BATCH_HEADER) return refuse_size(w);
  if (plain > sdm_batch_records_max(SDM_BATCH_HEADER + (int64_t)packed->size)) {
    w->batch.attributes = (int16_t)(w->batch.attributes & ~SDM_ATTR_CODEC);
    return 0;
  }
  out->size = w->start + SDM_BATCH_HEADER;
  return sdm_buf_append(out, packed->data, packed->size);
}

static int compress_records(sdm_batch_writer *w) {
  sdm_buf packed = SDM_BUF_INIT;
  size_t at = w->start + SDM_BATCH_HEADER, plain = w->out->size - at;
  int rc = sdm_codec_compress(sdm_batch_codec(&w->batch), w->level, w->out->data + at, plain, &packed);
  if (rc == 0) rc = put_packed(w, plain, &packed);
  sdm_buf_free(&packed);
  return rc;
}

int sdm_batch_end(sdm_batch_writer *w) {
  int rc = sdm_batch_codec(&w->batch) != SDM_CODEC_NONE && w->batch.count > 0 ? compress_records(w) : 0;
  if (rc < 0) return rc;
  w->batch.size = (int32_t)(w->out->size - w->start);
  sdm_batch_seal(w->out->data + w->start, &w->batch);
  return sdm_batch_decode(w->out->data + w->start, SDM_BATCH_HEADER, &w->batch);   /* for the CRC, and to hold it against the rules */
}
