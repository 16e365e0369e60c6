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

/* 1: one of them has; 0: none; or a failure. */
static int has_more(const sdm_awaited *of, size_t count) {
  int64_t end;
  for (size_t i = 0; i < count; i++) {
    int rc = sdm_log_latest(of[i].log, &end);
    if (rc < 0 || end > of[i].offset) return rc < 0 ? rc : 1;
  }
  return 0;
}

static int64_t longest_sleep(const sdm_log *l) { return l->writable ? SLICE_MS : l->control ? POLL_MS : BARE_POLL_MS; }

/* Says in the page that somebody waits; what it was before is for the sleep. */
static sdm_futex announce(sdm_log *l) {
  sdm_futex f = {(uint32_t *)&l->control->news, atomic_load(&l->control->news)};
  atomic_store(&l->control->awaited, 1);
  return f;
}

/* Those whose pages cannot be waited on are looked at again soon. */
static bool sleep_for_records(const sdm_awaited *of, size_t count, int64_t timeout_ms) {
  sdm_futex futexes[SDM_FUTEXES_MAX];
  size_t waits = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t longest = longest_sleep(of[i].log);
    if (of[i].log->writable && waits < SDM_FUTEXES_MAX) futexes[waits++] = announce(of[i].log);
    else if (of[i].log->writable) longest = POLL_MS;
    if (timeout_ms > longest) timeout_ms = longest;
  }
  if (waits > 0 && has_more(of, count) != 0) return true;
  uint32_t nobody = 0;
  return waits > 0 ? sdm_futex_wait_any(futexes, waits, timeout_ms) : sdm_futex_wait(&nobody, 0, timeout_ms);
}

int sdm_logs_wait(const sdm_awaited *of, size_t count, int64_t timeout_ms) {
  int64_t until = timeout_ms < 0 ? INT64_MAX : sdm_add_sat(sdm_monotonic_ms(), timeout_ms);
  for (;;) {
    int rc = has_more(of, count);
    if (rc != 0) return rc;
    int64_t left = until == INT64_MAX ? SLICE_MS : until - sdm_monotonic_ms();
    if (left <= 0) return 0;
    if (!sleep_for_records(of, count, left)) return SDM_INTERRUPTED;
  }
}

int sdm_log_wait(sdm_log *l, int64_t offset, int64_t timeout_ms) { return sdm_logs_wait(&(sdm_awaited){l, offset}, 1, timeout_ms); }
