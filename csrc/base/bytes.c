/* Varints of more than one byte. As in Kafka, bits that the type cannot hold are dropped from the last byte that it may have, and a longer
** encoding than needed is fine; only a last byte that asks for another one is an error.
*/
#include "base/bytes.h"

static const uint8_t *get(const uint8_t *p, const uint8_t *end, size_t longest, uint64_t *out) {
  if (p >= end) return NULL;
  size_t available = (size_t)(end - p);
  size_t n = available < longest ? available : longest;
  uint64_t z = 0;
  for (size_t i = 0; i < n; i++) {
    z |= (uint64_t)(p[i] & 127) << (7 * i);
    if (p[i] < 128) {
      *out = z;
      return p + i + 1;
    }
  }
  return NULL;
}

const uint8_t *sdm_get_varint_slow(const uint8_t *p, const uint8_t *end, int32_t *out) {
  uint64_t z = 0;
  p = get(p, end, SDM_VARINT_MAX, &z);
  if (p) *out = (int32_t)sdm_unzigzag((uint32_t)z);
  return p;
}

const uint8_t *sdm_get_varlong_slow(const uint8_t *p, const uint8_t *end, int64_t *out) {
  uint64_t z = 0;
  p = get(p, end, SDM_VARLONG_MAX, &z);
  if (p) *out = sdm_unzigzag(z);
  return p;
}
