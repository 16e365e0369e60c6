#include "kills/slot.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

herd *the_herd;
slot *me;

int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void *share(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) return p;
  perror("shared memory");
  exit(2);
}

void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns) {
  struct timespec t = {timeout_ns / 1000000000, timeout_ns % 1000000000};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ns < 0 ? NULL : &t, NULL, 0);
}

int futex_wait_for_either(_Atomic uint32_t *a, uint32_t seen_a, _Atomic uint32_t *b, uint32_t seen_b) {
#ifdef SYS_futex_waitv
  struct futex_waitv words[] = {{.val = seen_a, .uaddr = (uintptr_t)a, .flags = FUTEX_32}, {.val = seen_b, .uaddr = (uintptr_t)b, .flags = FUTEX_32}};
  if (syscall(SYS_futex_waitv, words, 2, 0, NULL, 0) >= 0 || errno == EAGAIN) return 1;
  return errno == EINTR ? 0 : -1;
#else
  (void)a, (void)seen_a, (void)b, (void)seen_b;
  return -1;
#endif
}

void futex_wake(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

void tell_news(void) {
  atomic_fetch_add(&the_herd->news, 1);
  futex_wake(&the_herd->news);
}

void add_progress(uint64_t n) {
  uint64_t now = atomic_fetch_add(&me->progress, n) + n;
  if (now < atomic_load(&me->goal)) return;
  atomic_store(&me->goal, UINT64_MAX);
  atomic_store(&me->goal_ns, now_ns());
  tell_news();
}

_Noreturn void wrong(const char *format, ...) {
  va_list args;
  uint32_t none = 0;
  if (atomic_compare_exchange_strong(&the_herd->failed, &none, 1)) {
    char *text = the_herd->failure;
    size_t room = sizeof the_herd->failure;
    int n = me ? snprintf(text, room, "%s %d: ", role_name(me->role), (int)(me - the_herd->slots)) : 0;
    va_start(args, format);
    vsnprintf(text + n, room - (size_t)n, format, args);
    va_end(args);
    atomic_store(&the_herd->failed, 2);
    tell_news();
  }
  _exit(1);
}

const char *role_name(slot_role role) {
  static const char *const names[] = {"writer", "reader", "cleaner", "keeper", "follower", "copier", "verifier", "orphan"};
  return names[role];
}
