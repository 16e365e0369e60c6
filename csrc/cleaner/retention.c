/* Rules, one after the other; each walks from the oldest segment and stops at the first that may stay. The active segment goes only by time,
** and only when every older one goes too: it is rolled first and then is a closed one. Size never takes it.
**
** A policy script can hold a segment against the configs, or delete one that they keep; what lies before the log start goes whatever it says. It changes nothing of
** the order: so what it deletes goes when everything older has gone, and what it holds holds all that is newer.
*/
#include "cleaner/retention.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cleaner/maintenance.h"
#include "cleaner/policy.h"
#include "cleaner/tombstone.h"
#include "cleaner/uncleanable.h"
#include "log/reserve.h"
#include "log/retired.h"

typedef struct ruled {                    /* what a script says of a segment */
  int64_t base;
  sdm_verdict verdict;
} ruled;

typedef struct retention {
  sdm_log *log;
  const sdm_log_config *cfg;
  int64_t now;
  sdm_segment **segments;
  size_t count;
  sdm_end end;                           /* as the segments were listed */
  int64_t over;                          /* bytes above retention.bytes */
  ruled *rulings;                        /* of a script; NULL: none is asked about segments */
  size_t ruling_count;
} retention;

static bool is_active(const retention *r, size_t i) { return i + 1 == r->count; }
static int64_t size_of(const retention *r, size_t i) { return is_active(r, i) ? r->end.position : r->segments[i]->size; }

/* 1: segment i may go, 0: it stays and ends the walk. */
typedef int rule(retention *r, size_t i);

static int below_start(retention *r, size_t i) {
  return !is_active(r, i) && r->segments[i + 1]->base_offset <= sdm_log_start(r->log);
}

static int by_base(const void *a, const void *b) {
  int64_t x = ((const ruled *)a)->base, y = ((const ruled *)b)->base;
  return (x > y) - (x < y);
}

/* A segment that is there since the script was asked stays until the next time. */
static sdm_verdict verdict_on(const retention *r, size_t i) {
  if (!r->rulings) return SDM_VERDICT_NONE;
  const ruled *found = bsearch(&(ruled){.base = r->segments[i]->base_offset}, r->rulings, r->ruling_count, sizeof *found, by_base);
  return found ? found->verdict : SDM_VERDICT_KEEP;
}

static bool is_left_to_configs(const retention *r, size_t i) {
  sdm_verdict verdict = verdict_on(r, i);
  return verdict == SDM_VERDICT_NONE || verdict == SDM_VERDICT_DELETE;
}

static int given_up(retention *r, size_t i) { return !is_active(r, i) && verdict_on(r, i) == SDM_VERDICT_DELETE; }

static int over_size(retention *r, size_t i) {
  if (is_active(r, i)) return 0;
  r->over -= size_of(r, i);
  return r->over >= 0 ? is_left_to_configs(r, i) : 0;
}

static int expired(retention *r, size_t i) {
  int64_t newest;
  int rc = sdm_log_largest_timestamp(r->log, r->segments[i], &newest);
  sdm_segment_rest(r->segments[i]);
  if (rc < 0 || sdm_sub_sat(r->now, newest) <= r->cfg->retention_ms) return rc;
  return is_left_to_configs(r, i);
}

static int count_deletable(retention *r, rule *may_go, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < r->count; i++) {
    if (is_active(r, i) && size_of(r, i) == 0) return 0;
    int rc = may_go(r, i);
    if (rc <= 0) return rc;
    *n = i + 1;
  }
  return 0;
}

/* Older segments have gone and the start could not be moved, on a full disk: once their names are saved, the first one that is left tells where it is. */
static int start_with_first(retention *r) {
  int64_t base = r->segments[0]->base_offset;
  if (base <= sdm_log_start(r->log)) return 0;
  int rc = r->log->fs->sync_dir(r->log->fs, r->log->dir, NULL);
  return rc == 0 ? sdm_log_set_start_at_segment(r->log, base) : rc;
}

static int look(retention *r) {
  sdm_segments_unref(r->segments, r->count);
  r->segments = NULL;
  r->count = 0;
  int rc = sdm_log_lock(r->log);
  if (rc < 0) return rc;
  rc = sdm_log_seal_locked(r->log, r->cfg);
  if (rc == SDM_DISK_FULL) rc = 0;         /* the more reason to delete: the stage waits, readable */
  if (rc == 0) rc = sdm_log_sync_locked(r->log);
  if (rc == 0) rc = sdm_log_read_end(r->log, &r->end, NULL);
  if (rc == 0) rc = sdm_log_list(r->log, &r->segments, &r->count);
  sdm_log_unlock(r->log);
  return rc == 0 ? start_with_first(r) : rc;
}

/* The active segment can go only as a closed one. An append that came in between saves it: then it stays, and all older ones go. */
static int roll_unless_changed(retention *r, size_t *n) {
  sdm_end now;
  int rc = sdm_log_lock(r->log);
  if (rc < 0) return rc;
  rc = sdm_log_read_end(r->log, &now, NULL);
  if (rc == 0 && sdm_end_offset(&now) != sdm_end_offset(&r->end)) (*n)--;
  else if (rc == 0) rc = sdm_log_roll_locked(r->log, r->cfg, sdm_end_offset(&r->end), r->now);
  sdm_log_unlock(r->log);
  return rc;
}

static int rename_one(retention *r, size_t i) {
  int64_t base = r->segments[i]->base_offset;
  int rc = sdm_retire(r->log, r->segments[i], r->now);
  return rc == 0 ? sdm_log_edit_segments(r->log, base, base + 1, NULL) : rc;
}

/* One that fails half-way is in the list still: the next to lock looks at the folder anew. */
static int rename_oldest(retention *r, size_t n, sdm_retain_report *report) {
  int rc = sdm_log_lock(r->log);
  if (rc < 0) return rc;
  rc = sdm_log_sync_locked(r->log);
  for (size_t i = 0; rc == 0 && i < n; i++) {
    if ((rc = rename_one(r, i)) < 0) {
      atomic_store(&r->log->control->unfinished, 1);
      break;
    }
    report->segments++;
    report->bytes += size_of(r, i);
  }
  sdm_log_unlock(r->log);
  return rc;
}

static int delete_oldest(retention *r, size_t n, sdm_retain_report *report) {
  int rc = 0;
  if (n == r->count) rc = roll_unless_changed(r, &n);
  if (rc == SDM_DISK_FULL && n > 1) {      /* those before it make room */
    n--;
    rc = 0;
  }
  if (rc < 0 || n == 0) return rc;
  int64_t start = n < r->count ? r->segments[n]->base_offset : sdm_end_offset(&r->end);
  rc = sdm_tombstones_leave_with(r->log, r->segments, n);
  if (rc == 0 && start > atomic_load(&r->log->control->durable_end)) rc = r->log->fs->sync_dir(r->log->fs, r->log->dir, NULL);   /* a segment begins there, for good */
  if (rc == 0) rc = sdm_log_set_start(r->log, start);
  if (rc == SDM_DISK_FULL) rc = 0;         /* start_with_first moves it */
  return rc == 0 ? rename_oldest(r, n, report) : rc;
}

static int apply(retention *r, rule *may_go, sdm_retain_report *report) {
  size_t n;
  int rc = count_deletable(r, may_go, &n);
  if (rc < 0 || n == 0) return rc;
  rc = delete_oldest(r, n, report);
  return rc == 0 ? look(r) : rc;
}

static int apply_configs(retention *r, sdm_retain_report *report) {
  int rc = 0;
  if (!(r->cfg->cleanup_policy & SDM_POLICY_DELETE)) return 0;
  if (r->cfg->retention_bytes >= 0) {
    r->over = -r->cfg->retention_bytes;
    for (size_t i = 0; i < r->count; i++) r->over += size_of(r, i);
    rc = apply(r, over_size, report);
  }
  if (rc == 0 && r->cfg->retention_ms >= 0) rc = apply(r, expired, report);
  return rc;
}

/* What the script and the configs delete may lie in any order: each may wait for the other. */
static int apply_script(retention *r, sdm_retain_report *report) {
  int64_t before;
  int rc = 0;
  do {
    before = report->segments;
    rc = apply(r, given_up, report);
    if (rc == 0) rc = apply_configs(r, report);
  } while (rc == 0 && report->segments > before);
  return rc;
}

/* Of all before anything goes by it, for a script that fails decides nothing. A walk gets to a segment when all that is older goes: so it is told as if that had gone. The
** active one is asked about as what it would be. */
static int ask_of_all(retention *r, sdm_policy *policy) {
  r->rulings = sdm_calloc(r->count + 1, sizeof *r->rulings);
  if (!r->rulings) return sdm_no_memory();
  for (size_t i = 0; i < r->count && !(is_active(r, i) && size_of(r, i) == 0); i++) {
    sdm_policy_segment about;
    int rc = sdm_policy_describe(r->log, r->segments + i, r->count - i, 0, r->now, &about);
    r->rulings[i].base = r->segments[i]->base_offset;
    if (rc == 0) rc = sdm_policy_of_segment(policy, &about, &r->rulings[i].verdict);
    if (rc < 0) return rc;
    r->ruling_count++;
  }
  return 0;
}

/* A script that is asked about keys alone has no say here. */
static int ask_script(retention *r) {
  sdm_policy *policy;
  int rc = sdm_policy_open(r->log, r->cfg, &policy);
  if (rc == 0 && sdm_policy_asks(policy, SDM_POLICY_ASKS_SEGMENTS)) rc = ask_of_all(r, policy);
  sdm_policy_close(policy);
  return rc;
}

static int apply_all(retention *r, sdm_retain_report *report) {
  int rc = look(r);
  if (rc == 0) rc = apply(r, below_start, report);
  if (rc == 0) rc = ask_script(r);
  if (rc < 0) return rc;
  return r->rulings ? apply_script(r, report) : apply_configs(r, report);
}

static int retain_all(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_retain_report *report) {
  retention r = {.log = l, .cfg = cfg, .now = now};
  int rc = apply_all(&r, report);
  int64_t unlinked = 0;
  sdm_free(r.rulings);
  if (rc == 0 && sdm_reserve_is_used(l->env)) rc = sdm_retired_unlink(l, now, 0, &unlinked);     /* the disk is full: room is needed now */
  sdm_segments_unref(r.segments, r.count);
  return rc;
}

static int retain_locked(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_retain_report *report) {
  return sdm_retention_ended(l, retain_all(l, cfg, now, report));
}

static int unlink_locked(sdm_log *l, const sdm_log_config *cfg, int64_t now, int64_t *segments) {
  return sdm_retired_unlink(l, now, sdm_reserve_is_used(l->env) ? 0 : cfg->file_delete_delay_ms, segments);
}

int sdm_retain(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_retain_report *report) {
  int rc = sdm_maintenance_lock(l);
  if (rc < 0) return rc;
  rc = retain_locked(l, cfg, now, report);
  sdm_maintenance_unlock(l);
  return sdm_log_explain(l, rc);
}

int sdm_retention_unlink(sdm_log *l, const sdm_log_config *cfg, int64_t now, int64_t *segments) {
  int rc = sdm_maintenance_lock(l);
  if (rc < 0) return rc;
  rc = unlink_locked(l, cfg, now, segments);
  sdm_maintenance_unlock(l);
  return sdm_log_explain(l, rc);
}

int sdm_retain_unless_busy(sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  sdm_retain_report report = {0};
  int64_t segments = 0;
  int rc = sdm_maintenance_try(l);
  if (rc <= 0) return rc;
  rc = retain_locked(l, cfg, now, &report);
  int after = unlink_locked(l, cfg, now, &segments);
  sdm_maintenance_unlock(l);
  return rc < 0 ? rc : after;
}
