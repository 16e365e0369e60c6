/* Durability: everything up to the end of the log onto the disk, and the orderly close. */
#include "base/clock.h"
#include "base/mem.h"
#include "log/log.h"
#include "log/offsets.h"
#include "log/producer_snapshot.h"
#include "log/state.h"

/* What there is to sync, collected under the lock and synced without it. */
typedef struct sync_job {
  sdm_segment **segments;
  size_t count;
  int64_t target;                        /* offset that is durable afterwards */
  bool active;                           /* the last of them is the active one */
  bool directory;
} sync_job;

static int collect(sdm_log *l, const sdm_log_config *cfg, sync_job *job) {
  int rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  rc = sdm_log_seal_locked(l, cfg);
  job->target = sdm_control_end(l->control)->sealed_end;
  job->directory = sdm_control_end(l->control)->active_base >= atomic_load(&l->control->durable_end);
  job->active = true;
  sdm_log_unlock(l);
  return rc < 0 ? rc : sdm_log_segment_refs(l, INT64_MAX, &job->segments, &job->count);
}

static int sync_segment(sdm_segment *s, bool closed, bool *lost) {
  int rc = 0;
  for (int k = 0; rc == 0 && k < (closed ? SDM_FILE_KINDS : 1); k++) {
    sdm_file *f;
    rc = sdm_segment_file(s, (sdm_file_kind)k, &f);
    if (rc == 0) *lost = (rc = s->fs->sync(f)) < 0;
    if (rc == SDM_NOT_FOUND) rc = 0;       /* deleted or replaced meanwhile: whoever did it has made the new one durable */
  }
  return rc;
}

/* The first segment with records that are not durable yet. */
static size_t first_to_sync(const sync_job *job, int64_t durable) {
  size_t i = job->count;
  while (i > 1 && job->segments[i - 1]->base_offset > durable) i--;
  return i > 0 ? i - 1 : 0;
}

/* In the order of offsets, so that a loss of power in between leaves no hole. A failed fsync may have lost what it was to save, and the next one would not
** say so: the partition takes no more appends. */
static int sync_all(sdm_log *l, const sync_job *job) {
  bool lost = false;
  int rc = 0;
  for (size_t i = first_to_sync(job, atomic_load(&l->control->durable_end)); rc == 0 && i < job->count; i++) {
    bool last = i + 1 == job->count;
    rc = sync_segment(job->segments[i], !(last && job->active), &lost);
    sdm_segment_rest(job->segments[i]);
  }
  if (rc == 0 && job->directory) rc = l->fs->sync_dir(l->fs, l->dir, &lost);
  if (lost) atomic_store(&l->control->failed, SDM_IO);
  return rc;
}

static void raise_durable(sdm_control *c, int64_t target) {
  int64_t seen = atomic_load(&c->durable_end);
  while (seen < target && !atomic_compare_exchange_weak(&c->durable_end, &seen, target)) {}
  if (atomic_load(&c->log_end) <= target) atomic_store(&c->dirty_since_ms, -1);
}

/* ---- one flush for all who wait for one ---- */

static bool is_durable(sdm_log *l, int64_t offset) { return atomic_load(&l->control->durable_end) >= offset; }

/* Threads of a process share descriptors, and the kernel tells of a failed write once for each: were two of them to sync one at the same time, it might be told to
** the one, and the other be told that all is well. So they take turns, and who comes after a failure is refused. 1: it is on; 0: who was before has done it. */
static int begin_sync(sdm_log *l, int64_t target) {
  sdm_mutex_lock(&l->sync_lock);
  int rc = 0;
  if (!is_durable(l, target) && (rc = sdm_log_check_writable(l)) == 0) return 1;
  sdm_mutex_unlock(&l->sync_lock);
  return rc;
}

static int end_sync(sdm_log *l, sync_job *job, int rc) {
  if (rc == 0) rc = sync_all(l, job);
  if (rc == 0) rc = sdm_log_check_writable(l);         /* another process may have been told meanwhile */
  if (rc == 0) raise_durable(l->control, job->target);
  sdm_mutex_unlock(&l->sync_lock);
  sdm_segments_unref(job->segments, job->count);
  return rc;
}

static int sync_everything(sdm_log *l, const sdm_log_config *cfg, int64_t target) {
  sync_job job = {0};
  int rc = begin_sync(l, target);
  return rc <= 0 ? rc : end_sync(l, &job, collect(l, cfg, &job));
}

/* With `syncing` held. What the others have appended by now becomes durable as well. */
static int lead(sdm_log *l, const sdm_log_config *cfg, int64_t target) {
  sdm_control *c = l->control;
  int rc = sync_everything(l, cfg, target);
  sdm_shared_mutex_unlock(&c->syncing);
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load(&c->sync_awaited) != 0) sdm_log_wake(&c->synced, &c->sync_awaited);
  return rc;
}

/* Somebody flushes, perhaps what was there before ours: then the next to get `syncing` flushes for all that came since. One that was stopped in the middle of
** it holds nobody up for long, and only once: flushes of two processes do no harm. */
static int flush_up_to(sdm_log *l, const sdm_log_config *cfg, int64_t target) {
  enum { LOOK_AGAIN_MS = 10, PATIENCE_MS = 500 };            /* whether who flushed has died, or is stopped */
  int64_t until = sdm_monotonic_ms() + (atomic_load(&l->flusher_stuck) ? LOOK_AGAIN_MS : PATIENCE_MS);
  sdm_control *c = l->control;
  int rc = 0;
  while (rc == 0 && !is_durable(l, target)) {
    bool died;
    int got = sdm_shared_mutex_try(&c->syncing, &died);
    atomic_store(&l->flusher_stuck, got == 0 && (atomic_load(&l->flusher_stuck) || sdm_monotonic_ms() > until));
    if (got != 0) return got < 0 ? got : lead(l, cfg, target);
    if (sdm_monotonic_ms() > until) return sync_everything(l, cfg, target);
    sdm_log_sleep(l, &c->synced, &c->sync_awaited, is_durable, target, LOOK_AGAIN_MS);
    rc = sdm_log_check_writable(l);
  }
  return rc;
}

int sdm_log_flush_to_disk(sdm_log *l, const sdm_log_config *cfg, int64_t now, int64_t *durable) {
  (void)now;
  int rc = sdm_log_check_writable(l);
  if (rc == 0) rc = flush_up_to(l, cfg, atomic_load(&l->control->log_end));
  if (rc == 0) *durable = atomic_load(&l->control->durable_end);
  return sdm_log_explain(l, rc);
}

int sdm_log_flush_closed(sdm_log *l, int64_t below) {
  sync_job job = {.target = below, .directory = true};
  if (is_durable(l, below)) return 0;
  int rc = begin_sync(l, below);
  return rc <= 0 ? rc : end_sync(l, &job, sdm_log_segment_refs(l, below, &job.segments, &job.count));
}

int sdm_log_close_clean(sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  int64_t durable;
  int rc = sdm_log_flush_to_disk(l, cfg, now, &durable);
  if (rc == 0) rc = sdm_producer_snapshot_write(l, durable);
  if (rc < 0) return rc;
  if ((rc = sdm_log_lock(l)) < 0) return rc;
  sdm_control *c = l->control;
  int64_t end = sdm_control_end(c)->sealed_end;
  bool appended = c->state_sequence > 0 && c->clean_end != end;
  rc = sdm_log_sync_locked(l);
  if (rc == 0) rc = sdm_log_trim_locked(l, sdm_control_end(c));        /* as Kafka leaves the file on a clean shutdown */
  if (rc == 0) sdm_log_finish_indexes_locked(l);
  const sdm_end *e = sdm_control_end(c);
  bool indexed = e->max_timestamp <= e->indexed_timestamp;  /* else the next opening had better read it all */
  /* The next append marks the partition as in use again; also when this fails now, or dies, and the mark of the close has reached the file. */
  if (rc == 0) atomic_store(&c->reserved_end, 0);
  if (rc == 0 && appended && indexed && sdm_end_offset(e) == end) rc = sdm_log_state_write_locked(l, end, true);
  sdm_log_unlock(l);
  return rc;
}
