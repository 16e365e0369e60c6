/* Waiting: for records, and for a flush that somebody else does.
**
** Who waits says so in the page, looks once more whether what he waits for has come, and sleeps on a word of the page, which moves with it. Who brings it asks
** whether anybody has said so: one load, and nothing else where nobody has. A process that dies as it waits costs one wake-up; one that dies between what it
** brings and the wake-up costs the others a slice of time.
*/
#include "base/clock.h"
#include "log/log.h"

enum { SLICE_MS = 50 };                    /* the longest sleep */
enum { POLL_MS = 5, BARE_POLL_MS = 50 };   /* of those who cannot say that they wait: their page is mapped to be read, or there is none */

void sdm_log_wake(_Atomic uint32_t *word, _Atomic uint32_t *awaited) {
  atomic_store(awaited, 0);
  atomic_fetch_add(word, 1);
  sdm_futex_wake_all((uint32_t *)word);
}

/* What was published must be visible before it is asked who waits. */
void sdm_log_tell_news(sdm_control *c) {
  atomic_thread_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&c->awaited, memory_order_relaxed) != 0) sdm_log_wake(&c->news, &c->awaited);
}

bool sdm_log_sleep(sdm_log *l, _Atomic uint32_t *word, _Atomic uint32_t *awaited, bool (*done)(sdm_log *l, int64_t offset), int64_t offset, int64_t timeout_ms) {
  uint32_t seen = atomic_load(word);
  atomic_store(awaited, 1);
  return done(l, offset) || sdm_futex_wait((uint32_t *)word, seen, timeout_ms < SLICE_MS ? timeout_ms : SLICE_MS);
}

static bool has_more(sdm_log *l, int64_t offset) { return atomic_load(&l->control->log_end) > offset; }

static bool sleep_for_records(sdm_log *l, int64_t offset, int64_t timeout_ms) {
  uint32_t nobody = 0;
  if (l->writable) return sdm_log_sleep(l, &l->control->news, &l->control->awaited, has_more, offset, timeout_ms);
  int64_t poll_ms = l->control ? POLL_MS : BARE_POLL_MS;
  return sdm_futex_wait(&nobody, 0, timeout_ms < poll_ms ? timeout_ms : poll_ms);
}

int sdm_log_wait(sdm_log *l, int64_t offset, int64_t timeout_ms) {
  int64_t end, until = timeout_ms < 0 ? INT64_MAX : sdm_add_sat(sdm_monotonic_ms(), timeout_ms);
  for (;;) {
    int rc = sdm_log_latest(l, &end);
    if (rc < 0 || end > offset) return rc < 0 ? rc : 1;
    int64_t left = until == INT64_MAX ? SLICE_MS : until - sdm_monotonic_ms();
    if (left <= 0) return 0;
    if (!sleep_for_records(l, offset, left)) return SDM_INTERRUPTED;
  }
}
