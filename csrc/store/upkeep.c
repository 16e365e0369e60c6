#include "store/upkeep.h"

#include <float.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cleaner/retention.h"
#include "cleaner/uncleanable.h"
#include "log/offsets.h"
#include "log/reserve.h"
#include "log/stage.h"
#include "store/topic.h"

sdm_clean_options sdm_store_clean_options(sdm_store *s, bool force) {
  sdm_mutex_lock(&s->lock);
  int64_t threads = s->options.cleaner_threads > 0 ? s->options.cleaner_threads : 1;
  sdm_clean_options o = {.map_bytes = (size_t)(s->options.cleaner_dedupe_buffer_size / threads), .load_factor = s->options.cleaner_load_factor, .force = force};
  double rate = s->options.cleaner_io_max_bytes_per_second;
  sdm_mutex_unlock(&s->lock);
  sdm_throttle_set(&s->throttle, rate);
  if (rate < DBL_MAX) o.throttle = &s->throttle;
  return o;
}

/* ---- a topic at the caller's wish ---- */

int sdm_topic_retain(sdm_topic *t, int64_t now, sdm_retain_report *out) {
  sdm_retain_report report = {0};
  int rc = sdm_topic_check(t);
  if (rc == 0) rc = sdm_store_check_writable(t->store);
  for (int32_t p = 0; rc == 0 && p < t->entry.partitions; p++) {
    sdm_log *l;
    rc = sdm_topic_log(t, p, now, &l);
    if (rc == 0) rc = sdm_retain(l, &t->config, now, &report);
  }
  if (rc == 0) *out = report;
  return rc;
}

int sdm_topic_compact(sdm_topic *t, bool force, int64_t now, sdm_compact_report *out) {
  sdm_compact_report report = {0};
  int rc = sdm_topic_check(t);
  if (rc == 0) rc = sdm_store_check_writable(t->store);
  if (rc < 0) return rc;
  if (!(t->config.cleanup_policy & SDM_POLICY_COMPACT)) {
    return sdm_fail(SDM_POLICY, "topic '%s' is not compacted; its cleanup.policy would have to include compact", t->entry.name);
  }
  sdm_clean_options o = sdm_store_clean_options(t->store, force);
  for (int32_t p = 0; rc == 0 && p < t->entry.partitions; p++) {
    sdm_log *l;
    rc = sdm_topic_log(t, p, now, &l);
    if (rc == 0) rc = sdm_clean(l, &t->config, &o, now, &report);
  }
  if (rc == 0) *out = report;
  return rc;
}

/* ---- by age ---- */

static bool roll_due(const sdm_end *e, const sdm_log_config *cfg, int64_t now) {
  if (e->position + sdm_stage_size(e) == 0 || e->first_append_ms < 0) return false;
  return sdm_sub_sat(now, e->first_append_ms) > sdm_sub_sat(sdm_log_config_segment_ms(cfg), e->jitter_ms);
}

int sdm_log_age(sdm_log *l, const sdm_log_config *cfg, int64_t linger_ms, int64_t now, sdm_maintain_report *report) {
  sdm_end e;
  int rc = sdm_log_read_end(l, &e, NULL);
  bool seal = sdm_stage_size(&e) > 0 && sdm_sub_sat(now, e.staged_since_ms) > linger_ms, roll = roll_due(&e, cfg, now);
  if (rc < 0 || (!seal && !roll)) return rc;
  if ((rc = sdm_log_check_writable(l)) < 0 || (rc = sdm_log_lock(l)) < 0) return rc;
  const sdm_end *current = sdm_control_end(l->control);
  if (roll && roll_due(current, cfg, now)) {
    rc = sdm_log_roll_locked(l, cfg, sdm_end_offset(current), now);
    report->rolled += rc == 0;
  } else if (seal) {
    rc = sdm_log_seal_locked(l, cfg);
    report->sealed += rc == 0;
  }
  sdm_log_unlock(l);
  return rc;
}

int sdm_log_flush_if_due(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_maintain_report *report) {
  int64_t since = atomic_load(&l->control->dirty_since_ms), durable;
  if (since > now) atomic_store(&l->control->dirty_since_ms, now);         /* the clock stepped back: the wait begins anew */
  if (since < 0 || cfg->flush_ms == INT64_MAX || sdm_sub_sat(now, since) < cfg->flush_ms) return 0;
  int rc = sdm_log_flush_to_disk(l, cfg, now, &durable);
  report->flushed += rc == 0;
  return rc;
}

/* ---- everything ---- */

static void count_cleaning(const sdm_compact_report *c, sdm_maintain_report *report) {
  report->cleaned += c->partitions;
  report->tombstones_removed += c->tombstones_removed;
  report->expired += c->expired;
  report->corrupt += c->corrupt;
}

static int maintain_log(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_maintain_report *report) {
  sdm_retain_report gone = {0};
  sdm_compact_report cleaned = {0};
  int rc = sdm_log_age(l, cfg, -1, now, report);
  if (rc == 0 && (cfg->cleanup_policy & SDM_POLICY_COMPACT)) {
    sdm_clean_options o = sdm_store_clean_options(s, false);
    rc = sdm_clean(l, cfg, &o, now, &cleaned);
    report->uncleanable += sdm_cleaning_failed(l) < 0;
  }
  int after = sdm_retain(l, cfg, now, &gone);        /* a log that cannot be cleaned is still retained */
  if (after == 0) after = sdm_retention_unlink(l, cfg, now, &report->files_deleted);
  if (after == 0) after = sdm_log_flush_if_due(l, cfg, now, report);
  count_cleaning(&cleaned, report);
  report->segments += gone.segments;
  report->bytes += gone.bytes;
  return rc < 0 ? rc : after;
}

int sdm_maintain_log(sdm_store *s, sdm_log *l, int64_t now, sdm_maintain_report *report) {
  sdm_log_config cfg;
  sdm_log_get_config(l, &cfg);
  int rc = sdm_log_check(l) == 0 ? maintain_log(s, l, &cfg, now, report) : 0;
  if (rc == SDM_UNKNOWN_TOPIC) return 0;               /* deleted meanwhile: it wants nothing */
  report->failed += rc < 0;
  return rc;
}

static void note(sdm_failure *first, int rc, sdm_maintain_report *report) {
  sdm_failure_note(first, rc);
  report->failed += rc < 0;
}

int sdm_store_maintain(sdm_store *s, int64_t now, sdm_maintain_report *out) {
  sdm_maintain_report report = {0};
  sdm_log **logs;
  size_t count;
  int rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_store_refresh(s);
  if (rc < 0) return rc;
  sdm_store_saw(s, now);
  sdm_failure first = {0};
  if ((rc = sdm_store_open_all(s, now, &first, &report.failed)) < 0 || (rc = sdm_store_log_refs(s, &logs, &count)) < 0) return rc;
  for (size_t i = 0; i < count; i++) sdm_failure_note(&first, sdm_maintain_log(s, logs[i], now, &report));
  sdm_logs_unref(logs, count);
  note(&first, sdm_store_finish_deletions(s, now), &report);
  note(&first, sdm_folders_unlink(s, now, &report.files_deleted), &report);
  sdm_reserve_keep(&s->env);
  sdm_failure_tell(&first);                /* the report's reason is the thread's last message */
  *out = report;
  return 0;
}

/* ---- checkpoints ---- */

static int write_checkpoints(sdm_store *s) {
  sdm_checkpoint recovery = {0}, starts = {0};
  sdm_log **logs;
  size_t count;
  int rc = sdm_store_log_refs(s, &logs, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    sdm_log *l = logs[i];
    sdm_segment *first = NULL;
    int64_t next;
    if (sdm_log_check(l) < 0) continue;
    int64_t start = sdm_log_start(l);
    rc = sdm_checkpoint_set(&recovery, l->topic, l->partition, atomic_load(&l->control->durable_end));
    if (rc == 0) rc = sdm_log_find(l, start, &first, &next);
    /* as Kafka does, only starts in the middle of the first segment; an entry that is there stays, since another process may have just made it */
    if (rc == 0 && first && first->base_offset < start) rc = sdm_checkpoint_set(&starts, l->topic, l->partition, start);
    sdm_segment_unref(first);
  }
  if (rc == 0 && recovery.count > 0) rc = sdm_offsets_merge(&s->env, SDM_RECOVERY_CHECKPOINT, &recovery);
  if (rc == 0 && starts.count > 0) rc = sdm_offsets_merge(&s->env, SDM_LOG_START_CHECKPOINT, &starts);
  sdm_checkpoint_free(&recovery);
  sdm_checkpoint_free(&starts);
  sdm_logs_unref(logs, count);
  return rc;
}

/* While no topic can be deleted and made anew: the numbers of the old one must not become the new one's. */
int sdm_store_checkpoint(sdm_store *s) {
  int rc = sdm_store_topics_hold(s);
  if (rc < 0) return rc;
  rc = write_checkpoints(s);
  sdm_store_topics_release(s);
  return rc;
}
