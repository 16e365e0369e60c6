/* A topic's policy script, as retention and compaction ask it. Nothing here decides: what a script may not decide is in retention.c, versions.h and expire.h. */
#ifndef SDM_CLEANER_POLICY_H
#define SDM_CLEANER_POLICY_H

#include "log/log.h"

typedef struct sdm_policy sdm_policy;

/* The script that cfg->policy_script names, read and ready; *out is NULL when it names none. SDM_POLICY: it is missing, damaged or refused, or nobody knows
** how to run it. */
int sdm_policy_open(sdm_log *l, const sdm_log_config *cfg, sdm_policy **out);
void sdm_policy_close(sdm_policy *p);                                                /* NULL is fine */

bool sdm_policy_asks(const sdm_policy *p, unsigned what);                            /* SDM_POLICY_ASKS_*; NULL asks nothing */

/* SDM_POLICY: it failed, or said what it cannot. SDM_CLOSED, SDM_UNKNOWN_TOPIC: the ground has moved. */
int sdm_policy_of_segment(sdm_policy *p, const sdm_policy_segment *s, sdm_verdict *out);
int sdm_policy_of_key(sdm_policy *p, const sdm_policy_key *k, sdm_ruling *out);

/* What is asked of segment i of `segments` (all of the log, the active one last), filled in. The active one is asked
** about where it is about to become a closed one. */
int sdm_policy_describe(sdm_log *l, sdm_segment *const *segments, size_t count, size_t i, int64_t now, sdm_policy_segment *out);

/* The script as the store has it, checked; freed with sdm_free. SDM_NOT_FOUND, SDM_CORRUPT, SDM_IO. */
int sdm_policy_read(sdm_fs *fs, const char *root, const char *name, char **bytes, const char **text, size_t *size);
int sdm_policy_check(const char *name, const char *text, size_t size, unsigned *asks);          /* whether the engine takes it, and what it is asked about */
int sdm_policy_fits(const char *name, unsigned asks, const char *topic, bool compacted);         /* SDM_POLICY: it decides of keys, and the topic is not compacted */

#endif
