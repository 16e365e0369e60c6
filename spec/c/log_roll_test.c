/* Rolling, by every rule of reference section 5, and what a closed segment looks like. */
#include "log_fixture.h"

#include "base/mem.h"
#include "test.h"

static int64_t active(fixture *f) { return sdm_control_end(f->log->control)->active_base; }

static void check_names(fixture *f, const char *suffix, const char *expected) {
  char *names = fixture_names(f, suffix);
  CHECK_STR(names, expected);
  sdm_free(names);
}

TEST(size_equality_does_not_roll) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 0, 1, 100, f.now), 0);
  int64_t one = fixture_size(&f, "00000000000000000000.log");
  f.cfg.segment_bytes = 3 * one;
  CHECK_INT(fixture_put_batch(&f, 1, 1, 100, f.now), 0);
  CHECK_INT(fixture_put_batch(&f, 2, 1, 100, f.now), 0);
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_put_batch(&f, 3, 1, 100, f.now), 0);
  CHECK_INT(active(&f), 3);
  f.cfg.segment_bytes = 2 * one - 1;
  CHECK_INT(fixture_put_batch(&f, 4, 1, 100, f.now), 0);
  CHECK_INT(active(&f), 4);
  CHECK_INT(fixture_size(&f, "00000000000000000000.log"), 3 * one);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* Staged records count with the bytes that the batch has when it is sealed. */
TEST(size_counts_the_stage) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 3; i++) CHECK_INT(fixture_add(&f, i), 0);      /* 31 bytes each behind 61 */
  f.cfg.segment_bytes = 61 + 4 * 31;
  CHECK_INT(fixture_add(&f, 3), 0);
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_add(&f, 4), 0);
  CHECK_INT(active(&f), 4);
  CHECK_INT(fixture_size(&f, "00000000000000000000.log"), 61 + 4 * 31);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(time_goes_by_the_records) {
  fixture f;
  fixture_begin(&f);
  f.cfg.segment_ms = 1000;
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 0, 2, 10, f.now), 0);                   /* times now and now + 1: the larger counts */
  f.now += 5000;
  CHECK_INT(fixture_put(&f, 2, 4, 4, f.now - 5000 + 1001), 0);
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_put(&f, 3, 4, 4, f.now - 5000 - 100000), 0);           /* back-fill never rolls */
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_put(&f, 4, 4, 4, f.now - 5000 + 1002), 0);
  CHECK_INT(active(&f), 4);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_reopened_log_goes_by_its_first_batch) {
  fixture f;
  for (int clean = 0; clean < 2; clean++) {
    fixture_begin(&f);
    f.cfg.segment_ms = 1000;
    fixture_open(&f);
    CHECK_INT(fixture_put(&f, 0, 4, 4, f.now), 0);
    CHECK_INT(fixture_put(&f, 1, 4, 4, f.now + 500), 0);
    if (clean) fixture_close(&f);
    else fixture_crash(&f);
    fixture_open(&f);
    int64_t first = sdm_control_end(f.log->control)->first_timestamp;
    CHECK_INT(fixture_put(&f, 2, 4, 4, first + 1000), 0);
    CHECK_INT(active(&f), 0);
    CHECK_INT(fixture_put(&f, 3, 4, 4, first + 1001), 0);
    CHECK_INT(active(&f), 3);
    fixture_check_all(&f);
    fixture_end(&f);
  }
}

TEST(records_without_time_go_by_the_clock) {
  fixture f;
  fixture_begin(&f);
  f.cfg.segment_ms = 1000;
  fixture_open(&f);
  CHECK_INT(fixture_put(&f, 0, 4, 4, -1), 0);
  f.now += 1000;
  CHECK_INT(fixture_put(&f, 1, 4, 4, -1), 0);
  CHECK_INT(active(&f), 0);
  f.now += 1;
  CHECK_INT(fixture_put(&f, 2, 4, 4, -1), 0);
  CHECK_INT(active(&f), 2);
  f.now += 1000;
  CHECK_INT(fixture_put(&f, 3, 4, 4, -1), 0);
  CHECK_INT(active(&f), 2);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(compaction_lag_caps_segment_ms) {
  fixture f;
  fixture_begin(&f);
  f.cfg.cleanup_policy = SDM_POLICY_COMPACT;
  f.cfg.max_compaction_lag_ms = 10;
  fixture_open(&f);
  CHECK_INT(fixture_put(&f, 0, 4, 4, f.now), 0);
  CHECK_INT(fixture_put(&f, 1, 4, 4, f.now + 10), 0);
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_put(&f, 2, 4, 4, f.now + 11), 0);
  CHECK_INT(active(&f), 2);
  fixture_end(&f);
}

TEST(a_full_index_rolls) {
  fixture f;
  fixture_begin(&f);
  f.cfg.index_interval_bytes = 0;
  f.cfg.segment_index_bytes = 36;                    /* 4 offset entries, 3 time entries of which one is spare */
  fixture_open(&f);
  for (uint32_t i = 0; i < 3; i++) CHECK_INT(fixture_put_batch(&f, i, 1, 10, f.now + i), 0);
  CHECK_INT(active(&f), 0);
  CHECK_INT(fixture_put_batch(&f, 3, 1, 10, f.now + 3), 0);
  CHECK_INT(active(&f), 3);
  for (uint32_t i = 4; i < 8; i++) CHECK_INT(fixture_put_batch(&f, i, 1, 10, f.now), 0);    /* offset entries only */
  CHECK_INT(active(&f), 3);
  CHECK_INT(fixture_put_batch(&f, 8, 1, 10, f.now), 0);
  CHECK_INT(active(&f), 8);
  fixture_check_indexes(&f, 0, 0, true);
  fixture_check_indexes(&f, 3, 0, true);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(closed_segments_have_their_final_time_entry) {
  static const int64_t intervals[] = {0, 1, 300, 4096};
  for (int k = 0; k < 4; k++) {
    fixture f;
    test_random r = {99};
    fixture_begin(&f);
    f.cfg.index_interval_bytes = intervals[k];
    f.cfg.segment_bytes = 3000;
    fixture_open(&f);
    for (uint32_t i = 0; i < 300; i++) {
      int64_t when = f.now + (int64_t)test_random_below(&r, 100000) - 50000;
      if (i % 3) CHECK_INT(fixture_put(&f, i, 4, (int32_t)test_random_below(&r, 200), when), 0);
      else CHECK_INT(fixture_put_batch(&f, 1000 + i, 1 + test_random_below(&r, 4), (int32_t)test_random_below(&r, 100), when), 0);
    }
    fixture_check_from(&f, f.log, 0);
    CHECK(fixture_close(&f));
    sdm_segment **segments;
    size_t count;
    fixture_open(&f);
    CHECK_INT(sdm_log_segment_refs(f.log, INT64_MAX, &segments, &count), 0);
    CHECK(count > 8);
    for (size_t i = 0; i < count; i++) fixture_check_indexes(&f, segments[i]->base_offset, intervals[k], true);
    sdm_segments_unref(segments, count);
    fixture_check_all(&f);
    fixture_end(&f);
  }
}

TEST(roll_on_demand) {
  fixture f;
  int64_t base = -7;
  sdm_file_info info;
  fixture_begin(&f);
  f.cfg.preallocate = true;
  f.cfg.segment_bytes = 10000;
  fixture_open(&f);
  sdm_log_set_config(f.log, &f.cfg);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);   /* nothing in it: nothing to roll */
  CHECK_INT(base, 0);
  check_names(&f, ".log", "00000000000000000000.log");
  for (uint32_t i = 0; i < 3; i++) CHECK_INT(fixture_put(&f, i, 4, 4, i == 2 ? f.now : -1), 0);
  int64_t appended = f.now;
  f.now += 12345;
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  CHECK_INT(base, 3);
  CHECK_INT(active(&f), 3);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  CHECK_INT(base, 3);
  check_names(&f, "g", "00000000000000000000.log 00000000000000000003.log");
  char *path = sdm_segment_path(f.dir, 0, SDM_FILE_LOG, "");
  CHECK_INT(f.fs.path_info(&f.fs, path, &info), 0);
  CHECK_INT(info.modified_ms, appended);             /* that of the last append, by the store's clock */
  CHECK(info.size < 300);
  sdm_free(path);
  path = sdm_segment_path(f.dir, 3, SDM_FILE_LOG, "");
  CHECK_INT(f.fs.path_info(&f.fs, path, &info), 0);
  CHECK_INT(info.modified_ms, f.now);
  CHECK_INT(info.size, 10000);
  sdm_free(path);
  CHECK_INT(fixture_add(&f, 9), 0);
  fixture_check_all(&f);
  fixture_power_loss(&f);
  fixture_open(&f);
  CHECK_INT(f.count, 4);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* What is known of segments: from the control page, from indexes, from the log. */
TEST(what_is_known_of_segments) {
  fixture f;
  int64_t base, newest, records, tombstone, first;
  sdm_segment **segments;
  size_t count;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put(&f, 0, 4, 4, f.now + 7), 0);
  CHECK_INT(fixture_put(&f, 1, 4, -1, f.now), 0);
  CHECK_INT(fixture_put(&f, 2, 4, 4, f.now), 0);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  CHECK_INT(fixture_put(&f, 3, 4, 4, -1), 0);
  CHECK_INT(sdm_log_roll(f.log, f.now + 50, &base), 0);
  CHECK_INT(fixture_put_batch(&f, 4, 2, -1, f.now + 100), 0);
  CHECK_INT(fixture_put(&f, 6, 4, 4, f.now + 99), 0);
  for (int life = 0; life < 3; life++) {
    CHECK_INT(sdm_log_segment_refs(f.log, INT64_MAX, &segments, &count), 0);
    if (!CHECK_INT(count, 3)) return;
    static const int64_t times[] = {FIXTURE_T0 + 7, -1, FIXTURE_T0 + 101}, counts[] = {3, 1, 3}, tombstones[] = {1, -1, 5};
    for (size_t i = 0; i < 3; i++) {
      CHECK_INT(sdm_log_max_timestamp(f.log, segments[i], &newest), 0);
      CHECK_INT(newest, times[i]);
      CHECK_INT(sdm_log_largest_timestamp(f.log, segments[i], &newest), 0);
      CHECK_INT(newest, i == 1 ? FIXTURE_T0 : times[i]);
      CHECK_INT(sdm_log_count_segment(f.log, segments[i], &records, life ? &tombstone : NULL), 0);
      CHECK_INT(records, counts[i]);
      if (life) CHECK_INT(tombstone, tombstones[i]);
      CHECK_INT(sdm_log_first_timestamp(f.log, segments[i], &first), 0);
      CHECK_INT(first, times[i]);
    }
    sdm_segments_unref(segments, count);
    if (life == 0) fixture_crash(&f);
    else if (life == 1) CHECK(fixture_close(&f));
    if (life < 2) fixture_open(&f);
  }
  CHECK_INT(sdm_log_segment_refs(f.log, 0, &segments, &count), 0);
  CHECK_INT(count, 0);
  sdm_segments_unref(segments, count);
  CHECK_INT(sdm_log_segment_refs(f.log, 4, &segments, &count), 0);
  CHECK_INT(count, 2);
  sdm_segments_unref(segments, count);
  fixture_end(&f);
}

/* Everything is durable but that: bytes that came back after a loss of power would lie at the end of a closed segment. */
TEST(what_a_failed_write_left_is_cut_for_good) {
  for (int recovered = 0; recovered < 2; recovered++) {
    fixture f;
    int64_t durable, base;
    fixture_begin(&f);
    fixture_open(&f);
    CHECK_INT(fixture_add(&f, 1), 0);
    CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
    fixture_faults.write_code = SDM_IO;
    fixture_faults.write_limit = 7;
    CHECK_INT(fixture_put_batch(&f, 2, 1, 10, f.now), SDM_IO);
    if (recovered) fixture_crash(&f);
    memset(&fixture_faults, 0, sizeof fixture_faults);
    fixture_faults.sync_code = SDM_IO;
    if (recovered) CHECK_INT(sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &f.log), SDM_IO);
    else CHECK_INT(sdm_log_roll(f.log, f.now, &base), SDM_IO);
    memset(&fixture_faults, 0, sizeof fixture_faults);
    if (!recovered) fixture_crash(&f);
    fixture_open(&f);
    CHECK_INT(fixture_add(&f, 3), 0);
    fixture_check_all(&f);
    fixture_end(&f);
  }
}

/* A batch that was never published, by one who died before that: its entries name what is not there, and a time that no record has. */
static void leave_entries(fixture *f) {
  uint8_t index[SDM_INDEX_ENTRY], times[SDM_TIMEINDEX_ENTRY];
  int64_t offset = (int64_t)f->count;
  sdm_index_entry e = {offset, fixture_size(f, "00000000000000000000.log")};
  sdm_timeindex_entry t = {f->now + 1000000, offset};
  sdm_index_encode(index, &e, 0);
  sdm_timeindex_encode(times, &t, 0);
  fixture_write(f, "00000000000000000000.index", index, sizeof index, fixture_size(f, "00000000000000000000.index"));
  fixture_write(f, "00000000000000000000.timeindex", times, sizeof times, fixture_size(f, "00000000000000000000.timeindex"));
}

TEST(index_entries_of_who_died_are_cut) {
  for (int closed = 0; closed < 2; closed++) {
    fixture f;
    int64_t base;
    fixture_begin(&f);
    f.cfg.index_interval_bytes = 0;
    fixture_open(&f);
    for (uint32_t i = 0; i < 5; i++) CHECK_INT(fixture_put_batch(&f, i, 1, 10, f.now + i), 0);
    leave_entries(&f);
    if (closed) fixture_close(&f);
    else CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
    fixture_check_indexes(&f, 0, 0, true);
    if (closed) fixture_open(&f);
    fixture_check_all(&f);
    fixture_end(&f);
  }
}
