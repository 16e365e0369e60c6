#include "os/thread.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

void sdm_mutex_init(sdm_mutex *m) { pthread_mutex_init(&m->m, NULL); }
void sdm_mutex_destroy(sdm_mutex *m) { pthread_mutex_destroy(&m->m); }
void sdm_mutex_lock(sdm_mutex *m) { pthread_mutex_lock(&m->m); }
void sdm_mutex_unlock(sdm_mutex *m) { pthread_mutex_unlock(&m->m); }

int sdm_cond_init(sdm_cond *c) {
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  int error = pthread_cond_init(&c->c, &a);
  pthread_condattr_destroy(&a);
  return error == 0 ? 0 : sdm_fail_errno(error, "create a condition variable");
}

void sdm_cond_destroy(sdm_cond *c) { pthread_cond_destroy(&c->c); }
void sdm_cond_broadcast(sdm_cond *c) { pthread_cond_broadcast(&c->c); }

static struct timespec after(clockid_t clock, int64_t ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  t.tv_sec += (time_t)(ms / 1000);
  t.tv_nsec += (long)(ms % 1000) * 1000000;
  if (t.tv_nsec >= 1000000000) {
    t.tv_sec++;
    t.tv_nsec -= 1000000000;
  }
  return t;
}

void sdm_cond_wait(sdm_cond *c, sdm_mutex *m, int64_t timeout_ms) {
  struct timespec until = after(CLOCK_MONOTONIC, timeout_ms);
  pthread_cond_timedwait(&c->c, &m->m, &until);
}

int sdm_thread_start(sdm_thread *t, void *(*run)(void *), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&t->t, NULL, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return error == 0 ? 0 : sdm_fail_errno(error, "start a thread");
}

void sdm_thread_join(sdm_thread *t) { pthread_join(t->t, NULL); }

void sdm_sleep(double seconds) {
  time_t whole = (time_t)seconds;
  nanosleep(&(struct timespec){.tv_sec = whole, .tv_nsec = (long)((seconds - (double)whole) * 1e9)}, NULL);
}

int sdm_shared_mutex_init(sdm_shared_mutex *m) {
  pthread_mutexattr_t a;
  memset(m, 0, sizeof *m);
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  int error = pthread_mutex_init(&m->m, &a);
  pthread_mutexattr_destroy(&a);
  return error == 0 ? 0 : sdm_fail_errno(error, "create a shared lock");
}

/* A robust mutex that is free can leave those who wait for it asleep: one was woken, and died before he had it; somebody else had been quicker, did not know of
** others who wait, and woke nobody. So who waits looks again now and then. He takes it when it is free or its owner is dead, however long that is.
*/
static int lock_in_the_end(pthread_mutex_t *m) {
  enum { LOOK_AGAIN_MS = 10 };
  int error = pthread_mutex_trylock(m);
  while (error == EBUSY || error == ETIMEDOUT) {
    struct timespec until = after(CLOCK_REALTIME, LOOK_AGAIN_MS);
    error = pthread_mutex_timedlock(m, &until);
  }
  return error;
}

static int take_over(pthread_mutex_t *m, int error, bool *owner_died) {
  *owner_died = error == EOWNERDEAD;
  if (error == EOWNERDEAD) error = pthread_mutex_consistent(m);
  if (error == 0) return 0;
  return sdm_fail(SDM_IO, "a shared lock failed (%s); close the store in every process and open it again", strerror(error));
}

int sdm_shared_mutex_lock(sdm_shared_mutex *m, bool *owner_died) { return take_over(&m->m, lock_in_the_end(&m->m), owner_died); }

int sdm_shared_mutex_try(sdm_shared_mutex *m, bool *owner_died) {
  int error = pthread_mutex_trylock(&m->m);
  if (error == EBUSY) return 0;
  int rc = take_over(&m->m, error, owner_died);
  return rc < 0 ? rc : 1;
}

void sdm_shared_mutex_unlock(sdm_shared_mutex *m) { pthread_mutex_unlock(&m->m); }

bool sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms) {
  struct timespec t = {(time_t)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000};
  return syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ms < 0 ? NULL : &t, NULL, 0) == 0 || errno != EINTR;
}

void sdm_futex_wake_all(uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static bool wait_for_a_moment(int64_t timeout_ms) {
  uint32_t nobody = 0;
  return sdm_futex_wait(&nobody, 0, timeout_ms < 0 || timeout_ms > SDM_FUTEX_POLL_MS ? SDM_FUTEX_POLL_MS : timeout_ms);
}

#ifdef SYS_futex_waitv
/* 0, or the error. The timeout is a time of the clock here. */
static int wait_on_all(const sdm_futex *of, size_t count, int64_t timeout_ms) {
  struct futex_waitv waiters[SDM_FUTEXES_MAX];
  struct timespec until = after(CLOCK_MONOTONIC, timeout_ms < 0 ? 0 : timeout_ms);
  for (size_t i = 0; i < count; i++) waiters[i] = (struct futex_waitv){.val = of[i].seen, .uaddr = (uintptr_t)of[i].word, .flags = FUTEX_32};
  return syscall(SYS_futex_waitv, waiters, count, 0, timeout_ms < 0 ? NULL : &until, CLOCK_MONOTONIC) < 0 ? errno : 0;
}
#else
static int wait_on_all(const sdm_futex *of, size_t count, int64_t timeout_ms) {
  (void)of, (void)count, (void)timeout_ms;
  return ENOSYS;
}
#endif

bool sdm_futex_wait_any(const sdm_futex *of, size_t count, int64_t timeout_ms) {
  if (count == 1) return sdm_futex_wait(of->word, of->seen, timeout_ms);
  int error = count > 0 && count <= SDM_FUTEXES_MAX ? wait_on_all(of, count, timeout_ms) : ENOSYS;
  if (error == 0 || error == EAGAIN || error == ETIMEDOUT) return true;
  return error != EINTR && wait_for_a_moment(timeout_ms);
}
