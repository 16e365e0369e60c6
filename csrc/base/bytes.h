/* Big-endian integers and Kafka's zigzag varints. Source: Kafka's protocol guide; the project's docs/format.md 1.
**
** Readers take the end of the bytes they may touch and answer a negative number for bad input; they never read past `end`.
*/
#ifndef SDM_BASE_BYTES_H
#define SDM_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t sdm_get16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t sdm_get32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t sdm_get64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline void sdm_put16(uint8_t *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
static inline void sdm_put32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static inline void sdm_put64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }

#define SDM_VARINT_MAX 5      /* bytes of the longest int varint */
#define SDM_VARLONG_MAX 10    /* bytes of the longest long varint */

static inline uint64_t sdm_zigzag(int64_t v) { return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63); }
static inline int64_t sdm_unzigzag(uint64_t z) { return (int64_t)(z >> 1) ^ -(int64_t)(z & 1); }

static inline size_t sdm_varlong_size(int64_t v) {
  uint64_t z = sdm_zigzag(v) | 1;
  return (size_t)(70 - __builtin_clzll(z)) / 7;
}

/* Writes v (an int or a long: the encoding is the same) and returns the byte after it. */
static inline uint8_t *sdm_put_varlong(uint8_t *p, int64_t v) {
  uint64_t z = sdm_zigzag(v);
  while (z >= 128) {
    *p++ = (uint8_t)(z | 128);
    z >>= 7;
  }
  *p++ = (uint8_t)z;
  return p;
}

/* The byte after the varint, or NULL: cut off at `end`, or longer than an int (5 bytes) or a long (10 bytes) may be. */
const uint8_t *sdm_get_varint_slow(const uint8_t *p, const uint8_t *end, int32_t *out);
const uint8_t *sdm_get_varlong_slow(const uint8_t *p, const uint8_t *end, int64_t *out);

static inline const uint8_t *sdm_get_varint(const uint8_t *p, const uint8_t *end, int32_t *out) {
  if (p < end && *p < 128) {
    *out = (int32_t)sdm_unzigzag(*p);
    return p + 1;
  }
  return sdm_get_varint_slow(p, end, out);
}

static inline const uint8_t *sdm_get_varlong(const uint8_t *p, const uint8_t *end, int64_t *out) {
  if (p < end && *p < 128) {
    *out = sdm_unzigzag(*p);
    return p + 1;
  }
  return sdm_get_varlong_slow(p, end, out);
}

#endif
