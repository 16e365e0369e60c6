/* One batch: header, CRC, records by its codec, their headers. The first byte says what is done to the rest before: nothing; length and CRC put right; or
** the records compressed by the codec of its attributes as well, so that changes reach what lies behind the decompression.
*/
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "format/batch.h"
#include "format/batch_records.h"
#include "format/codec.h"
#include "fuzz/fuzz.h"

enum { AS_IS, MENDED, COMPRESSED, WAYS };

static void compress(sdm_buf *b) {
  sdm_codec codec = (sdm_codec)(b->data[22] & SDM_ATTR_CODEC);
  sdm_buf whole = SDM_BUF_INIT;
  if (codec > SDM_CODEC_ZSTD || !sdm_codec_available(codec)) return;
  if (sdm_buf_append(&whole, b->data, SDM_BATCH_HEADER) < 0) abort();
  const uint8_t *records = b->data + SDM_BATCH_HEADER;
  if (sdm_codec_compress(codec, sdm_codec_default_level(codec), records, b->size - SDM_BATCH_HEADER, &whole) < 0) abort();
  sdm_buf_free(b);
  *b = whole;
  sdm_put32(b->data + 8, (uint32_t)(b->size - SDM_BATCH_PREFIX));
}

static void walk_headers(const sdm_record *r) {
  const uint8_t *p = r->headers, *end = p + r->headers_size;
  sdm_header h;
  for (int32_t i = 0; i < r->header_count; i++) MUST((p = sdm_header_decode(p, end, &h)) != NULL);
  MUST(p == end);
}

/* What was read can be written again, and reads as the same. */
static void write_again(const sdm_record *r) {
  sdm_batch_writer w = {.batch = {.base_offset = r->offset, .base_timestamp = r->timestamp, .producer_id = SDM_NO_PRODUCER}};
  sdm_buf out = SDM_BUF_INIT, scratch = SDM_BUF_INIT;
  sdm_batch b;
  sdm_record_iter it;
  sdm_record back;
  w.out = &out;
  if (sdm_batch_begin(&w, &out) < 0 || sdm_batch_add(&w, r) < 0 || sdm_batch_end(&w) < 0) abort();
  MUST(sdm_batch_decode(out.data, out.size, &b) == 0 && (size_t)b.size == out.size && sdm_batch_crc_ok(out.data, &b));
  MUST(sdm_record_iter_open(&it, &b, out.data, &scratch) == 0 && sdm_record_next(&it, &back) == 1);
  MUST(back.offset == r->offset && back.timestamp == r->timestamp && back.key_size == r->key_size && back.value_size == r->value_size);
  MUST(r->key_size <= 0 || memcmp(back.key, r->key, (size_t)r->key_size) == 0);
  MUST(r->value_size <= 0 || memcmp(back.value, r->value, (size_t)r->value_size) == 0);
  sdm_buf_free(&out);
  sdm_buf_free(&scratch);
}

static void walk(const uint8_t *bytes, const sdm_batch *b) {
  sdm_buf scratch = SDM_BUF_INIT;
  sdm_record_iter it;
  sdm_record r;
  int64_t last = b->base_offset - 1;
  int rc = sdm_record_iter_open(&it, b, bytes, &scratch);
  for (int i = 0; rc == 0 && i < FUZZ_RECORDS_MAX && (rc = sdm_record_next(&it, &r)) == 1; i++) {
    MUST(r.offset > last && r.offset <= sdm_batch_last_offset(b));
    last = r.offset;
    walk_headers(&r);
    if (i == 0) write_again(&r);
    rc = 0;
  }
  sdm_buf_free(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sdm_buf b = SDM_BUF_INIT;
  sdm_batch batch;
  if (size == 0) return 0;
  int way = data[0] % WAYS;
  if (sdm_buf_append(&b, data + 1, size - 1) < 0) abort();
  if (way == COMPRESSED && b.size >= SDM_BATCH_HEADER) compress(&b);
  if (way != AS_IS) fuzz_mend_batches(b.data, b.size);
  uint8_t *exact = malloc(b.size ? b.size : 1);          /* so that a read behind the end is seen */
  if (!exact) abort();
  if (b.size) memcpy(exact, b.data, b.size);
  if (sdm_batch_decode(exact, b.size, &batch) == 0 && (size_t)batch.size <= b.size) {
    bool sound = sdm_batch_crc_ok(exact, &batch);
    MUST(sound || way == AS_IS);
    walk(exact, &batch);                                 /* with a bad CRC, too: what a loss of power left may have any */
  }
  free(exact);
  sdm_buf_free(&b);
  return 0;
}
