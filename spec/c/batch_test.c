/* Batch headers and the writer: golden bytes, refusals, round trips. */
#include "format/batch.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "golden.h"

static void check_batch(const sdm_batch *b, const sdm_batch *expected) {
  CHECK_INT(b->base_offset, expected->base_offset);
  CHECK_INT(b->size, expected->size);
  CHECK_INT(b->leader_epoch, expected->leader_epoch);
  CHECK_INT(b->attributes, expected->attributes);
  CHECK_INT(b->last_offset_delta, expected->last_offset_delta);
  CHECK_INT(b->base_timestamp, expected->base_timestamp);
  CHECK_INT(b->max_timestamp, expected->max_timestamp);
  CHECK_INT(b->producer_id, expected->producer_id);
  CHECK_INT(b->producer_epoch, expected->producer_epoch);
  CHECK_INT(b->base_sequence, expected->base_sequence);
  CHECK_INT(b->count, expected->count);
}

static const char *golden_text(char which) {
  return which == 'A' ? GOLDEN_A : which == 'B' ? GOLDEN_B : GOLDEN_C;
}

TEST(golden_headers_decode) {
  for (char which = 'A'; which <= 'C'; which++) {
    uint8_t bytes[GOLDEN_MAX];
    sdm_batch b, expected = golden_batch(which);
    size_t size = test_unhex(bytes, golden_text(which));
    CHECK_INT(size, expected.size);
    CHECK_INT(sdm_batch_decode(bytes, size, &b), 0);
    check_batch(&b, &expected);
    CHECK(sdm_batch_crc_ok(bytes, &b));
    CHECK_INT(sdm_batch_last_offset(&b), 2);
    CHECK_INT(sdm_batch_codec(&b), SDM_CODEC_NONE);
    CHECK_INT(sdm_batch_is(&b, SDM_ATTR_DELETE_HORIZON), which == 'B');
  }
}

static void write_batch(sdm_buf *out, sdm_batch header, const sdm_record *records, int count) {
  sdm_batch_writer w = { .batch = header };
  CHECK_INT(sdm_batch_begin(&w, out), 0);
  for (int i = 0; i < count; i++) CHECK_INT(sdm_batch_add(&w, &records[i]), 0);
  CHECK_INT(sdm_batch_end(&w), 0);
  CHECK_INT(w.batch.count, count);
  CHECK_INT(w.start + (size_t)w.batch.size, out->size);
}

/* What a writer is told beforehand; what `end` finds out is left out, but for what only the caller can know. */
static sdm_batch golden_start(char which) {
  sdm_batch b = golden_batch(which);
  b.size = 0;
  b.count = 0;
  if (which == 'A') b.last_offset_delta = 0;
  if (which != 'C') b.max_timestamp = 0;
  return b;
}

TEST(golden_batches_are_written) {
  sdm_buf out = SDM_BUF_INIT;
  for (char which = 'A'; which <= 'C'; which++) {
    uint8_t bytes[GOLDEN_MAX];
    size_t size = test_unhex(bytes, golden_text(which));
    sdm_buf_clear(&out);
    sdm_buf_append(&out, "before", 6);
    write_batch(&out, golden_start(which), golden_records() + (which == 'B'), golden_batch(which).count);
    CHECK_BYTES(out.data + 6, out.size - 6, bytes, size);
  }
  sdm_buf_free(&out);
}

TEST(base_offset_and_epoch_are_outside_the_crc) {
  uint8_t bytes[GOLDEN_MAX];
  sdm_batch b;
  size_t size = test_unhex(bytes, GOLDEN_A);
  sdm_batch_set_base_offset(bytes, 1234567890123);
  CHECK_INT(sdm_batch_decode(bytes, size, &b), 0);
  CHECK_INT(b.base_offset, 1234567890123);
  CHECK(sdm_batch_crc_ok(bytes, &b));
}

TEST(every_flipped_byte_behind_the_prefix_breaks_the_crc) {
  uint8_t bytes[GOLDEN_MAX];
  sdm_batch b;
  size_t size = test_unhex(bytes, GOLDEN_A);
  CHECK_INT(sdm_batch_decode(bytes, size, &b), 0);
  for (size_t i = 17; i < size; i++) {
    sdm_batch changed = b;
    bytes[i] ^= 0x10;
    changed.crc = sdm_get32(bytes + 17);
    CHECK(!sdm_batch_crc_ok(bytes, &changed));
    bytes[i] ^= 0x10;
  }
}

TEST(too_few_bytes_say_nothing) {
  uint8_t golden[GOLDEN_MAX];
  sdm_batch b;
  test_unhex(golden, GOLDEN_A);
  for (size_t available = 0; available < SDM_BATCH_HEADER; available++) {
    uint8_t *exact = malloc(available + 1);   /* its own block, so that a sanitizer sees a read past it */
    memcpy(exact, golden, available);
    exact = realloc(exact, available ? available : 1);
    CHECK_INT(sdm_batch_decode(exact, available, &b), 1);
    free(exact);
  }
  CHECK_INT(sdm_batch_decode(golden, SDM_BATCH_HEADER, &b), 0);
}

typedef struct refusal {
  size_t at, width;
  uint64_t value;
  int code;
  const char *message;      /* begins so */
} refusal;

static void check_refusal(const refusal *r) {
  uint8_t bytes[GOLDEN_MAX];
  sdm_batch b, before;
  size_t size = test_unhex(bytes, GOLDEN_A);
  for (size_t i = 0; i < r->width; i++) bytes[r->at + i] = (uint8_t)(r->value >> (8 * (r->width - 1 - i)));
  memset(&b, 7, sizeof b);
  before = b;
  CHECK_INT(sdm_batch_decode(bytes, size, &b), r->code);
  if (r->code == 0) return;
  if (!CHECK(strncmp(sdm_errmsg(), r->message, strlen(r->message)) == 0)) printf("  it says: %s\n", sdm_errmsg());
  CHECK_BYTES(&b, sizeof b, &before, sizeof before);
}

TEST(headers_that_contradict_themselves_are_refused) {
  static const refusal rows[] = {
    { 0, 8, UINT64_MAX, SDM_CORRUPT, "batch with negative base offset -1" },
    { 0, 8, INT64_MAX - 1, SDM_CORRUPT, "batch at offset 9223372036854775806: last offset delta" },
    { 0, 8, INT64_MAX - 2, 0, "" },
    { 8, 4, 0, SDM_CORRUPT, "batch at offset 0: length field is 0, not a batch" },
    { 8, 4, 13, SDM_CORRUPT, "batch at offset 0: length field is 13, not a batch" },
    { 8, 4, 48, SDM_CORRUPT, "batch at offset 0: length field 48 is impossible" },
    { 8, 4, 49, 0, "" },
    { 8, 4, 0x7fffffff, SDM_CORRUPT, "batch at offset 0: length field 2147483647 is impossible" },
    { 8, 4, 0x7ffffff4, SDM_CORRUPT, "batch at offset 0: length field 2147483636 is impossible" },
    { 8, 4, 0x7ffffff3, 0, "" },
    { 8, 4, 0xffffffff, SDM_CORRUPT, "batch at offset 0: length field is -1, not a batch" },
    { 8, 4, 0x80000000, SDM_CORRUPT, "batch at offset 0: length field is -2147483648, not a batch" },
    { 16, 1, 0, SDM_UNSUPPORTED, "batch at offset 0: message format 0, from before Kafka 0.11" },
    { 16, 1, 1, SDM_UNSUPPORTED, "batch at offset 0: message format 1, from before Kafka 0.11" },
    { 16, 1, 3, SDM_CORRUPT, "batch at offset 0: magic is 3 instead of 2" },
    { 16, 1, 255, SDM_CORRUPT, "batch at offset 0: magic is 255 instead of 2" },
    { 21, 2, 4, 0, "" },
    { 21, 2, 5, SDM_CORRUPT, "batch at offset 0: codec 5 does not exist" },
    { 21, 2, 7, SDM_CORRUPT, "batch at offset 0: codec 7 does not exist" },
    { 23, 4, 1, SDM_CORRUPT, "batch at offset 0: last offset delta 1 does not fit" },
    { 23, 4, 0xffffffff, SDM_CORRUPT, "batch at offset 0: last offset delta -1 does not fit" },
    { 23, 4, 0x80000000, SDM_CORRUPT, "batch at offset 0: last offset delta -2147483648 does not fit" },
    { 23, 4, 0x7fffffff, 0, "" },
    { 57, 4, 0xffffffff, SDM_CORRUPT, "batch at offset 0: record count is -1" },
    { 57, 4, 0x80000000, SDM_CORRUPT, "batch at offset 0: record count is -2147483648" },
    { 57, 4, 4, SDM_CORRUPT, "batch at offset 0: last offset delta 2 does not fit" },
    { 57, 4, 0x7fffffff, SDM_CORRUPT, "batch at offset 0: last offset delta 2 does not fit" },
    { 57, 4, 0, 0, "" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_refusal(&rows[i]);
}

TEST(zeroes_are_no_batch) {
  uint8_t zeroes[100] = { 0 };
  sdm_batch b;
  CHECK_INT(sdm_batch_decode(zeroes, sizeof zeroes, &b), SDM_CORRUPT);
}

TEST(headers_round_trip) {
  test_random random = { 3 };
  for (int i = 0; i < 20000; i++) {
    uint8_t bytes[200];
    sdm_batch b, back;
    memset(bytes, (int)test_random_below(&random, 256), sizeof bytes);
    b = (sdm_batch){
      .base_offset = (int64_t)(test_random_next(&random) >> 2),
      .size = SDM_BATCH_HEADER + (int32_t)test_random_below(&random, sizeof bytes - SDM_BATCH_HEADER),
      .leader_epoch = (int32_t)test_random_next(&random),
      .attributes = (int16_t)(test_random_next(&random) & 0x78),
      .last_offset_delta = (int32_t)(test_random_next(&random) & INT32_MAX),
      .base_timestamp = (int64_t)test_random_next(&random),
      .max_timestamp = (int64_t)test_random_next(&random),
      .producer_id = (int64_t)test_random_next(&random),
      .producer_epoch = (int16_t)test_random_next(&random),
      .base_sequence = (int32_t)test_random_next(&random),
    };
    b.count = (int32_t)test_random_below(&random, (uint64_t)b.last_offset_delta + 1);
    sdm_batch_seal(bytes, &b);
    if (!CHECK_INT(sdm_batch_decode(bytes, sizeof bytes, &back), 0)) return;
    check_batch(&back, &b);
    CHECK(sdm_batch_crc_ok(bytes, &back));
  }
}

static const sdm_batch plain = { .base_offset = 10, .base_timestamp = 1000, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1 };

TEST(writer_finds_count_times_and_last_offset) {
  sdm_buf out = SDM_BUF_INIT;
  const sdm_record records[] = {
    { .offset = 12, .timestamp = 1000, .key_size = -1, .value_size = -1 },
    { .offset = 15, .timestamp = 5000, .key_size = -1, .value_size = -1 },
    { .offset = 16, .timestamp = 4000, .key_size = -1, .value_size = -1 },
  };
  sdm_batch b;
  write_batch(&out, plain, records, 3);
  CHECK_INT(sdm_batch_decode(out.data, out.size, &b), 0);
  CHECK_INT(b.count, 3);
  CHECK_INT(b.max_timestamp, 5000);
  CHECK_INT(b.last_offset_delta, 6);
  CHECK_INT(b.size, out.size);
  sdm_buf_free(&out);
}

TEST(writer_keeps_append_time_and_a_larger_last_offset) {
  sdm_buf out = SDM_BUF_INIT;
  const sdm_record record = { .offset = 12, .timestamp = 1000, .key_size = -1, .value_size = -1 };
  sdm_batch b, start = plain;
  start.attributes = SDM_ATTR_APPEND_TIME;
  start.max_timestamp = 77;
  start.last_offset_delta = 40;
  write_batch(&out, start, &record, 1);
  CHECK_INT(sdm_batch_decode(out.data, out.size, &b), 0);
  CHECK_INT(b.max_timestamp, 77);
  CHECK_INT(b.last_offset_delta, 40);
  sdm_buf_free(&out);
}

TEST(writer_takes_records_without_a_timestamp) {
  sdm_buf out = SDM_BUF_INIT;
  const sdm_record record = { .offset = 10, .timestamp = SDM_NO_TIMESTAMP, .key_size = -1, .value_size = 0 };
  sdm_batch b, start = plain;
  start.base_timestamp = SDM_NO_TIMESTAMP;
  write_batch(&out, start, &record, 1);
  CHECK_INT(sdm_batch_decode(out.data, out.size, &b), 0);
  CHECK_INT(b.max_timestamp, SDM_NO_TIMESTAMP);
  sdm_buf_free(&out);
}

TEST(writer_refuses_what_does_not_fit) {
  sdm_buf out = SDM_BUF_INIT;
  sdm_batch_writer w = { .batch = plain };
  sdm_record r = { .offset = 10, .value = "", .key_size = -1 };
  CHECK_INT(sdm_batch_begin(&w, &out), 0);
  CHECK_INT(sdm_batch_add(&w, &r), 0);
  size_t size = out.size;
  r.value_size = INT32_MAX - SDM_BATCH_HEADER;   /* never looked at: its size alone is too much */
  CHECK_INT(sdm_batch_add(&w, &r), SDM_TOO_LARGE);
  r.value_size = 0;
  r.offset = 9;
  CHECK_INT(sdm_batch_add(&w, &r), SDM_TOO_LARGE);
  r.offset = (int64_t)INT32_MAX + 11;
  CHECK_INT(sdm_batch_add(&w, &r), SDM_TOO_LARGE);
  r.offset = INT64_MIN;
  CHECK_INT(sdm_batch_add(&w, &r), SDM_TOO_LARGE);
  CHECK_INT(out.size, size);
  CHECK_INT(sdm_batch_end(&w), 0);
  CHECK_INT(w.batch.count, 1);
  sdm_buf_free(&out);
}

static void *allocate_little(void *context, void *old, size_t size) {
  (void)context;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return size <= 128 ? realloc(old, size) : NULL;
}

TEST(writer_survives_short_memory) {
  sdm_buf out = SDM_BUF_INIT;
  sdm_batch_writer w = { .batch = plain };
  char value[200] = { 0 };
  sdm_record r = { .offset = 10, .value = value, .key_size = -1, .value_size = sizeof value };
  sdm_set_allocator(allocate_little, NULL);
  CHECK_INT(sdm_batch_begin(&w, &out), 0);
  CHECK_INT(sdm_batch_add(&w, &r), SDM_NO_MEMORY);
  r.value_size = 3;
  CHECK_INT(sdm_batch_add(&w, &r), 0);
  CHECK_INT(sdm_batch_end(&w), 0);
  CHECK_INT(w.batch.count, 1);
  sdm_buf_free(&out);
  sdm_set_allocator(NULL, NULL);
}
