/* Records: golden bytes, boundaries of the fast way, round trips, and every kind of damage held against a second, plain decoder.
**
** Damaged bytes are decoded from a block of exactly their size, so that the sanitized run of this test sees any read outside.
*/
#include "format/batch.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include "golden.h"

enum { RECORDS_MAX = 64 };

/* ---- the plain decoder: no fast way, nothing shared with the one under test ---- */

typedef struct cursor {
  const uint8_t *p;
  size_t left;
  bool bad;
} cursor;

static uint8_t plain_byte(cursor *c) {
  if (c->left == 0) {
    c->bad = true;
    return 0;
  }
  c->left--;
  return *c->p++;
}

static int64_t plain_varint(cursor *c, int longest) {
  uint64_t z = 0;
  for (int i = 0; i < longest; i++) {
    uint8_t byte = plain_byte(c);
    z |= (uint64_t)(byte & 127) << (7 * i);
    if (byte < 128) {
      if (longest == 5) z &= 0xffffffff;
      return z % 2 ? -(int64_t)(z / 2) - 1 : (int64_t)(z / 2);
    }
  }
  c->bad = true;
  return 0;
}

static cursor plain_part(cursor *c, int64_t size) {
  cursor part = { c->p, 0, false };
  if (c->bad || size < 0 || (uint64_t)size > c->left) {
    c->bad = true;
    return part;
  }
  part.left = (size_t)size;
  c->p += size;
  c->left -= (size_t)size;
  return part;
}

static const void *plain_bytes(cursor *c, int32_t *size) {
  *size = (int32_t)plain_varint(c, 5);
  return *size == -1 ? NULL : plain_part(c, *size).p;
}

static void plain_headers(cursor *c, sdm_record *r) {
  int32_t size;
  r->header_count = (int32_t)plain_varint(c, 5);
  r->headers = c->p;
  r->headers_size = (int32_t)c->left;
  if (r->header_count < 0) c->bad = true;
  for (int32_t i = 0; i < r->header_count && !c->bad; i++) {
    plain_bytes(c, &size);
    if (size < 0) c->bad = true;
    plain_bytes(c, &size);
  }
  if (c->left > 0) c->bad = true;
}

/* How many records come before the first bad one; *bad: there is one. */
static int plain_decode(const sdm_batch *b, const uint8_t *p, size_t size, sdm_record *out, bool *bad) {
  cursor c = { p, size, false };
  int64_t last = -1;
  *bad = false;
  for (int i = 0; i < b->count; i++) {
    cursor body = plain_part(&c, plain_varint(&c, 5));
    sdm_record r;
    plain_byte(&body);
    int64_t timestamp = plain_varint(&body, 10), delta = plain_varint(&body, 5);
    r.offset = b->base_offset + delta;
    r.timestamp = b->attributes & SDM_ATTR_APPEND_TIME ? b->max_timestamp : (int64_t)((uint64_t)b->base_timestamp + (uint64_t)timestamp);
    r.key = plain_bytes(&body, &r.key_size);
    r.value = plain_bytes(&body, &r.value_size);
    plain_headers(&body, &r);
    if (c.bad || body.bad || delta <= last || delta > b->last_offset_delta || (i == b->count - 1 && c.left > 0) || i == RECORDS_MAX) {
      *bad = true;
      return i;
    }
    last = delta;
    out[i] = r;
  }
  return b->count;
}

/* ---- the two against each other ---- */

static bool same_record(const sdm_record *a, const sdm_record *b) {
  return a->offset == b->offset && a->timestamp == b->timestamp && a->key == b->key && a->value == b->value && a->headers == b->headers &&
         a->key_size == b->key_size && a->value_size == b->value_size && a->header_count == b->header_count &&
         a->headers_size == b->headers_size;
}

/* Decodes both ways; the records and the verdict must agree. Returns how many records there were, -1 when the bytes are bad. */
static int check_both(const sdm_batch *b, const uint8_t *bytes, size_t size) {
  static sdm_record expected[RECORDS_MAX];
  uint8_t *exact = malloc(size ? size : 1);
  sdm_record_iter it;
  sdm_record r = { 0 };
  bool bad;
  int n = 0, rc;
  if (size > 0) memcpy(exact, bytes, size);
  int count = plain_decode(b, exact, size, expected, &bad);
  sdm_record_iter_init(&it, b, exact, size);
  while ((rc = sdm_record_next(&it, &r)) == 1) {
    if (!CHECK(n < count) || !CHECK(same_record(&r, &expected[n]))) break;
    n++;
  }
  CHECK_INT(n, count);
  CHECK_INT(rc, bad ? SDM_CORRUPT : 0);
  sdm_record before = r;
  CHECK_INT(sdm_record_next(&it, &r), rc);   /* the end and a failure stay */
  CHECK(same_record(&r, &before));
  free(exact);
  return bad ? -1 : n;
}

/* ---- golden ---- */

TEST(golden_records_decode) {
  static const char *const texts[] = { GOLDEN_A, GOLDEN_B, GOLDEN_C };
  for (int which = 0; which < 3; which++) {
    uint8_t bytes[GOLDEN_MAX];
    sdm_batch b;
    sdm_record_iter it;
    sdm_record r;
    size_t size = test_unhex(bytes, texts[which]);
    CHECK_INT(sdm_batch_decode(bytes, size, &b), 0);
    sdm_record_iter_init(&it, &b, bytes + SDM_BATCH_HEADER, size - SDM_BATCH_HEADER);
    for (int i = which; i < 3 && which < 2; i++) {
      if (CHECK_INT(sdm_record_next(&it, &r), 1)) check_record(&r, &golden_records()[i]);
    }
    CHECK_INT(sdm_record_next(&it, &r), 0);
  }
}

TEST(golden_records_have_their_size) {
  uint8_t bytes[64];
  const size_t sizes[] = { 10, 7, 14 };
  for (int i = 0; i < 3; i++) {
    CHECK_INT(sdm_record_size(&golden_records()[i], 0, GOLDEN_T), sizes[i]);
    CHECK_INT(sdm_record_encode(bytes, &golden_records()[i], 0, GOLDEN_T) - bytes, sizes[i]);
  }
  CHECK_INT(sdm_record_size(&golden_records()[2], 0, GOLDEN_HORIZON), 17);
}

/* ---- damage ---- */

typedef struct sample {
  sdm_batch batch;
  size_t size;                 /* of the records */
  uint8_t records[1024];
} sample;

static void load_golden(sample *s, const char *text) {
  uint8_t bytes[GOLDEN_MAX];
  size_t size = test_unhex(bytes, text);
  CHECK_INT(sdm_batch_decode(bytes, size, &s->batch), 0);
  s->size = size - SDM_BATCH_HEADER;
  memcpy(s->records, bytes + SDM_BATCH_HEADER, s->size);
}

/* Records that take the fast way, and some between them that do not. */
static void load_mixed(sample *s) {
  static const char text[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  static const uint8_t headers[] = { 2, 'h', 1 };
  static const sdm_record records[] = {
    { 100, 5000, text, text, headers, 16, 70, 0, 0 },
    { 101, 5001, text, NULL, headers, 16, -1, 0, 0 },
    { 103, 4000, NULL, text, headers, -1, 20, 0, 0 },
    { 104, 5000, text, text, headers, 3, 9, 1, 3 },
    { 200, 99000, "", text, headers, 0, 64, 0, 0 },
    { 201, 5003, text, "", headers, 70, 0, 0, 0 },
    { 207, 5003, NULL, NULL, headers, -1, -1, 0, 0 },
    { 208, 5003, text, text, headers, 8, 30, 0, 0 },
  };
  sdm_buf out = SDM_BUF_INIT;
  sdm_batch_writer w = { .batch = { .base_offset = 100, .base_timestamp = 5000 } };
  CHECK_INT(sdm_batch_begin(&w, &out), 0);
  for (size_t i = 0; i < sizeof records / sizeof *records; i++) CHECK_INT(sdm_batch_add(&w, &records[i]), 0);
  CHECK_INT(sdm_batch_end(&w), 0);
  s->batch = w.batch;
  s->size = out.size - SDM_BATCH_HEADER;
  memcpy(s->records, out.data + SDM_BATCH_HEADER, s->size);
  sdm_buf_free(&out);
}

static void for_each_sample(void (*check)(const sample *)) {
  sample s;
  load_golden(&s, GOLDEN_A);
  check(&s);
  load_golden(&s, GOLDEN_B);
  check(&s);
  load_golden(&s, GOLDEN_C);
  check(&s);
  load_mixed(&s);
  check(&s);
}

static void check_sound(const sample *s) {
  CHECK_INT(check_both(&s->batch, s->records, s->size), s->batch.count);
}

static void check_truncated(const sample *s) {
  for (size_t size = 0; size < s->size; size++) {
    CHECK_INT(check_both(&s->batch, s->records, size), -1);
  }
}

static void check_extended(const sample *s) {
  sample longer = *s;
  longer.records[longer.size++] = 0;
  CHECK_INT(check_both(&longer.batch, longer.records, longer.size), s->batch.count ? -1 : 0);
}

static void check_mutated(const sample *s) {
  sample m = *s;
  for (size_t i = 0; i < m.size; i++) {
    for (int x = 1; x < 256; x++) {
      m.records[i] = s->records[i] ^ (uint8_t)x;
      check_both(&m.batch, m.records, m.size);
    }
    m.records[i] = s->records[i];
  }
}

/* Every byte replaced by the encoding of a number no field can have, or only some: those that are length fields are among them. */
static void check_spliced(const sample *s) {
  static const int64_t values[] = {
    -1, 0, 1, 63, 64, 8191, 8192, -2, -64, -8192, INT32_MAX, INT32_MIN, INT32_MAX - 1, INT64_MAX, INT64_MIN,
  };
  for (size_t i = 0; i < s->size; i++) {
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      sample m = *s;
      uint8_t *end = sdm_put_varlong(m.records + i, values[k]);
      memcpy(end, s->records + i + 1, s->size - i - 1);
      m.size = (size_t)(end - m.records) + s->size - i - 1;
      check_both(&m.batch, m.records, m.size);
    }
  }
}

static void check_counts(const sample *s) {
  static const int32_t counts[] = { 0, 1, 2, 3, 7, 8, 9, INT32_MAX };
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    sdm_batch b = s->batch;
    b.count = counts[i];
    if (b.count == 0) CHECK_INT(check_both(&b, s->records, 0), 0);
    else check_both(&b, s->records, s->size);
    b = s->batch;
    b.last_offset_delta = counts[i];
    check_both(&b, s->records, s->size);
  }
}

TEST(samples_are_sound) { for_each_sample(check_sound); }
TEST(every_truncation_is_found) { for_each_sample(check_truncated); }
TEST(a_byte_too_many_is_found) { for_each_sample(check_extended); }
TEST(every_changed_byte_is_judged_right) { for_each_sample(check_mutated); }
TEST(every_impossible_number_is_judged_right) { for_each_sample(check_spliced); }
TEST(wrong_counts_and_last_offsets_are_judged_right) { for_each_sample(check_counts); }

/* The whole batch, header and all, with one byte changed: what the header's check lets through is decoded. */
TEST(every_changed_header_byte_is_survived) {
  uint8_t bytes[GOLDEN_MAX];
  size_t size = test_unhex(bytes, GOLDEN_A);
  for (size_t i = 0; i < SDM_BATCH_HEADER; i++) {
    for (int x = 1; x < 256; x++) {
      sdm_batch b;
      bytes[i] ^= (uint8_t)x;
      if (sdm_batch_decode(bytes, size, &b) == 0) check_both(&b, bytes + SDM_BATCH_HEADER, size - SDM_BATCH_HEADER);
      bytes[i] ^= (uint8_t)x;
    }
  }
}

TEST(noise_is_judged_right) {
  test_random random = { 5 };
  for (int round = 0; round < 100000; round++) {
    uint8_t noise[64];
    sdm_batch b = { .base_offset = 5, .base_timestamp = INT64_MAX, .last_offset_delta = 1000 };
    size_t size = test_random_below(&random, sizeof noise);
    for (size_t i = 0; i < size; i++) noise[i] = (uint8_t)(test_random_next(&random) >> test_random_below(&random, 8));
    b.count = 1 + (int32_t)test_random_below(&random, 3);
    if (size > 0) noise[0] = (uint8_t)(2 * test_random_below(&random, size));   /* a length that is often right */
    check_both(&b, noise, size);
  }
}

TEST(refusals_say_where_and_why) {
  sample s;
  sdm_record_iter it;
  sdm_record r;
  load_mixed(&s);
  s.batch.last_offset_delta = 103;
  sdm_record_iter_init(&it, &s.batch, s.records, s.size);
  while (sdm_record_next(&it, &r) == 1) { }
  CHECK_STR(sdm_errmsg(), "batch at offset 100: record 7 of 8, after offset 201: its offset is outside the batch");
}

TEST(an_emptied_batchs_payload_is_not_looked_at) {
  sample s;
  load_mixed(&s);
  s.batch.count = 0;
  CHECK_INT(check_both(&s.batch, s.records, s.size), 0);
}

TEST(offsets_ascend) {
  sdm_buf out = SDM_BUF_INIT;
  const sdm_record records[] = {
    { .offset = 5, .key_size = -1, .value_size = -1 },
    { .offset = 5, .key_size = -1, .value_size = -1 },
    { .offset = 4, .value = "a value long enough for the fast way", .key_size = -1, .value_size = 36 },
  };
  for (int second = 1; second < 3; second++) {
    sdm_batch_writer w = { .batch = { .base_offset = 1 } };
    sdm_buf_clear(&out);
    CHECK_INT(sdm_batch_begin(&w, &out), 0);
    CHECK_INT(sdm_batch_add(&w, &records[0]), 0);
    CHECK_INT(sdm_batch_add(&w, &records[second]), 0);
    CHECK_INT(sdm_batch_end(&w), 0);
    CHECK_INT(check_both(&w.batch, out.data + SDM_BATCH_HEADER, out.size - SDM_BATCH_HEADER), -1);
  }
  sdm_buf_free(&out);
}

TEST(append_time_overrides_every_timestamp) {
  sample s;
  sdm_record_iter it;
  sdm_record r;
  load_mixed(&s);
  s.batch.attributes = SDM_ATTR_APPEND_TIME;
  s.batch.max_timestamp = 777;
  CHECK_INT(check_both(&s.batch, s.records, s.size), 8);
  sdm_record_iter_init(&it, &s.batch, s.records, s.size);
  while (sdm_record_next(&it, &r) == 1) CHECK_INT(r.timestamp, 777);
}

/* ---- round trips ---- */

/* Writes one record at p in a block of exactly its size, reads it back. */
static void check_round_trip(const sdm_record *r, int64_t base_offset, int64_t base_timestamp) {
  size_t size = sdm_record_size(r, base_offset, base_timestamp);
  uint8_t *bytes = malloc(size);
  sdm_batch b = { .base_offset = base_offset, .base_timestamp = base_timestamp, .last_offset_delta = INT32_MAX, .count = 1 };
  sdm_record_iter it;
  sdm_record back;
  CHECK(sdm_record_encode(bytes, r, base_offset, base_timestamp) == bytes + size);
  sdm_record_iter_init(&it, &b, bytes, size);
  if (CHECK_INT(sdm_record_next(&it, &back), 1)) check_record(&back, r);
  CHECK_INT(check_both(&b, bytes, size), 1);
  free(bytes);
}

static uint8_t filler[20000];

static void fill(void) {
  test_random random = { 6 };
  for (size_t i = 0; i < sizeof filler; i++) filler[i] = (uint8_t)test_random_next(&random);
}

TEST(sizes_around_every_boundary_round_trip) {
  static const int32_t sizes[] = { -1, 0, 1, 3, 4, 7, 8, 15, 16, 31, 32, 33, 50, 56, 57, 58, 62, 63, 64, 65, 8180, 8183, 8184, 8185, 8190,
                                   8191, 8192, 8193, 16384 };
  fill();
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    for (size_t v = 0; v < sizeof sizes / sizeof *sizes; v++) {
      sdm_record r = { .offset = 7, .timestamp = 9, .key_size = sizes[k], .value_size = sizes[v], .headers = filler };
      r.key = sizes[k] < 0 ? NULL : filler;
      r.value = sizes[v] < 0 ? NULL : filler + 100;
      check_round_trip(&r, 7, 9);
    }
  }
}

TEST(every_body_length_round_trips) {
  fill();
  for (int32_t size = 0; size < 8300; size++) {
    sdm_record r = { .key = filler, .value = filler + 7, .headers = filler, .key_size = 7, .value_size = size };
    check_round_trip(&r, 0, 0);
  }
}

TEST(deltas_around_every_boundary_round_trip) {
  static const int64_t times[] = {
    INT64_MIN, INT64_MIN + 1, -8193, -8192, -65, -64, -1, 0, 1, 63, 64, 8191, 8192, 1700000000000, INT64_MAX,
  };
  static const int64_t offsets[] = { 0, 1, 63, 64, 8191, 8192, INT32_MAX };
  for (size_t t = 0; t < sizeof times / sizeof *times; t++) {
    for (size_t base = 0; base < sizeof times / sizeof *times; base++) {
      for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
        sdm_record r = { .offset = 1000 + offsets[o], .timestamp = times[t], .key = "key", .value = "some value or other",
                         .headers = filler, .key_size = 3, .value_size = 19 };
        check_round_trip(&r, 1000, times[base]);
      }
    }
  }
}

static int32_t random_size(test_random *random) {
  switch (test_random_below(random, 8)) {
    case 0: return -1;
    case 1: return (int32_t)test_random_below(random, 3);
    case 2: return (int32_t)test_random_below(random, 300);
    case 3: return (int32_t)test_random_below(random, 9000);
    default: return (int32_t)test_random_below(random, 70);
  }
}

static void random_record(test_random *random, sdm_record *r, sdm_buf *headers) {
  r->key_size = random_size(random);
  r->key = r->key_size < 0 ? NULL : filler + test_random_below(random, 1000);
  r->value_size = random_size(random);
  r->value = r->value_size < 0 ? NULL : filler + test_random_below(random, 1000);
  r->timestamp += (int64_t)test_random_below(random, 200) - 20;
  r->offset += 1 + (test_random_below(random, 10) == 0 ? (int64_t)test_random_below(random, 3000) : 0);
  r->header_count = test_random_below(random, 5) ? 0 : (int32_t)test_random_below(random, 4);
  sdm_buf_clear(headers);
  for (int32_t i = 0; i < r->header_count; i++) {
    sdm_header h = { .name = (const char *)filler, .name_size = (int32_t)test_random_below(random, 80), .value_size = random_size(random) };
    h.value = h.value_size < 0 ? NULL : filler + 5;
    CHECK_INT(sdm_header_encode(headers, &h), 0);
  }
  r->headers = headers->data;
  r->headers_size = (int32_t)headers->size;
}

TEST(random_batches_round_trip) {
  test_random random = { 7 };
  sdm_buf out = SDM_BUF_INIT, headers[RECORDS_MAX];
  memset(headers, 0, sizeof headers);
  fill();
  for (int round = 0; round < 500; round++) {
    sdm_record records[RECORDS_MAX], last = { .offset = 100, .timestamp = GOLDEN_T };
    sdm_batch_writer w = { .batch = { .base_offset = 101, .base_timestamp = GOLDEN_T } };
    sdm_record_iter it;
    sdm_record r;
    int count = 1 + (int)test_random_below(&random, RECORDS_MAX);
    sdm_buf_clear(&out);
    CHECK_INT(sdm_batch_begin(&w, &out), 0);
    for (int i = 0; i < count; i++) {
      random_record(&random, &last, &headers[i]);
      records[i] = last;
      CHECK_INT(sdm_batch_add(&w, &last), 0);
    }
    CHECK_INT(sdm_batch_end(&w), 0);
    CHECK(sdm_batch_crc_ok(out.data, &w.batch));
    sdm_record_iter_init(&it, &w.batch, out.data + SDM_BATCH_HEADER, out.size - SDM_BATCH_HEADER);
    for (int i = 0; i < count; i++) {
      if (!CHECK_INT(sdm_record_next(&it, &r), 1)) break;
      check_record(&r, &records[i]);
    }
    CHECK_INT(sdm_record_next(&it, &r), 0);
    CHECK_INT(check_both(&w.batch, out.data + SDM_BATCH_HEADER, out.size - SDM_BATCH_HEADER), count);
  }
  for (int i = 0; i < RECORDS_MAX; i++) sdm_buf_free(&headers[i]);
  sdm_buf_free(&out);
}

/* ---- headers ---- */

TEST(headers_come_apart) {
  const sdm_record *r = &golden_records()[2];
  const uint8_t *p = r->headers, *end = p + r->headers_size;
  sdm_header h;
  p = sdm_header_decode(p, end, &h);
  CHECK_BYTES(h.name, (size_t)h.name_size, "h", 1);
  CHECK(h.value == NULL);
  CHECK_INT(h.value_size, -1);
  p = sdm_header_decode(p, end, &h);
  CHECK_INT(h.name_size, 0);
  CHECK_BYTES(h.value, (size_t)h.value_size, "x", 1);
  CHECK(p == end);
  CHECK(!sdm_header_decode(p, end, &h));
}

TEST(headers_are_written_as_kafka_does) {
  sdm_buf out = SDM_BUF_INIT;
  const sdm_record *r = &golden_records()[2];
  CHECK_INT(sdm_header_encode(&out, &(sdm_header){ "h", NULL, 1, -1 }), 0);
  CHECK_INT(sdm_header_encode(&out, &(sdm_header){ "", "x", 0, 1 }), 0);
  CHECK_BYTES(out.data, out.size, r->headers, (size_t)r->headers_size);
  sdm_buf_free(&out);
}

TEST(malformed_headers_are_refused) {
  static const char *const texts[] = {
    "", "02", "02 68", "02 68 02", "01 00", "02 68 03", "04 68 01", "fe ff ff ff 0f 01", "ff ff ff ff 0f 01", "00 fe ff ff ff 0f",
    "00 ff ff ff ff 0f", "80 80 80 80 80 00", "80",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    uint8_t bytes[16];
    sdm_header h = { .name_size = 77 };
    size_t size = test_unhex(bytes, texts[i]);
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    CHECK(!sdm_header_decode(exact, exact + size, &h));
    CHECK_INT(h.name_size, 77);
    free(exact);
  }
}

/* One byte each in a compressed batch: a small file would take all memory. */
TEST(more_headers_than_anybody_needs_are_refused) {
  for (int32_t count = SDM_HEADERS_MAX; count <= SDM_HEADERS_MAX + 1; count++) {
    sdm_buf headers = SDM_BUF_INIT, out = SDM_BUF_INIT;
    sdm_record_iter it;
    for (int32_t i = 0; i < count; i++) CHECK_INT(sdm_header_encode(&headers, &(sdm_header){ "", NULL, 0, -1 }), 0);
    sdm_record r = { .value_size = -1, .key_size = -1, .headers = headers.data, .headers_size = (int32_t)headers.size, .header_count = count };
    sdm_batch_writer w = { .batch = { .producer_id = -1 } };
    CHECK_INT(sdm_batch_begin(&w, &out), 0);
    CHECK_INT(sdm_batch_add(&w, &r), 0);
    CHECK_INT(sdm_batch_end(&w), 0);
    sdm_record_iter_init(&it, &w.batch, out.data + SDM_BATCH_HEADER, out.size - SDM_BATCH_HEADER);
    CHECK_INT(sdm_record_next(&it, &r), count > SDM_HEADERS_MAX ? SDM_CORRUPT : 1);
    sdm_buf_free(&headers);
    sdm_buf_free(&out);
  }
}
