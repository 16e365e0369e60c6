/* Threads and locks: those of one process (sdm_mutex), and the robust mutex that processes share through mapped memory. */
#ifndef SDM_OS_THREAD_H
#define SDM_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sdm_mutex { pthread_mutex_t m; } sdm_mutex;
typedef struct sdm_cond { pthread_cond_t c; } sdm_cond;      /* waits by the monotonic clock */
typedef struct sdm_thread { pthread_t t; } sdm_thread;

#define SDM_MUTEX_INIT { PTHREAD_MUTEX_INITIALIZER }

void sdm_mutex_init(sdm_mutex *m);
void sdm_mutex_destroy(sdm_mutex *m);
void sdm_mutex_lock(sdm_mutex *m);
void sdm_mutex_unlock(sdm_mutex *m);

int sdm_cond_init(sdm_cond *c);
void sdm_cond_destroy(sdm_cond *c);
void sdm_cond_wait(sdm_cond *c, sdm_mutex *m, int64_t timeout_ms);
void sdm_cond_broadcast(sdm_cond *c);

/* Starts a thread with every signal blocked, so that it never runs a handler of the host program. */
int sdm_thread_start(sdm_thread *t, void *(*run)(void *), void *argument);
void sdm_thread_join(sdm_thread *t);
void sdm_sleep(double seconds);

/* A mutex in shared memory. When its owner died, the next to lock it is told: what it guards may be half-changed. */
typedef struct sdm_shared_mutex { pthread_mutex_t m; } sdm_shared_mutex;

int sdm_shared_mutex_init(sdm_shared_mutex *m);
int sdm_shared_mutex_lock(sdm_shared_mutex *m, bool *owner_died);
int sdm_shared_mutex_try(sdm_shared_mutex *m, bool *owner_died);      /* 1: it is ours; 0: somebody has it */
void sdm_shared_mutex_unlock(sdm_shared_mutex *m);

/* Waiting for a word in shared memory to change from `seen`; returns at a wake-up, after the timeout (negative: none), or for no reason. false: a signal handler
** ran meanwhile. */
bool sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms);
void sdm_futex_wake_all(uint32_t *word);

/* The same for several words: until one of them changes. Where the kernel cannot do that (before Linux 5.16), and beyond SDM_FUTEXES_MAX, it waits for a
** moment. */
typedef struct sdm_futex {
  uint32_t *word, seen;
} sdm_futex;

enum { SDM_FUTEXES_MAX = 128, SDM_FUTEX_POLL_MS = 5 };

bool sdm_futex_wait_any(const sdm_futex *of, size_t count, int64_t timeout_ms);

#endif
