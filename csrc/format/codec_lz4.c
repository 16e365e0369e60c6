/* lz4: one standard LZ4 frame. Written as Kafka's Java code writes it: blocks of 64 KiB (id 4), each on its own, no checksums, no content size.
** Read are all frames of independent blocks, with or without those; frames whose blocks depend on each other, with dictionaries, and skippable
** ones are refused, as Kafka refuses them.
**
** Level 9 is Kafka's name for the fast compressor (its default); the others are those of the high-compression one.
*/
#include "format/codec_ops.h"

#ifdef SDM_WITH_LZ4

#include <lz4frame.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

enum { FAST = 9, HIGH_MIN = 3 };

/* Of the library's errors only its own want of memory says nothing about the input; codes are not part of its interface, names are. */
static int bad_frame(size_t code) {
  const char *name = LZ4F_getErrorName(code);
  return strcmp(name, "ERROR_allocation_failed") == 0 ? sdm_no_memory() : sdm_codec_corrupt(&sdm_codec_lz4, name);
}

static int compress_lz4(int level, const uint8_t *in, size_t size, sdm_buf *out) {
  LZ4F_preferences_t p = {
    .frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
    .compressionLevel = level == FAST ? 0 : level < HIGH_MIN ? HIGH_MIN : level,
  };
  size_t most = LZ4F_compressFrameBound(size, &p);
  int rc = sdm_buf_reserve(out, most);
  if (rc < 0) return rc;
  size_t n = LZ4F_compressFrame(out->data + out->size, most, in, size, &p);
  if (LZ4F_isError(n)) return sdm_no_memory();
  out->size += n;
  return 0;
}

static int check_header(const LZ4F_frameInfo_t *f, size_t limit) {
  if (f->frameType != LZ4F_frame) return sdm_codec_corrupt(&sdm_codec_lz4, "a skippable frame");
  if (f->blockMode != LZ4F_blockIndependent) return sdm_codec_corrupt(&sdm_codec_lz4, "its blocks depend on each other");
  if (f->dictID != 0) return sdm_codec_corrupt(&sdm_codec_lz4, "it needs a dictionary");
  return sdm_codec_check_claim(&sdm_codec_lz4, f->contentSize, limit);
}

static int read_frame(LZ4F_dctx *d, const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  LZ4F_frameInfo_t info;
  size_t start = out->size, used = size;
  size_t rest = LZ4F_getFrameInfo(d, &info, in, &used);
  if (LZ4F_isError(rest)) return bad_frame(rest);
  int rc = check_header(&info, limit);
  while (rc == 0 && rest > 0) {
    size_t room, taken = size - used;
    if ((rc = sdm_codec_room(&sdm_codec_lz4, out, start, limit, &room)) < 0) return rc;
    size_t put = room;
    rest = LZ4F_decompress(d, out->data + out->size, &put, in + used, &taken, NULL);
    if (LZ4F_isError(rest)) return bad_frame(rest);
    used += taken;
    out->size += put;
    if (rest > 0 && used == size && put < room) return sdm_codec_corrupt(&sdm_codec_lz4, "cut off");
  }
  return rc < 0 ? rc : sdm_codec_finish(&sdm_codec_lz4, out->size - start, limit, size - used);
}

static int decompress_lz4(const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  LZ4F_dctx *d;
  size_t made = LZ4F_createDecompressionContext(&d, LZ4F_VERSION);
  if (LZ4F_isError(made)) return sdm_no_memory();
  int rc = read_frame(d, in, size, limit, out);
  LZ4F_freeDecompressionContext(d);
  return rc;
}

#else
#define compress_lz4 NULL
#define decompress_lz4 NULL
#endif

const sdm_codec_ops sdm_codec_lz4 = {"lz4", "liblz4-dev", 9, compress_lz4, decompress_lz4};
