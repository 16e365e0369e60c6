/* snappy, in the framing of the Java library snappy-java (xerial), which is Kafka's: a header of 16 bytes (magic, version 1, oldest compatible
** version 1), then blocks, each a length and a raw snappy block of up to 32 KiB of input. Raw blocks without any framing are read as well: other
** clients write them. There is no mark of an end: input that is cut off between two blocks is found by whoever counts the records.
*/
#include "format/codec_ops.h"

#ifdef SDM_WITH_SNAPPY

#include <snappy-c.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

enum { MAGIC_BYTES = 8, HEADER = 16, BLOCK = 32 * 1024, LENGTH = 4 };

static const uint8_t HEADER_BYTES[HEADER] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};

static int put_block(const uint8_t *in, size_t size, sdm_buf *out) {
  size_t packed = snappy_max_compressed_length(size);
  int rc = sdm_buf_reserve(out, LENGTH + packed);
  if (rc < 0) return rc;
  uint8_t *at = out->data + out->size;
  if (snappy_compress((const char *)in, size, (char *)at + LENGTH, &packed) != SNAPPY_OK) {
    return sdm_fail(SDM_IO, "snappy: a block of %zu bytes cannot be compressed", size);
  }
  sdm_put32(at, (uint32_t)packed);
  out->size += LENGTH + packed;
  return 0;
}

static int compress_snappy(int level, const uint8_t *in, size_t size, sdm_buf *out) {
  (void)level;
  int rc = sdm_buf_append(out, HEADER_BYTES, HEADER);
  for (size_t at = 0; rc == 0 && at < size; at += BLOCK) rc = put_block(in + at, size - at < BLOCK ? size - at : BLOCK, out);
  return rc;
}

/* The format's best is 64 bytes from a copy of 3: a block that claims more lies, and gets no memory. */
static int get_block(const uint8_t *in, size_t size, size_t start, size_t limit, sdm_buf *out) {
  enum { AT_BEST = 32 };
  size_t claimed;
  if (snappy_uncompressed_length((const char *)in, size, &claimed) != SNAPPY_OK) return sdm_codec_corrupt(&sdm_codec_snappy, "a block has no length");
  int rc = sdm_codec_check_claim(&sdm_codec_snappy, (uint64_t)(out->size - start) + claimed, limit);
  if (rc < 0) return rc;
  if (claimed / AT_BEST > size) return sdm_codec_corrupt(&sdm_codec_snappy, "a block claims more than it can hold");
  if ((rc = sdm_buf_reserve(out, claimed)) < 0) return rc;
  if (snappy_uncompress((const char *)in, size, (char *)out->data + out->size, &claimed) != SNAPPY_OK) {
    return sdm_codec_corrupt(&sdm_codec_snappy, "a block is malformed or cut off");
  }
  out->size += claimed;
  return 0;
}

static int decompress_snappy(const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  size_t start = out->size;
  const uint8_t *end = in + size;
  if (size < MAGIC_BYTES || memcmp(in, HEADER_BYTES, MAGIC_BYTES) != 0) return get_block(in, size, start, limit, out);
  if (size < HEADER) return sdm_codec_corrupt(&sdm_codec_snappy, "cut off in its header");
  if ((int32_t)sdm_get32(in + MAGIC_BYTES) < 1) return sdm_codec_corrupt(&sdm_codec_snappy, "a version below 1");
  for (in += HEADER; in < end;) {
    if (end - in < LENGTH) return sdm_codec_corrupt(&sdm_codec_snappy, "cut off in the length of a block");
    uint32_t packed = sdm_get32(in);
    in += LENGTH;
    if (packed > (size_t)(end - in)) return sdm_codec_corrupt(&sdm_codec_snappy, "cut off in a block");
    int rc = get_block(in, packed, start, limit, out);
    if (rc < 0) return rc;
    in += packed;
  }
  return 0;
}

#else
#define compress_snappy NULL
#define decompress_snappy NULL
#endif

const sdm_codec_ops sdm_codec_snappy = {"snappy", "libsnappy-dev", 0, compress_snappy, decompress_snappy};
