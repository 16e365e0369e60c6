/* Entries of offset and time indexes, the search among them, and what is refused at a glance. */
#include "format/index.h"

#include "base/err.h"
#include "test.h"

enum { BASE = 1000 };

TEST(entries_are_kafkas) {
  uint8_t bytes[SDM_TIMEINDEX_ENTRY], expected[SDM_TIMEINDEX_ENTRY];
  sdm_index_entry e = { BASE + 258, 0x01020304 }, back;
  sdm_timeindex_entry t = { 1700000000000, BASE + 3 }, time_back;
  sdm_index_encode(bytes, &e, BASE);
  CHECK_BYTES(bytes, SDM_INDEX_ENTRY, expected, test_unhex(expected, "00000102 01020304"));
  sdm_index_decode(bytes, BASE, &back);
  CHECK_INT(back.offset, e.offset);
  CHECK_INT(back.position, e.position);
  sdm_timeindex_encode(bytes, &t, BASE);
  CHECK_BYTES(bytes, SDM_TIMEINDEX_ENTRY, expected, test_unhex(expected, "0000018bcfe56800 00000003"));
  sdm_timeindex_decode(bytes, BASE, &time_back);
  CHECK_INT(time_back.timestamp, t.timestamp);
  CHECK_INT(time_back.offset, t.offset);
}

TEST(far_entries_round_trip) {
  uint8_t bytes[SDM_INDEX_ENTRY];
  const int64_t base = INT64_MAX - INT32_MAX;
  sdm_index_entry e = { INT64_MAX, INT32_MAX }, back;
  sdm_index_encode(bytes, &e, base);
  sdm_index_decode(bytes, base, &back);
  CHECK_INT(back.offset, INT64_MAX);
  CHECK_INT(back.position, INT32_MAX);
  memset(bytes, 0x80, sizeof bytes);
  sdm_index_decode(bytes, base, &back);   /* negative numbers: nonsense, but defined */
  CHECK(back.offset < base && back.position < 0);
}

static size_t put_entries(uint8_t *p, const int64_t *offsets, size_t count) {
  for (size_t i = 0; i < count; i++) {
    sdm_index_entry e = { offsets[i], (int64_t)(i + 1) * 100 };
    sdm_index_encode(p + i * SDM_INDEX_ENTRY, &e, BASE);
  }
  return count * SDM_INDEX_ENTRY;
}

TEST(floor_is_the_last_entry_at_or_below) {
  const int64_t offsets[] = { 1005, 1010, 1011, 1020, 1500 };
  uint8_t bytes[5 * SDM_INDEX_ENTRY];
  put_entries(bytes, offsets, 5);
  for (size_t count = 0; count <= 5; count++) {
    for (int64_t target = 990; target < 1600; target++) {
      ptrdiff_t expected = -1;
      for (size_t i = 0; i < count && offsets[i] <= target; i++) expected = (ptrdiff_t)i;
      if (!CHECK_INT(sdm_index_floor(bytes, count, BASE, target), expected)) return;
    }
  }
  CHECK_INT(sdm_index_floor(bytes, 5, BASE, INT64_MAX), 4);
  CHECK_INT(sdm_index_floor(bytes, 5, BASE, INT64_MIN), -1);
}

TEST(time_floor_is_the_last_entry_at_or_below) {
  const int64_t times[] = { 0, 10, 11, 1700000000000 };
  uint8_t bytes[4 * SDM_TIMEINDEX_ENTRY];
  for (size_t i = 0; i < 4; i++) {
    sdm_timeindex_encode(bytes + i * SDM_TIMEINDEX_ENTRY, &(sdm_timeindex_entry){ times[i], BASE + (int64_t)i }, BASE);
  }
  CHECK_INT(sdm_timeindex_floor(bytes, 0, 5), -1);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, -1), -1);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, 0), 0);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, 9), 0);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, 10), 1);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, 1699999999999), 2);
  CHECK_INT(sdm_timeindex_floor(bytes, 4, INT64_MAX), 3);
}

TEST(search_in_noise_stays_inside) {
  test_random random = { 4 };
  uint8_t noise[50 * 12];
  for (int round = 0; round < 2000; round++) {
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)test_random_next(&random);
    ptrdiff_t i = sdm_index_floor(noise, 75, BASE, (int64_t)test_random_next(&random));
    CHECK(i >= -1 && i < 75);
    i = sdm_timeindex_floor(noise, 50, (int64_t)test_random_next(&random));
    CHECK(i >= -1 && i < 50);
    (void)sdm_index_check(noise, sizeof noise, BASE, 2000, 10000);
    (void)sdm_timeindex_check(noise, sizeof noise, BASE, 2000);
  }
}

TEST(sound_indexes_pass) {
  const int64_t offsets[] = { 1005, 1010, 1020 };
  uint8_t bytes[40];
  size_t size = put_entries(bytes, offsets, 3);
  CHECK_INT(sdm_index_check(bytes, 0, BASE, BASE, 0), 0);
  CHECK_INT(sdm_index_check(NULL, 0, BASE, BASE, 0), 0);
  CHECK_INT(sdm_index_check(bytes, size, BASE, 1021, 301), 0);
  CHECK_INT(sdm_index_check(bytes, SDM_INDEX_ENTRY, BASE, 1006, 101), 0);
}

TEST(unsound_indexes_are_refused) {
  const int64_t offsets[] = { 1005, 1010, 1020 };
  uint8_t bytes[40] = { 0 };
  size_t size = put_entries(bytes, offsets, 3);
  CHECK_INT(sdm_index_check(bytes, size - 1, BASE, 1021, 301), SDM_CORRUPT);
  CHECK_INT(sdm_index_check(bytes, size, BASE, 1020, 301), SDM_CORRUPT);     /* beyond the log's end */
  CHECK_INT(sdm_index_check(bytes, size, BASE, 1021, 300), SDM_CORRUPT);
  CHECK_INT(sdm_index_check(bytes, size + 8, BASE, 1021, 301), SDM_CORRUPT); /* one entry of padding */
  CHECK_STR(sdm_errmsg(), "offset index: its last entry is padding");
  const int64_t equal[] = { 1005, 1005 }, before[] = { 999, 1005 };
  CHECK_INT(sdm_index_check(bytes, put_entries(bytes, equal, 2), BASE, 1021, 301), SDM_CORRUPT);
  CHECK_INT(sdm_index_check(bytes, put_entries(bytes, before, 2), BASE, 1021, 301), SDM_CORRUPT);
  memset(bytes, 0, sizeof bytes);
  for (size_t n = 8; n <= sizeof bytes; n += 8) CHECK_INT(sdm_index_check(bytes, n, BASE, 1021, 301), SDM_CORRUPT);
}

static size_t put_times(uint8_t *p, const sdm_timeindex_entry *e, size_t count) {
  for (size_t i = 0; i < count; i++) sdm_timeindex_encode(p + i * SDM_TIMEINDEX_ENTRY, &e[i], BASE);
  return count * SDM_TIMEINDEX_ENTRY;
}

TEST(time_indexes_are_checked) {
  uint8_t bytes[36] = { 0 };
  size_t size = put_times(bytes, (sdm_timeindex_entry[]){ { 0, 1000 }, { 5, 1007 } }, 2);
  CHECK_INT(sdm_timeindex_check(NULL, 0, BASE, BASE), 0);
  CHECK_INT(sdm_timeindex_check(bytes, size, BASE, 1008), 0);
  CHECK_INT(sdm_timeindex_check(bytes, SDM_TIMEINDEX_ENTRY, BASE, 1008), 0);
  CHECK_INT(sdm_timeindex_check(bytes, size, BASE, 1007), SDM_CORRUPT);
  CHECK_INT(sdm_timeindex_check(bytes, size, BASE + 1, 1009), 0);
  CHECK_INT(sdm_timeindex_check(bytes, size + 1, BASE, 1008), SDM_CORRUPT);
  CHECK_INT(sdm_timeindex_check(bytes, size + 12, BASE, 1008), SDM_CORRUPT);   /* padding */
  memset(bytes, 0, sizeof bytes);
  CHECK_INT(sdm_timeindex_check(bytes, 24, BASE, 1008), SDM_CORRUPT);
  CHECK_INT(sdm_timeindex_check(bytes, put_times(bytes, (sdm_timeindex_entry[]){ { -1, 1000 } }, 1), BASE, 1008), SDM_CORRUPT);
  CHECK_INT(sdm_timeindex_check(bytes, put_times(bytes, (sdm_timeindex_entry[]){ { 5, 999 } }, 1), BASE, 1008), SDM_CORRUPT);
  CHECK_INT(sdm_timeindex_check(bytes, put_times(bytes, (sdm_timeindex_entry[]){ { 5, 1003 }, { 6, 1002 } }, 2), BASE, 1008), SDM_CORRUPT);
}
