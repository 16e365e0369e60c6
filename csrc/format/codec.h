/* Compression of a batch's records, in the framings that Kafka's Java code reads and writes (docs/format.md 1.6).
**
** Each codec is a library that may be missing when Sediment is built; all functions then answer SDM_UNSUPPORTED with the codec and the Debian
** package to install. What is decompressed may be hostile: memory grows with what was really produced, never with what the input claims.
*/
#ifndef SDM_FORMAT_CODEC_H
#define SDM_FORMAT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/batch.h"

bool sdm_codec_available(sdm_codec c);           /* built in; SDM_CODEC_NONE always is */
int sdm_codec_check(sdm_codec c);                /* 0, or SDM_UNSUPPORTED with the way out in the message */
const char *sdm_codec_name(sdm_codec c);         /* as the attributes' names in docs/format.md 1.1: "gzip" */
int sdm_codec_default_level(sdm_codec c);        /* Kafka's: gzip -1 (the library's), lz4 9, zstd 3; 0 where there are no levels */

/* Appends the compressed bytes. Levels as in the topic configs compression.*.level; not looked at by snappy. */
int sdm_codec_compress(sdm_codec c, int level, const uint8_t *in, size_t size, sdm_buf *out);

/* Appends the decompressed bytes. SDM_CORRUPT, with the codec's name, when the input is malformed, is cut off, goes on behind its end, or claims
** or produces more than `limit` bytes; `out` may then hold a part. */
int sdm_codec_decompress(sdm_codec c, const uint8_t *in, size_t size, size_t limit, sdm_buf *out);

#endif
