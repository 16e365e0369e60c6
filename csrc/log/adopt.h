/* Making a copy of a bare partition directory that a store can take over: verified, put right, indexed, durable. The source is only read. */
#ifndef SDM_LOG_ADOPT_H
#define SDM_LOG_ADOPT_H

#include "log/log.h"

typedef struct sdm_adopt_options {
  const sdm_log_config *config;
  bool abort_open;                       /* end transactions that are open */
  int64_t now;
} sdm_adopt_options;

typedef struct sdm_adopted {
  int64_t log_start, log_end;
  int64_t clean_offset;                  /* the cleaner's checkpoint beside the source, -1: none that fits */
  int64_t left_out;                      /* bytes of a torn end, behind the last valid batch */
} sdm_adopted;

/* Fills the empty folder `to` from `from`. In it are then: the segments, each batch verified, with the file times of the source; both indexes, made
** anew; .txnindex and .snapshot as they were, the former made anew where it lacks something; leader-epoch-checkpoint; sediment.state, with the log start
** that the checkpoint beside the source names. Not in it: partition.metadata. What follows the last valid batch of the last segment is left out.
** SDM_NOT_FOUND: no partition directory. SDM_UNSUPPORTED: a format before Kafka 0.11, a codec that is not built in. SDM_CORRUPT: damage that is no torn
** end, segments that are missing or were cut. SDM_BUSY: a store has it open, or did not close it. After a failure `to` holds anything. */
int sdm_adopt(sdm_fs *fs, const char *from, const char *to, const sdm_adopt_options *options, sdm_adopted *out);

#endif
