/* XXH3, inlined: the hash of keys (128 bits) and of our own files (64 bits). The one place that includes xxhash.h. */
#ifndef SDM_BASE_XXH_H
#define SDM_BASE_XXH_H

#include <stddef.h>
#include <stdint.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-function"
#define XXH_INLINE_ALL
#include <xxhash.h>
#pragma GCC diagnostic pop

struct sdm_hash128 {
  uint64_t lo, hi;
};

static inline struct sdm_hash128 sdm_hash128(const void *key, size_t size) {
  XXH128_hash_t h = XXH3_128bits(key, size);
  return (struct sdm_hash128){ h.low64, h.high64 };
}

static inline uint64_t sdm_hash64(const void *bytes, size_t size) {
  return XXH3_64bits(bytes, size);
}

/* One that goes on from another. */
static inline uint64_t sdm_hash64_on(uint64_t before, const void *bytes, size_t size) {
  return XXH3_64bits_withSeed(bytes, size, before);
}

#endif
