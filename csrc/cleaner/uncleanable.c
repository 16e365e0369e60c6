#include "cleaner/uncleanable.h"

#include "base/clock.h"

enum { LEAST_MS = 1000, MOST_MS = 3600000, MOST_DOUBLINGS = 12 };

static bool says_nothing(int rc) {
  return rc == SDM_CLOSED || rc == SDM_FORKED || rc == SDM_UNKNOWN_TOPIC || rc == SDM_UNKNOWN_PARTITION || rc == SDM_READONLY;
}

int sdm_cleaning_ended(sdm_log *l, int64_t now, int rc) {
  sdm_control *c = l->control;
  if (!c || says_nothing(rc)) return rc;
  if (rc < 0) {
    atomic_store(&c->clean_failed_ms, now);
    atomic_store(&c->clean_failed_start, atomic_load(&c->log_start));
    atomic_fetch_add(&c->clean_failures, 1);
  } else {
    atomic_store(&c->cleaned_ms, now);
    atomic_store(&c->clean_failures, 0);
  }
  atomic_store(&c->uncleanable, rc < 0 ? rc : 0);
  return rc;
}

int sdm_retention_ended(sdm_log *l, int rc) {
  if (l->control && !says_nothing(rc)) atomic_store(&l->control->retention_failed, rc < 0 ? rc : 0);
  return rc;
}

int sdm_cleaning_failed(const sdm_log *l) { return l->control ? atomic_load(&l->control->uncleanable) : 0; }

bool sdm_cleaning_may_try(sdm_log *l, int64_t now, int64_t backoff_ms) {
  const sdm_control *c = l->control;
  if (!c || atomic_load(&c->uncleanable) == 0) return true;
  if (atomic_load(&c->log_start) != atomic_load(&c->clean_failed_start)) return true;
  int64_t failed = atomic_load(&c->clean_failed_ms), rest = backoff_ms < LEAST_MS ? LEAST_MS : backoff_ms;
  uint32_t failures = atomic_load(&c->clean_failures);
  for (uint32_t i = 1; i < failures && i < MOST_DOUBLINGS && rest < MOST_MS; i++) rest *= 2;
  if (rest > MOST_MS) rest = backoff_ms > MOST_MS ? backoff_ms : MOST_MS;
  return failed > now || sdm_sub_sat(now, failed) >= rest;       /* the clock stepped back: it is asked anew */
}
