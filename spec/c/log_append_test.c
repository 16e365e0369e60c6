/* Appending: offsets, the bytes of batches, refusals and their order. Reference section 4. */
#include "log_fixture.h"

#include "base/mem.h"
#include "test.h"

#define LOG0 "00000000000000000000.log"

static int put_records(fixture *f, const sdm_record *records, size_t count, bool own_batch, int64_t *first, int64_t *last) {
  sdm_append a = {.records = records, .count = count, .own_batch = own_batch, .scratch = &f->scratch};
  return sdm_log_append(f->log, &f->cfg, &a, f->now, first, last);
}

static sdm_record keyed(const char *key, const char *value, int64_t timestamp) {
  return (sdm_record){.timestamp = timestamp, .key = key, .value = value, .key_size = key ? (int32_t)strlen(key) : -1,
                      .value_size = value ? (int32_t)strlen(value) : -1};
}

/* Kafka's own vector A of the reference, section 16. */
TEST(a_batch_has_kafkas_bytes) {
  static const char vector[] =
    "00000000000000000000005000000000025cf9edd50000000000020000018bcfe568000000018bcfe56801ffffffffffffffffffffffffffff"
    "0000000312000000026b047631000c0002020000001a000904026b0104026801000278";
  static const uint8_t headers[] = {2, 'h', 1, 0, 2, 'x'};
  sdm_record records[] = {keyed("k", "v1", FIXTURE_T0), keyed("", "", FIXTURE_T0 + 1), keyed("k", NULL, FIXTURE_T0 - 5)};
  uint8_t expected[92];
  fixture f;
  int64_t first, last;
  size_t size;
  records[2].headers = headers;
  records[2].headers_size = sizeof headers;
  records[2].header_count = 2;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(put_records(&f, records, 3, true, &first, &last), 0);
  CHECK_INT(first, 0);
  CHECK_INT(last, 2);
  CHECK_INT(test_unhex(expected, vector), sizeof expected);
  uint8_t *bytes = fixture_read(&f, LOG0, &size);
  CHECK_BYTES(bytes, size, expected, sizeof expected);
  sdm_free(bytes);
  fixture_end(&f);
}

TEST(offsets_count_up_over_both_ways) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t i = 0; i < 20; i++) {
    CHECK_INT(fixture_add(&f, 100 * i), 0);
    CHECK_INT(fixture_put_batch(&f, 100 * i + 50, 1 + i % 4, 10, f.now), 0);
  }
  int64_t end;
  CHECK_INT(sdm_log_latest(f.log, &end), 0);
  CHECK_INT(end, (int64_t)f.count);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(null_and_empty_keys_and_values_differ) {
  static const int32_t sizes[] = {-1, 0, 1, 63, 64, 300};
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  uint32_t seed = 0;
  for (int k = 0; k < 6; k++) {
    for (int v = 0; v < 6; v++) CHECK_INT(fixture_put(&f, seed++, sizes[k], sizes[v], v % 2 ? -1 : f.now), 0);
  }
  fixture_check_all(&f);
  CHECK(fixture_close(&f));
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* A record too big for the stage goes as a batch of its own, in order. */
TEST(a_big_record_is_a_batch) {
  fixture f;
  fixture_batch batches[8];
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  CHECK_INT(fixture_put(&f, 2, 4, 70000, f.now), 0);
  CHECK_INT(fixture_add(&f, 3), 0);
  CHECK_INT(fixture_batches(&f, LOG0, batches, 8), 2);
  CHECK_INT(batches[0].b.count, 1);
  CHECK_INT(batches[1].b.base_offset, 1);
  CHECK_INT(batches[1].b.count, 1);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(log_append_time_overrides) {
  fixture f;
  fixture_batch batches[2];
  fixture_begin(&f);
  f.cfg.log_append_time = true;
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 1, 3, 10, 5), 0);
  CHECK_INT(fixture_put(&f, 9, 3, 3, -1), 0);
  fixture_check_all(&f);
  CHECK_INT(fixture_batches(&f, LOG0, batches, 2), 1);
  CHECK_INT(batches[0].b.attributes, SDM_ATTR_APPEND_TIME);
  CHECK_INT(batches[0].b.max_timestamp, f.now);
  CHECK_INT(batches[0].b.base_timestamp, 5);
  fixture_end(&f);
}

/* ---- refusals ---- */

/* What was refused has left no trace: neither offset nor byte. */
static void check_refused(fixture *f, const sdm_record *records, size_t count, bool own_batch, int code) {
  int64_t first = -7, last = -7, before, after;
  uint64_t digest = fixture_digest(f);
  sdm_log_latest(f->log, &before);
  CHECK_INT(put_records(f, records, count, own_batch, &first, &last), code);
  sdm_log_latest(f->log, &after);
  CHECK_INT(after, before);
  CHECK_INT(first, -7);
  CHECK(fixture_digest(f) == digest);
}

TEST(timestamps_out_of_range_are_refused) {
  static const struct { int64_t timestamp; int code; } cases[] = {
    {-1000, 0}, {-1001, SDM_INVALID_TIMESTAMP}, {2000, 0}, {2001, SDM_INVALID_TIMESTAMP},
  };
  fixture f;
  int64_t first, last;
  fixture_begin(&f);
  f.cfg.timestamp_before_max_ms = 1000;
  f.cfg.timestamp_after_max_ms = 2000;
  fixture_open(&f);
  for (size_t i = 0; i < 4; i++) {
    sdm_record records[] = {keyed("a", "b", f.now), keyed("a", "b", f.now + cases[i].timestamp)};
    for (int own = 0; own < 2; own++) {
      if (cases[i].code) check_refused(&f, own ? records : &records[1], own ? 2 : 1, own, cases[i].code);
      else CHECK_INT(put_records(&f, own ? records : &records[1], own ? 2 : 1, own, &first, &last), 0);
    }
  }
  sdm_record odd = keyed("a", "b", -2), none = keyed("a", "b", -1), least = keyed("a", "b", INT64_MIN);
  check_refused(&f, &odd, 1, false, SDM_INVALID_TIMESTAMP);
  check_refused(&f, &least, 1, true, SDM_INVALID_TIMESTAMP);
  CHECK_INT(put_records(&f, &none, 1, false, &first, &last), 0);
  f.cfg.log_append_time = true;
  sdm_record ancient = keyed("a", "b", 5);
  CHECK_INT(put_records(&f, &ancient, 1, false, &first, &last), 0);
  fixture_end(&f);
}

TEST(compacted_topics_need_keys) {
  fixture f;
  int64_t first, last;
  fixture_begin(&f);
  f.cfg.cleanup_policy = SDM_POLICY_COMPACT;
  fixture_open(&f);
  sdm_record records[] = {keyed("a", "b", f.now), keyed(NULL, "b", f.now), keyed("", "b", f.now)};
  check_refused(&f, &records[1], 1, false, SDM_INVALID_RECORD);
  check_refused(&f, records, 3, true, SDM_INVALID_RECORD);
  CHECK_INT(put_records(&f, &records[2], 1, false, &first, &last), 0);
  check_refused(&f, records, 0, true, SDM_INVALID_RECORD);
  fixture_end(&f);
}

/* max.message.bytes before timestamps, those before keys, segment.bytes last. */
TEST(refusals_come_in_kafkas_order) {
  static char big[400];
  fixture f;
  memset(big, 'x', sizeof big - 1);
  fixture_begin(&f);
  f.cfg.cleanup_policy = SDM_POLICY_COMPACT;
  f.cfg.max_message_bytes = 600;
  f.cfg.segment_bytes = 300;
  fixture_open(&f);
  sdm_record all[] = {keyed(NULL, big, f.now), keyed("k", big, f.now + 4000000), keyed("k", big, f.now)};
  check_refused(&f, all, 3, true, SDM_TOO_LARGE);
  check_refused(&f, all, 2, true, SDM_TOO_LARGE);
  sdm_record late[] = {keyed(NULL, big, f.now), keyed("k", "v", f.now + 4000000)};
  check_refused(&f, late, 2, true, SDM_INVALID_TIMESTAMP);
  sdm_record keyless[] = {keyed(NULL, big, f.now + 4000000), keyed("k", "v", f.now)};
  check_refused(&f, keyless, 2, true, SDM_INVALID_RECORD);
  check_refused(&f, &all[2], 1, true, SDM_TOO_LARGE);
  check_refused(&f, &all[2], 1, false, SDM_TOO_LARGE);
  CHECK(strstr(sdm_errmsg(), "segment.bytes") != NULL);
  fixture_end(&f);
}

/* Who appends only where the log ends learns that it ends elsewhere, and nothing was appended: staged records count. */
TEST(a_batch_can_be_bound_to_the_end_of_the_log) {
  fixture f;
  int64_t first, last, end;
  fixture_begin(&f);
  fixture_open(&f);
  sdm_record r = keyed("k", "v", f.now);
  for (int64_t at = 0; at < 4; at++) {
    sdm_append bound = {.records = &r, .count = 1, .own_batch = true, .scratch = &f.scratch, .only_at = &at};
    if (at % 2 == 1) CHECK_INT(fixture_put(&f, 1, 4, 4, f.now), 0);
    CHECK_INT(sdm_log_append(f.log, &f.cfg, &bound, f.now, &first, &last), at % 2 == 1 ? SDM_BUSY : 0);
    CHECK_INT(sdm_log_latest(f.log, &end), 0);
    CHECK_INT(end, at + 1);
  }
  fixture_end(&f);
}

/* The size that counts is that of the batch the record would be alone, whatever stood in its offset field. */
TEST(too_large_is_exact) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  for (int own = 0; own < 2; own++) {
    for (int32_t size = 2; size < 200; size += 7) {
      int64_t bytes = SDM_BATCH_HEADER + (size + 4 + 6 > 63 ? 2 : 1) + (size > 63 ? 2 : 1) + 5 + 4 + size;
      f.cfg.max_message_bytes = bytes;
      CHECK_INT(own ? fixture_put_batch(&f, 1, 1, size - 1, f.now) : fixture_put(&f, 1, 4, size, f.now), 0);
      f.cfg.max_message_bytes = bytes - 1;
      CHECK_INT(fixture_put(&f, 1, 4, size, f.now), SDM_TOO_LARGE);
    }
  }
  fixture_end(&f);
}

/* ---- indexes ---- */

static void check_live_indexes(int64_t interval) {
  fixture f;
  test_random r = {(uint64_t)interval + 5};
  fixture_begin(&f);
  f.cfg.index_interval_bytes = interval;
  fixture_open(&f);
  for (uint32_t i = 0; i < 60; i++) {
    int64_t when = f.now + (int64_t)test_random_below(&r, 1000) - 500;
    CHECK_INT(fixture_put_batch(&f, i * 10, 1 + test_random_below(&r, 3), (int32_t)test_random_below(&r, 600), i % 7 != 3 ? when : -1), 0);
  }
  fixture_check_indexes(&f, 0, interval, false);
  CHECK(fixture_close(&f));
  fixture_check_indexes(&f, 0, interval, true);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 5000, 2, 300, f.now + 5000), 0);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(index_entries_interval_0) { check_live_indexes(0); }
TEST(index_entries_interval_1) { check_live_indexes(1); }
TEST(index_entries_interval_4096) { check_live_indexes(4096); }

/* ---- a disk that fails ---- */

TEST(a_full_disk_loses_nothing_acknowledged) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_put_batch(&f, 0, 5, 100, f.now), 0);
  CHECK_INT(fixture_add(&f, 10), 0);
  for (int64_t limit = 0; limit < 200; limit += 50) {
    fixture_faults.write_code = SDM_DISK_FULL;
    fixture_faults.write_limit = limit;
    CHECK_INT(fixture_put_batch(&f, 20, 3, 100, f.now), SDM_DISK_FULL);
    CHECK_INT(fixture_add(&f, 11 + (uint32_t)limit), 0);         /* the stage has room */
    CHECK_INT(fixture_put(&f, 30, 4, 70000, f.now), SDM_DISK_FULL);
    fixture_check_all(&f);
    fixture_faults.write_code = 0;
    fixture_check_all(&f);
    if (limit % 100 == 0) continue;
    CHECK_INT(fixture_put_batch(&f, 40, 1, 20, f.now), 0);
    fixture_check_all(&f);
  }
  CHECK(fixture_close(&f));
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_failing_index_does_not_fail_an_append) {
  fixture f;
  fixture_begin(&f);
  f.cfg.index_interval_bytes = 0;
  fixture_open(&f);
  for (uint32_t i = 0; i < 30; i++) {
    fixture_faults.write_code = i % 3 ? SDM_IO : 0;
    fixture_faults.only = ".index";
    CHECK_INT(fixture_put_batch(&f, i * 3, 2, 30, f.now + i), 0);
  }
  fixture_check_all(&f);
  fixture_faults.write_code = 0;
  CHECK(fixture_close(&f));
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}

TEST(a_failed_flush_ends_the_partition) {
  fixture f;
  int64_t durable = -7, base;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
  CHECK_INT(durable, 1);
  CHECK_INT(fixture_add(&f, 2), 0);
  fixture_faults.sync_code = SDM_IO;
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), SDM_IO);
  fixture_faults.sync_code = 0;
  CHECK_INT(fixture_add(&f, 3), SDM_IO);
  CHECK_INT(fixture_put_batch(&f, 3, 1, 1, f.now), SDM_IO);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), SDM_IO);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), SDM_IO);
  CHECK_INT(durable, 1);
  fixture_check_all(&f);
  fixture_crash(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 4), 0);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* A write-back that found the disk full has lost the pages as surely as one that found it broken. */
TEST(a_flush_that_finds_the_disk_full_ends_the_partition) {
  fixture f;
  int64_t durable;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  fixture_faults.sync_code = SDM_DISK_FULL;
  fixture_faults.only = ".log";
  CHECK(sdm_log_flush(f.log, f.now, &durable) < 0);
  fixture_faults.sync_code = 0;
  CHECK_INT(fixture_add(&f, 3), SDM_IO);
  fixture_end(&f);
}

TEST(flush_messages_flushes) {
  fixture f;
  int64_t durable;
  fixture_begin(&f);
  f.cfg.flush_messages = 3;
  fixture_open(&f);
  for (uint32_t i = 0; i < 7; i++) CHECK_INT(fixture_add(&f, i), 0);
  durable = atomic_load(&f.log->control->durable_end);
  CHECK_INT(durable, 6);
  fixture_end(&f);
}

/* A process dies in its orderly close, or that fails, when the mark of it has reached the file; others go on appending, and die. */
TEST(a_close_that_did_not_end_loses_nothing_that_comes_after_it) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(fixture_add(&f, 1), 0);
  fixture_faults.sync_code = SDM_IO;
  fixture_faults.only = "sediment.state";
  CHECK_INT(sdm_log_close_clean(f.log, &f.cfg, f.now), SDM_IO);
  fixture_faults.sync_code = 0;
  fixture_faults.only = NULL;
  for (uint32_t i = 2; i < 5; i++) CHECK_INT(fixture_add(&f, i), 0);
  fixture_crash(&f);
  if (fixture_open(&f)) fixture_check_all(&f);
  fixture_end(&f);
}
