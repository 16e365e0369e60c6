#include "store/flusher.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

/* One log's flushes are numbered. A ticket is the number of the first one that begins after it was asked for, and so covers what was appended before. */
typedef struct job {
  sdm_log *log;                            /* a reference */
  int64_t now;
  uint64_t asked, begun, done;
  sdm_failure failure;                     /* of the flush that was done last; code 0: it went */
} job;

struct sdm_flusher {
  sdm_thread thread;
  sdm_mutex lock;                          /* guards what follows */
  sdm_cond wake;
  bool stop;
  job **jobs;
  size_t count, capacity;
};

static job *find(sdm_flusher *f, const sdm_log *l) {
  for (size_t i = 0; i < f->count; i++) {
    if (f->jobs[i]->log == l) return f->jobs[i];
  }
  return NULL;
}

static job *next_job(sdm_flusher *f) {
  for (size_t i = 0; i < f->count; i++) {
    if (f->jobs[i]->asked > f->jobs[i]->begun) return f->jobs[i];
  }
  return NULL;
}

/* The job stays where it is: only who holds the lock, while nothing of it is under way, takes one away. */
static void run_job(sdm_flusher *f, job *j) {
  int64_t durable, now = j->now;
  sdm_failure failure = {0};
  j->begun++;
  sdm_mutex_unlock(&f->lock);
  sdm_failure_note(&failure, sdm_log_flush(j->log, now, &durable));
  sdm_mutex_lock(&f->lock);
  j->done = j->begun;
  sdm_cond_broadcast(&f->wake);
  j->failure = failure;
}

static void *run(void *argument) {
  enum { IDLE_MS = 60000 };
  sdm_flusher *f = argument;
  sdm_mutex_lock(&f->lock);
  for (;;) {
    job *j = next_job(f);
    if (j) run_job(f, j);
    else if (f->stop) break;
    else sdm_cond_wait(&f->wake, &f->lock, IDLE_MS);
  }
  sdm_mutex_unlock(&f->lock);
  return NULL;
}

int sdm_flusher_start(sdm_flusher **out) {
  sdm_flusher *f = sdm_calloc(1, sizeof *f);
  if (!f) return sdm_no_memory();
  sdm_mutex_init(&f->lock);
  int rc = sdm_cond_init(&f->wake);
  if (rc == 0 && (rc = sdm_thread_start(&f->thread, run, f)) < 0) sdm_cond_destroy(&f->wake);
  if (rc < 0) {
    sdm_mutex_destroy(&f->lock);
    sdm_free(f);
    return rc;
  }
  *out = f;
  return 0;
}

static void remove_job(sdm_flusher *f, size_t i) {
  sdm_log_unref(f->jobs[i]->log);
  sdm_free(f->jobs[i]);
  f->jobs[i] = f->jobs[--f->count];
}

void sdm_flusher_stop(sdm_flusher *f) {
  if (!f) return;
  sdm_mutex_lock(&f->lock);
  f->stop = true;
  sdm_cond_broadcast(&f->wake);
  sdm_mutex_unlock(&f->lock);
  sdm_thread_join(&f->thread);
  while (f->count > 0) remove_job(f, f->count - 1);
  sdm_free(f->jobs);
  sdm_cond_destroy(&f->wake);
  sdm_mutex_destroy(&f->lock);
  sdm_free(f);
}

/* Logs of deleted topics are let go of. */
static void sweep(sdm_flusher *f, const sdm_log *but) {
  for (size_t i = f->count; i-- > 0;) {
    job *j = f->jobs[i];
    if (j->log != but && j->done == j->asked && sdm_log_check(j->log) < 0) remove_job(f, i);
  }
}

static int add_job(sdm_flusher *f, sdm_log *l, job **out) {
  job **jobs = sdm_grown(f->jobs, f->count, &f->capacity, sizeof *jobs);
  if (!jobs) return sdm_no_memory();
  f->jobs = jobs;
  if (!(*out = sdm_calloc(1, sizeof **out))) return sdm_no_memory();
  (*out)->log = sdm_log_ref(l);
  f->jobs[f->count++] = *out;
  return 0;
}

int sdm_flusher_begin(sdm_flusher *f, sdm_log *l, int64_t now, uint64_t *ticket) {
  sdm_mutex_lock(&f->lock);
  job *j = find(f, l);
  int rc = 0;
  if (!j) {
    sweep(f, l);
    rc = add_job(f, l, &j);
  }
  if (rc == 0) {
    j->now = now;
    j->asked = *ticket = j->begun + 1;
    sdm_cond_broadcast(&f->wake);
  }
  sdm_mutex_unlock(&f->lock);
  return rc;
}

/* The job may go while the lock is not held. */
static const job *undone(sdm_flusher *f, const sdm_log *l, uint64_t ticket, const job **out) {
  *out = find(f, l);
  return *out && (*out)->done < ticket ? *out : NULL;
}

int sdm_flusher_wait(sdm_flusher *f, const sdm_log *l, uint64_t ticket, int64_t timeout_ms) {
  sdm_failure failure = {0};
  const job *j;
  int64_t until = sdm_monotonic_ms() + timeout_ms, left = timeout_ms;
  sdm_mutex_lock(&f->lock);
  for (; undone(f, l, ticket, &j) && left > 0; left = until - sdm_monotonic_ms()) sdm_cond_wait(&f->wake, &f->lock, left);
  bool done = !j || j->done >= ticket;
  if (j && done) failure = j->failure;
  sdm_mutex_unlock(&f->lock);
  return failure.code < 0 ? sdm_failure_tell(&failure) : done;
}
