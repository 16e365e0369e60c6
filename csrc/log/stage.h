/* The stage of a partition's control page: see control.h. All of it under control->lock. */
#ifndef SDM_LOG_STAGE_H
#define SDM_LOG_STAGE_H

#include "log/control.h"

/* Bytes of the batch that sealing would write; 0 when empty. */
static inline int64_t sdm_stage_size(const sdm_end *e) {
  if (atomic_load_explicit(&e->staged_count, memory_order_relaxed) == 0) return 0;
  return SDM_BATCH_HEADER + (int64_t)atomic_load_explicit(&e->staged_bytes, memory_order_relaxed);
}

/* Whether the record, which takes `most` bytes at most, may join the records that are there (the stage is not empty). `capacity`: of a batch. */
bool sdm_stage_fits(const sdm_end *e, const sdm_record *r, int64_t most, bool append_time, int64_t capacity, int64_t now, int64_t linger_ms);

/* Adds a record that fits; its offset is the end of the log. Other processes read it from then on. */
void sdm_stage_add(sdm_control *c, const sdm_record *r, bool append_time, int64_t now);

void sdm_stage_header(const sdm_end *e, sdm_batch *out);   /* of the batch as it stands; without CRC */

/* After the death of a lock owner: what follows from the published records. SDM_CORRUPT when they cannot be read. */
int sdm_stage_repair(sdm_control *c);

/* Whether the stage is what its writer left: its records are as many, as long and of the CRC as was noted. For a page that is not shared. */
bool sdm_stage_intact(sdm_control *c);

#endif
