/* The lock that processes share, when processes die; and waiting for several words. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/thread.h"
#include "test.h"

typedef struct shared {
  sdm_shared_mutex lock;
  _Atomic int locking;                     /* processes that are about to lock */
} shared;

static shared *begin(void) {
  shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED || sdm_shared_mutex_init(&s->lock) < 0) abort();
  return s;
}

static void stay_on_this_processor(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);
}

static bool sleeps(pid_t pid) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (f) {
    if (fscanf(f, "%*d %*s %c", &state) != 1) state = 0;
    fclose(f);
  }
  return state == 'S';
}

/* A process that takes the lock, gives it back and ends; it waits for the lock when this returns. `idle`: it runs when nobody else wants the processor. */
static pid_t start_waiter(shared *s, bool idle) {
  int before = atomic_load(&s->locking);
  pid_t pid = fork();
  if (pid < 0) abort();
  if (pid == 0) {
    bool died;
    if (idle) sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    alarm(20);
    atomic_fetch_add(&s->locking, 1);
    if (sdm_shared_mutex_lock(&s->lock, &died) < 0) _exit(1);
    sdm_shared_mutex_unlock(&s->lock);
    _exit(0);
  }
  while (atomic_load(&s->locking) == before || !sleeps(pid)) sched_yield();
  return pid;
}

static int end_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void lock(shared *s, bool *died) { CHECK_INT(sdm_shared_mutex_lock(&s->lock, died), 0); }

TEST(an_owner_that_dies_leaves_it_to_the_next_who_is_told) {
  shared *s = begin();
  bool died;
  pid_t pid = fork();
  if (pid == 0) {
    if (sdm_shared_mutex_lock(&s->lock, &died) < 0 || died) _exit(1);
    kill(getpid(), SIGKILL);
  }
  CHECK_INT(end_of(pid), -SIGKILL);
  lock(s, &died);
  CHECK(died);
  sdm_shared_mutex_unlock(&s->lock);
  lock(s, &died);
  CHECK(!died);
  sdm_shared_mutex_unlock(&s->lock);
  munmap(s, sizeof *s);
}

/* One who waits is woken, and dies before he has the lock, for somebody else was quicker. When that one gives it back he knows of nobody who waits, and
** nobody wakes the next.
*/
TEST(a_waiter_that_dies_as_it_is_woken_does_not_leave_the_next_one_asleep) {
  stay_on_this_processor();
  for (int i = 0; i < 20; i++) {
    shared *s = begin();
    bool died;
    lock(s, &died);
    pid_t first = start_waiter(s, true), second = start_waiter(s, false);
    sdm_shared_mutex_unlock(&s->lock);
    lock(s, &died);
    kill(first, SIGKILL);
    end_of(first);
    sdm_shared_mutex_unlock(&s->lock);
    bool served = CHECK_INT(end_of(second), 0);
    munmap(s, sizeof *s);
    if (!served) return;
  }
}

/* However long: there is nothing to wait for but time, in which nothing may happen. */
TEST(an_owner_that_is_slow_keeps_it) {
  shared *s = begin();
  bool died;
  lock(s, &died);
  pid_t waiter = start_waiter(s, false);
  for (int i = 0; i < 10; i++) sdm_futex_wait(&(uint32_t){0}, 0, 10);
  CHECK_INT(waitpid(waiter, NULL, WNOHANG), 0);
  sdm_shared_mutex_unlock(&s->lock);
  CHECK_INT(end_of(waiter), 0);
  munmap(s, sizeof *s);
}

/* ---- futexes ---- */

static void *wait_without_end(void *words) {
  uint32_t *w = words;
  sdm_futex of[] = {{&w[0], 0}, {&w[1], 0}, {&w[2], 0}};
  while (__atomic_load_n(&w[2], __ATOMIC_SEQ_CST) == 0) sdm_futex_wait_any(of, 3, -1);
  return NULL;
}

/* There is no timeout that could end it. */
TEST(a_wait_for_several_words_ends_when_one_of_them_is_woken) {
  for (int i = 0; i < 200; i++) {
    uint32_t words[3] = {0};
    pthread_t waiter;
    pthread_create(&waiter, NULL, wait_without_end, words);
    if (i % 2) sdm_sleep(0.001);
    __atomic_store_n(&words[2], 1, __ATOMIC_SEQ_CST);
    sdm_futex_wake_all(&words[2]);
    pthread_join(waiter, NULL);
  }
  CHECK(sdm_futex_wait_any(&(sdm_futex){&(uint32_t){1}, 0}, 1, -1));
}
