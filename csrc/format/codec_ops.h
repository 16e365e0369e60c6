/* What codec.c knows of each codec; one codec_NAME.c file each. */
#ifndef SDM_FORMAT_CODEC_OPS_H
#define SDM_FORMAT_CODEC_OPS_H

#include "format/codec.h"

typedef struct sdm_codec_ops {
  const char *name;
  const char *package;                           /* Debian's, that building it in needs */
  int default_level;
  int (*compress)(int level, const uint8_t *in, size_t size, sdm_buf *out);                 /* NULL: not built in, as decompress */
  int (*decompress)(const uint8_t *in, size_t size, size_t limit, sdm_buf *out);
} sdm_codec_ops;

extern const sdm_codec_ops sdm_codec_gzip, sdm_codec_snappy, sdm_codec_lz4, sdm_codec_zstd;

/* Room for the next bytes of a stream that has produced out->size - start so far: *room of them may be put at the end of `out`, 1 at least. One
** byte over the limit has room, so that a stream of exactly `limit` bytes can still say that it ends. SDM_CORRUPT once that byte is used. */
int sdm_codec_room(const sdm_codec_ops *c, sdm_buf *out, size_t start, size_t limit, size_t *room);

/* SDM_CORRUPT for a frame that claims more than it may have. */
int sdm_codec_check_claim(const sdm_codec_ops *c, uint64_t claimed, size_t limit);

/* At the end of a stream that has produced so much and left so much of its input: 0, or what is wrong with that. */
int sdm_codec_finish(const sdm_codec_ops *c, size_t produced, size_t limit, size_t left_over);

int sdm_codec_corrupt(const sdm_codec_ops *c, const char *why) __attribute__((cold));

#endif
