/* Flushes in a thread: each ticket comes true, for any number of threads that ask and look; failures are told; a stop loses none. */
#include "log_fixture.h"

#include <pthread.h>
#include <sched.h>

#include "store/flusher.h"
#include "test.h"

enum { ASKERS = 4, ROUNDS = 100 };

typedef struct asker {
  fixture *f;
  sdm_flusher *flusher;
  int wrong;
  pthread_t thread;
} asker;

static int append(fixture *f, int64_t *offset) {
  sdm_buf scratch = SDM_BUF_INIT;
  int64_t last;
  sdm_record r = {.timestamp = f->now, .key = "k", .key_size = 1, .value_size = -1};
  int rc = sdm_log_append(f->log, &f->cfg, &(sdm_append){.records = &r, .count = 1, .scratch = &scratch}, f->now, offset, &last);
  sdm_buf_free(&scratch);
  return rc;
}

static int await(sdm_flusher *flusher, const sdm_log *l, uint64_t ticket) {
  int rc;
  while ((rc = sdm_flusher_wait(flusher, l, ticket, 0)) == 0) sched_yield();
  return rc;
}

static void *ask(void *argument) {
  asker *a = argument;
  for (int i = 0; i < ROUNDS; i++) {
    int64_t offset;
    uint64_t ticket;
    if (append(a->f, &offset) < 0 || sdm_flusher_begin(a->flusher, a->f->log, a->f->now, &ticket) < 0) a->wrong = __LINE__;
    else if (await(a->flusher, a->f->log, ticket) != 1 || atomic_load(&a->f->log->control->durable_end) <= offset) a->wrong = __LINE__;
  }
  return NULL;
}

TEST(what_was_appended_before_is_durable_when_it_is_done) {
  fixture f;
  asker askers[ASKERS];
  sdm_flusher *flusher;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(sdm_flusher_start(&flusher), 0);
  for (int i = 0; i < ASKERS; i++) {
    askers[i] = (asker){.f = &f, .flusher = flusher};
    pthread_create(&askers[i].thread, NULL, ask, &askers[i]);
  }
  for (int i = 0; i < ASKERS; i++) {
    pthread_join(askers[i].thread, NULL);
    CHECK_INT(askers[i].wrong, 0);
  }
  sdm_flusher_stop(flusher);
  fixture_end(&f);
}

TEST(a_failure_is_told_to_who_asked) {
  fixture f;
  sdm_flusher *flusher;
  uint64_t ticket;
  int64_t offset;
  fixture_begin(&f);
  fixture_open(&f);
  CHECK_INT(append(&f, &offset), 0);
  CHECK_INT(sdm_flusher_start(&flusher), 0);
  fixture_faults.sync_code = SDM_IO;
  fixture_faults.only = ".log";
  CHECK_INT(sdm_flusher_begin(flusher, f.log, f.now, &ticket), 0);
  CHECK_INT(await(flusher, f.log, ticket), SDM_IO);
  CHECK(strstr(sdm_errmsg(), "injected") != NULL);
  fixture_faults.sync_code = 0;
  sdm_flusher_stop(flusher);
  fixture_end(&f);
}

TEST(a_stop_does_what_was_asked_for) {
  fixture f;
  sdm_flusher *flusher;
  uint64_t ticket;
  int64_t offset;
  fixture_begin(&f);
  fixture_open(&f);
  for (int i = 0; i < 100; i++) {
    CHECK_INT(append(&f, &offset), 0);
    CHECK_INT(sdm_flusher_start(&flusher), 0);
    CHECK_INT(sdm_flusher_begin(flusher, f.log, f.now, &ticket), 0);
    sdm_flusher_stop(flusher);
    if (!CHECK_INT(atomic_load(&f.log->control->durable_end), i + 1)) break;
  }
  fixture_end(&f);
}
