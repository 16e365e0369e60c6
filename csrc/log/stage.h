/* The stage of a partition's control page: see control.h. All of it under control->lock. */
#ifndef SDM_LOG_STAGE_H
#define SDM_LOG_STAGE_H

#include "log/control.h"

int64_t sdm_stage_size(const sdm_end *e);            /* bytes of the batch that sealing would write; 0 when empty */

/* Whether the record (its offset set) may join the records that are there (the stage is not empty). `capacity`: bytes of a batch. */
int64_t sdm_stage_fits(const sdm_end *e, const sdm_record *r, bool append_time, int64_t capacity, int64_t now, int64_t linger_ms);

/* Adds a record that fits and returns its offset. Other processes read it from then on. */
int64_t sdm_stage_add(sdm_control *c, const sdm_record *r, bool append_time, int64_t now);

void sdm_stage_header(const sdm_end *e, sdm_batch *out);   /* of the batch as it stands; without CRC */

/* After the death of a lock owner: what follows from the published records. SDM_CORRUPT when they cannot be read. */
int sdm_stage_repair(sdm_control *c);

/* Whether the stage is what its writer left: its records are as many, as long and of the CRC as was noted. For a page that is not shared. */
bool sdm_stage_intact(sdm_control *c);

#endif
