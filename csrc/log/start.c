/* The log start offset: raised by delete_records and by deletion of segments, never lowered, durable before any file goes. */
#include "log/log.h"
#include "log/offsets.h"

static void raise(sdm_control *c, int64_t start) {
  int64_t seen = atomic_load(&c->log_start);
  while (seen < start && !atomic_compare_exchange_weak(&c->log_start, &seen, start)) {}
}

int sdm_log_set_start(sdm_log *l, int64_t start) {
  if (start <= atomic_load(&l->control->log_start)) return 0;
  int rc = sdm_offsets_set(l->env, SDM_LOG_START_CHECKPOINT, l->topic, l->partition, start);
  if (rc == 0) raise(l->control, start);
  return rc;
}

int sdm_log_set_start_at_segment(sdm_log *l, int64_t start) {
  int rc = sdm_log_set_start(l, start);
  if (rc != SDM_DISK_FULL) return rc;
  raise(l->control, start);
  return 0;
}
