/* What the owner of a partition may ask of its log: roll, flush, delete a prefix. */
#include "log/log.h"

int sdm_log_roll(sdm_log *l, int64_t now, int64_t *base_offset) {
  sdm_log_config cfg;
  int rc = sdm_log_check_writable(l);
  if (rc == 0) rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  sdm_log_get_config(l, &cfg);
  int64_t base = atomic_load(&l->control->log_end);
  rc = sdm_log_roll_locked(l, &cfg, base, now);
  sdm_log_unlock(l);
  if (rc == 0) *base_offset = base;
  return sdm_log_explain(l, rc);
}

int sdm_log_flush(sdm_log *l, int64_t now, int64_t *durable) {
  sdm_log_config cfg;
  sdm_log_get_config(l, &cfg);
  return sdm_log_flush_to_disk(l, &cfg, now, durable);
}

static int raise_start_locked(sdm_log *l, int64_t before) {
  int64_t end = atomic_load(&l->control->log_end);
  if (before >= 0 && before <= end) return sdm_log_set_start(l, before);
  return sdm_log_out_of_range(l, before, end);
}

/* A log that ended before its durable start, after a loss of power, would look damaged. On a full disk what is staged cannot become durable; room is made
** all the same. */
static int make_durable(sdm_log *l, const sdm_log_config *cfg, int64_t before, int64_t now) {
  int64_t durable = atomic_load(&l->control->durable_end);
  if (before <= durable || before > atomic_load(&l->control->log_end)) return 0;
  int rc = sdm_log_flush_to_disk(l, cfg, now, &durable);
  return rc == SDM_DISK_FULL ? 0 : rc;
}

int sdm_log_delete_records(sdm_log *l, int64_t before, int64_t now, int64_t *start) {
  sdm_log_config cfg;
  int rc = sdm_log_check_writable(l);
  if (rc < 0) return rc;
  sdm_log_get_config(l, &cfg);
  if ((cfg.cleanup_policy & SDM_POLICY_COMPACT) && !(cfg.cleanup_policy & SDM_POLICY_DELETE)) {
    return sdm_fail(SDM_POLICY, "topic '%s': records of a topic with cleanup.policy=compact are deleted by tombstones only; add delete to the policy", l->topic);
  }
  if ((rc = make_durable(l, &cfg, before, now)) < 0) return sdm_log_explain(l, rc);
  if ((rc = sdm_log_lock(l)) < 0) return rc;           /* so that the topic is not deleted and made anew in between */
  rc = raise_start_locked(l, before);
  sdm_log_unlock(l);
  if (rc == 0) *start = sdm_log_start(l);
  return sdm_log_explain(l, rc);
}
