/* Opening after crashes, over damage: what is behind it is not cut, and nothing is read past it without a word. Reference sections 9 and 10. */
#include "log_recover.h"

#include "base/bytes.h"

static void damage_case(ending how, size_t batch, int64_t within) {
  fixture f;
  fixture_batch b[8];
  sdm_record record;
  sdm_reader *r;
  begin(&f, 6);
  CHECK_INT(fixture_batches(&f, LOG0, b, 8), 6);
  if (how == DIES) CHECK_INT(fixture_add(&f, 99), 0);
  end(&f, how);
  int64_t size = fixture_size(&f, LOG0);
  uint8_t junk = 0xee;
  fixture_write(&f, LOG0, &junk, 1, b[batch].position + within);
  fixture_open(&f);
  CHECK_INT(truncated(&f), 0);
  CHECK_INT(corrupt(&f), 1);
  CHECK_INT(fixture_size(&f, LOG0), size);
  CHECK(active(&f) >= 18);
  CHECK_INT(fixture_add(&f, 100), 0);
  CHECK(f.model[f.count - 1].offset >= (how == LOSES_POWER ? 3 + RESERVED : 18));
  CHECK_INT(sdm_reader_open(f.log, 0, SDM_TO_END, 0, &r), 0);
  int64_t n = 0;
  int rc;
  while ((rc = sdm_reader_next(r, &record)) == 1) n++;
  CHECK_INT(rc, SDM_CORRUPT);
  CHECK_INT(n, 3 * (int64_t)batch);
  sdm_reader_close(r);
  fixture_check_from(&f, f.log, 18);
  fixture_end(&f);
}

TEST(damage_in_the_middle_cuts_nothing) {
  for (int how = 0; how < ENDINGS; how++) {
    for (size_t batch = 0; batch < 5; batch++) {
      damage_case((ending)how, batch, 70);     /* a record */
      damage_case((ending)how, batch, 20);     /* the CRC */
      damage_case((ending)how, batch, 8);      /* the length */
    }
  }
}

/* The last batch is damaged, and the stage goes on behind it. */
TEST(a_stage_behind_a_damaged_batch) {
  fixture f;
  fixture_batch b[8];
  begin(&f, 4);
  fixture_batches(&f, LOG0, b, 8);
  CHECK_INT(fixture_add(&f, 99), 0);
  fixture_crash(&f);
  fixture_write(&f, LOG0, "\xee", 1, b[3].position + 70);
  fixture_open(&f);
  CHECK_INT(log_end(&f), 13);
  fixture_check_from(&f, f.log, 12);
  fixture_end(&f);
}

/* No CRC covers a base offset. Neither records are lost by one that flipped, nor read past without a word. */
static void flip_case(ending how, size_t batch, int64_t base) {
  fixture f;
  fixture_batch b[8];
  uint8_t bytes[8];
  sdm_reader *r;
  sdm_record record;
  begin(&f, 6);
  fixture_batches(&f, LOG0, b, 8);
  end(&f, how);
  int64_t size = fixture_size(&f, LOG0);
  sdm_put64(bytes, (uint64_t)base);
  fixture_write(&f, LOG0, bytes, 8, b[batch].position);
  fixture_open(&f);
  CHECK_INT(corrupt(&f), 1);
  CHECK_INT(truncated(&f), 0);
  CHECK_INT(fixture_size(&f, LOG0), size);
  CHECK_INT(log_end(&f), how == LOSES_POWER ? 3 + RESERVED : 18);
  CHECK_INT(sdm_reader_open(f.log, 0, SDM_TO_END, 0, &r), 0);
  int rc;
  while ((rc = sdm_reader_next(r, &record)) == 1) {}
  CHECK_INT(rc, SDM_CORRUPT);
  sdm_reader_close(r);
  CHECK_INT(fixture_add(&f, 99), 0);
  fixture_check_from(&f, f.log, f.model[f.count - 1].offset);
  fixture_end(&f);
}

TEST(a_flipped_base_offset) {
  for (int how = 0; how < ENDINGS; how++) {
    flip_case((ending)how, 2, 6 + 2048);
    flip_case((ending)how, 2, 6 + (1 << 20));
    flip_case((ending)how, 2, 2);
    flip_case((ending)how, 3, 9 + 4);
    flip_case((ending)how, 5, 7);
    flip_case((ending)how, 1, INT64_C(1) << 40);
  }
}

/* A size that reaches over the end of the file, as that of a batch that was being written: but there are batches behind it. */
TEST(a_size_beyond_the_end_cuts_no_batch_behind_it) {
  for (int how = 0; how < ENDINGS; how++) {
    fixture f;
    fixture_batch b[8];
    begin(&f, 6);
    fixture_batches(&f, LOG0, b, 8);
    end(&f, (ending)how);
    int64_t size = fixture_size(&f, LOG0);
    fixture_write(&f, LOG0, "\x01", 1, b[2].position + 8);
    fixture_open(&f);
    CHECK_INT(corrupt(&f), 1);
    CHECK_INT(truncated(&f), 0);
    CHECK_INT(fixture_size(&f, LOG0), size);
    fixture_check_from(&f, f.log, 9);
    fixture_end(&f);
  }
}

/* Sectors that never reached the disk, up to a batch's magic: it stands with another base offset, and its CRC holds. */
static void torn_base_case(size_t lost, int64_t base) {
  fixture f;
  fixture_batch b[8];
  uint8_t zeros[1024] = {0};
  begin(&f, 6);
  CHECK_INT(fixture_batches(&f, LOG0, b, 8), 6);
  fixture_power_loss(&f);
  sdm_put64(zeros + b[lost].position, (uint64_t)base);
  fixture_write(&f, LOG0, zeros, (size_t)b[lost].position + 8, 0);
  fixture_open(&f);
  CHECK_INT(corrupt(&f), 1 + (base > 0));
  fixture_check_from(&f, f.log, 3 * (int64_t)lost + 3);
  for (int64_t from = 0; from < 18; from++) {
    sdm_reader *r;
    sdm_record record;
    CHECK_INT(sdm_reader_open(f.log, from, 18, 0, &r), 0);
    while (sdm_reader_next(r, &record) == 1) CHECK(record.offset >= 3 * (int64_t)lost + 3);
    sdm_reader_close(r);
  }
  fixture_end(&f);
}

TEST(a_torn_base_offset_behind_torn_batches) {
  for (size_t lost = 1; lost < 5; lost++) torn_base_case(lost, 0);
  torn_base_case(4, 5);
  torn_base_case(2, 300);
}
