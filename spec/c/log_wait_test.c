/* Waiting for records, in threads and processes; and one flush for all who ask for one at the same time. */
#include "log_fixture.h"

#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { LONG_MS = 30000 };                  /* longer than any test: a wait that ends does so because it was woken */

typedef struct waiter {
  fixture *f;
  sdm_log *log;
  int64_t offset;
  int result;
  pthread_t thread;
} waiter;

static void *wait_for(void *argument) {
  waiter *w = argument;
  w->result = sdm_log_wait(w->log, w->offset, LONG_MS);
  return NULL;
}

/* Until he has said in the page that he waits. */
static void start(waiter *w) {
  atomic_store(&w->log->control->awaited, 0);
  pthread_create(&w->thread, NULL, wait_for, w);
  while (atomic_load(&w->log->control->awaited) == 0) {}
}

TEST(tells_what_is_there_and_what_is_not) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(sdm_log_wait(f.log, 0, 0), 0);
  CHECK_INT(sdm_log_wait(f.log, 0, 1), 0);
  fixture_add(&f, 1);
  CHECK_INT(sdm_log_wait(f.log, 0, 0), 1);
  CHECK_INT(sdm_log_wait(f.log, 0, -1), 1);
  CHECK_INT(sdm_log_wait(f.log, 1, 1), 0);
  fixture_end(&f);
}

TEST(an_append_wakes_all_who_wait) {
  enum { WAITERS = 4 };
  fixture f;
  waiter w[WAITERS];
  sdm_log *other = NULL;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &other), 0);
  for (int round = 0; round < 50; round++) {
    for (int i = 0; i < WAITERS; i++) {
      w[i] = (waiter){.f = &f, .log = i % 2 ? other : f.log, .offset = round};
      start(&w[i]);
    }
    if (round % 2) fixture_add(&f, 1);
    else fixture_put_batch(&f, 1, 1, 10, f.now);
    for (int i = 0; i < WAITERS; i++) {
      pthread_join(w[i].thread, NULL);
      if (!CHECK_INT(w[i].result, 1)) break;
    }
  }
  sdm_log_unref(other);
  fixture_end(&f);
}

TEST(who_waits_is_told_that_the_store_is_closed_or_the_topic_gone) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  waiter w = {.f = &f, .log = f.log};
  start(&w);
  atomic_store(&f.log->control->deleted, SDM_GONE_DELETED);
  sdm_log_wake(&f.log->control->news, &f.log->control->awaited);
  pthread_join(w.thread, NULL);
  CHECK_INT(w.result, SDM_UNKNOWN_TOPIC);
  atomic_store(&f.log->control->deleted, SDM_GONE_NOT);
  start(&w);
  atomic_store(&f.log->closed, true);
  pthread_join(w.thread, NULL);
  CHECK_INT(w.result, SDM_CLOSED);
  atomic_store(&f.log->closed, false);
  fixture_end(&f);
}

/* ---- for any of several ---- */

typedef struct any_waiter {
  sdm_awaited of[3];
  size_t count;
  int result;
} any_waiter;

static void *wait_for_any(void *argument) {
  any_waiter *w = argument;
  w->result = sdm_logs_wait(w->of, w->count, LONG_MS);
  return NULL;
}

/* Until he has said so in every page, since the last one is written last. */
static pthread_t start_any(any_waiter *w) {
  pthread_t thread;
  for (size_t i = 0; i < w->count; i++) atomic_store(&w->of[i].log->control->awaited, 0);
  pthread_create(&thread, NULL, wait_for_any, w);
  while (atomic_load(&w->of[w->count - 1].log->control->awaited) == 0) {}
  return thread;
}

TEST(an_append_to_any_of_several_logs_ends_the_wait_for_them) {
  fixture f[3];
  any_waiter w = {.count = 3};
  for (int i = 0; i < 3; i++) {
    fixture_begin(&f[i]);
    fixture_open(&f[i]);
    w.of[i] = (sdm_awaited){f[i].log, 0};
  }
  CHECK_INT(sdm_logs_wait(w.of, 3, 0), 0);
  CHECK_INT(sdm_logs_wait(w.of, 3, 1), 0);
  for (int round = 0; round < 60; round++) {
    pthread_t thread = start_any(&w);
    fixture_add(&f[round % 3], 1);
    pthread_join(thread, NULL);
    if (!CHECK_INT(w.result, 1)) break;
    CHECK_INT(sdm_logs_wait(w.of, 3, -1), 1);
    w.of[round % 3].offset++;
  }
  CHECK_INT(sdm_logs_wait(w.of, 3, 0), 0);
  for (int i = 0; i < 3; i++) fixture_end(&f[i]);
}

TEST(what_befalls_any_of_several_logs_ends_the_wait_for_them) {
  fixture f[2];
  for (int i = 0; i < 2; i++) {
    fixture_begin(&f[i]);
    fixture_open(&f[i]);
  }
  any_waiter w = {.of = {{f[0].log, 0}, {f[1].log, 0}}, .count = 2};
  pthread_t thread = start_any(&w);
  atomic_store(&f[1].log->control->deleted, SDM_GONE_DELETED);
  sdm_log_wake(&f[1].log->control->news, &f[1].log->control->awaited);
  pthread_join(thread, NULL);
  CHECK_INT(w.result, SDM_UNKNOWN_TOPIC);
  atomic_store(&f[1].log->control->deleted, SDM_GONE_NOT);
  for (int i = 0; i < 2; i++) fixture_end(&f[i]);
}

/* More than the kernel waits for at once, and one that can only be looked at. */
TEST(no_number_of_logs_is_too_large_to_wait_for) {
  enum { MANY = SDM_FUTEXES_MAX + 2 };
  static sdm_awaited of[MANY];
  fixture f;
  sdm_log *bare;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(sdm_log_open_bare(f.dir, &bare), 0);
  for (int i = 0; i < MANY; i++) of[i] = (sdm_awaited){i == 1 ? bare : f.log, i == MANY - 1 ? 0 : 1};
  CHECK_INT(sdm_logs_wait(of, MANY, 1), 0);
  CHECK_INT(sdm_logs_wait(of, 2, 1), 0);
  CHECK_INT(sdm_logs_wait(of, 0, 1), 0);
  fixture_add(&f, 1);
  CHECK_INT(sdm_logs_wait(of, MANY, 0), 1);
  CHECK_INT(sdm_logs_wait(of, 2, 1), 0);
  sdm_log_release(bare);
  fixture_end(&f);
}

static void note_signal(int number) { (void)number; }

TEST(a_signal_ends_a_wait) {
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  signal(SIGUSR1, note_signal);
  waiter w = {.f = &f, .log = f.log, .result = 1};
  for (int tries = 0; tries < 1000 && w.result != SDM_INTERRUPTED; tries++) {      /* one that comes before the sleep is none of ours */
    start(&w);
    usleep(1000);
    pthread_kill(w.thread, SIGUSR1);
    fixture_add(&f, 1);
    pthread_join(w.thread, NULL);
    w.offset++;
  }
  CHECK_INT(w.result, SDM_INTERRUPTED);
  signal(SIGUSR1, SIG_DFL);
  fixture_end(&f);
}

/* In this mode the kernel kills a thread at any system call but read, write and exit. */
TEST(to_ask_for_news_is_no_system_call) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  fixture f;
  fixture_begin(&f);
  fixture_open(&f);
  fixture_add(&f, 1);
  pid_t child = fork();
  if (child == 0) {
    int64_t end = 0;
    f.log->fork_count = sdm_fork_count();
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(2);
    for (int i = 0; i < 1000 && sdm_log_latest(f.log, &end) == 0 && sdm_log_wait(f.log, 0, -1) == 1; i++) {}
    syscall(SYS_exit, end == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_INT(status, 0);
  fixture_end(&f);
#endif
}

/* ---- reading on ---- */

TEST(a_reader_goes_on_with_what_comes) {
  fixture f;
  sdm_reader *r;
  sdm_record record;
  fixture_begin(&f);
  f.cfg.segment_bytes = 600;
  fixture_open(&f);
  CHECK_INT(sdm_reader_open(f.log, 0, 100, 0, &r), 0);
  for (int64_t offset = 0; offset < 100; offset++) {
    if (offset % 3 == 0) {
      CHECK_INT(sdm_reader_next(r, &record), 0);
      CHECK_INT(sdm_reader_wait(r, 0), 0);
      for (int i = 0; i < 3; i++) fixture_add(&f, (uint32_t)offset);
      CHECK_INT(sdm_reader_wait(r, 0), 1);
    }
    if (offset % 7 == 0) CHECK_INT(sdm_log_flush(f.log, f.now, &(int64_t){0}), 0);
    if (!CHECK_INT(sdm_reader_next(r, &record), 1) || !CHECK_INT(record.offset, offset)) break;
  }
  CHECK_INT(sdm_reader_next(r, &record), 0);
  CHECK_INT(sdm_reader_wait(r, LONG_MS), SDM_ENDED);
  sdm_reader_close(r);
  fixture_end(&f);
}

/* ---- one flush for all ---- */

enum { WRITERS = 16 };
static atomic_int syncs;
static sdm_log *flushed;

/* The first flush lasts until all others have appended, and wait for it. */
static int slow_sync(sdm_file *f) {
  (void)f;
  if (atomic_fetch_add(&syncs, 1) > 0) return 0;
  while (atomic_load(&flushed->control->log_end) < WRITERS) {}
  return 0;
}

static void *append_durably(void *argument) {
  waiter *w = argument;
  sdm_buf scratch = SDM_BUF_INIT;
  sdm_record r = {.timestamp = w->f->now, .key = "k", .key_size = 1, .value = "v", .value_size = 1};
  sdm_append a = {.records = &r, .count = 1, .flags = SDM_SYNC, .scratch = &scratch};
  int64_t last;
  w->result = sdm_log_append(w->log, &w->f->cfg, &a, w->f->now, &w->offset, &last);
  if (w->result == 0 && atomic_load(&w->log->control->durable_end) <= w->offset) w->result = -1;
  sdm_buf_free(&scratch);
  return NULL;
}

TEST(one_flush_is_for_all_who_wait) {
  fixture f;
  waiter w[WRITERS];
  fixture_begin(&f);
  f.fs.sync = slow_sync;
  fixture_open(&f);
  atomic_store(&syncs, 1);
  fixture_add(&f, 1);                      /* reserves offsets */
  flushed = f.log;
  atomic_store(&syncs, 0);
  for (int i = 0; i < WRITERS; i++) {
    w[i] = (waiter){.f = &f, .log = f.log};
    pthread_create(&w[i].thread, NULL, append_durably, &w[i]);
  }
  for (int i = 0; i < WRITERS; i++) {
    pthread_join(w[i].thread, NULL);
    CHECK_INT(w[i].result, 0);
  }
  CHECK(atomic_load(&syncs) >= 1);
  CHECK(atomic_load(&syncs) <= 3);
  fixture_end(&f);
}

/* Who flushes dies: the others do not wait for him. */
TEST(the_death_of_who_flushes_holds_nobody_up) {
  fixture f;
  int64_t durable = 0;
  fixture_begin(&f);
  fixture_open(&f);
  fixture_add(&f, 1);
  pid_t child = fork();
  if (child == 0) {
    bool died;
    _exit(sdm_shared_mutex_try(&f.log->control->syncing, &died) == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_INT(status, 0);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
  CHECK_INT(durable, 1);
  fixture_end(&f);
}

TEST(a_flush_that_fails_fails_for_each) {
  fixture f;
  waiter w[WRITERS];
  fixture_begin(&f);
  fixture_open(&f);
  fixture_add(&f, 1);
  fixture_faults.sync_code = SDM_IO;
  fixture_faults.only = ".log";
  for (int i = 0; i < WRITERS; i++) {
    w[i] = (waiter){.f = &f, .log = f.log};
    pthread_create(&w[i].thread, NULL, append_durably, &w[i]);
  }
  for (int i = 0; i < WRITERS; i++) {
    pthread_join(w[i].thread, NULL);
    CHECK_INT(w[i].result, SDM_IO);
  }
  fixture_faults.sync_code = 0;
  fixture_end(&f);
}

/* Who flushes is stopped, and not dead: the others flush for themselves. */
TEST(a_stopped_flush_holds_nobody_up_for_long) {
  fixture f;
  bool died;
  int64_t durable = 0;
  fixture_begin(&f);
  fixture_open(&f);
  fixture_add(&f, 1);
  CHECK_INT(sdm_shared_mutex_try(&f.log->control->syncing, &died), 1);
  CHECK_INT(sdm_log_flush(f.log, f.now, &durable), 0);
  CHECK_INT(durable, 1);
  sdm_shared_mutex_unlock(&f.log->control->syncing);
  fixture_end(&f);
}

/* As the kernel does where descriptors are shared: a failure is told to one of those who sync, and the other hears that all is well. */
static atomic_int in_sync;
static atomic_bool told;

static int sync_shared(sdm_file *f) {
  if (!strstr(f->path, ".log")) return 0;
  atomic_fetch_add(&in_sync, 1);
  for (int i = 0; i < 2000; i++) sched_yield();
  bool first = !atomic_exchange(&told, true);
  for (int i = 0; i < 2000 && atomic_load(&in_sync) > 1; i++) sched_yield();
  atomic_fetch_sub(&in_sync, 1);
  return first ? sdm_fail(SDM_IO, "sync %s: injected", f->path) : 0;
}

TEST(a_failure_that_is_told_once_is_everybodys) {
  fixture f;
  waiter w[4];
  bool died;
  fixture_begin(&f);
  fixture_open(&f);
  fixture_add(&f, 1);
  CHECK_INT(sdm_shared_mutex_try(&f.log->control->syncing, &died), 1);       /* so that all run out of patience and flush for themselves */
  f.fs.sync = sync_shared;
  atomic_store(&told, false);
  for (int i = 0; i < 4; i++) {
    w[i] = (waiter){.f = &f, .log = f.log};
    pthread_create(&w[i].thread, NULL, append_durably, &w[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(w[i].thread, NULL);
    CHECK_INT(w[i].result, SDM_IO);
  }
  CHECK_INT(atomic_load(&f.log->control->durable_end), 0);
  sdm_shared_mutex_unlock(&f.log->control->syncing);
  fixture_end(&f);
}
