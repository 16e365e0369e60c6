/* Reading: from every offset, across segments, batches and the stage, and whatever happens to them meanwhile. */
#include "log_fixture.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "log/bare.h"
#include "log/offsets.h"
#include "log/retired.h"
#include "log/swap.h"
#include "test.h"

static void mixed(fixture *f, test_random *r, int n) {
  for (int i = 0; i < n; i++) {
    uint32_t seed = (uint32_t)test_random_next(r);
    if (i % 4 == 3) CHECK_INT(fixture_put_batch(f, seed, 1 + test_random_below(r, 5), (int32_t)test_random_below(r, 90), f->now), 0);
    else CHECK_INT(fixture_put(f, seed, 4, (int32_t)test_random_below(r, 90), f->now), 0);
  }
}

/* A log of several segments, with records in batches and alone. */
static void begin_mixed(fixture *f) {
  test_random r = {5};
  fixture_begin(f);
  f->cfg.segment_bytes = 700;
  fixture_open(f);
  mixed(f, &r, 45);
}

static sdm_reader *open_at(fixture *f, int64_t from) {
  sdm_reader *r = NULL;
  CHECK_INT(sdm_reader_open(f->log, from, SDM_TO_END, 0, &r), 0);
  return r;
}

/* Takes n records and holds them against the model. */
static void take(fixture *f, sdm_reader *r, size_t n) {
  sdm_record record;
  size_t i = 0;
  while (i < f->count && f->model[i].offset < sdm_reader_position(r)) i++;
  for (; n > 0; n--, i++) {
    if (!CHECK_INT(sdm_reader_next(r, &record), 1) || !CHECK(i < f->count && fixture_is(&record, &f->model[i]))) return;
  }
}

TEST(from_every_offset) {
  fixture f;
  test_random r = {1};
  fixture_begin(&f);
  f.cfg.segment_bytes = 900;
  f.cfg.index_interval_bytes = 100;
  fixture_open(&f);
  mixed(&f, &r, 150);
  fixture_check_all(&f);
  sdm_reader *reader = NULL;
  CHECK_INT(sdm_reader_open(f.log, -1, SDM_TO_END, 0, &reader), SDM_OFFSET_OUT_OF_RANGE);
  CHECK_INT(sdm_reader_open(f.log, (int64_t)f.count + 1, SDM_TO_END, 0, &reader), SDM_OFFSET_OUT_OF_RANGE);
  CHECK(!reader);
  fixture_end(&f);
}

TEST(to_is_exclusive) {
  fixture f;
  test_random r = {2};
  sdm_record record;
  fixture_begin(&f);
  f.cfg.segment_bytes = 500;
  fixture_open(&f);
  mixed(&f, &r, 40);
  for (int64_t to = 0; to <= (int64_t)f.count; to++) {
    sdm_reader *reader;
    int64_t n = 0;
    CHECK_INT(sdm_reader_open(f.log, 0, to, 0, &reader), 0);
    while (sdm_reader_next(reader, &record) == 1) n++;
    CHECK_INT(n, to);
    CHECK_INT(sdm_reader_position(reader), to);
    CHECK_INT(sdm_reader_next(reader, &record), 0);
    sdm_reader_close(reader);
  }
  fixture_end(&f);
}

/* The end is that of the opening: what comes later is not given. */
TEST(ends_at_the_end_of_its_opening) {
  fixture f;
  sdm_record record;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  sdm_reader *a = open_at(&f, 0), *b = open_at(&f, 1);
  CHECK_INT(fixture_add(&f, 2), 0);
  CHECK_INT(sdm_reader_next(a, &record), 1);
  CHECK_INT(sdm_reader_next(a, &record), 0);
  CHECK_INT(sdm_reader_next(b, &record), 0);
  sdm_reader_close(a);
  sdm_reader_close(b);
  fixture_end(&f);
}

/* One reader for each number of records taken before something happens. */
static void survives(void (*happens)(fixture *)) {
  for (size_t n = 0; n < 60; n++) {
    fixture f;
    begin_mixed(&f);
    sdm_reader *reader = open_at(&f, 0);
    take(&f, reader, n);
    size_t count = f.count;
    happens(&f);
    fixture_forget(&f, (int64_t)count);
    bool ok = fixture_check_rest(&f, reader);
    sdm_reader_close(reader);
    fixture_end(&f);
    if (!CHECK(ok)) return;
  }
}

static void seal(fixture *f) {
  CHECK_INT(sdm_log_lock(f->log), 0);
  CHECK_INT(sdm_log_seal_locked(f->log, &f->cfg), 0);
  sdm_log_unlock(f->log);
}

static void roll(fixture *f) {
  int64_t base;
  CHECK_INT(sdm_log_roll(f->log, f->now, &base), 0);
}

static void append_much(fixture *f) {
  test_random r = {4};
  mixed(f, &r, 50);
}

static void delete_all(fixture *f) {
  roll(f);
  fixture_retire(f, fixture_base(f, 1000));
}

static void delete_two(fixture *f) { fixture_retire(f, fixture_base(f, 2)); }

static void swap_first(fixture *f) { fixture_swap(f, 0, fixture_base(f, 1)); }
static void swap_three(fixture *f) { fixture_swap(f, 0, fixture_base(f, 3)); }
static void swap_middle(fixture *f) { fixture_swap(f, fixture_base(f, 1), fixture_base(f, 4)); }

static void swap_all(fixture *f) {
  roll(f);
  append_much(f);
  roll(f);
  fixture_swap(f, 0, fixture_base(f, 1000));
}

static void swap_then_delete(fixture *f) {
  swap_three(f);
  delete_two(f);
}

static void swap_twice_and_delete_all(fixture *f) {
  swap_middle(f);
  swap_three(f);
  delete_all(f);
}

TEST(survives_a_seal) { survives(seal); }
TEST(survives_a_roll) { survives(roll); }
TEST(survives_appends) { survives(append_much); }
TEST(survives_deletion) { survives(delete_two); }
TEST(survives_deletion_of_all) { survives(delete_all); }
TEST(survives_a_swap) { survives(swap_first); }
TEST(survives_a_merging_swap) { survives(swap_three); }
TEST(survives_a_swap_behind_it) { survives(swap_middle); }
TEST(survives_a_swap_of_all) { survives(swap_all); }
TEST(survives_a_swap_and_deletion) { survives(swap_then_delete); }
TEST(survives_swaps_and_deletion_of_all) { survives(swap_twice_and_delete_all); }

TEST(overtaken_by_the_unlinking) {
  fixture f;
  sdm_record record;
  int64_t gone = 0;
  begin_mixed(&f);
  sdm_reader *fresh = open_at(&f, 0), *inside = open_at(&f, 0);
  take(&f, inside, 1);
  delete_all(&f);
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 59, 60, &gone), 0);
  CHECK_INT(gone, 0);
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 60, 60, &gone), 0);
  CHECK(gone > 3);
  CHECK_INT(sdm_reader_next(fresh, &record), SDM_OFFSET_OUT_OF_RANGE);
  int n = 0, rc;
  while ((rc = sdm_reader_next(inside, &record)) == 1) n++;
  CHECK_INT(rc, SDM_OFFSET_OUT_OF_RANGE);
  CHECK(n > 1);                                       /* it held the file it stood in */
  sdm_reader_close(fresh);
  sdm_reader_close(inside);
  fixture_end(&f);
}

/* As a deleted segment is opened, another process unlinks it and the one behind it, but not yet the third. */
static fixture *unlinking;

static int open_and_unlink(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  fixture *f = unlinking;
  int rc = sdm_fs_posix()->open(fs, path, flags, out);
  char *names = f && strstr(path, ".log.deleted") ? fixture_names(f, ".log.deleted") : NULL;
  if (!names) return rc;
  unlinking = NULL;
  for (int i = 0; i < 2; i++) fixture_remove(f, strtok(i ? NULL : names, " "));
  free(names);
  return rc;
}

TEST(overtaken_between_two_deleted_segments) {
  fixture f;
  sdm_record record;
  int64_t last = -1;
  int rc;
  begin_mixed(&f);
  f.fs.open = open_and_unlink;
  sdm_reader *reader = open_at(&f, 0);
  delete_all(&f);
  unlinking = &f;
  while ((rc = sdm_reader_next(reader, &record)) == 1 && CHECK_INT(record.offset, last + 1)) last = record.offset;
  CHECK_INT(rc, SDM_OFFSET_OUT_OF_RANGE);
  CHECK(!unlinking);
  unlinking = NULL;
  sdm_reader_close(reader);
  fixture_end(&f);
}

/* Who deletes may have asked the clock before somebody else who deleted first. */
TEST(deleted_segments_go_in_the_order_of_their_offsets) {
  fixture f;
  int64_t gone = 0;
  begin_mixed(&f);
  f.now += 10;
  fixture_retire(&f, fixture_base(&f, 1));
  f.now -= 10;
  fixture_retire(&f, fixture_base(&f, 1));
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 60, 60, &gone), 0);
  CHECK_INT(gone, 0);
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 70, 60, &gone), 0);
  CHECK_INT(gone, 2);
  f.now -= 1000000;                                   /* a clock that was set back is believed again */
  fixture_retire(&f, fixture_base(&f, 1));
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 60, 60, &gone), 0);
  CHECK_INT(gone, 3);
  fixture_end(&f);
}

/* As who died left it: the .log has its new name, the others have not. The next to lock is told. */
static void undo_half(fixture *f, int64_t base) {
  static const char *const kinds[] = {"index", "timeindex", "digest"};
  char from[64], to[64];
  for (int i = 0; i < 3; i++) {
    snprintf(from, sizeof from, "%020lld.%s.deleted", (long long)base, kinds[i]);
    snprintf(to, sizeof to, "%020lld.%s", (long long)base, kinds[i]);
    fixture_rename(f, from, to);
  }
  atomic_store(&f->log->control->unfinished, 1);
}

/* Were it to stay when those behind it have gone, a reader in one of them would come to it, find nothing there, and go on behind them all. */
TEST(a_segment_whose_deletion_died_half_way_goes_in_its_turn) {
  fixture f;
  sdm_record record;
  int64_t gone = 0;
  begin_mixed(&f);
  sdm_reader *reader = open_at(&f, fixture_base(&f, 1));
  fixture_retire(&f, fixture_base(&f, 1));
  undo_half(&f, 0);
  fixture_retire(&f, fixture_base(&f, 1));
  CHECK_INT(sdm_retired_unlink(f.log, f.now + 60, 60, &gone), 0);
  CHECK_INT(gone, 2);
  CHECK_INT(sdm_reader_next(reader, &record), SDM_OFFSET_OUT_OF_RANGE);
  CHECK_INT(fixture_size(&f, "00000000000000000000.timeindex"), -1);
  sdm_reader_close(reader);
  fixture_end(&f);
}

TEST(a_mid_batch_log_start) {
  fixture f;
  int64_t start;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 0, 10, 10, f.now), 0);
  CHECK_INT(sdm_log_delete_records(f.log, 4, f.now, &start), 0);
  CHECK_INT(start, 4);
  CHECK_INT(sdm_log_delete_records(f.log, 2, f.now, &start), 0);
  CHECK_INT(start, 4);
  CHECK_INT(sdm_log_delete_records(f.log, 11, f.now, &start), SDM_OFFSET_OUT_OF_RANGE);
  CHECK_INT(sdm_log_delete_records(f.log, -1, f.now, &start), SDM_OFFSET_OUT_OF_RANGE);
  fixture_check_all(&f);
  fixture_power_loss(&f);
  fixture_open(&f);
  CHECK_INT(sdm_log_start(f.log), 4);
  fixture_check_all(&f);
  f.cfg.cleanup_policy = SDM_POLICY_COMPACT;
  sdm_log_set_config(f.log, &f.cfg);
  CHECK_INT(sdm_log_delete_records(f.log, 5, f.now, &start), SDM_POLICY);
  fixture_end(&f);
}

/* ---- times ---- */

static int naive(fixture *f, int64_t start, int64_t ms, int64_t *offset) {
  for (size_t i = 0; i < f->count; i++) {
    if (f->model[i].offset >= start && f->model[i].timestamp >= ms) {
      *offset = f->model[i].offset;
      return 1;
    }
  }
  return 0;
}

static void check_times(fixture *f, sdm_log *l, test_random *r) {
  for (int i = 0; i < 60; i++) {
    int64_t ms = f->now + (int64_t)test_random_below(r, 1200) - 600, got = -7, expected = -7;
    if (i < 5) ms = (int64_t[]){0, 1, -1, INT64_MAX, f->now}[i];
    int rc = sdm_log_offset_for_time(l, ms, &got);
    CHECK_INT(rc, naive(f, sdm_log_start(l), ms, &expected));
    if (!CHECK_INT(got, expected)) return;
  }
}

TEST(offset_for_time_agrees_with_a_naive_search) {
  for (uint64_t seed = 0; seed < 20; seed++) {
    fixture f;
    sdm_log *bare;
    int64_t start;
    test_random r = {seed};
    fixture_begin(&f);
    f.cfg.segment_bytes = 400 + (int64_t)test_random_below(&r, 2000);
    f.cfg.index_interval_bytes = (int64_t[]){0, 1, 300, 4096}[seed % 4];
    fixture_open(&f);
    for (uint32_t i = 0; i < 80; i++) {
      int64_t when = f.now + (int64_t)test_random_below(&r, 1000) - 500;
      if (i % 4) CHECK_INT(fixture_put(&f, i, 4, (int32_t)test_random_below(&r, 90), i % 9 ? when : -1), 0);
      else CHECK_INT(fixture_put_batch(&f, 100 * i, 1 + test_random_below(&r, 5), 20, when), 0);
    }
    check_times(&f, f.log, &r);
    CHECK_INT(sdm_log_delete_records(f.log, (int64_t)test_random_below(&r, f.count), f.now, &start), 0);
    check_times(&f, f.log, &r);
    if (seed % 2) fixture_crash(&f);
    else CHECK(fixture_close(&f));
    fixture_open(&f);
    check_times(&f, f.log, &r);
    CHECK(fixture_close(&f));
    CHECK_INT(sdm_log_open_bare(f.dir, &bare), 0);
    check_times(&f, bare, &r);
    sdm_log_release(bare);
    fixture_end(&f);
  }
}

/* No checksum covers an index; a damaged time entry must not hide records. */
TEST(a_damaged_time_index_misleads_nobody) {
  fixture f;
  size_t size;
  int64_t got, base;
  fixture_begin(&f);
  f.cfg.index_interval_bytes = 0;
  fixture_open(&f);
  for (uint32_t i = 0; i < 20; i++) CHECK_INT(fixture_put_batch(&f, i * 2, 1, 20, f.now + 10 * i), 0);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  uint8_t *bytes = fixture_read(&f, "00000000000000000000.timeindex", &size);
  for (size_t i = 0; i + 1 < size / 12; i++) {        /* the last entry is looked at when the log is opened */
    uint8_t before[12];
    memcpy(before, bytes + 12 * i, 12);
    for (int way = 0; way < 2; way++) {
      if (way) sdm_put32(bytes + 12 * i + 8, 19);
      else sdm_put64(bytes + 12 * i, 1);
      fixture_write(&f, "00000000000000000000.timeindex", bytes, size, 0);
      for (uint32_t k = 0; k < 20; k++) {
        CHECK_INT(sdm_log_offset_for_time(f.log, f.now + 10 * k, &got), 1);
        CHECK_INT(got, k);
      }
      memcpy(bytes + 12 * i, before, 12);
    }
  }
  sdm_free(bytes);
  fixture_end(&f);
}

/* ---- bare directories, read-only stores, other processes ---- */

static int open_but_checkpoint(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  return strstr(path, SDM_LOG_START_CHECKPOINT) ? sdm_fail(SDM_IO, "open %s: injected", path) : sdm_fs_posix()->open(fs, path, flags, out);
}

/* Else records that were deleted would be back. */
TEST(a_log_start_that_cannot_be_read_now_is_none_to_go_without) {
  fixture f;
  sdm_log *bare;
  int64_t start;
  sdm_fs fs = *sdm_fs_posix();
  fs.open = open_but_checkpoint;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 4; i++) fixture_add(&f, i);
  CHECK_INT(sdm_log_delete_records(f.log, 2, f.now, &start), 0);
  fixture_close(&f);
  CHECK_INT(sdm_bare_open_on(&fs, f.dir, &bare), SDM_IO);
  CHECK(strstr(sdm_errmsg(), SDM_LOG_START_CHECKPOINT) != NULL);
  fixture_end(&f);
}

TEST(a_bare_log_of_a_directory_that_is_written) {
  fixture f;
  sdm_log *bare = NULL;
  test_random r = {8};
  int64_t end, base;
  fixture_begin(&f);
  f.cfg.segment_bytes = 900;
  fixture_open(&f);
  CHECK_INT(sdm_log_open_bare(f.dir, &bare), 0);
  for (int i = 0; i < 40; i++) {
    mixed(&f, &r, 5);
    seal(&f);
    if (i % 10 == 9) CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
    CHECK_INT(sdm_log_latest(bare, &end), 0);
    CHECK_INT(end, (int64_t)f.count);
    fixture_check_from(&f, bare, i % 5 ? end - 3 : 0);
    fixture_write(&f, "00000000000000000000.log.cleaned", "junk", 4, -1);
  }
  int64_t position = sdm_control_end(f.log->control)->position;
  CHECK_INT(fixture_put_batch(&f, 7, 3, 50, f.now), 0);
  char *names = fixture_names(&f, ".log"), *last = strrchr(names, ' ') + 1;
  fixture_truncate(&f, last, position + 40);          /* half of it has arrived */
  CHECK_INT(sdm_log_latest(bare, &end), 0);
  CHECK_INT(end, (int64_t)f.count - 3);
  sdm_free(names);
  sdm_log_release(bare);
  fixture_end(&f);
}

/* Its CRC holds, but its second record does not come after the first. */
TEST(offsets_that_do_not_ascend) {
  fixture f;
  sdm_buf bytes = SDM_BUF_INIT;
  sdm_record record, r = {.timestamp = 5, .key = "k", .key_size = 1, .value = "v", .value_size = 1};
  sdm_batch_writer w = {.batch = {.base_timestamp = 5, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1}};
  fixture_begin(&f);
  fixture_open(&f);
  CHECK(fixture_close(&f));
  f.env.boot_id[0]++;
  CHECK_INT(sdm_batch_begin(&w, &bytes), 0);
  for (r.offset = 1; r.offset >= 0; r.offset--) CHECK_INT(sdm_batch_add(&w, &r), 0);
  CHECK_INT(sdm_batch_end(&w), 0);
  fixture_write(&f, "00000000000000000000.log", bytes.data, bytes.size, -1);
  fixture_open(&f);
  CHECK_INT(sdm_log_latest(f.log, &r.offset), 0);
  CHECK_INT(r.offset, 2);
  sdm_reader *reader = open_at(&f, 0);
  CHECK_INT(sdm_reader_next(reader, &record), 1);
  CHECK_INT(sdm_reader_next(reader, &record), SDM_CORRUPT);
  sdm_reader_close(reader);
  sdm_buf_free(&bytes);
  fixture_end(&f);
}

TEST(a_bare_log_knows_its_start) {
  fixture f;
  sdm_log *bare = NULL;
  int64_t start, end;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 0, 10, 10, f.now), 0);
  CHECK_INT(sdm_log_delete_records(f.log, 4, f.now, &start), 0);
  CHECK_INT(sdm_log_open_bare(f.dir, &bare), 0);
  CHECK_INT(sdm_log_earliest(bare, &start), 0);
  CHECK_INT(sdm_log_latest(bare, &end), 0);
  CHECK_INT(start, 4);
  CHECK_INT(end, 10);
  fixture_check_from(&f, bare, 4);
  sdm_log_release(bare);
  CHECK_INT(sdm_log_open_bare(f.root, &bare), SDM_NOT_FOUND);
  fixture_remove(&f, "../" SDM_LOG_START_CHECKPOINT);
  CHECK_INT(sdm_log_open_bare(f.root, &bare), SDM_NOT_FOUND);
  snprintf(f.dir, sizeof f.dir, "%s/missing", f.root);
  CHECK_INT(sdm_log_open_bare(f.dir, &bare), SDM_NOT_FOUND);
  fixture_end(&f);
}

TEST(a_readonly_store_sees_the_stage) {
  fixture f;
  test_random r = {9};
  fixture_begin(&f);
  f.cfg.segment_bytes = 700;
  fixture_open(&f);
  sdm_env env = f.env;
  sdm_log *reading = NULL;
  env.writable = false;
  env.checkpoint_lock = NULL;
  CHECK_INT(sdm_log_open(&env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &reading), 0);
  for (int i = 0; i < 30; i++) {
    mixed(&f, &r, 3);
    fixture_check_from(&f, reading, 0);
  }
  CHECK_INT(sdm_log_check_writable(reading), SDM_READONLY);
  sdm_log_unref(reading);
  fixture_end(&f);
}

/* Between its look at the page and its reading of it another process may begin to make the page anew: then it waits, and does not read zeros. */
TEST(a_page_that_is_being_made_anew_tells_no_end) {
  fixture f;
  sdm_end end;
  sdm_log *reading = NULL;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  sdm_env env = f.env;
  env.writable = false;
  env.checkpoint_lock = NULL;
  CHECK_INT(sdm_log_open(&env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &reading), 0);
  CHECK_INT(sdm_log_read_end(reading, &end, NULL), 0);
  CHECK_INT(sdm_end_offset(&end), 1);
  CHECK_INT(sdm_control_reset(f.log->control, env.boot_id), 0);
  CHECK_INT(sdm_log_read_end(reading, &end, NULL), SDM_BUSY);
  sdm_log_unref(reading);
  fixture_end(&f);
}

/* The child appends through an opening of its own while the parent reads. */
TEST(another_process_appends) {
  enum { N = 3000 };
  fixture f;
  fixture_begin(&f);
  f.cfg.segment_bytes = 20000;
  fixture_open(&f);
  pid_t pid = fork();
  if (pid == 0) {
    f.log = NULL;
    bool ok = sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &f.log) == 0;
    for (uint32_t i = 0; ok && i < N; i++) {
      int rc = i % 50 == 49 ? fixture_put_batch(&f, i, 1, 20, f.now) : fixture_put(&f, i, 5, 20, f.now);
      ok = rc == 0;
    }
    _exit(ok ? 0 : 1);
  }
  int64_t next = 0, end;
  for (uint32_t i = 0; i < N; i++) fixture_note(&f, i, i, 5, 20, f.now);
  while (next < N) {
    sdm_reader *reader;
    sdm_record record;
    int rc;
    CHECK_INT(sdm_log_latest(f.log, &end), 0);
    if (!CHECK_INT(sdm_reader_open(f.log, next, SDM_TO_END, 0, &reader), 0)) break;
    while ((rc = sdm_reader_next(reader, &record)) == 1 && CHECK(fixture_is(&record, &f.model[next]))) next++;
    if (rc < 0) printf("%s\n", sdm_errmsg());
    sdm_reader_close(reader);
    if (!CHECK_INT(rc, 0) || !CHECK(next >= end)) break;
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CHECK_INT(status, 0);
  fixture_check_from(&f, f.log, 0);
  CHECK_INT(fixture_add(&f, 1), 0);
  fixture_check_from(&f, f.log, N - 1);
  fixture_end(&f);
}
