/* Big-endian integers and varints. */
#include "base/bytes.h"

#include "test.h"

static void check_varint(int64_t value, const char *hex) {
  uint8_t expected[10], actual[10];
  size_t size = test_unhex(expected, hex);
  int64_t back = 7;
  CHECK_BYTES(actual, (size_t)(sdm_put_varlong(actual, value) - actual), expected, size);
  CHECK_INT(sdm_varlong_size(value), size);
  CHECK(sdm_get_varlong(expected, expected + size, &back) == expected + size);
  CHECK_INT(back, value);
  for (size_t cut = 0; cut < size; cut++) CHECK(!sdm_get_varlong(expected, expected + cut, &back));
  if (value != (int32_t)value) return;
  int32_t narrow = 7;
  CHECK(sdm_get_varint(expected, expected + size, &narrow) == expected + size);
  CHECK_INT(narrow, value);
  for (size_t cut = 0; cut < size; cut++) CHECK(!sdm_get_varint(expected, expected + cut, &narrow));
}

TEST(varints_are_kafkas) {
  check_varint(0, "00");
  check_varint(-1, "01");
  check_varint(1, "02");
  check_varint(-2, "03");
  check_varint(63, "7e");
  check_varint(64, "80 01");
  check_varint(-64, "7f");
  check_varint(-65, "81 01");
  check_varint(8191, "fe 7f");
  check_varint(8192, "80 80 01");
  check_varint(INT32_MAX, "fe ff ff ff 0f");
  check_varint(INT32_MIN, "ff ff ff ff 0f");
  check_varint((int64_t)INT32_MAX + 1, "80 80 80 80 10");
  check_varint(INT64_MAX, "fe ff ff ff ff ff ff ff ff 01");
  check_varint(INT64_MIN, "ff ff ff ff ff ff ff ff ff 01");
}

TEST(varints_that_are_too_long_are_refused) {
  uint8_t bytes[12];
  int32_t narrow = 7;
  int64_t wide = 7;
  memset(bytes, 0x80, sizeof bytes);
  bytes[5] = bytes[10] = 0;
  CHECK(!sdm_get_varint(bytes, bytes + sizeof bytes, &narrow));
  bytes[5] = 0x80;
  CHECK(!sdm_get_varlong(bytes, bytes + sizeof bytes, &wide));
  CHECK_INT(narrow, 7);
  CHECK_INT(wide, 7);
}

TEST(longer_varints_than_needed_are_read) {
  const uint8_t bytes[] = { 0x82, 0x80, 0x00 };
  int32_t narrow;
  int64_t wide;
  CHECK(sdm_get_varint(bytes, bytes + 3, &narrow) == bytes + 3);
  CHECK(sdm_get_varlong(bytes, bytes + 3, &wide) == bytes + 3);
  CHECK_INT(narrow, 1);
  CHECK_INT(wide, 1);
}

TEST(varints_round_trip) {
  test_random random = { 2 };
  uint8_t bytes[SDM_VARLONG_MAX];
  for (int i = 0; i < 200000; i++) {
    int64_t value = (int64_t)(test_random_next(&random) >> test_random_below(&random, 64)), back;
    if (test_random_below(&random, 2)) value = ~value;
    uint8_t *end = sdm_put_varlong(bytes, value);
    if (!CHECK_INT(end - bytes, sdm_varlong_size(value)) || !CHECK(sdm_get_varlong(bytes, end, &back) == end)) return;
    if (!CHECK_INT(back, value)) return;
  }
}

TEST(integers_are_big_endian) {
  uint8_t bytes[8];
  const uint8_t expected[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  sdm_put64(bytes, 0x0102030405060708);
  CHECK_BYTES(bytes, 8, expected, 8);
  CHECK(sdm_get64(expected) == 0x0102030405060708);
  sdm_put32(bytes, 0x01020304);
  CHECK_BYTES(bytes, 4, expected, 4);
  CHECK(sdm_get32(expected + 4) == 0x05060708);
  sdm_put16(bytes, 0x0102);
  CHECK_BYTES(bytes, 2, expected, 2);
  CHECK(sdm_get16(expected + 6) == 0x0708);
}
