/* What a policy script decides of a partition, before anything is done: which segments are held, how many records of each key stay, which keys it gives up. A script
** that fails has decided nothing.
*/
#ifndef SDM_CLEANER_JUDGE_H
#define SDM_CLEANER_JUDGE_H

#include "cleaner/clean.h"
#include "cleaner/pass.h"
#include "cleaner/policy.h"

typedef struct sdm_judgement {
  sdm_versions versions;
  bool *held;                            /* of the pass's segments: they stay as they are */
  int64_t superfluous;                   /* bytes of records that a rewriting would leave out, or begin to, about */
  bool time_is_up;                       /* of a tombstone that it would leave out */
  int64_t closed;                        /* bytes of the segments that are not held */
  int64_t start, end;                    /* what was counted; what comes since is nobody's here */
  int64_t given_up;                      /* keys */
} sdm_judgement;                         /* zero-initialised is empty */

/* Reads the log, the active segment too, twice. The pass has begun. SDM_POLICY: the script failed; SDM_BUSY: records were deleted meanwhile; others as of
** reading. */
int sdm_judge(sdm_pass *p, sdm_policy *policy, const sdm_clean_options *o, sdm_judgement *out);
void sdm_judgement_free(sdm_judgement *j);

/* Deletes the keys that it gives up, but for those that were written since (expire.h); adds to the report's `expired`. Reads the log once more where there are any. */
int sdm_judge_expire(sdm_pass *p, sdm_judgement *j);

/* Tells the pass of a batch in a held segment, which stays, as sdm_rewrite_batch does of others. */
int sdm_judge_held(sdm_pass *p, const uint8_t *bytes, const sdm_batch *b);

#endif
