/* The background thread: sealing, flushing, retention, delayed deletion at their intervals, in one process of a store at a time. Who holds the lock BACKGROUND
** is the one; the others look every tick whether it is free. What takes long is done by others (cleaners.h), so that a partition that is cleaned for minutes
** keeps no other from being sealed and flushed.
*/
#include "base/clock.h"
#include "base/mem.h"
#include "cleaner/retention.h"
#include "store/cleaners.h"
#include "store/store.h"
#include "store/upkeep.h"

enum { TICK_MAX_MS = 500, TICK_MIN_MS = 10 };

struct sdm_background {
  sdm_store *store;
  sdm_thread thread;
  sdm_mutex lock;
  sdm_cond wake;
  bool stop;                               /* guarded by lock */
  bool elected;
  sdm_cleaners *cleaners;                  /* the round that is going on */
  uint64_t topics_seen;
  int64_t next_retention, next_cleaning, next_checkpoint, next_flush;   /* by the monotonic clock */
};

static int64_t store_now(sdm_store *s) { return s->wall_clock ? sdm_wall_ms() : atomic_load(&s->last_now); }

static sdm_options options_of(sdm_store *s) {
  sdm_mutex_lock(&s->lock);
  sdm_options o = s->options;
  sdm_mutex_unlock(&s->lock);
  return o;
}

static bool stopping(sdm_background *b) {
  sdm_mutex_lock(&b->lock);
  bool stop = b->stop;
  sdm_mutex_unlock(&b->lock);
  return stop;
}

static bool due(int64_t *next, int64_t interval_ms) {
  int64_t now = sdm_monotonic_ms();
  if (now < *next) return false;
  *next = sdm_add_sat(now, interval_ms);
  return true;
}

typedef void log_job(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now);

static void seal_job(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  sdm_maintain_report report = {0};
  sdm_log_age(l, cfg, s->env.linger_ms, now, &report);
}

static void flush_job(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  sdm_maintain_report report = {0};
  (void)s;
  sdm_log_flush_if_due(l, cfg, now, &report);
}

static void retain_job(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  (void)s;
  sdm_retain_unless_busy(l, cfg, now);
}

static void each_log(sdm_background *b, log_job *job) {
  sdm_store *s = b->store;
  sdm_log **logs;
  size_t count;
  if (sdm_store_log_refs(s, &logs, &count) < 0) return;
  for (size_t i = 0; i < count && !stopping(b); i++) {
    sdm_log_config cfg;
    sdm_log_get_config(logs[i], &cfg);
    if (sdm_log_check(logs[i]) == 0) job(s, logs[i], &cfg, store_now(s));
  }
  sdm_logs_unref(logs, count);
}

static void retain_compacted_job(sdm_store *s, sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  if (cfg->cleanup_policy & SDM_POLICY_COMPACT) retain_job(s, l, cfg, now);
}

/* One round after another: at once where the last one found something, as then there may be more, and after log.cleaner.backoff.ms where it did not. As in Kafka
** it is the cleaner's interval that compacted partitions are retained at. */
static void clean(sdm_background *b, const sdm_options *o) {
  if (b->cleaners && sdm_cleaners_done(b->cleaners)) {
    if (!sdm_cleaners_end(b->cleaners)) b->next_cleaning = sdm_add_sat(sdm_monotonic_ms(), o->cleaner_backoff_ms);
    b->cleaners = NULL;
  }
  if (b->cleaners || !o->cleaner_enable || sdm_monotonic_ms() < b->next_cleaning) return;
  each_log(b, retain_compacted_job);
  b->cleaners = sdm_cleaners_begin(b->store, store_now(b->store), o);
  if (!b->cleaners) b->next_cleaning = sdm_add_sat(sdm_monotonic_ms(), o->cleaner_backoff_ms);
}

/* Topics that other processes made are ours to look after as well. */
static void open_topics(sdm_background *b, uint64_t generation) {
  sdm_store *s = b->store;
  if (generation == b->topics_seen) return;
  if (sdm_store_open_all(s, store_now(s), NULL, NULL) == 0) b->topics_seen = generation;
}

static void begin_service(sdm_background *b, const sdm_options *o) {
  int64_t now = sdm_monotonic_ms();
  b->elected = true;
  b->next_retention = sdm_add_sat(now, o->initial_task_delay_ms);
  b->next_cleaning = sdm_add_sat(now, o->cleaner_backoff_ms);
  b->next_checkpoint = sdm_add_sat(now, o->flush_checkpoint_interval_ms);
}

static bool elect(sdm_background *b, const sdm_options *o) {
  sdm_store *s = b->store;
  if (b->elected) return true;
  if (s->env.fs->lock(s->lock_file, SDM_BYTE_BACKGROUND, SDM_LOCK_EXCLUSIVE, false) < 0) return false;
  begin_service(b, o);
  return true;
}

static void work(sdm_background *b) {
  sdm_store *s = b->store;
  sdm_options o = options_of(s);
  int64_t deleted = 0;
  uint64_t generation = sdm_store_generation(s);
  if (sdm_store_refresh(s) < 0 || !elect(b, &o)) return;       /* in every process, which so lets go of what others have deleted */
  open_topics(b, generation);
  each_log(b, seal_job);
  int64_t flush_interval = o.flush_scheduler_interval_ms < TICK_MAX_MS ? o.flush_scheduler_interval_ms : TICK_MAX_MS;
  if (due(&b->next_flush, flush_interval)) each_log(b, flush_job);
  if (due(&b->next_retention, o.retention_check_interval_ms)) {
    each_log(b, retain_job);
    sdm_store_finish_deletions(s, store_now(s));
    sdm_folders_unlink(s, store_now(s), &deleted);
  }
  clean(b, &o);
  if (due(&b->next_checkpoint, o.flush_checkpoint_interval_ms)) sdm_store_checkpoint(s);
}

static int64_t tick_of(sdm_store *s) {
  int64_t tick = s->env.linger_ms / 2;
  if (tick > TICK_MAX_MS) tick = TICK_MAX_MS;
  return tick < TICK_MIN_MS ? TICK_MIN_MS : tick;
}

static void *run(void *argument) {
  sdm_background *b = argument;
  for (;;) {
    sdm_mutex_lock(&b->lock);
    if (!b->stop) sdm_cond_wait(&b->wake, &b->lock, tick_of(b->store));
    bool stop = b->stop;
    sdm_mutex_unlock(&b->lock);
    if (stop) return NULL;
    work(b);
  }
}

int sdm_background_start(sdm_store *s) {
  sdm_background *b = sdm_calloc(1, sizeof *b);
  if (!b) return sdm_no_memory();
  b->store = s;
  sdm_mutex_init(&b->lock);
  int rc = sdm_cond_init(&b->wake);
  if (rc == 0 && (rc = sdm_thread_start(&b->thread, run, b)) < 0) sdm_cond_destroy(&b->wake);
  if (rc < 0) {
    sdm_mutex_destroy(&b->lock);
    sdm_free(b);
    return rc;
  }
  s->background = b;
  return 0;
}

void sdm_background_stop(sdm_store *s) {
  sdm_background *b = s->background;
  if (!b) return;
  atomic_store(&s->env.stopping, true);    /* a cleaning gives up between two batches */
  sdm_mutex_lock(&b->lock);
  b->stop = true;
  sdm_cond_broadcast(&b->wake);
  sdm_mutex_unlock(&b->lock);
  sdm_thread_join(&b->thread);
  if (b->cleaners) sdm_cleaners_end(b->cleaners);
  sdm_cond_destroy(&b->wake);
  sdm_mutex_destroy(&b->lock);
  sdm_free(b);
  s->background = NULL;
}
