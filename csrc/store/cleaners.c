/* A round is a list of partitions, the dirtiest first, of which each thread takes the next until none is left, for one pass. The threads live as long as the round,
** and there is none when nothing is due: an idle store has its background thread and no other. A partition that fails keeps nobody from the others; it is
** left alone for a while (cleaner/uncleanable.h).
*/
#include "store/cleaners.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cleaner/cleanable.h"
#include "cleaner/tombstone.h"
#include "cleaner/uncleanable.h"
#include "store/upkeep.h"

typedef struct candidate {
  sdm_log *log;                            /* a reference */
  double ratio;                            /* 0: only tombstones whose time is up */
} candidate;

struct sdm_cleaners {
  sdm_store *store;
  sdm_clean_options options;
  int64_t now;
  candidate *candidates;
  size_t count;
  sdm_thread *threads;
  size_t thread_count;
  atomic_size_t next, working;
  atomic_bool cleaned;
};

static int dirtiest_first(const void *a, const void *b) {
  double x = ((const candidate *)a)->ratio, y = ((const candidate *)b)->ratio;
  return (x < y) - (x > y);
}

/* What there is to do only the script can say: it is asked now and then. */
static int script_due(const sdm_log *l, const sdm_log_config *cfg, int64_t now, double *ratio) {
  int64_t asked = atomic_load(&l->control->cleaned_ms);
  *ratio = 0;
  return asked < 0 || asked > now || sdm_sub_sat(now, asked) >= cfg->policy_interval_ms;
}

/* 1: there is something to do. */
static int is_due(sdm_log *l, const sdm_log_config *cfg, int64_t now, double *ratio) {
  sdm_cleanable c;
  int rc = sdm_cleanable_range(l, cfg, now, &c);
  if (rc < 0) return rc;
  if (cfg->policy_script[0]) return script_due(l, cfg, now, ratio);
  bool due = sdm_cleaning_due(&c, cfg);
  *ratio = due ? sdm_dirty_ratio(&c) : 0;
  return due ? 1 : sdm_tombstones_due(l, c.first_dirty, now);
}

/* One of which it cannot even be said what there is to clean has failed like one that fails later. Where nothing is left to clean a mark has no more reason. */
static bool is_candidate(sdm_log *l, int64_t now, int64_t backoff_ms, double *ratio) {
  sdm_log_config cfg;
  sdm_log_get_config(l, &cfg);
  if (sdm_log_check(l) < 0 || !(cfg.cleanup_policy & SDM_POLICY_COMPACT) || !sdm_cleaning_may_try(l, now, backoff_ms)) return false;
  int rc = is_due(l, &cfg, now, ratio);
  if (rc < 0 || (rc == 0 && sdm_cleaning_failed(l))) sdm_cleaning_ended(l, now, rc);
  return rc == 1;
}

static int list_candidates(sdm_cleaners *c, int64_t backoff_ms) {
  sdm_log **logs;
  size_t count;
  int rc = sdm_store_log_refs(c->store, &logs, &count);
  if (rc < 0) return rc;
  c->candidates = sdm_malloc(count * sizeof *c->candidates);
  for (size_t i = 0; c->candidates && i < count; i++) {
    candidate *next = &c->candidates[c->count];
    if (is_candidate(logs[i], c->now, backoff_ms, &next->ratio)) c->candidates[c->count++].log = sdm_log_ref(logs[i]);
  }
  sdm_logs_unref(logs, count);
  if (!c->candidates) return sdm_no_memory();
  if (c->count > 1) qsort(c->candidates, c->count, sizeof *c->candidates, dirtiest_first);
  return 0;
}

static void clean_one(sdm_cleaners *c, sdm_log *l) {
  sdm_log_config cfg;
  sdm_compact_report report = {0};
  sdm_log_get_config(l, &cfg);
  sdm_clean(l, &cfg, &c->options, c->now, &report);
  if (report.partitions > 0) atomic_store(&c->cleaned, true);
}

static void *work(void *argument) {
  sdm_cleaners *c = argument;
  for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->count && !atomic_load(&c->store->env.stopping);) clean_one(c, c->candidates[i].log);
  atomic_fetch_sub(&c->working, 1);
  return NULL;
}

/* Those that can be had; without any the caller's thread does the work. */
static void start_threads(sdm_cleaners *c, size_t wanted) {
  c->threads = sdm_calloc(wanted, sizeof *c->threads);
  while (c->threads && c->thread_count < wanted) {
    atomic_fetch_add(&c->working, 1);
    if (sdm_thread_start(&c->threads[c->thread_count], work, c) == 0) c->thread_count++;
    else wanted = c->thread_count, atomic_fetch_sub(&c->working, 1);
  }
  if (c->thread_count > 0) return;
  atomic_store(&c->working, 1);
  work(c);
}

sdm_cleaners *sdm_cleaners_begin(sdm_store *s, int64_t now, const sdm_options *o) {
  sdm_cleaners *c = o->cleaner_enable && o->cleaner_threads > 0 ? sdm_calloc(1, sizeof *c) : NULL;
  if (!c) return NULL;
  c->store = s;
  c->now = now;
  c->options = sdm_store_clean_options(s, false);
  c->options.once = true;
  int rc = list_candidates(c, o->cleaner_backoff_ms);
  size_t threads = (size_t)o->cleaner_threads;
  if (rc == 0 && c->count > 0) start_threads(c, threads < c->count ? threads : c->count);
  if (rc == 0 && c->count > 0) return c;
  sdm_cleaners_end(c);
  return NULL;
}

bool sdm_cleaners_done(const sdm_cleaners *c) { return atomic_load(&c->working) == 0; }

bool sdm_cleaners_end(sdm_cleaners *c) {
  for (size_t i = 0; i < c->thread_count; i++) sdm_thread_join(&c->threads[i]);
  bool cleaned = atomic_load(&c->cleaned);
  for (size_t i = 0; i < c->count; i++) sdm_log_unref(c->candidates[i].log);
  sdm_free(c->threads);
  sdm_free(c->candidates);
  sdm_free(c);
  return cleaned;
}
