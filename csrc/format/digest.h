/* The digest of a closed segment: of its batches what no CRC covers, base offsets and sizes, and where the last of them ends (docs/format.md 2.2). No I/O.
*/
#ifndef SDM_FORMAT_DIGEST_H
#define SDM_FORMAT_DIGEST_H

#include <stdbool.h>

#include "base/buf.h"
#include "format/batch.h"

#define SDM_DIGEST_CHUNK 16384            /* bytes of a .log in which the batches of one entry begin */

typedef struct sdm_digest_entry {
  uint32_t position;                     /* of the first of them */
  uint32_t hash;                         /* over all of them */
} sdm_digest_entry;

typedef struct sdm_digest {
  int64_t size, next_offset;             /* of the .log; after its last batch, or the segment's base */
  uint64_t inode;                        /* of the .log as it was written */
  sdm_digest_entry *entries;             /* ascending */
  size_t count;
  bool cut;                              /* the .log is shorter now: set by who has looked */
} sdm_digest;

/* The hash of an entry grows by one batch; it begins with 0, and its low 32 bits count. */
uint64_t sdm_digest_chain(uint64_t hash, int64_t base_offset, int32_t size);

typedef struct sdm_digest_builder {
  sdm_buf entries;                       /* encoded; the last one still grows */
  uint64_t hash;
  int64_t position;                      /* of the last entry */
  int64_t size, next_offset;
} sdm_digest_builder;                    /* zero-initialised is that of an empty segment with base 0 */

int sdm_digest_add(sdm_digest_builder *x, const sdm_batch *b, int64_t position);       /* in the order of the file */
int sdm_digest_encode(const sdm_digest_builder *x, uint64_t inode, sdm_buf *out);
void sdm_digest_builder_free(sdm_digest_builder *x);

/* SDM_CORRUPT: it is no digest, or damaged. */
int sdm_digest_decode(sdm_digest *out, const uint8_t *bytes, size_t size);
bool sdm_digest_set_inode(uint8_t *bytes, size_t size, uint64_t inode);      /* in an encoded one; false: it had it */
void sdm_digest_free(sdm_digest *d);     /* NULL is fine; frees d itself, too */

#endif
