/* Verifying one partition: every batch, every record, and the side files, of what the log has at this moment. Nothing is written, no lock is held, and what
** retention, cleaning and appends do meanwhile, in any process, is no finding: segments are looked for by offset, one at a time, as readers do.
*/
#ifndef SDM_LOG_VERIFY_H
#define SDM_LOG_VERIFY_H

#include "log/log.h"
#include "log/report.h"

/* Adds what is found to v->report; `l` is best one of bare.h, which cannot write. A failure is one of the verification itself: SDM_NO_MEMORY, SDM_CLOSED,
** SDM_FORKED, SDM_UNKNOWN_TOPIC (deleted meanwhile), SDM_BUSY. */
int sdm_verify_log(sdm_log *l, sdm_verification *v);

#endif
