/* Holds a segment's .index, .timeindex and .txnindex against its batches while these go by. The files are read by the block, whatever their size.
**
** An index that Sediment wrote names for each entry a batch and its last offset. A broker may write one entry for several batches, the position of the first
** and the last offset of the last, and pads the indexes of the segment that it writes with zeros; neither is wrong in what it wrote.
*/
#ifndef SDM_LOG_INDEX_CHECK_H
#define SDM_LOG_INDEX_CHECK_H

#include "format/batch.h"
#include "log/report.h"
#include "log/segment.h"

enum { SDM_INDEX_AUDIT_ENTRIES = 256 };

typedef struct sdm_index_cursor {
  sdm_file *file;                        /* NULL: there is none, or it was found wrong and is not looked at further */
  bool missing;
  int64_t position, size;                /* of the entry in hand; of the file */
  int64_t block_at;                      /* position of the block */
  size_t block_size;
  uint8_t block[SDM_INDEX_AUDIT_ENTRIES * 34];
} sdm_index_cursor;

typedef struct sdm_index_audit {
  sdm_verification *v;
  sdm_segment *segment;                  /* borrowed */
  bool closed, ours;                     /* the segment; written by Sediment */
  bool damaged;                          /* the log was, so that entries may tell of what is lost */
  int64_t max_timestamp, first_size;     /* of the batches so far; of the first one */
  sdm_index_cursor cursors[3];
} sdm_index_audit;

int sdm_index_audit_begin(sdm_index_audit *x, sdm_verification *v, sdm_segment *s, bool closed, bool ours);
bool sdm_index_audit_lacks_file(const sdm_index_audit *x);
int sdm_index_audit_batch(sdm_index_audit *x, const sdm_batch *b, int64_t position);
void sdm_index_audit_damage(sdm_index_audit *x);                             /* some was passed */

/* `size`: bytes of the .log that count. */
int sdm_index_audit_end(sdm_index_audit *x, int64_t size);

#endif
