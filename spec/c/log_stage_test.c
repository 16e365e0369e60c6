/* The stage: when it is sealed, what the batch in the file is then, and what the death of a writer leaves. */
#include "log_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "log/stage.h"
#include "test.h"

#define LOG0 "00000000000000000000.log"

static size_t batches(fixture *f, fixture_batch *out, size_t room) { return fixture_batches(f, LOG0, out, room); }
static int64_t staged(fixture *f) { return sdm_stage_size(sdm_control_end(f->log->control)); }

static int seal(fixture *f) {
  int rc = sdm_log_lock(f->log);
  if (rc == 0) rc = sdm_log_seal_locked(f->log, &f->cfg);
  sdm_log_unlock(f->log);
  return rc;
}

TEST(a_sealed_stage_is_one_batch) {
  fixture f;
  fixture_batch b[2];
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 50; i++) CHECK_INT(fixture_put(&f, i, 3, (int32_t)i, f.now + (i * 37) % 50 - 10), 0);
  CHECK_INT(fixture_size(&f, LOG0), 0);
  int64_t size = staged(&f);
  CHECK_INT(seal(&f), 0);
  CHECK_INT(staged(&f), 0);
  CHECK_INT(fixture_size(&f, LOG0), size);
  CHECK_INT(batches(&f, b, 2), 1);
  CHECK_INT(b[0].b.base_offset, 0);
  CHECK_INT(b[0].b.count, 50);
  CHECK_INT(b[0].b.last_offset_delta, 49);
  CHECK_INT(b[0].b.base_timestamp, f.now - 10);
  CHECK_INT(b[0].b.max_timestamp, f.now + 39);
  CHECK_INT(b[0].b.attributes, 0);
  CHECK_INT(b[0].b.producer_id, -1);
  CHECK_INT(b[0].b.leader_epoch, 0);
  CHECK_INT(seal(&f), 0);
  CHECK_INT(batches(&f, b, 2), 1);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_full_stage_is_sealed_within_batch_size) {
  fixture f;
  fixture_batch b[64];
  test_random r = {7};
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 8000; i++) CHECK_INT(fixture_put(&f, i, 4, (int32_t)test_random_below(&r, 400), f.now), 0);
  size_t n = batches(&f, b, 64);
  CHECK(n > 20 && n < 64);
  for (size_t i = 0; i < n && i < 64; i++) CHECK(b[i].b.size <= SDM_STAGE_BYTES && b[i].b.size > SDM_STAGE_BYTES - 500);
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}

/* Every record size around the capacity, with offsets and times that take more bytes than in an empty stage. */
TEST(the_stage_never_overflows) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  for (int32_t last = SDM_STAGE_BYTES - 61 - 2100; last < SDM_STAGE_BYTES - 61 - 1800; last++) {
    CHECK_INT(fixture_put(&f, (uint32_t)last, -1, 0, f.now), 0);
    for (uint32_t i = 0; i < 200; i++) CHECK_INT(fixture_put(&f, i, -1, 0, f.now - 1), 0);
    CHECK_INT(fixture_put(&f, 5, -1, last, f.now + 1000000), 0);
    CHECK(staged(&f) <= SDM_STAGE_BYTES);
    CHECK_INT(seal(&f), 0);
  }
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}

/* The offset field of what is given is ignored: it must not pass for the record's place in the batch. */
TEST(an_offset_given_is_ignored) {
  fixture f;
  int64_t offset;
  fixture_begin(&f);
  fixture_open(&f);
  for (int i = 0; i < 6000; i++) {
    sdm_record r = {.offset = sdm_control_end(f.log->control)->sealed_end, .timestamp = f.now, .key_size = -1, .value_size = -1};
    sdm_append a = {.records = &r, .count = 1, .scratch = &f.scratch};
    CHECK_INT(sdm_log_append(f.log, &f.cfg, &a, f.now, &offset, &offset), 0);
    CHECK(staged(&f) <= SDM_STAGE_BYTES);
  }
  fixture_end(&f);
}

TEST(a_small_batch_size_and_linger) {
  fixture f;
  fixture_batch b[64];
  fixture_begin(&f);
  f.env.batch_size = 200;
  f.env.linger_ms = 10;
  fixture_open(&f);
  for (uint32_t i = 0; i < 10; i++) CHECK_INT(fixture_add(&f, i), 0);
  size_t n = batches(&f, b, 64);
  CHECK_INT(n, 2);
  for (size_t i = 0; i < n; i++) CHECK_INT(b[i].b.count, 4);
  f.now += 10;
  CHECK_INT(fixture_put(&f, 20, 4, 20, f.now - 10), 0);
  CHECK_INT(batches(&f, b, 64), 2);
  f.now += 1;
  CHECK_INT(fixture_put(&f, 21, 4, 20, f.now - 11), 0);
  CHECK_INT(batches(&f, b, 64), 3);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(records_that_cannot_share_a_batch) {
  fixture f;
  fixture_batch b[64];
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put(&f, 1, 4, 4, f.now), 0);
  CHECK_INT(fixture_put(&f, 2, 4, 4, -1), 0);
  CHECK_INT(batches(&f, b, 64), 1);
  CHECK_INT(fixture_put(&f, 3, 4, 4, f.now - INT64_C(4000000000)), 0);
  CHECK_INT(batches(&f, b, 64), 2);
  f.cfg.log_append_time = true;
  CHECK_INT(fixture_put(&f, 4, 4, 4, f.now), 0);
  CHECK_INT(fixture_put(&f, 5, 4, 4, 17), 0);
  CHECK_INT(batches(&f, b, 64), 4);
  f.now++;
  CHECK_INT(fixture_put(&f, 6, 4, 4, 17), 0);
  CHECK_INT(fixture_put(&f, 7, 4, 4, 17), 0);
  CHECK_INT(batches(&f, b, 64), 5);
  f.cfg.log_append_time = false;
  CHECK_INT(fixture_put(&f, 8, 4, 4, f.now), 0);
  CHECK_INT(batches(&f, b, 64), 6);
  CHECK_INT(b[5].b.attributes, SDM_ATTR_APPEND_TIME);
  CHECK_INT(b[5].b.count, 2);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_batch_seals_what_was_staged) {
  fixture f;
  fixture_batch b[8];
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  CHECK_INT(fixture_put_batch(&f, 2, 3, 9, f.now), 0);
  CHECK_INT(batches(&f, b, 8), 2);
  CHECK_INT(b[0].b.count, 1);
  CHECK_INT(b[1].b.base_offset, 1);
  CHECK_INT(staged(&f), 0);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* ---- deaths ---- */

/* Runs `act` in a child that has opened the partition anew; the child is gone afterwards, whatever it held. */
static void in_child(fixture *f, void (*act)(fixture *)) {
  pid_t pid = fork();
  if (pid == 0) {
    f->log = NULL;
    if (sdm_log_open(&f->env, FIXTURE_TOPIC, 0, &f->cfg, f->now, &f->log) < 0) _exit(9);
    act(f);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(WIFSIGNALED(status));
}

static void die_with_the_lock(fixture *f) { sdm_log_lock(f->log); }

static void die_in_an_append(fixture *f) {
  sdm_log_lock(f->log);
  sdm_control *c = f->log->control;
  sdm_end *e = sdm_control_end(c);
  uint32_t used = atomic_load(&e->staged_bytes);
  memset(sdm_control_stage(c) + SDM_BATCH_HEADER + used, 0x5a, 40);          /* a record half written ... */
  e->staged_crc ^= 0x1234;                                                  /* ... and accounted for */
  e->staged_tombstone = 99;
  e->staged_max_timestamp = INT64_MAX;
  atomic_store(&e->staged_bytes, used + 40);
}

static void die_before_log_end(fixture *f) {
  sdm_record r = {.timestamp = f->now, .key = "k", .key_size = 1, .value = "v", .value_size = 1};
  sdm_log_lock(f->log);
  int64_t end = atomic_load(&f->log->control->log_end);
  r.offset = end;
  sdm_stage_add(f->log->control, &r, false, f->now);
  atomic_store(&f->log->control->log_end, end);
}

static void die_in_a_sealing(fixture *f) {
  static const uint8_t junk[77] = {1, 2, 3};
  sdm_log_lock(f->log);
  fixture_write(f, LOG0, junk, sizeof junk, sdm_control_end(f->log->control)->position);
  sdm_control_end(f->log->control);
  f->log->control->slots[(atomic_load(&f->log->control->commit) + 1) & 1].position = 12345;
}

static void after_death(void (*act)(fixture *), int records_of_the_dead) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 900, 2, 30, f.now), 0);
  for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_add(&f, i), 0);
  in_child(&f, act);
  int64_t end;
  CHECK_INT(sdm_log_lock(f.log), 0);
  sdm_log_unlock(f.log);
  CHECK_INT(sdm_log_latest(f.log, &end), 0);
  CHECK_INT(end, (int64_t)f.count + records_of_the_dead);
  if (records_of_the_dead) return fixture_end(&f);
  fixture_check_all(&f);
  for (uint32_t i = 10; i < 15; i++) CHECK_INT(fixture_add(&f, i), 0);
  fixture_check_all(&f);
  CHECK(fixture_close(&f));
  fixture_batch b[8];
  CHECK_INT(batches(&f, b, 8), 2);
  CHECK_INT(b[1].b.max_timestamp, f.now);
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_death_with_the_lock) { after_death(die_with_the_lock, 0); }
TEST(a_death_in_the_middle_of_an_append) { after_death(die_in_an_append, 0); }
TEST(a_death_after_publishing) { after_death(die_before_log_end, 1); }
TEST(a_death_in_a_sealing) { after_death(die_in_a_sealing, 0); }

/* The first record of a segment was only half added: rolling by time must go by the first that was. */
static void die_in_the_first_append(fixture *f) {
  sdm_log_lock(f->log);
  sdm_end *e = sdm_control_end(f->log->control);
  e->first_append_ms = 5;
  e->first_timestamp = 5;
}

/* Who follows the log keeps what it has of the stage. What a writer had half written when it was copied is another record later. */
TEST(a_follower_beside_a_death_in_an_append) {
  fixture f;
  sdm_reader *r;
  sdm_record record;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(sdm_reader_open(f.log, 0, SDM_TO_END, 0, &r), 0);
  for (uint32_t i = 0; i < 20; i++) {
    CHECK_INT(fixture_put(&f, i, 8, 200, f.now), 0);
    if (i % 3 == 0) in_child(&f, die_in_an_append);
    CHECK_INT(sdm_reader_wait(r, 0), 1);
    if (!CHECK_INT(sdm_reader_next(r, &record), 1) || !CHECK(fixture_is(&record, &f.model[i]))) break;
    CHECK_INT(sdm_reader_next(r, &record), 0);
  }
  sdm_reader_close(r);
  fixture_end(&f);
}

TEST(a_death_in_the_first_append_of_a_segment) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  in_child(&f, die_in_the_first_append);
  for (uint32_t i = 0; i < 3; i++) CHECK_INT(fixture_add(&f, i), 0);
  CHECK_INT(sdm_control_end(f.log->control)->active_base, 0);
  CHECK_INT(sdm_control_end(f.log->control)->first_timestamp, f.now);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* A roll that made its files and no more. Its leftover must not stand between the segments later. */
static void die_in_a_roll(fixture *f) {
  sdm_segment *s;
  sdm_log_lock(f->log);
  sdm_segment_create(&f->fs, f->dir, atomic_load(&f->log->control->log_end), f->now, &s);
}

TEST(a_death_in_a_roll) {
  fixture f;
  int64_t base;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_add(&f, i), 0);
  in_child(&f, die_in_a_roll);
  for (uint32_t i = 10; i < 15; i++) CHECK_INT(fixture_add(&f, i), 0);
  fixture_check_all(&f);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  CHECK_INT(base, 10);
  f.log->generation = 0;                       /* as another process would see it */
  fixture_check_all(&f);
  fixture_crash(&f);
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* The disk fills up in a roll: what it leaves must not stand between the segments later either. */
TEST(a_roll_that_fails) {
  fixture f;
  int64_t base;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_add(&f, i), 0);
  fixture_faults.write_code = SDM_DISK_FULL;
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), SDM_DISK_FULL);
  fixture_faults.write_code = 0;
  CHECK_INT(fixture_add(&f, 6), 0);
  fixture_check_all(&f);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  CHECK_INT(base, 6);
  f.log->generation = 0;
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(handles_from_before_a_fork_refuse) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  pid_t pid = fork();
  if (pid == 0) _exit(fixture_add(&f, 1) == SDM_FORKED ? 3 : 4);
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK_INT(WEXITSTATUS(status), 3);
  fixture_end(&f);
}
