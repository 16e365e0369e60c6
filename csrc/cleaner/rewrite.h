/* Deciding for each record of a batch whether it stays, and writing what stays: reference section 8.3 to 8.5. */
#ifndef SDM_CLEANER_REWRITE_H
#define SDM_CLEANER_REWRITE_H

#include "cleaner/offset_map.h"
#include "cleaner/output.h"
#include "cleaner/transactional.h"
#include "cleaner/versions.h"

/* What a pass goes by: a map, or, where a policy script is asked, versions. A purge has neither: it only takes tombstones whose time is up, and leaves markers
** and aborted data. */
typedef struct sdm_rewrite {
  const sdm_log_config *cfg;
  const sdm_offset_map *map;
  sdm_versions *versions;                /* a walk over it has begun */
  int64_t start;                         /* records before stay as they are, for the log starts here; where versions count */
  sdm_txn_pass *transactions;
  int64_t mapped_end;                    /* records from here on stay as they are */
  int64_t bound;                         /* a batch that ends right before it stays even when it is empty */
  int64_t now;
  int64_t records_read, records_written, tombstones_removed, keyless_dropped;
  int64_t floor;                         /* highest offset of a tombstone removed, -1 */
  bool changed;                          /* anything but verbatim copies was written */
  sdm_record *records;                   /* of the batch in hand, reused */
  bool *stays;
  size_t capacity;
  sdm_buf plain;                         /* its bytes, when it is compressed */
} sdm_rewrite;

void sdm_rewrite_free(sdm_rewrite *w);

/* Writes what stays of the batch (its CRC was verified) to the output. SDM_CORRUPT when its records do not add up. */
int sdm_rewrite_batch(sdm_rewrite *w, const uint8_t *bytes, const sdm_batch *b, sdm_output *out);

#endif
