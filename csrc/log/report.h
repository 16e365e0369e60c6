/* What a verification found (sediment.h): the list of its problems, which does not grow for ever. */
#ifndef SDM_LOG_REPORT_H
#define SDM_LOG_REPORT_H

#include "sediment.h"

/* A verification of a partition, or of a store, in hand. */
typedef struct sdm_verification {
  sdm_verify_report *report;
  const char *topic;                     /* "": a file of the store's own, or of a bare directory */
  int32_t partition;                     /* -1: the same */
} sdm_verification;

/* What the thread's last message tells of, which has `code`. position and offset: -1 where they mean nothing. 0 or SDM_NO_MEMORY. */
int sdm_report_problem(sdm_verification *v, const char *file, int64_t position, int64_t offset, int code, sdm_harm harm);

/* Takes back what was added since the report was as in `before`. */
void sdm_report_withdraw(sdm_verify_report *r, const sdm_verify_report *before);

/* Whether a failure is one of what was looked at, and not of the verification itself, which it ends. */
bool sdm_is_finding(int code);

#endif
