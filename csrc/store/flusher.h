/* Flushes for those who must not wait for them, as an event loop must not: a thread of the process, started when it is first asked, does them one after the
** other. Who asked looks now and then whether his is done (sdm_topic_flush_begin and sdm_topic_flush_poll in sediment.h).
*/
#ifndef SDM_STORE_FLUSHER_H
#define SDM_STORE_FLUSHER_H

#include "log/log.h"

typedef struct sdm_flusher sdm_flusher;

int sdm_flusher_start(sdm_flusher **out);
void sdm_flusher_stop(sdm_flusher *f);                     /* NULL is fine. What has been asked for is done first */

int sdm_flusher_begin(sdm_flusher *f, sdm_log *l, int64_t now, uint64_t *ticket);
/* 1: done; 0: not within timeout_ms; or what the flush failed with */
int sdm_flusher_wait(sdm_flusher *f, const sdm_log *l, uint64_t ticket, int64_t timeout_ms);

#endif
