/* MurmurHash2, 32 bits, as org.apache.kafka.common.utils.Utils computes it (little-endian words, seed 0x9747b28c). */
#include "base/murmur2.h"

#include <string.h>

static const uint32_t M = 0x5bd1e995;

int32_t sdm_murmur2(const void *key, size_t size) {
  const uint8_t *p = key;
  uint32_t h = 0x9747b28c ^ (uint32_t)size;
  for (size_t n = size / 4; n > 0; n--, p += 4) {
    uint32_t k;
    memcpy(&k, p, 4);
    k *= M;
    k ^= k >> 24;
    h = (h * M) ^ (k * M);
  }
  switch (size & 3) {
    case 3: h ^= (uint32_t)p[2] << 16; /* fall through */
    case 2: h ^= (uint32_t)p[1] << 8; /* fall through */
    case 1: h = (h ^ p[0]) * M; break;
    default: break;
  }
  h ^= h >> 13;
  h *= M;
  return (int32_t)(h ^ (h >> 15));
}

int32_t sdm_key_partition(const void *key, size_t size, int32_t partitions) {
  return (sdm_murmur2(key, size) & INT32_MAX) % partitions;
}
