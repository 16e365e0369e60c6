/* Readers and appenders of one log in several threads at once; also run under ThreadSanitizer. */
#include "log_fixture.h"

#include <pthread.h>
#include <stdlib.h>

#include "log/retired.h"
#include "test.h"

enum { WRITERS = 3, READERS = 2 };
static const int RECORDS = 1200;             /* of each writer */

typedef struct party {
  fixture *f;
  int number;
  sdm_log *log;
  int failed;                                /* line, 0: all went well */
  char why[256];
  atomic_int *done;
} party;

#define MUST(condition)                                  \
  do {                                                   \
    if (condition) break;                                \
    p->failed = __LINE__;                                \
    snprintf(p->why, sizeof p->why, "%s", sdm_errmsg()); \
    return NULL;                                         \
  } while (0)

/* A record tells who wrote it and which of his it is. */
static sdm_record make(uint32_t text[2], int writer, int i, int64_t now) {
  text[0] = (uint32_t)writer;
  text[1] = (uint32_t)i;
  return (sdm_record){.timestamp = now, .key = &text[0], .key_size = 4, .value = &text[1], .value_size = 4};
}

static void *write_records(void *argument) {
  party *p = argument;
  sdm_buf scratch = SDM_BUF_INIT;
  int64_t before = -1;
  for (int i = 0; i < RECORDS;) {
    uint32_t text[5][2];
    sdm_record records[5];
    int n = i % 7 == 3 && i + 5 <= RECORDS ? 5 : 1;
    for (int k = 0; k < n; k++) records[k] = make(text[k], p->number, i + k, p->f->now);
    sdm_append a = {.records = records, .count = (size_t)n, .own_batch = n > 1, .scratch = &scratch};
    int64_t first, last;
    MUST(sdm_log_append(p->log, &p->f->cfg, &a, p->f->now, &first, &last) == 0);
    MUST(first > before && last == first + n - 1);
    before = last;
    i += n;
  }
  sdm_buf_free(&scratch);
  atomic_fetch_add(p->done, 1);
  return NULL;
}

/* Reads to the end again and again: no offset is left out, each writer's records come in order and whole. */
static void *read_records(void *argument) {
  party *p = argument;
  int64_t next = 0;
  int seen[WRITERS] = {0};
  for (bool over = false; !over;) {
    sdm_reader *r;
    sdm_record record;
    int rc;
    over = atomic_load(p->done) == WRITERS;
    MUST(sdm_reader_open(p->log, next, SDM_TO_END, 0, &r) == 0);
    while ((rc = sdm_reader_next(r, &record)) == 1) {
      uint32_t writer, i;
      MUST(record.offset == next && record.key_size == 4 && record.value_size == 4 && record.timestamp == p->f->now);
      memcpy(&writer, record.key, 4);
      memcpy(&i, record.value, 4);
      MUST(writer < WRITERS && (int)i == seen[writer]);
      seen[writer]++;
      next++;
    }
    MUST(rc == 0);
    sdm_reader_close(r);
  }
  MUST(next == (int64_t)WRITERS * RECORDS);
  return NULL;
}

/* What background work does: seal, flush, roll, look at the segments. */
static void *disturb(void *argument) {
  party *p = argument;
  for (int i = 0; atomic_load(p->done) < WRITERS; i++) {
    int64_t offset;
    sdm_segment **segments;
    size_t count;
    if (i % 3 == 0) MUST(sdm_log_flush(p->log, p->f->now, &offset) == 0);
    if (i % 7 == 0) MUST(sdm_log_roll(p->log, p->f->now, &offset) == 0);
    MUST(sdm_log_offset_for_time(p->log, p->f->now, &offset) >= 0);
    MUST(sdm_log_segment_refs(p->log, INT64_MAX, &segments, &count) == 0);
    for (size_t k = 0; k < count; k++) {
      int64_t newest, records, tombstone;
      MUST(sdm_log_max_timestamp(p->log, segments[k], &newest) == 0 && newest <= p->f->now);
      MUST(sdm_log_first_timestamp(p->log, segments[k], &newest) == 0);
      if (k % 4 == 0) MUST(sdm_log_count_segment(p->log, segments[k], &records, &tombstone) == 0);
    }
    sdm_segments_unref(segments, count);
  }
  return NULL;
}

/* `handles`: 1 and all parties share one log; else every second one has an opening of its own, as another process would. */
static void together(int64_t segment_bytes, int handles) {
  fixture f;
  party parties[WRITERS + READERS + 1];
  pthread_t threads[WRITERS + READERS + 1];
  atomic_int done = 0;
  sdm_log *other = NULL;
  fixture_begin(&f);
  f.cfg.segment_bytes = segment_bytes;
  f.cfg.index_interval_bytes = 200;
  fixture_open(&f);
  if (handles > 1) CHECK_INT(sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &other), 0);
  for (int i = 0; i < WRITERS + READERS + 1; i++) {
    parties[i] = (party){.f = &f, .number = i, .log = other && i % 2 ? other : f.log, .done = &done};
    pthread_create(&threads[i], NULL, i < WRITERS ? write_records : i < WRITERS + READERS ? read_records : disturb, &parties[i]);
  }
  for (int i = 0; i < WRITERS + READERS + 1; i++) {
    pthread_join(threads[i], NULL);
    if (!CHECK_INT(parties[i].failed, 0)) {
      printf("  party %d: %s\n", i, parties[i].why);
      atomic_store(&done, WRITERS);
    }
  }
  sdm_log_unref(other);
  fixture_end(&f);
}

TEST(one_log_many_threads) { together(1 << 20, 1); }
TEST(one_log_many_threads_small_segments) { together(3000, 1); }
TEST(two_openings_many_threads) { together(3000, 2); }

/* Retention takes segments away from under the readers; what they read until then is whole and in order. */
static void *take_away(void *argument) {
  party *p = argument;
  while (atomic_load(p->done) < 1) {
    sdm_segment **segments;
    size_t count;
    int64_t gone = 0;
    MUST(sdm_log_lock(p->log) == 0);
    MUST(sdm_log_sync_locked(p->log) == 0);
    MUST(sdm_log_list(p->log, &segments, &count) == 0);
    if (count > 4) {
      MUST(sdm_log_set_start(p->log, segments[count - 3]->base_offset) == 0);
      for (size_t i = 0; i + 3 < count; i++) MUST(sdm_retire(p->log, segments[i], p->f->now) == 0);
      MUST(sdm_log_edit_segments(p->log, 0, segments[count - 3]->base_offset, NULL) == 0);
    }
    sdm_log_unlock(p->log);
    sdm_segments_unref(segments, count);
    MUST(sdm_retired_unlink(p->log, p->f->now, 0, &gone) == 0);
  }
  return NULL;
}

static void *read_what_is_there(void *argument) {
  party *p = argument;
  while (atomic_load(p->done) < 1) {
    sdm_reader *r;
    sdm_record record;
    int64_t start, next;
    MUST(sdm_log_earliest(p->log, &start) == 0);
    int rc = sdm_reader_open(p->log, start, SDM_TO_END, 0, &r);
    MUST(rc == 0 || rc == SDM_OFFSET_OUT_OF_RANGE);
    if (rc < 0) continue;
    for (next = start; (rc = sdm_reader_next(r, &record)) == 1; next++) MUST(record.offset == next);
    MUST(rc == 0 || rc == SDM_OFFSET_OUT_OF_RANGE);
    sdm_reader_close(r);
  }
  return NULL;
}

/* Cleaning puts merged segments in the place of small ones; between its renames nothing has its usual name. */
static void *merge(void *argument) {
  party *p = argument;
  for (int swaps = 0; atomic_load(p->done) < WRITERS && swaps < 40;) {
    int64_t from = fixture_base(p->f, 0), to = fixture_base(p->f, 2);
    if (to == from) continue;
    fixture_swap(p->f, from, to);
    swaps++;
  }
  return NULL;
}

static void *look_up(void *argument) {
  party *p = argument;
  while (atomic_load(p->done) < WRITERS) {
    sdm_reader *r;
    sdm_record record;
    int64_t next, offset;
    MUST(sdm_log_offset_for_time(p->log, p->f->now, &offset) >= 0);
    MUST(sdm_reader_open(p->log, 0, SDM_TO_END, 0, &r) == 0);
    int rc;
    for (next = 0; (rc = sdm_reader_next(r, &record)) == 1; next++) MUST(record.offset == next);
    MUST(rc == 0);
    sdm_reader_close(r);
  }
  return NULL;
}

TEST(swaps_under_readers) {
  enum { N = WRITERS + 4 };
  fixture f;
  atomic_int done = 0;
  pthread_t threads[N];
  party parties[N];
  sdm_log *other = NULL, *reading = NULL;
  fixture_begin(&f);
  f.cfg.segment_bytes = 800;
  fixture_open(&f);
  fixture_faults.yields = 4;
  sdm_env env = f.env;
  env.writable = false;
  CHECK_INT(sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &other), 0);
  CHECK_INT(sdm_log_open(&env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &reading), 0);
  for (int i = 0; i < N; i++) {
    sdm_log *log = i < WRITERS + 2 ? f.log : i == WRITERS + 2 ? other : reading;
    parties[i] = (party){.f = &f, .number = i, .log = log, .done = &done};
    pthread_create(&threads[i], NULL, i < WRITERS ? write_records : i == WRITERS ? merge : look_up, &parties[i]);
  }
  for (int i = 0; i < N; i++) {
    pthread_join(threads[i], NULL);
    if (!CHECK_INT(parties[i].failed, 0)) {
      printf("  party %d: %s\n", i, parties[i].why);
      atomic_store(&done, WRITERS);
    }
  }
  sdm_log_unref(other);
  sdm_log_unref(reading);
  fixture_end(&f);
}

TEST(deletion_under_readers) {
  fixture f;
  atomic_int done = 0;
  pthread_t threads[4];
  party parties[4];
  fixture_begin(&f);
  f.cfg.segment_bytes = 1500;
  fixture_open(&f);
  for (int i = 0; i < 4; i++) {
    parties[i] = (party){.f = &f, .number = i, .log = f.log, .done = &done};
    pthread_create(&threads[i], NULL, i == 0 ? write_records : i == 1 ? take_away : read_what_is_there, &parties[i]);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    if (!CHECK_INT(parties[i].failed, 0)) printf("  party %d: %s\n", i, parties[i].why);
    atomic_store(&done, 1);
  }
  fixture_end(&f);
}
