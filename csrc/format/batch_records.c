#include "format/batch_records.h"

#include "base/err.h"
#include "format/codec.h"

size_t sdm_batch_records_max(int64_t size) {
  enum { LEAST = 128 * 1024 * 1024, TIMES = 16 };
  int64_t most = size <= INT32_MAX / TIMES ? size * TIMES : INT32_MAX;
  return (size_t)(most > LEAST ? most : LEAST);
}

int sdm_batch_records(const uint8_t *bytes, const sdm_batch *b, size_t limit, sdm_buf *scratch, const uint8_t **records, size_t *size) {
  const uint8_t *stored = bytes + SDM_BATCH_HEADER;
  size_t stored_size = (size_t)b->size - SDM_BATCH_HEADER;
  if (sdm_batch_codec(b) == SDM_CODEC_NONE || b->count == 0) {       /* an emptied batch's payload is not looked at */
    *records = stored;
    *size = stored_size;
    return 0;
  }
  sdm_buf_clear(scratch);
  int rc = sdm_buf_reserve(scratch, 1);                              /* so that no record at all is still a place in memory */
  if (rc == 0) rc = sdm_codec_decompress(sdm_batch_codec(b), stored, stored_size, limit, scratch);
  if (rc < 0) return sdm_fail_within(rc, "batch at offset %lld: ", (long long)b->base_offset);
  *records = scratch->data;
  *size = scratch->size;
  return 0;
}

int sdm_record_iter_open(sdm_record_iter *it, const sdm_batch *b, const uint8_t *bytes, sdm_buf *scratch) {
  const uint8_t *records = NULL;
  size_t size = 0;
  int rc = sdm_batch_records(bytes, b, sdm_batch_records_max(b->size), scratch, &records, &size);
  if (rc == 0) sdm_record_iter_init(it, b, records, size);
  return rc;
}
