/* The log start offset: raised by delete_records and by deletion of segments, never lowered, durable before any file goes. */
#include "log/log.h"
#include "log/offsets.h"

int sdm_log_set_start(sdm_log *l, int64_t start) {
  sdm_control *c = l->control;
  int rc = 0;
  if (start <= atomic_load(&c->log_start)) return 0;
  rc = sdm_offsets_set(l->env, SDM_LOG_START_CHECKPOINT, l->topic, l->partition, start);
  if (rc < 0) return rc;
  int64_t seen = atomic_load(&c->log_start);
  while (seen < start && !atomic_compare_exchange_weak(&c->log_start, &seen, start)) {}
  return 0;
}
