/* CRC-32C.
**
** The instruction that folds 8 bytes into a CRC takes one cycle but answers after three, so three runs of equal length are worked on at
** once and joined by carry-less multiplication: the CRC of a run that `w` words follow is worth its product with x^(64w) mod P.
** `shift[w]` is x^(64w - 33) mod P in the CRC's bit order; the 33 are what the product's bit order and the final fold add.
** Two CRCs of bytes that stand far apart are joined by the same product, by tables: `power[k]` is x^(8 * 2^k) mod P.
** Tables and choice are made when the library is loaded, before any thread can call: no call pays for a check.
*/
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

enum {
  RUN_WORDS = 128,      /* of the three runs in a long input: joining them costs 5% of folding them */
  RUN_WORDS_MIN = 4     /* below that the join costs more than the waiting */
};

static const uint32_t POLYNOMIAL = 0x82F63B78;

static uint32_t table[8][256];
static uint32_t shift[2 * RUN_WORDS + 1];
static uint32_t power[64];

static uint64_t load64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static uint32_t fold_table(uint32_t crc, uint64_t word) {
  uint64_t v = word ^ crc;
  return table[7][v & 255] ^ table[6][v >> 8 & 255] ^ table[5][v >> 16 & 255] ^ table[4][v >> 24 & 255] ^
         table[3][v >> 32 & 255] ^ table[2][v >> 40 & 255] ^ table[1][v >> 48 & 255] ^ table[0][v >> 56];
}

uint32_t sdm_crc32c_table(uint32_t crc, const void *bytes, size_t size) {
  const uint8_t *p = bytes;
  crc = ~crc;
  for (; size >= 8; size -= 8, p += 8) crc = fold_table(crc, load64(p));
  for (; size > 0; size--, p++) crc = table[0][(crc ^ *p) & 255] ^ (crc >> 8);
  return ~crc;
}

/* a * b mod P, in the CRC's bit order: the highest bit is x^0. */
static uint32_t product(uint32_t a, uint32_t b) {
  uint32_t sum = 0;
  for (; a != 0; a <<= 1) {
    sum ^= b & (0 - (a >> 31));
    b = (b >> 1) ^ (POLYNOMIAL & (0 - (b & 1)));
  }
  return sum;
}

uint32_t sdm_crc32c_join(uint32_t first, uint32_t second, size_t size) {
  for (int k = 0; size != 0; k++, size >>= 1) {
    if (size & 1) first = product(power[k], first);
  }
  return first ^ second;
}

/* What a machine gives: hardware(), whether it has the instructions; fold64..fold8, a CRC and so many bits more; multiply, carry-less. */
#if defined(__x86_64__)

#include <immintrin.h>

#define HAVE_HARDWARE 1
#define HARDWARE __attribute__((target("sse4.2,pclmul")))
#define INLINE HARDWARE static inline

static bool hardware(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

INLINE uint32_t fold64(uint32_t crc, uint64_t v) { return (uint32_t)_mm_crc32_u64(crc, v); }
INLINE uint32_t fold32(uint32_t crc, uint32_t v) { return _mm_crc32_u32(crc, v); }
INLINE uint32_t fold16(uint32_t crc, uint16_t v) { return _mm_crc32_u16(crc, v); }
INLINE uint32_t fold8(uint32_t crc, uint8_t v) { return _mm_crc32_u8(crc, v); }

INLINE uint64_t multiply(uint32_t a, uint32_t b) {
  return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(_mm_cvtsi32_si128((int)a), _mm_cvtsi32_si128((int)b), 0));
}

#elif defined(__aarch64__) && defined(__linux__)

#include <sys/auxv.h>

#define HAVE_HARDWARE 1
#define HARDWARE
#define INLINE static inline

static bool hardware(void) {
  const unsigned long pmull = 1UL << 4, crc32 = 1UL << 7;   /* HWCAP_PMULL, HWCAP_CRC32 */
  return (getauxval(AT_HWCAP) & (pmull | crc32)) == (pmull | crc32);
}

#define FOLD(instruction, operand) __asm__(".arch_extension crc\n\t" instruction " %w0, %w0, " operand : "+r"(crc) : "r"(v))

INLINE uint32_t fold64(uint32_t crc, uint64_t v) { FOLD("crc32cx", "%x1"); return crc; }
INLINE uint32_t fold32(uint32_t crc, uint32_t v) { FOLD("crc32cw", "%w1"); return crc; }
INLINE uint32_t fold16(uint32_t crc, uint16_t v) { FOLD("crc32ch", "%w1"); return crc; }
INLINE uint32_t fold8(uint32_t crc, uint8_t v) { FOLD("crc32cb", "%w1"); return crc; }

INLINE uint64_t multiply(uint32_t a, uint32_t b) {
  uint64_t product;
  __asm__(".arch_extension aes\n\tfmov d16, %1\n\tfmov d17, %2\n\tpmull v16.1q, v16.1d, v17.1d\n\tfmov %0, d16"
          : "=r"(product) : "r"((uint64_t)a), "r"((uint64_t)b) : "v16", "v17");
  return product;
}

#endif

#ifdef HAVE_HARDWARE

/* Three runs of `words` words each, one behind the other at p. */
INLINE uint32_t fold_runs(uint32_t crc, const uint8_t *p, size_t words) {
  const uint8_t *second = p + 8 * words, *third = second + 8 * words;
  uint32_t crc2 = 0, crc3 = 0;
  for (size_t i = 0; i < 8 * words; i += 8) {
    crc = fold64(crc, load64(p + i));
    crc2 = fold64(crc2, load64(second + i));
    crc3 = fold64(crc3, load64(third + i));
  }
  return fold64(0, multiply(crc, shift[2 * words]) ^ multiply(crc2, shift[words])) ^ crc3;
}

HARDWARE static uint32_t crc32c_hardware(uint32_t crc, const void *bytes, size_t size) {
  const uint8_t *p = bytes;
  crc = ~crc;
  while (size >= 24 * RUN_WORDS_MIN) {
    size_t words = size < 24 * RUN_WORDS ? size / 24 : RUN_WORDS;
    crc = fold_runs(crc, p, words);
    p += 24 * words;
    size -= 24 * words;
  }
  for (; size >= 8; size -= 8, p += 8) crc = fold64(crc, load64(p));
  if (size & 4) {
    uint32_t v;
    memcpy(&v, p, 4);
    crc = fold32(crc, v);
    p += 4;
  }
  if (size & 2) {
    uint16_t v;
    memcpy(&v, p, 2);
    crc = fold16(crc, v);
    p += 2;
  }
  if (size & 1) crc = fold8(crc, *p);
  return ~crc;
}

#endif

static uint32_t (*implementation)(uint32_t crc, const void *bytes, size_t size) = sdm_crc32c_table;

__attribute__((constructor)) static void prepare(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
    table[0][i] = crc;
  }
  for (int k = 1; k < 8; k++) {
    for (int i = 0; i < 256; i++) table[k][i] = table[0][table[k - 1][i] & 255] ^ (table[k - 1][i] >> 8);
  }
  shift[1] = 1;   /* x^31 */
  for (int w = 2; w <= 2 * RUN_WORDS; w++) shift[w] = fold_table(shift[w - 1], 0);
  power[0] = 1u << 23;   /* x^8 */
  for (int k = 1; k < 64; k++) power[k] = product(power[k - 1], power[k - 1]);
#ifdef HAVE_HARDWARE
  if (hardware()) implementation = crc32c_hardware;
#endif
}

uint32_t sdm_crc32c(uint32_t crc, const void *bytes, size_t size) {
  return implementation(crc, bytes, size);
}
