/* CRC-32C: published values, and the fast way against the tables. */
#include "base/crc32c.h"

#include "test.h"

TEST(published_values) {
  uint8_t bytes[32];
  CHECK_INT(sdm_crc32c(0, "123456789", 9), 0xE3069283);
  CHECK_INT(sdm_crc32c(0, "", 0), 0);
  memset(bytes, 0, sizeof bytes);
  CHECK_INT(sdm_crc32c(0, bytes, sizeof bytes), 0x8A9136AA);   /* this and the next three: RFC 3720 B.4 */
  memset(bytes, 255, sizeof bytes);
  CHECK_INT(sdm_crc32c(0, bytes, sizeof bytes), 0x62A8AB43);
  for (uint8_t i = 0; i < 32; i++) bytes[i] = i;
  CHECK_INT(sdm_crc32c(0, bytes, sizeof bytes), 0x46DD794E);
  for (uint8_t i = 0; i < 32; i++) bytes[i] = (uint8_t)(31 - i);
  CHECK_INT(sdm_crc32c(0, bytes, sizeof bytes), 0x113FDB5C);
}

/* A bit at a time, from the definition. */
static uint32_t crc_by_definition(const uint8_t *p, size_t size) {
  uint32_t crc = 0xffffffff;
  for (size_t i = 0; i < size; i++) {
    crc ^= p[i];
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

static uint8_t noise[40000];

static void make_noise(void) {
  test_random random = { 1 };
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)test_random_next(&random);
}

TEST(tables_follow_the_definition) {
  make_noise();
  for (size_t size = 0; size < 300; size++) {
    if (!CHECK_INT(sdm_crc32c_table(0, noise + size % 8, size), crc_by_definition(noise + size % 8, size))) return;
  }
}

TEST(fast_way_equals_tables_for_every_size_and_alignment) {
  make_noise();
  for (size_t at = 0; at < 8; at++) {
    for (size_t size = 0; size < 4000; size++) {
      if (!CHECK_INT(sdm_crc32c(5, noise + at, size), sdm_crc32c_table(5, noise + at, size))) return;
    }
  }
  for (size_t size = 4000; size < sizeof noise; size += 487) {
    CHECK_INT(sdm_crc32c(0, noise, size), sdm_crc32c_table(0, noise, size));
  }
}

TEST(two_crcs_join_without_their_bytes) {
  make_noise();
  for (size_t size = 0; size < sizeof noise; size += size < 40 ? 1 : size / 3) {
    uint32_t whole = sdm_crc32c(0, noise, sizeof noise), tail = sdm_crc32c(0, noise + sizeof noise - size, size);
    if (!CHECK_INT(sdm_crc32c_join(sdm_crc32c(0, noise, sizeof noise - size), tail, size), whole)) return;
  }
}

TEST(a_crc_goes_on_where_another_ended) {
  make_noise();
  uint32_t whole = sdm_crc32c(0, noise, 5000);
  for (size_t cut = 0; cut <= 5000; cut += 13) {
    if (!CHECK_INT(sdm_crc32c(sdm_crc32c(0, noise, cut), noise + cut, 5000 - cut), whole)) return;
  }
}
