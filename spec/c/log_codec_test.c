/* Compressed batches in a log, most of all those that do not decompress: damage is told, again and again, and is neither skipped nor a bomb. */
#include "log_fixture.h"

#include <stdlib.h>

#include "format/batch_records.h"
#include "format/codec.h"
#include "test.h"

static sdm_codec any_codec(void) {
  for (sdm_codec c = SDM_CODEC_ZSTD; c > SDM_CODEC_NONE; c--) {
    if (sdm_codec_available(c)) return c;
  }
  return SDM_CODEC_NONE;
}

static void begin(fixture *f, sdm_codec codec) {
  fixture_begin(f);
  f->cfg.compression_type = (int)codec;
  f->cfg.gzip_level = -1;
  f->cfg.lz4_level = 9;
  f->cfg.zstd_level = 3;
  fixture_open(f);
}

TEST(all_codecs_in_one_log) {
  fixture f;
  test_random r = {4};
  begin(&f, SDM_CODEC_NONE);
  f.cfg.segment_bytes = 3000;
  for (int i = 0; i < 300; i++) {
    sdm_codec codec = (sdm_codec)test_random_below(&r, SDM_CODEC_ZSTD + 1);
    if (sdm_codec_available(codec)) f.cfg.compression_type = (int)codec;
    uint32_t seed = (uint32_t)test_random_next(&r);
    if (i % 2) CHECK_INT(fixture_put_batch(&f, seed, 1 + test_random_below(&r, 9), (int32_t)test_random_below(&r, 90), f.now), 0);
    else CHECK_INT(fixture_add(&f, seed), 0);
  }
  fixture_check_all(&f);
  fixture_crash(&f);
  fixture_open(&f);
  fixture_check_all(&f);
  CHECK(fixture_close(&f));
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* Puts a batch behind the log's end: a whole one, of which only the payload is wrong. */
static void put_forged(fixture *f, sdm_codec codec, int64_t offset, const void *payload, size_t size) {
  uint8_t *bytes = malloc(SDM_BATCH_HEADER + size);
  sdm_batch b = {
    .base_offset = offset, .size = (int32_t)(SDM_BATCH_HEADER + size), .attributes = (int16_t)codec, .base_timestamp = f->now, .max_timestamp = f->now,
    .producer_id = SDM_NO_PRODUCER, .producer_epoch = -1, .base_sequence = -1, .count = 1,
  };
  memcpy(bytes + SDM_BATCH_HEADER, payload, size);
  sdm_batch_seal(bytes, &b);
  fixture_write(f, "00000000000000000000.log", bytes, (size_t)b.size, fixture_size(f, "00000000000000000000.log"));
  free(bytes);
}

/* Reads up to the forged batch and holds what comes then against `part`; twice, since it must not be gone the second time. */
static void check_refused(fixture *f, int64_t offset, const char *part) {
  sdm_log *bare;
  sdm_reader *r;
  sdm_record record;
  if (!CHECK_INT(sdm_log_open_bare(f->dir, &bare), 0)) return;
  CHECK_INT(sdm_reader_open(bare, 0, SDM_TO_END, 0, &r), 0);
  for (int64_t i = 0; i < offset; i++) CHECK_INT(sdm_reader_next(r, &record), 1);
  for (int i = 0; i < 2; i++) {
    CHECK_INT(sdm_reader_next(r, &record), SDM_CORRUPT);
    if (!CHECK(strstr(sdm_errmsg(), part) && strstr(sdm_errmsg(), ".log at position "))) printf("  %s\n", sdm_errmsg());
    CHECK_INT(sdm_reader_position(r), offset);
  }
  sdm_reader_close(r);
  CHECK_INT(sdm_reader_open(bare, offset + 1, SDM_TO_END, 0, &r), 0);       /* what lies behind is there for who asks for it */
  sdm_reader_close(r);
  sdm_log_release(bare);
}

TEST(damaged_payloads_are_told) {
  for (sdm_codec c = SDM_CODEC_GZIP; c <= SDM_CODEC_ZSTD; c++) {
    fixture f;
    if (!sdm_codec_available(c)) continue;
    begin(&f, c);
    for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_put_batch(&f, i, 1, 50, f.now), 0);
    CHECK(fixture_close(&f));
    put_forged(&f, c, 5, "no frame of any codec", 21);
    check_refused(&f, 5, sdm_codec_name(c));
    fixture_end(&f);
  }
}

TEST(bombs_are_damage) {
  enum { SIZE = 129 * 1024 * 1024 };
  fixture f;
  sdm_buf packed = SDM_BUF_INIT;
  sdm_codec c = any_codec();
  if (c == SDM_CODEC_NONE) return;
  uint8_t *zeros = calloc(1, SIZE);
  CHECK_INT(sdm_codec_compress(c, sdm_codec_default_level(c), zeros, SIZE, &packed), 0);
  free(zeros);
  begin(&f, SDM_CODEC_NONE);
  CHECK_INT(fixture_add(&f, 1), 0);
  CHECK(fixture_close(&f));
  put_forged(&f, c, 1, packed.data, packed.size);
  check_refused(&f, 1, "134217728");
  sdm_buf_free(&packed);
  fixture_end(&f);
}
