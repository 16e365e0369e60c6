/* Builds both indexes and the digest of a segment while its batches go by, in memory: for making damaged ones anew and for the output of cleaning. The rules are
** those of appending (docs/format.md 2).
*/
#ifndef SDM_LOG_INDEX_BUILDER_H
#define SDM_LOG_INDEX_BUILDER_H

#include "base/buf.h"
#include "format/batch.h"
#include "format/digest.h"
#include "format/index.h"

typedef struct sdm_index_builder {
  int64_t base_offset, interval;
  sdm_buf index, timeindex;
  sdm_digest_builder digest;
  int64_t max_timestamp, max_timestamp_offset;    /* so far; -1: none */
  int64_t indexed_timestamp;                      /* of the last time entry, -1 */
  int64_t bytes_since_index;
} sdm_index_builder;

void sdm_index_builder_init(sdm_index_builder *x, int64_t base_offset, int64_t interval);
int sdm_index_builder_add(sdm_index_builder *x, const sdm_batch *b, int64_t position);
int sdm_index_builder_finish(sdm_index_builder *x);          /* the time entry that closes a segment */
void sdm_index_builder_free(sdm_index_builder *x);

#endif
