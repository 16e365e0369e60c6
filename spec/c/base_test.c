/* Messages, memory, buffers, saturating times, hashes. */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "test.h"

TEST(failures_carry_code_and_text) {
  CHECK_INT(sdm_fail(SDM_CORRUPT, "file %s: %d", "x", 7), SDM_CORRUPT);
  CHECK_STR(sdm_errmsg(), "file x: 7");
  CHECK_INT(sdm_fail_within(SDM_IO, "topic '%s': ", "t"), SDM_IO);
  CHECK_STR(sdm_errmsg(), "topic 't': file x: 7");
  CHECK_INT(sdm_fail(SDM_IO, "again: %s", sdm_errmsg()), SDM_IO);
  CHECK_STR(sdm_errmsg(), "again: topic 't': file x: 7");
}

TEST(system_errors_choose_their_code) {
  CHECK_INT(sdm_fail_errno(ENOSPC, "write %s", "f"), SDM_DISK_FULL);
  CHECK_STR(sdm_errmsg(), "write f: No space left on device");
  CHECK_INT(sdm_fail_errno(EDQUOT, "w"), SDM_DISK_FULL);
  CHECK_INT(sdm_fail_errno(ENOENT, "w"), SDM_NOT_FOUND);
  CHECK_INT(sdm_fail_errno(ENOMEM, "w"), SDM_NO_MEMORY);
  CHECK_INT(sdm_fail_errno(EROFS, "w"), SDM_READONLY);
  CHECK_INT(sdm_fail_errno(EACCES, "w"), SDM_IO);
  CHECK_INT(sdm_fail_errno(EIO, "w"), SDM_IO);
  CHECK_INT(sdm_fail_errno(EMFILE, "w"), SDM_IO);
}

TEST(long_messages_are_cut_not_overrun) {
  char text[5000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  sdm_fail(SDM_IO, "%s", text);
  CHECK_INT(strlen(sdm_errmsg()), 2047);
  sdm_fail_within(SDM_IO, "front: ");
  CHECK_INT(strlen(sdm_errmsg()), 2047);
  CHECK_INT(strncmp(sdm_errmsg(), "front: xxx", 10), 0);
  CHECK_STR(sdm_errmsg() + 2044, "...");
  sdm_fail_errno(EIO, "%s", text);
  CHECK_INT(strlen(sdm_errmsg()), 2047);
}

TEST(codes_have_names) {
  CHECK_STR(sdm_code_name(SDM_CORRUPT), "corrupt");
  CHECK_STR(sdm_code_name(SDM_OFFSET_OUT_OF_RANGE), "offset_out_of_range");
  CHECK_STR(sdm_code_name(0), "ok");
  CHECK_STR(sdm_code_name(12), "ok");
  CHECK_STR(sdm_code_name(-9999), "unknown");
}

TEST(an_array_grows_and_stays_whole_when_memory_is_short) {
  int left = 2;
  size_t capacity = 0, count = 0;
  int *items = NULL, *grown;
  sdm_set_allocator(test_short_memory, &left);
  while ((grown = sdm_grown(items, count, &capacity, sizeof *items))) {
    items = grown;
    CHECK(count < capacity);
    items[count] = (int)count;
    count++;
  }
  CHECK_INT(count, capacity);
  CHECK_INT(left, -1);
  for (size_t i = 0; i < count; i++) CHECK_INT(items[i], i);
  size_t huge = SIZE_MAX / 2 + 1;
  CHECK(!sdm_grown(items, huge, &huge, 1));
  CHECK(!sdm_grown(items, count, &capacity, SIZE_MAX / 8));
  CHECK_INT(capacity, count);
  sdm_free(items);
  sdm_set_allocator(NULL, NULL);
}

TEST(memory_that_is_short_is_reported) {
  int left = 1;
  sdm_buf b = SDM_BUF_INIT;
  sdm_set_allocator(test_short_memory, &left);
  CHECK_INT(sdm_buf_append(&b, "abc", 3), 0);
  CHECK_INT(sdm_buf_reserve(&b, 1000), SDM_NO_MEMORY);
  CHECK_STR(sdm_errmsg(), "out of memory");
  CHECK_INT(sdm_buf_printf(&b, "%01000d", 1), SDM_NO_MEMORY);
  CHECK_BYTES(b.data, b.size, "abc", 3);
  CHECK(!sdm_malloc(1));
  CHECK(!sdm_strdup("x"));
  CHECK(!sdm_format("%d", 1));
  sdm_buf_free(&b);
  sdm_set_allocator(NULL, NULL);
}

TEST(memory_comes_zeroed_copied_and_formatted) {
  char *zeroed = sdm_calloc(3, 5), *copy = sdm_strdup("text"), *text = sdm_format("%s-%d", "a", 12);
  for (int i = 0; i < 15; i++) CHECK_INT(zeroed[i], 0);
  CHECK_STR(copy, "text");
  CHECK_STR(text, "a-12");
  CHECK(!sdm_calloc(SIZE_MAX / 2, 3));
  void *none = sdm_malloc(0);
  CHECK(none != NULL);
  sdm_free(none);
  sdm_free(zeroed);
  sdm_free(copy);
  sdm_free(text);
  sdm_free(NULL);
}

TEST(buffers_grow) {
  sdm_buf b = SDM_BUF_INIT;
  CHECK_INT(sdm_buf_append(&b, NULL, 0), 0);
  CHECK(!b.data);
  for (int i = 0; i < 1000; i++) CHECK_INT(sdm_buf_printf(&b, "%03d,", i), 0);
  CHECK_INT(b.size, 4000);
  CHECK_INT(memcmp(b.data + 3992, "998,999,", 8), 0);
  CHECK_INT(sdm_buf_reserve(&b, SIZE_MAX - 10), SDM_NO_MEMORY);
  sdm_buf_clear(&b);
  CHECK_INT(b.size, 0);
  CHECK(b.data != NULL);
  sdm_buf_free(&b);
  CHECK(!b.data && b.capacity == 0);
}

TEST(times_saturate) {
  CHECK_INT(sdm_add_sat(INT64_MAX, 1), INT64_MAX);
  CHECK_INT(sdm_add_sat(INT64_MIN, -1), INT64_MIN);
  CHECK_INT(sdm_add_sat(1, 2), 3);
  CHECK_INT(sdm_sub_sat(INT64_MIN, 1), INT64_MIN);
  CHECK_INT(sdm_sub_sat(INT64_MAX, -1), INT64_MAX);
  CHECK_INT(sdm_sub_sat(1, 2), -1);
}

TEST(clocks_run) {
  CHECK(sdm_wall_ms() > 1600000000000);
  int64_t before = sdm_monotonic_ms();
  double seconds = sdm_monotonic_seconds();
  CHECK(sdm_monotonic_ms() >= before);
  CHECK(sdm_monotonic_seconds() >= seconds);
}

TEST(hashes_are_xxh3) {
  struct sdm_hash128 h = sdm_hash128("", 0);
  CHECK(h.lo == 0x6001c324468d497f && h.hi == 0x99aa06d3014798d8);
  CHECK(sdm_hash64("", 0) == 0x2d06800538d394c2);
}
