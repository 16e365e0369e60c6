/* Codecs: framings, round trips, and input that is cut off, damaged, or made to take more memory than it may. */
#include "format/codec.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "format/batch_records.h"
#include "test.h"

enum { KIB = 1024, MIB = 1024 * KIB };

#define EACH_CODEC(c) (sdm_codec c = SDM_CODEC_GZIP; c <= SDM_CODEC_ZSTD; c++) if (sdm_codec_available(c))

/* ---- helpers ---- */

/* In a block of exactly its size, so that the address sanitizer sees what reads beyond. */
static int decompress(sdm_codec c, const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  uint8_t *exact = malloc(size ? size : 1);
  memcpy(exact, in, size);
  int rc = sdm_codec_decompress(c, exact, size, limit, out);
  free(exact);
  return rc;
}

static void fill(uint8_t *p, size_t size, int kind, test_random *random) {
  for (size_t i = 0; i < size; i++) {
    if (kind == 0) p[i] = 0;
    else if (kind == 1) p[i] = (uint8_t)test_random_next(random);
    else p[i] = (uint8_t)"sediment settles, layer by layer, "[(i + i / 100) % 34];
  }
}

static void compressed(sdm_codec c, size_t size, int kind, sdm_buf *plain, sdm_buf *packed) {
  test_random random = { size };
  sdm_buf_clear(plain);
  sdm_buf_clear(packed);
  sdm_buf_reserve(plain, size + 1);
  plain->size = size;
  fill(plain->data, size, kind, &random);
  CHECK_INT(sdm_codec_compress(c, sdm_codec_default_level(c), plain->data, size, packed), 0);
}

static void check_says(const char *part) {
  if (!CHECK(strstr(sdm_errmsg(), part) != NULL)) printf("  the message is: %s\n", sdm_errmsg());
}

/* ---- what is written ---- */

static void check_round_trip(sdm_codec c, int level, size_t size, int kind) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  test_random random = { size };
  sdm_buf_reserve(&plain, size + 1);
  plain.size = size;
  fill(plain.data, size, kind, &random);
  sdm_buf_append(&packed, "before", 6);
  sdm_buf_append(&out, "in front", 8);
  CHECK_INT(sdm_codec_compress(c, level, plain.data, size, &packed), 0);
  CHECK(memcmp(packed.data, "before", 6) == 0);
  CHECK_INT(decompress(c, packed.data + 6, packed.size - 6, size, &out), 0);
  CHECK(memcmp(out.data, "in front", 8) == 0);
  CHECK_BYTES(out.data + 8, out.size - 8, plain.data, size);
  if (size > 0) {
    sdm_buf_clear(&out);
    CHECK_INT(decompress(c, packed.data + 6, packed.size - 6, size - 1, &out), SDM_CORRUPT);
    check_says(sdm_codec_name(c));
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

TEST(what_is_compressed_comes_back) {
  static const size_t around[] = { 4 * KIB, 32 * KIB, 64 * KIB, 96 * KIB, 128 * KIB, 200 * KIB };
  for EACH_CODEC(c) {
    for (int kind = 0; kind < 3; kind++) {
      for (size_t size = 0; size < 300; size++) check_round_trip(c, sdm_codec_default_level(c), size, kind);
      for (size_t size = 300; size < 200 * KIB; size += 17017) check_round_trip(c, sdm_codec_default_level(c), size, kind);
      for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        for (size_t size = around[i] - 1; size <= around[i] + 1; size++) check_round_trip(c, sdm_codec_default_level(c), size, kind);
      }
    }
  }
}

TEST(every_level_comes_back) {
  static const struct { sdm_codec codec; int from, to; } levels[] = {
    { SDM_CODEC_GZIP, -1, 9 }, { SDM_CODEC_LZ4, 1, 17 }, { SDM_CODEC_ZSTD, -7, 22 }, { SDM_CODEC_ZSTD, -131072, -131070 },
  };
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (!sdm_codec_available(levels[i].codec)) continue;
    for (int level = levels[i].from; level <= levels[i].to; level++) check_round_trip(levels[i].codec, level, 70 * KIB, 2);
  }
}

TEST(higher_levels_are_smaller) {
  static const struct { sdm_codec codec; int low, high; } levels[] = { { SDM_CODEC_GZIP, 1, 9 }, { SDM_CODEC_LZ4, 9, 12 }, { SDM_CODEC_ZSTD, -50, 9 } };
  sdm_buf low = SDM_BUF_INIT, high = SDM_BUF_INIT;
  test_random random = { 1 };
  uint8_t plain[20000];
  for (size_t i = 0; i < sizeof plain; i++) plain[i] = (uint8_t)("etaoin shr"[test_random_below(&random, 10)]);
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
    if (!sdm_codec_available(levels[i].codec)) continue;
    sdm_buf_clear(&low);
    sdm_buf_clear(&high);
    CHECK_INT(sdm_codec_compress(levels[i].codec, levels[i].low, plain, sizeof plain, &low), 0);
    CHECK_INT(sdm_codec_compress(levels[i].codec, levels[i].high, plain, sizeof plain, &high), 0);
    CHECK(high.size < low.size);
  }
  sdm_buf_free(&low);
  sdm_buf_free(&high);
}

/* The heads that Kafka's Java code writes: lz4 with FLG 60 (version 1, independent blocks, nothing else) and BD 40 (64 KiB). */
TEST(framings_are_those_of_kafka) {
  static const char *const heads[] = { "", "1f8b08", "82534e4150505900 00000001 00000001", "04224d18 60 40 82", "28b52ffd" };
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT;
  uint8_t head[16];
  for EACH_CODEC(c) {
    size_t size = test_unhex(head, heads[c]);
    for (size_t n = 0; n < 200 * KIB; n += 50 * KIB) {
      compressed(c, n, 2, &plain, &packed);
      CHECK(packed.size >= size);
      CHECK_BYTES(packed.data, size, head, size);
    }
  }
  if (sdm_codec_available(SDM_CODEC_SNAPPY)) {
    compressed(SDM_CODEC_SNAPPY, 70 * KIB, 1, &plain, &packed);
    size_t at = 16;
    for (int block = 0; block < 3; block++) at += 4 + sdm_get32(packed.data + at);      /* 32, 32 and 6 KiB */
    CHECK_INT(at, packed.size);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
}

/* ---- what others write ---- */

#define TEXT "sediment sediment sediment sediment sediment sediment sediment sedimen"

static void check_foreign(sdm_codec c, const char *hex, int expected, const char *message) {
  uint8_t bytes[200];
  sdm_buf out = SDM_BUF_INIT;
  if (!sdm_codec_available(c)) return;
  size_t size = test_unhex(bytes, hex);
  CHECK_INT(decompress(c, bytes, size, 70, &out), expected);
  if (expected == 0) CHECK_BYTES(out.data, out.size, TEXT, 70);
  else check_says(message);
  sdm_buf_free(&out);
}

TEST(frames_of_the_command_line_tools_are_read) {
  check_foreign(SDM_CODEC_GZIP, "1f8b080874ec0c6b0003782e747874002b4e4dc9cc4dcd2b5128a68401008815e9bb46000000", 0, NULL);
  check_foreign(SDM_CODEC_ZSTD, "28b52ffd24467d000048736564696d656e74200100a2548e244a03f9", 0, NULL);
  check_foreign(SDM_CODEC_ZSTD, "28b52ffd00587d000048736564696d656e74200100a2548e", 0, NULL);
  check_foreign(SDM_CODEC_LZ4, "04224d187c40460000000000000059130000009f736564696d656e74200900255064696d656eed7e8aad00000000f4810cb7", 0, NULL);
  check_foreign(SDM_CODEC_LZ4, "04224d18604082130000009f736564696d656e74200900255064696d656e00000000", 0, NULL);
}

TEST(snappy_without_framing_is_read) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  if (!sdm_codec_available(SDM_CODEC_SNAPPY)) return;
  for (size_t size = 1; size <= 32 * KIB; size = size * 3 + 1) {
    compressed(SDM_CODEC_SNAPPY, size, 2, &plain, &packed);
    sdm_buf_clear(&out);
    CHECK_INT(decompress(SDM_CODEC_SNAPPY, packed.data + 20, packed.size - 20, size, &out), 0);
    CHECK_BYTES(out.data, out.size, plain.data, size);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

TEST(frames_that_kafka_would_not_read_are_damage) {
  check_foreign(SDM_CODEC_LZ4, "04224d1844405e130000009f736564696d656e74200900255064696d656e00000000f4810cb7", SDM_CORRUPT, "lz4: its blocks depend on each other");
  check_foreign(SDM_CODEC_LZ4, "502a4d1804000000 00000000", SDM_CORRUPT, "lz4: a skippable frame");
  check_foreign(SDM_CODEC_LZ4, "04224d18604083130000009f736564696d656e74200900255064696d656e00000000", SDM_CORRUPT, "lz4: ");     /* header checksum */
  check_foreign(SDM_CODEC_LZ4, "04224d187c40460000000000000059130000009f736564696d656e74200900255064696d656eed7e8aac00000000f4810cb7", SDM_CORRUPT, "lz4: ");
  check_foreign(SDM_CODEC_GZIP, "1f8b080874ec0c6b0003782e747874002b4e4dc9cc4dcd2b5128a68401008815e9bc46000000", SDM_CORRUPT, "gzip: incorrect data check");
  check_foreign(SDM_CODEC_GZIP, "789c", SDM_CORRUPT, "gzip: ");
  check_foreign(SDM_CODEC_ZSTD, "28b52ffd24467d000048736564696d656e74200100a2548e244a03f8", SDM_CORRUPT, "zstd: ");
  check_foreign(SDM_CODEC_SNAPPY, "82534e4150505900 00000000 00000001", SDM_CORRUPT, "snappy: a version below 1");
}

TEST(nothing_may_follow) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  for EACH_CODEC(c) {
    compressed(c, 1000, 2, &plain, &packed);
    sdm_buf_append(&packed, "\0", 1);
    sdm_buf_clear(&out);
    CHECK_INT(decompress(c, packed.data, packed.size, MIB, &out), SDM_CORRUPT);
    check_says(sdm_codec_name(c));
    if (c == SDM_CODEC_SNAPPY) continue;             /* its blocks may follow each other for ever */
    compressed(c, 1000, 2, &plain, &packed);
    sdm_buf twice = SDM_BUF_INIT;
    sdm_buf_append(&twice, packed.data, packed.size);
    sdm_buf_append(&twice, packed.data, packed.size);
    CHECK_INT(decompress(c, twice.data, twice.size, MIB, &out), SDM_CORRUPT);
    check_says("goes on behind its end");
    sdm_buf_free(&twice);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

/* ---- damage ---- */

static bool between_blocks(const sdm_buf *packed, size_t size) {
  size_t at = 16;
  while (at < size) at += 4 + sdm_get32(packed->data + at);
  return at == size;
}

static void check_cut(sdm_codec c, size_t plain_size, int kind, size_t step) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  compressed(c, plain_size, kind, &plain, &packed);
  for (size_t size = 0; size < packed.size; size += step) {
    sdm_buf_clear(&out);
    int expected = c == SDM_CODEC_SNAPPY && size >= 16 && between_blocks(&packed, size) ? 0 : SDM_CORRUPT;
    if (!CHECK_INT(decompress(c, packed.data, size, plain_size, &out), expected)) printf("  %s cut to %zu of %zu\n", sdm_codec_name(c), size, packed.size);
    CHECK(out.size < plain_size || size + 16 > packed.size);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

TEST(every_cut_is_found) {
  for EACH_CODEC(c) {
    check_cut(c, 600, 1, 1);
    check_cut(c, 5000, 2, 1);
    check_cut(c, 140 * KIB, 1, 997);
    check_cut(c, 140 * KIB, 2, 7);
  }
}

/* Whatever a flipped bit makes of it: an answer, no more than the limit, nothing read or written outside. */
static void check_flips(sdm_codec c, size_t plain_size, int kind, size_t step) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  compressed(c, plain_size, kind, &plain, &packed);
  for (size_t bit = 0; bit < packed.size * 8; bit += step) {
    packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    sdm_buf_clear(&out);
    int rc = decompress(c, packed.data, packed.size, plain_size, &out);
    CHECK(rc == 0 || rc == SDM_CORRUPT);
    CHECK(rc < 0 || out.size <= plain_size);
    packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

TEST(flipped_bits_do_no_harm) {
  for EACH_CODEC(c) {
    check_flips(c, 300, 1, 1);
    check_flips(c, 3000, 2, 1);
    check_flips(c, 140 * KIB, 2, 13);
    check_flips(c, 140 * KIB, 1, 7919);
  }
}

TEST(noise_does_no_harm) {
  static const char *const heads[] = { "", "1f8b0800000000000003", "82534e41505059000000000100000001", "04224d18604082", "28b52ffd" };
  test_random random = { 7 };
  uint8_t noise[300];
  sdm_buf out = SDM_BUF_INIT;
  for EACH_CODEC(c) {
    for (int i = 0; i < 20000; i++) {
      size_t size = test_random_below(&random, sizeof noise), head = 0;
      for (size_t k = 0; k < size; k++) noise[k] = (uint8_t)test_random_next(&random);
      if (i % 4 && size > 40) head = test_unhex(noise, heads[c]);
      if (c == SDM_CODEC_SNAPPY && head) sdm_put32(noise + head, (uint32_t)test_random_below(&random, size));
      sdm_buf_clear(&out);
      int rc = decompress(c, noise, size, 64 * KIB, &out);
      CHECK(rc == 0 || rc == SDM_CORRUPT);
    }
  }
  CHECK(out.capacity <= MIB);
  sdm_buf_free(&out);
}

/* ---- bombs ---- */

TEST(bombs_stop_at_the_limit) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT;
  for EACH_CODEC(c) {
    sdm_buf out = SDM_BUF_INIT;
    compressed(c, 32 * MIB, 0, &plain, &packed);
    CHECK_INT(decompress(c, packed.data, packed.size, MIB, &out), SDM_CORRUPT);
    check_says(sdm_codec_name(c));
    check_says("1048576");
    CHECK(out.capacity <= 4 * MIB);
    sdm_buf_free(&out);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
}

/* Claims beyond the limit, and claims within it that the bytes behind them cannot fulfil: neither gets its memory. */
TEST(claims_are_not_believed) {
  static const struct { sdm_codec codec; const char *hex; } claims[] = {
    { SDM_CODEC_LZ4, "04224d186840 0000000000000040 d2 00000000" },
    { SDM_CODEC_ZSTD, "28b52ffd e0 0000000000000040 010000" },
    { SDM_CODEC_ZSTD, "28b52ffd e0 0000000800000000 010000" },
    { SDM_CODEC_ZSTD, "28b52ffd 00 ff 010000" },
    { SDM_CODEC_SNAPPY, "ffffffff0f 00" },
    { SDM_CODEC_SNAPPY, "8080808004 04 61" },
    { SDM_CODEC_SNAPPY, "82534e4150505900 00000001 00000001 00000007 ffffffff0f 00 00" },
    { SDM_CODEC_SNAPPY, "82534e4150505900 00000001 00000001 ffffffff 00" },
    { SDM_CODEC_SNAPPY, "82534e4150505900 00000001 00000001 00000006 808080200461" },
  };
  uint8_t bytes[64];
  for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
    sdm_buf out = SDM_BUF_INIT;
    if (!sdm_codec_available(claims[i].codec)) continue;
    size_t size = test_unhex(bytes, claims[i].hex);
    if (!CHECK_INT(decompress(claims[i].codec, bytes, size, 512 * MIB, &out), SDM_CORRUPT)) printf("  claim %zu\n", i);
    CHECK(out.capacity <= MIB);
    sdm_buf_free(&out);
  }
}

/* ---- no memory, no codec ---- */

TEST(want_of_memory_is_told) {
  sdm_buf plain = SDM_BUF_INIT, packed = SDM_BUF_INIT;
  for EACH_CODEC(c) {
    compressed(c, 100 * KIB, 2, &plain, &packed);
    int failed = 0;
    for (int n = 0; n < 8; n++) {
      sdm_buf out = SDM_BUF_INIT;
      int left = n;
      sdm_set_allocator(test_short_memory, &left);
      int rc = sdm_codec_decompress(c, packed.data, packed.size, MIB, &out);
      CHECK(rc == 0 || rc == SDM_NO_MEMORY);
      failed += rc < 0;
      sdm_buf_free(&out);
      left = n;
      rc = sdm_codec_compress(c, sdm_codec_default_level(c), plain.data, plain.size, &out);
      CHECK(rc == 0 || rc == SDM_NO_MEMORY);
      sdm_buf_free(&out);
      sdm_set_allocator(NULL, NULL);
    }
    CHECK(failed > 0);
  }
  sdm_buf_free(&plain);
  sdm_buf_free(&packed);
}

TEST(a_codec_that_is_not_built_in_is_named) {
  static const char *const packages[] = { "", "zlib1g-dev", "libsnappy-dev", "liblz4-dev", "libzstd-dev" };
  static const char *const names[] = { "none", "gzip", "snappy", "lz4", "zstd" };
  sdm_buf out = SDM_BUF_INIT;
  CHECK(sdm_codec_available(SDM_CODEC_NONE));
  for (sdm_codec c = SDM_CODEC_NONE; c <= SDM_CODEC_ZSTD; c++) {
    CHECK_STR(sdm_codec_name(c), names[c]);
    if (sdm_codec_available(c)) {
      CHECK_INT(sdm_codec_check(c), 0);
      continue;
    }
    CHECK_INT(sdm_codec_compress(c, 1, (const uint8_t *)"x", 1, &out), SDM_UNSUPPORTED);
    CHECK_INT(sdm_codec_decompress(c, (const uint8_t *)"x", 1, 1, &out), SDM_UNSUPPORTED);
    check_says(names[c]);
    check_says(packages[c]);
  }
  CHECK(!sdm_codec_available((sdm_codec)5));
  CHECK_INT(sdm_codec_check((sdm_codec)7), SDM_CORRUPT);
  sdm_buf_free(&out);
}

TEST(none_copies) {
  sdm_buf out = SDM_BUF_INIT;
  CHECK_INT(sdm_codec_compress(SDM_CODEC_NONE, 0, (const uint8_t *)"abc", 3, &out), 0);
  CHECK_INT(sdm_codec_decompress(SDM_CODEC_NONE, (const uint8_t *)"def", 3, 3, &out), 0);
  CHECK_BYTES(out.data, out.size, "abcdef", 6);
  CHECK_INT(sdm_codec_decompress(SDM_CODEC_NONE, (const uint8_t *)"def", 3, 2, &out), SDM_CORRUPT);
  sdm_buf_free(&out);
}

/* ---- batches ---- */

static int write_batch(sdm_buf *out, sdm_batch_writer *w, sdm_codec c, int count, const void *value, int32_t value_size) {
  *w = (sdm_batch_writer){ .level = sdm_codec_default_level(c), .batch = {
    .base_offset = 7, .attributes = (int16_t)c, .base_timestamp = 1000, .producer_id = SDM_NO_PRODUCER, .producer_epoch = -1, .base_sequence = -1 } };
  int rc = sdm_batch_begin(w, out);
  for (int i = 0; rc == 0 && i < count; i++) {
    sdm_record r = { .offset = 7 + i, .timestamp = 1000 + i, .key = "key", .key_size = 3, .value = value, .value_size = value_size };
    rc = sdm_batch_add(w, &r);
  }
  return rc < 0 ? rc : sdm_batch_end(w);
}

TEST(a_batch_keeps_its_records) {
  char value[200];
  memset(value, 'v', sizeof value);
  for (sdm_codec c = SDM_CODEC_NONE; c <= SDM_CODEC_ZSTD; c++) {
    sdm_buf out = SDM_BUF_INIT, plain = SDM_BUF_INIT;
    sdm_batch_writer w;
    sdm_record_iter it;
    sdm_record r;
    int count = 0;
    sdm_buf_append(&out, "before", 6);
    CHECK_INT(write_batch(&out, &w, c, 500, value, sizeof value), sdm_codec_available(c) ? 0 : SDM_UNSUPPORTED);
    if (sdm_codec_available(c)) {
      CHECK_INT(out.size, 6 + (size_t)w.batch.size);
      CHECK(c == SDM_CODEC_NONE || w.batch.size < 20000);
      CHECK_INT(sdm_batch_codec(&w.batch), c);
      CHECK(sdm_batch_crc_ok(out.data + 6, &w.batch));
      CHECK_INT(sdm_record_iter_open(&it, &w.batch, out.data + 6, &plain), 0);
      while (sdm_record_next(&it, &r) == 1) {
        CHECK_INT(r.offset, 7 + count);
        CHECK_INT(r.timestamp, 1000 + count++);
        CHECK_BYTES(r.value, (size_t)r.value_size, value, sizeof value);
      }
      CHECK_INT(count, 500);
    }
    sdm_buf_free(&out);
    sdm_buf_free(&plain);
  }
}

TEST(records_of_damaged_batches_are_damage) {
  for EACH_CODEC(c) {
    sdm_buf out = SDM_BUF_INIT, plain = SDM_BUF_INIT;
    sdm_batch_writer w;
    const uint8_t *records;
    size_t size;
    CHECK_INT(write_batch(&out, &w, c, 100, "value", 5), 0);
    CHECK_INT(sdm_batch_records(out.data, &w.batch, 100, &plain, &records, &size), SDM_CORRUPT);
    check_says("batch at offset 7: ");
    CHECK_INT(sdm_batch_records(out.data, &w.batch, 10000, &plain, &records, &size), 0);
    CHECK(records == plain.data && size == plain.size);
    w.batch.count = 0;                                 /* an emptied batch's payload is not looked at */
    CHECK_INT(sdm_batch_records(out.data, &w.batch, 0, &plain, &records, &size), 0);
    w.batch.count = 100;
    out.data[SDM_BATCH_HEADER] ^= 0xff;
    CHECK_INT(sdm_batch_records(out.data, &w.batch, 10000, &plain, &records, &size), SDM_CORRUPT);
    sdm_buf_free(&out);
    sdm_buf_free(&plain);
  }
}

TEST(the_limit_follows_the_size_of_the_batch) {
  CHECK_INT(sdm_batch_records_max(61), 128 * MIB);
  CHECK_INT(sdm_batch_records_max(8 * MIB), 128 * MIB);
  CHECK_INT(sdm_batch_records_max(9 * MIB), 144 * MIB);
  CHECK_INT(sdm_batch_records_max(INT32_MAX), INT32_MAX);
}

TEST(what_could_not_be_read_again_stays_uncompressed) {
  if (!sdm_codec_available(SDM_CODEC_ZSTD)) return;
  sdm_buf out = SDM_BUF_INIT;
  sdm_batch_writer w;
  uint8_t *zeros = calloc(1, 65 * MIB);
  CHECK_INT(write_batch(&out, &w, SDM_CODEC_ZSTD, 1, zeros, 65 * MIB), 0);
  CHECK_INT(sdm_batch_codec(&w.batch), SDM_CODEC_ZSTD);
  CHECK(w.batch.size < MIB);
  sdm_buf_clear(&out);
  CHECK_INT(write_batch(&out, &w, SDM_CODEC_ZSTD, 2, zeros, 65 * MIB), 0);
  CHECK_INT(sdm_batch_codec(&w.batch), SDM_CODEC_NONE);
  CHECK(w.batch.size > 130 * MIB && sdm_batch_crc_ok(out.data, &w.batch));
  sdm_buf_free(&out);
  free(zeros);
}
