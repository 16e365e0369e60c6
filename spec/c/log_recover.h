/* What the tests of recovery share: how a life of a log ends, and what must hold after any of them. */
#ifndef SPEC_C_LOG_RECOVER_H
#define SPEC_C_LOG_RECOVER_H

#include "log_fixture.h"
#include "test.h"

#define LOG0 "00000000000000000000.log"
enum { RESERVED = 65536 };               /* offsets that the first append reserves beyond its own */

typedef enum ending { DIES, LOSES_POWER, CLOSES, ENDINGS } ending;

static inline void end(fixture *f, ending how) {
  if (how == DIES) fixture_crash(f);
  else if (how == LOSES_POWER) fixture_power_loss(f);
  else CHECK(fixture_close(f));
}

static inline int64_t log_end(fixture *f) {
  int64_t offset = -1;
  CHECK_INT(sdm_log_latest(f->log, &offset), 0);
  return offset;
}

static inline int64_t truncated(fixture *f) { return atomic_load(&f->log->control->truncated_bytes); }
static inline int64_t corrupt(fixture *f) { return atomic_load(&f->log->control->corrupt_batches); }
static inline int64_t active(fixture *f) { return sdm_control_end(f->log->control)->active_base; }

static inline void seal(fixture *f) {
  CHECK_INT(sdm_log_lock(f->log), 0);
  CHECK_INT(sdm_log_seal_locked(f->log, &f->cfg), 0);
  sdm_log_unlock(f->log);
}

static inline void add_batches(fixture *f, uint32_t seed, int n) {
  for (int i = 0; i < n; i++) CHECK_INT(fixture_put_batch(f, seed + 10 * (uint32_t)i, 3, 30, f->now + i), 0);
}

static inline void begin(fixture *f, int batches) {
  fixture_begin(f);
  fixture_open(f);
  add_batches(f, 0, batches);
}

/* After everything: one more life changes nothing and repairs nothing. */
static inline void check_settled(fixture *f) {
  fixture_crash(f);                                   /* what was staged reaches the file */
  fixture_open(f);
  for (int i = 0; i < 2; i++) {
    int64_t before = log_end(f);
    fixture_crash(f);
    uint64_t digest = fixture_digest(f);
    if (!fixture_open(f)) return;
    CHECK(fixture_digest(f) == digest);
    CHECK_INT(truncated(f), 0);
    CHECK_INT(corrupt(f), 0);
    CHECK_INT(log_end(f), before);
    fixture_check_all(f);
  }
  CHECK(fixture_close(f));
  uint64_t digest = fixture_digest(f);
  for (int i = 0; i < 2; i++) {
    fixture_open(f);
    CHECK_INT(truncated(f), 0);
    fixture_check_all(f);
    fixture_power_loss(f);
    CHECK(fixture_digest(f) == digest);
  }
}

#endif
