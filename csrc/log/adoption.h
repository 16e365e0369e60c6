/* An import's look at a directory, shared by the files that make it: adopt.c, adopt_copy.c, adopt_verify.c, adopt_transactions.c. */
#ifndef SDM_LOG_ADOPTION_H
#define SDM_LOG_ADOPTION_H

#include "format/state_file.h"
#include "log/adopt.h"

typedef struct sdm_adoption {
  sdm_fs *fs;
  char *from;                              /* the source, absolute: messages name it, for it is what its owner knows */
  const char *to;                          /* the copy */
  const sdm_log_config *cfg;
  sdm_state_file before;                   /* the source's sediment.state, if it has one */
  int64_t *bases;                          /* of the copy's segments */
  size_t count;
  int64_t log_start, log_end;
  int32_t leader_epoch;                    /* the last one */
  int64_t left_out;                        /* bytes of a torn end */
  int64_t last_size, last_modified;        /* of the last segment */
  int64_t foreign_end;
} sdm_adoption;

/* What there is to copy. Files of unfinished cleanings are named so that sdm_recover_files puts the copy right. Indexes come along only to tell of segments
** that were cut: they are made anew. */
int sdm_adopt_copy(sdm_fs *fs, const char *from, const char *to);

/* Puts the copy's files right and verifies every batch; the indexes are made anew, a torn end is cut. SDM_CORRUPT: damage that is no torn end. */
int sdm_adopt_verify(sdm_adoption *a);
int sdm_adopt_verify_segment(sdm_adoption *a, size_t i);       /* one of them */

/* Looks at the transactions: each .txnindex has what its segment tells of. With `abort_open` those that are open are ended first, by markers behind the
** last batch, dated `now`. */
int sdm_adopt_transactions(sdm_adoption *a, bool abort_open, int64_t now);

#endif
