/* Opening after crashes: what is kept, what is cut, what is made anew, and that offsets are not given twice. Damage is in log_recover_damage_test.c, files
** are in log_recover_files_test.c. Reference sections 9 and 10.
*/
#include "log_recover.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "format/state_file.h"
#include "log/state.h"
#include "log/recover.h"
#include "log/swap.h"
#include "test.h"

/* ---- the stage ---- */

TEST(the_dead_leave_what_sealing_would_have_written) {
  uint64_t digests[2];
  for (int sealed = 0; sealed < 2; sealed++) {
    fixture f;
    begin(&f, 2);
    for (uint32_t i = 0; i < 7; i++) CHECK_INT(fixture_put(&f, 50 + i, 4, i % 3 ? 10 : -1, f.now + i), 0);
    if (sealed) seal(&f);
    fixture_crash(&f);
    fixture_open(&f);
    CHECK_INT(log_end(&f), (int64_t)f.count);
    CHECK_INT(truncated(&f), 0);
    fixture_check_all(&f);
    check_settled(&f);
    digests[sealed] = fixture_digest(&f);
    fixture_end(&f);
  }
  CHECK(digests[0] == digests[1]);
}

TEST(an_intact_stage_outlives_the_power) {
  fixture f;
  begin(&f, 2);
  for (uint32_t i = 0; i < 7; i++) CHECK_INT(fixture_add(&f, 50 + i), 0);
  fixture_power_loss(&f);
  fixture_open(&f);
  CHECK_INT(log_end(&f), 1 + RESERVED + 2);          /* the first batch reserved up to 3 + RESERVED */
  CHECK_INT(active(&f), log_end(&f));
  fixture_check_from(&f, f.log, 0);
  CHECK_INT(fixture_add(&f, 60), 0);
  CHECK_INT(f.model[f.count - 1].offset, 3 + RESERVED);
  check_settled(&f);
  fixture_end(&f);
}

TEST(a_damaged_stage_is_lost_with_the_power) {
  fixture f;
  begin(&f, 2);
  for (uint32_t i = 0; i < 7; i++) CHECK_INT(fixture_add(&f, 50 + i), 0);
  fixture_power_loss(&f);
  fixture_write(&f, SDM_CONTROL_NAME, "\x55", 1, 4096 + SDM_BATCH_HEADER + 40);
  fixture_open(&f);
  fixture_forget(&f, 6);
  fixture_check_all(&f);
  CHECK_INT(log_end(&f), 3 + RESERVED);
  check_settled(&f);
  fixture_end(&f);
}

/* The file lost a batch that the stage continues: what was staged does not follow on what is left. */
TEST(a_stage_that_continues_nothing) {
  fixture f;
  begin(&f, 3);
  for (uint32_t i = 0; i < 7; i++) CHECK_INT(fixture_add(&f, 50 + i), 0);
  fixture_power_loss(&f);
  fixture_truncate(&f, LOG0, fixture_size(&f, LOG0) - 10);
  fixture_open(&f);
  fixture_forget(&f, 6);
  fixture_check_all(&f);
  CHECK(truncated(&f) > 0);
  CHECK_INT(log_end(&f), 3 + RESERVED);
  CHECK_INT(fixture_add(&f, 60), 0);
  CHECK_INT(f.model[f.count - 1].offset, 3 + RESERVED);
  check_settled(&f);
  fixture_end(&f);
}

/* A byte of the page is another after a loss of power. False: something is wrong. */
static bool damaged_at(int64_t at) {
  fixture f;
  uint8_t junk = 0xa5;
  begin(&f, 2);
  CHECK_INT(fixture_add(&f, 50), 0);
  fixture_power_loss(&f);
  fixture_write(&f, SDM_CONTROL_NAME, &junk, 1, at);
  if (!fixture_open(&f)) return false;
  if (log_end(&f) == 3 + RESERVED && fixture_size(&f, LOG0) < 400) fixture_forget(&f, 6);
  bool ok = fixture_check_all(&f);
  fixture_end(&f);
  return CHECK(ok);
}

/* Nothing of a page of another boot but the stage is believed; nothing at all of one that is damaged. */
TEST(a_damaged_page) {
  for (int64_t at = 0; at < 1500; at++) {
    if (!damaged_at(at)) return;
  }
}

/* The CRC of the staged records tells, also where they can still be read. */
TEST(a_damaged_stage) {
  for (int64_t at = 0; at < 80; at++) {
    if (!damaged_at(SDM_CONTROL_BYTES - SDM_STAGE_BYTES + SDM_BATCH_HEADER + at)) return;
  }
}

/* Recovery itself may fail at any write or sync; nothing acknowledged is lost by that. */
static void fail_at(int skip, bool write, const char *only, ending how) {
  fixture f;
  begin(&f, 3);
  for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_add(&f, 50 + i), 0);
  end(&f, how);
  if (write) fixture_faults.write_code = SDM_DISK_FULL;
  else fixture_faults.sync_code = SDM_IO;
  fixture_faults.only = only;
  fixture_faults.skip = skip;
  fixture_faults.write_limit = 7;
  int rc = sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &f.log);
  memset(&fixture_faults, 0, sizeof fixture_faults);
  if (rc < 0 && !fixture_open(&f)) return;
  fixture_check_from(&f, f.log, 0);
  CHECK_INT(fixture_add(&f, 70), 0);
  fixture_check_from(&f, f.log, 0);
  fixture_crash(&f);
  fixture_open(&f);
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}

TEST(recovery_may_fail_at_any_write) {
  for (int how = 0; how < ENDINGS; how++) {
    for (int skip = 0; skip < 8; skip++) {
      fail_at(skip, true, NULL, (ending)how);
      fail_at(skip, false, NULL, (ending)how);
      fail_at(skip, true, ".log", (ending)how);
      fail_at(skip, true, ".index", (ending)how);
      fail_at(skip, true, SDM_STATE_NAME, (ending)how);
    }
  }
}

/* A sync that failed may have lost what it was to save, and the next one would not say so: what memory still has is written once more, and the file
** is finished. */
TEST(after_a_failed_sync_a_file_is_finished) {
  fixture f;
  int64_t durable = -1;
  begin(&f, 2);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
  add_batches(&f, 100, 3);
  fixture_faults.sync_code = SDM_IO;
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), SDM_IO);
  fixture_faults.sync_code = 0;
  fixture_crash(&f);
  fixture_faults.write_code = SDM_IO;                 /* never comes: it only counts the writes to the file */
  fixture_faults.only = LOG0;
  fixture_faults.skip = 1000;
  fixture_open(&f);
  CHECK(fixture_faults.skip < 1000);
  memset(&fixture_faults, 0, sizeof fixture_faults);
  CHECK_INT(active(&f), log_end(&f));
  fixture_check_all(&f);
  add_batches(&f, 200, 1);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
  CHECK_INT(durable, log_end(&f));
  fixture_check_all(&f);
  fixture_end(&f);
}

/* ---- tails ---- */

static void tail_case(const void *bytes, size_t size, ending how) {
  fixture f;
  begin(&f, 4);
  CHECK_INT(fixture_add(&f, 90), 0);
  end(&f, how);
  int64_t before = fixture_size(&f, LOG0);
  fixture_write(&f, LOG0, bytes, size, before);
  fixture_open(&f);
  CHECK_INT(truncated(&f), (int64_t)size);
  CHECK_INT(corrupt(&f), 0);
  CHECK_INT(log_end(&f), how == LOSES_POWER ? 3 + RESERVED : 13);
  fixture_check_all(&f);
  CHECK_INT(fixture_add(&f, 91), 0);
  fixture_check_all(&f);
  check_settled(&f);
  fixture_end(&f);
}

TEST(what_lies_behind_the_last_batch_is_cut) {
  static uint8_t zeros[5000], torn[300];
  fixture f;
  size_t size;
  begin(&f, 1);
  uint8_t *batch = fixture_read(&f, LOG0, &size);
  fixture_end(&f);
  memcpy(torn, batch, size - 1);
  sdm_put64(torn, 13);
  for (int how = 0; how < ENDINGS; how++) {
    tail_case(zeros, sizeof zeros, (ending)how);
    tail_case("x", 1, (ending)how);
    tail_case("this is no batch, although it is long enough to hold the header of one: sixty-one", 82, (ending)how);
    for (size_t cut = 1; cut < size; cut += 13) tail_case(torn, cut, (ending)how);
  }
  sdm_free(batch);
}

/* The front of a batch reached the disk, zeros the rest: its magic then reads as that of an old format. */
TEST(a_tail_of_a_front_and_zeros) {
  fixture f;
  size_t size;
  begin(&f, 1);
  uint8_t *batch = fixture_read(&f, LOG0, &size);
  fixture_end(&f);
  sdm_put64(batch, 12);
  for (int how = 0; how < ENDINGS; how++) {
    uint8_t bytes[187] = {0};
    for (size_t front = 8; front < 62; front++) {
      memcpy(bytes, batch, front);
      tail_case(bytes, sizeof bytes, (ending)how);
    }
  }
  sdm_free(batch);
}

static uint32_t crc32_of(const uint8_t *p, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* Messages from before Kafka 0.11 are refused, and left as they are. */
TEST(old_formats_are_refused_whole) {
  for (uint8_t magic = 0; magic < 2; magic++) {
    fixture f;
    uint8_t message[80] = {0};
    fixture_begin(&f);
    fixture_open(&f);
    fixture_power_loss(&f);
    sdm_put32(message + 8, 68);
    message[16] = magic;
    memset(message + 18, 0x11, 62);
    sdm_put32(message + 12, crc32_of(message + 16, 64));
    fixture_write(&f, LOG0, message, sizeof message, -1);
    CHECK_INT(sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &f.log), SDM_UNSUPPORTED);
    CHECK_INT(fixture_size(&f, LOG0), sizeof message);
    f.log = NULL;
    fixture_end(&f);
  }
}

/* A whole batch behind the end of the page is an append that died before it was published. */
TEST(an_unpublished_batch_is_nobodys) {
  fixture f;
  size_t size;
  begin(&f, 4);
  uint8_t *bytes = fixture_read(&f, LOG0, &size), *batch = bytes + size - size / 4;
  sdm_put64(batch, 12);
  fixture_crash(&f);
  fixture_write(&f, LOG0, batch, size / 4, (int64_t)size);
  fixture_remove(&f, "00000000000000000000.index");
  fixture_open(&f);
  CHECK_INT(log_end(&f), 12);
  CHECK_INT(truncated(&f), size / 4);
  fixture_check_all(&f);
  check_settled(&f);
  sdm_free(bytes);
  fixture_end(&f);
}

/* What Kafka appended to a partition that we had closed stays. */
TEST(appended_by_kafka_after_our_close) {
  fixture f;
  size_t size;
  begin(&f, 4);
  uint8_t *bytes = fixture_read(&f, LOG0, &size), *batch = bytes + size - size / 4;
  CHECK(fixture_close(&f));
  f.env.boot_id[0]++;
  sdm_put64(batch, 12);
  fixture_write(&f, LOG0, batch, size / 4, (int64_t)size);
  for (uint32_t i = 0; i < 3; i++) fixture_note(&f, 12 + i, 30 + i, 5, 30, f.now + 3 + i);
  fixture_open(&f);
  CHECK_INT(log_end(&f), 15);
  CHECK_INT(truncated(&f), 0);
  fixture_check_all(&f);
  check_settled(&f);
  sdm_free(bytes);
  fixture_end(&f);
}

TEST(rolled_by_kafka_after_our_close) {
  fixture f;
  begin(&f, 4);
  CHECK(fixture_close(&f));
  f.env.boot_id[0]++;
  fixture_write(&f, "00000000000000000015.log", "", 0, -1);
  fixture_open(&f);
  CHECK_INT(log_end(&f), 15);
  fixture_check_from(&f, f.log, 0);
  check_settled(&f);
  fixture_end(&f);
}

/* ---- bounds ---- */

TEST(the_end_below_the_start) {
  fixture f;
  int64_t start;
  begin(&f, 4);
  CHECK_INT(sdm_log_delete_records(f.log, 10, f.now, &start), 0);
  fixture_power_loss(&f);
  fixture_truncate(&f, LOG0, 200);
  fixture_open(&f);
  CHECK_INT(sdm_log_start(f.log), log_end(&f));
  CHECK(log_end(&f) >= 10);
  f.count = 0;
  fixture_check_all(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  check_settled(&f);
  fixture_end(&f);
}

TEST(all_files_missing) {
  for (int how = 0; how < 4; how++) {
    fixture f;
    begin(&f, 4);
    end(&f, how < ENDINGS ? (ending)how : LOSES_POWER);
    if (how == CLOSES) f.env.boot_id[0]++;
    fixture_remove(&f, LOG0);
    fixture_remove(&f, "00000000000000000000.index");
    fixture_remove(&f, "00000000000000000000.timeindex");
    if (how == ENDINGS) {
      fixture_remove(&f, SDM_STATE_NAME);
      fixture_remove(&f, SDM_CONTROL_NAME);
    }
    fixture_open(&f);
    CHECK_INT(log_end(&f), how == ENDINGS ? 0 : how == LOSES_POWER ? 3 + RESERVED : 12);
    f.count = 0;
    fixture_check_all(&f);
    CHECK_INT(fixture_add(&f, 1), 0);
    check_settled(&f);
    fixture_end(&f);
  }
}

TEST(a_damaged_state_file) {
  for (int way = 0; way < 3; way++) {
    for (int how = 0; how < ENDINGS; how++) {
      fixture f;
      begin(&f, 4);
      CHECK_INT(sdm_log_raise_floor(f.log, 5), 0);
      end(&f, (ending)how);
      if (way == 0) fixture_remove(&f, SDM_STATE_NAME);
      else if (way == 1) fixture_truncate(&f, SDM_STATE_NAME, 100);
      else fixture_write(&f, SDM_STATE_NAME, "junkjunkjunk", 12, 512 + 16);
      fixture_open(&f);
      fixture_check_from(&f, f.log, 0);
      CHECK(log_end(&f) >= 12);
      if (how == DIES) CHECK_INT(atomic_load(&f.log->control->purge_floor), 5);
      CHECK_INT(fixture_add(&f, 1), 0);
      check_settled(&f);
      fixture_end(&f);
    }
  }
}

/* The writes take turns between two places: one that the loss of power tears leaves the one before. What the newer one reserved is not known, but not
** more than two of the widest steps. */
TEST(a_torn_state_leaves_the_one_before) {
  fixture f;
  begin(&f, 4);
  CHECK_INT(sdm_log_raise_floor(f.log, 5), 0);
  fixture_power_loss(&f);
  fixture_write(&f, SDM_STATE_NAME, "junkjunkjunk", 12, 16);
  fixture_open(&f);
  CHECK_INT(log_end(&f), 3 + RESERVED + 2 * SDM_RESERVE_STEP_MAX);
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}

/* A batch whose distance to the last entry is just the interval gets none; nor does it when the index is made anew. */
TEST(an_index_at_its_border_is_rebuilt_as_it_grew) {
  enum { BATCHES = 12 };
  fixture f;
  size_t grown, rebuilt;
  int64_t base;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 1, 1, 30, f.now), 0);
  f.cfg.index_interval_bytes = (int32_t)sdm_control_end(f.log->control)->position;
  sdm_log_set_config(f.log, &f.cfg);
  for (uint32_t i = 1; i < BATCHES; i++) CHECK_INT(fixture_put_batch(&f, 1 + i, 1, 30, f.now), 0);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  uint8_t *before = fixture_read(&f, "00000000000000000000.index", &grown);
  CHECK_INT(grown, 8 * (BATCHES / 2 - 1));
  fixture_power_loss(&f);
  fixture_remove(&f, "00000000000000000000.index");
  fixture_open(&f);
  uint8_t *after = fixture_read(&f, "00000000000000000000.index", &rebuilt);
  CHECK_BYTES(after, rebuilt, before, grown);
  free(before);
  free(after);
  fixture_end(&f);
}

TEST(the_purge_floor_stays) {
  for (int how = 0; how < ENDINGS; how++) {
    fixture f;
    begin(&f, 4);
    CHECK_INT(sdm_log_raise_floor(f.log, 5), 0);
    CHECK_INT(sdm_log_raise_floor(f.log, 3), 0);
    end(&f, (ending)how);
    fixture_open(&f);
    CHECK_INT(atomic_load(&f.log->control->purge_floor), 5);
    CHECK(fixture_close(&f));
    fixture_open(&f);
    CHECK_INT(atomic_load(&f.log->control->purge_floor), 5);
    fixture_end(&f);
  }
}

/* However often the power goes: an offset that was given once is not given again, and a quiet partition does not jump. */
TEST(offsets_are_never_reused) {
  fixture f;
  fixture_begin(&f);
  int64_t highest = -1;
  for (int life = 0; life < 20; life++) {
    fixture_open(&f);
    CHECK(log_end(&f) > highest);
    for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_add(&f, i), 0);
    highest = f.model[f.count - 1].offset;
    fixture_power_loss(&f);
    char *names = fixture_names(&f, ".log"), *last = strrchr(names, ' ');
    last = last ? last + 1 : names;
    fixture_remove(&f, SDM_CONTROL_NAME);
    if (life % 2) fixture_truncate(&f, last, 0);
    sdm_free(names);
    if (life % 3) continue;
    fixture_open(&f);
    int64_t quiet = log_end(&f);
    fixture_power_loss(&f);
    fixture_open(&f);
    CHECK_INT(log_end(&f), quiet);
    fixture_power_loss(&f);
  }
  fixture_end(&f);
}

TEST(a_short_control_file) {
  fixture f;
  begin(&f, 2);
  fixture_crash(&f);
  fixture_truncate(&f, SDM_CONTROL_NAME, 100);
  fixture_open(&f);
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}
