/* The table of codecs, and the bounds that all of them keep. */
#include "format/codec_ops.h"

#include "base/err.h"

static int copy(int level, const uint8_t *in, size_t size, sdm_buf *out) {
  (void)level;
  return sdm_buf_append(out, in, size);
}

static const sdm_codec_ops none;

static int copy_back(const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  int rc = sdm_codec_check_claim(&none, size, limit);
  return rc < 0 ? rc : sdm_buf_append(out, in, size);
}

static const sdm_codec_ops none = {.name = "none", .compress = copy, .decompress = copy_back};

static const sdm_codec_ops *ops_of(sdm_codec c) {
  static const sdm_codec_ops *const all[] = {&none, &sdm_codec_gzip, &sdm_codec_snappy, &sdm_codec_lz4, &sdm_codec_zstd};
  return (unsigned)c <= SDM_CODEC_ZSTD ? all[c] : NULL;
}

int sdm_codec_check(sdm_codec c) {
  const sdm_codec_ops *o = ops_of(c);
  if (!o) return sdm_fail(SDM_CORRUPT, "codec %d does not exist", (int)c);
  if (o->compress) return 0;
  return sdm_fail(SDM_UNSUPPORTED, "%s is not built in; install %s (Debian's name) and build Sediment again with make", o->name, o->package);
}

bool sdm_codec_available(sdm_codec c) {
  const sdm_codec_ops *o = ops_of(c);
  return o && o->compress;
}

const char *sdm_codec_name(sdm_codec c) {
  const sdm_codec_ops *o = ops_of(c);
  return o ? o->name : "unknown";
}

int sdm_codec_default_level(sdm_codec c) {
  const sdm_codec_ops *o = ops_of(c);
  return o ? o->default_level : 0;
}

int sdm_codec_compress(sdm_codec c, int level, const uint8_t *in, size_t size, sdm_buf *out) {
  int rc = sdm_codec_check(c);
  return rc < 0 ? rc : ops_of(c)->compress(level, in, size, out);
}

int sdm_codec_decompress(sdm_codec c, const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  int rc = sdm_codec_check(c);
  return rc < 0 ? rc : ops_of(c)->decompress(in, size, limit, out);
}

/* ---- for the codecs ---- */

static int too_much(const sdm_codec_ops *c, size_t limit) {
  return sdm_fail(SDM_CORRUPT, "%s: more than %zu bytes come out, which is more than a batch of its size may hold", c->name, limit);
}

int sdm_codec_room(const sdm_codec_ops *c, sdm_buf *out, size_t start, size_t limit, size_t *room) {
  enum { STEP = 64 * 1024 };
  size_t produced = out->size - start;
  if (produced > limit) return too_much(c, limit);
  size_t left = limit - produced < STEP ? limit - produced + 1 : STEP;
  int rc = sdm_buf_reserve(out, left);
  if (rc == 0) *room = left;
  return rc;
}

int sdm_codec_check_claim(const sdm_codec_ops *c, uint64_t claimed, size_t limit) {
  if (claimed <= limit) return 0;
  return sdm_fail(SDM_CORRUPT, "%s: claims to hold %llu bytes, more than the %zu that a batch of its size may hold", c->name, (unsigned long long)claimed, limit);
}

int sdm_codec_finish(const sdm_codec_ops *c, size_t produced, size_t limit, size_t left_over) {
  if (produced > limit) return too_much(c, limit);
  return left_over > 0 ? sdm_codec_corrupt(c, "goes on behind its end") : 0;
}

int sdm_codec_corrupt(const sdm_codec_ops *c, const char *why) { return sdm_fail(SDM_CORRUPT, "%s: %s", c->name, why); }
