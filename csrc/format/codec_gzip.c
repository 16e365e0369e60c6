/* gzip: one member of RFC 1952, header, deflate stream, trailer with CRC-32 and size. */
#include "format/codec_ops.h"

#ifdef SDM_WITH_ZLIB

#include <limits.h>
#include <zlib.h>

#include "base/err.h"
#include "base/mem.h"

enum { GZIP_ONLY = 16, WINDOW_BITS = 15, MEMORY_LEVEL = 8 };

static void *allocate(void *context, unsigned count, unsigned size) {
  (void)context;
  return sdm_calloc(count, size);
}

static void release(void *context, void *p) {
  (void)context;
  sdm_free(p);
}

static int start_failed(int rc) {
  return rc == Z_MEM_ERROR ? sdm_no_memory() : sdm_fail(SDM_UNSUPPORTED, "gzip: the zlib found at run time does not fit the one built with (%d)", rc);
}

/* avail_in is an unsigned int; batches are below 2^31 bytes. */
static int set_input(z_stream *z, const uint8_t *in, size_t size) {
  if (size > UINT_MAX) return sdm_fail(SDM_TOO_LARGE, "gzip: %zu bytes at once are too many", size);
  z->next_in = (Bytef *)(uintptr_t)in;
  z->avail_in = (uInt)size;
  return 0;
}

static int compress_gzip(int level, const uint8_t *in, size_t size, sdm_buf *out) {
  z_stream z = {.zalloc = allocate, .zfree = release};
  int rc = set_input(&z, in, size);
  if (rc < 0) return rc;
  rc = deflateInit2(&z, level, Z_DEFLATED, WINDOW_BITS + GZIP_ONLY, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
  if (rc != Z_OK) return start_failed(rc);
  size_t most = deflateBound(&z, (uLong)size);
  rc = sdm_buf_reserve(out, most);
  if (rc == 0) {
    z.next_out = out->data + out->size;
    z.avail_out = (uInt)most;
    if (deflate(&z, Z_FINISH) == Z_STREAM_END) out->size += most - z.avail_out;
    else rc = sdm_fail(SDM_TOO_LARGE, "gzip: %zu bytes do not fit in %zu", size, most);
  }
  deflateEnd(&z);
  return rc;
}

/* 1: the member has ended. 0: there is more. */
static int inflate_step(z_stream *z, size_t start, size_t limit, sdm_buf *out) {
  size_t room;
  int rc = sdm_codec_room(&sdm_codec_gzip, out, start, limit, &room);
  if (rc < 0) return rc;
  z->next_out = out->data + out->size;
  z->avail_out = (uInt)room;
  rc = inflate(z, Z_NO_FLUSH);
  out->size += room - z->avail_out;
  if (rc == Z_STREAM_END) return 1;
  if (rc == Z_MEM_ERROR) return sdm_no_memory();
  if (rc != Z_OK && rc != Z_BUF_ERROR) return sdm_codec_corrupt(&sdm_codec_gzip, z->msg ? z->msg : "not a gzip member");
  if (z->avail_in == 0 && z->avail_out > 0) return sdm_codec_corrupt(&sdm_codec_gzip, "cut off");
  return 0;
}

static int decompress_gzip(const uint8_t *in, size_t size, size_t limit, sdm_buf *out) {
  z_stream z = {.zalloc = allocate, .zfree = release};
  size_t start = out->size;
  int rc = set_input(&z, in, size);
  if (rc < 0) return rc;
  rc = inflateInit2(&z, WINDOW_BITS + GZIP_ONLY);
  if (rc != Z_OK) return start_failed(rc);
  while ((rc = inflate_step(&z, start, limit, out)) == 0) continue;
  if (rc == 1) rc = sdm_codec_finish(&sdm_codec_gzip, out->size - start, limit, z.avail_in);
  inflateEnd(&z);
  return rc;
}

#else
#define compress_gzip NULL
#define decompress_gzip NULL
#endif

const sdm_codec_ops sdm_codec_gzip = {"gzip", "zlib1g-dev", -1, compress_gzip, decompress_gzip};
