/* zstd: one standard frame. A frame may ask for a window of up to 128 MiB (the library's own bound, and Kafka's), of which only what is produced is
** touched.
*/
#include "format/codec_ops.h"

#ifdef SDM_WITH_ZSTD

#include <zstd.h>
#include <zstd_errors.h>

#include "base/err.h"
#include "base/mem.h"

static int bad_frame(size_t code) {
  if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation) return sdm_no_memory();
  return sdm_codec_corrupt(&sdm_codec_zstd, ZSTD_getErrorName(code));
}

static int compress_zstd(int level, const uint8_t *in, size_t size, sdm_buf *out) {
  size_t most = ZSTD_compressBound(size);
  int rc = ZSTD_isError(most) ? sdm_fail(SDM_TOO_LARGE, "zstd: %s", ZSTD_getErrorName(most)) : sdm_buf_reserve(out, most);
  if (rc < 0) return rc;
  size_t n = ZSTD_compress(out->data + out->size, most, in, size, level);
  if (ZSTD_isError(n)) return sdm_no_memory();
  out->size += n;
  return 0;
}

static int read_frame(ZSTD_DCtx *d, const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  ZSTD_inBuffer from = {in, size, 0};
  size_t start = out->size, rest = 1;
  while (rest > 0) {
    ZSTD_outBuffer to = {.pos = 0};
    int rc = sdm_codec_room(&sdm_codec_zstd, out, start, limit, &to.size);
    if (rc < 0) return rc;
    to.dst = out->data + out->size;
    rest = ZSTD_decompressStream(d, &to, &from);
    if (ZSTD_isError(rest)) return bad_frame(rest);
    out->size += to.pos;
    if (rest > 0 && from.pos == size && to.pos < to.size) return sdm_codec_corrupt(&sdm_codec_zstd, "cut off");
  }
  return sdm_codec_finish(&sdm_codec_zstd, out->size - start, limit, size - from.pos);
}

static int decompress_zstd(const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  unsigned long long claimed = ZSTD_getFrameContentSize(in, size);
  bool claims = claimed != ZSTD_CONTENTSIZE_UNKNOWN;
  size_t start = out->size;
  if (claimed == ZSTD_CONTENTSIZE_ERROR) return sdm_codec_corrupt(&sdm_codec_zstd, "no frame begins here, or it is cut off");
  int rc = claims ? sdm_codec_check_claim(&sdm_codec_zstd, claimed, limit) : 0;
  if (rc < 0) return rc;
  ZSTD_DCtx *d = ZSTD_createDCtx();
  if (!d) return sdm_no_memory();
  rc = read_frame(d, in, size, limit, out);
  ZSTD_freeDCtx(d);
  if (rc == 0 && claims && out->size - start != claimed) rc = sdm_codec_corrupt(&sdm_codec_zstd, "holds less than it claims");
  return rc;
}

#else
#define compress_zstd NULL
#define decompress_zstd NULL
#endif

const sdm_codec_ops sdm_codec_zstd = {"zstd", "libzstd-dev", 3, compress_zstd, decompress_zstd};
