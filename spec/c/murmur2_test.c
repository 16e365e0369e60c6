/* The partitioner, against values from Kafka 4.3.1. */
#include "base/murmur2.h"

#include "test.h"

TEST(keys_go_where_kafka_sends_them) {
  static const struct { const char *key; int32_t hash, partition_of_6; } rows[] = {
    { "", 275646681, 3 },
    { "a", -1563381124, 4 },
    { "ab", 316155434, 2 },
    { "abc", 479470107, 3 },
    { "abcd", -1323649548, 2 },
    { "21", -973932308, 0 },
    { "foobar", -790332482, 0 },
    { "a-little-bit-long-string", -985981536, 2 },
    { "a-little-bit-longer-string", -1486304829, 5 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    CHECK_INT(sdm_murmur2(rows[i].key, strlen(rows[i].key)), rows[i].hash);
    CHECK_INT(sdm_key_partition(rows[i].key, strlen(rows[i].key), 6), rows[i].partition_of_6);
  }
}

TEST(bytes_are_unsigned) {
  const uint8_t high[] = { 0xff, 0xfe, 0xfd };
  const uint8_t low[] = { 0x7f, 0x7e, 0x7d };
  CHECK(sdm_murmur2(high, 3) != sdm_murmur2(low, 3));
  CHECK_INT(sdm_key_partition(high, 3, 1), 0);
}
