/* Random histories of a log against a plain array: appends, rolls, closings, deaths, losses of power, retention, swaps, full disks,
** spoilt tails and indexes. The seeds are fixed; a failing history is told by its number. */
#include "log_fixture.h"

#include <stdlib.h>

#include "base/mem.h"
#include "log/recover.h"
#include "test.h"

enum { HISTORIES = 300, STEPS = 40 };

typedef struct history {
  fixture f;
  test_random r;
  uint32_t seed;                           /* of the next record */
  int64_t highest;                         /* offset ever given */
  bool lagging, ok;                         /* indexes may lack entries, or have closing ones on the way */
  sdm_reader *reader;                      /* began some steps ago */
  int64_t reader_end;
} history;

static uint64_t below(history *h, uint64_t n) { return test_random_below(&h->r, n); }

#define OK(condition) do { if (!(condition)) h->ok = false; } while (0)

static void note_highest(history *h) {
  if (h->f.count && h->f.model[h->f.count - 1].offset > h->highest) h->highest = h->f.model[h->f.count - 1].offset;
}

static int64_t some_time(history *h) {
  if (below(h, 10) == 0) return -1;
  return h->f.now + (int64_t)below(h, 2000) - 1500;
}

/* ---- what happens ---- */

static void append(history *h) {
  fixture *f = &h->f;
  for (uint64_t n = 1 + below(h, 8); n > 0; n--) {
    int32_t key = (int32_t)below(h, 8) - 1, value = (int32_t)below(h, 90) - 1;
    bool alone = below(h, 4) > 0;
    int64_t when = some_time(h);
    int rc = alone ? fixture_put(f, h->seed, key, value, when) : fixture_put_batch(f, h->seed, 1 + below(h, 5), value, when);
    h->seed += 10;
    OK(rc == 0 || CHECK_INT(rc, SDM_TOO_LARGE));
  }
}

static void full_disk(history *h) {
  fixture *f = &h->f;
  h->lagging = true;
  fixture_faults.write_code = SDM_DISK_FULL;
  fixture_faults.write_limit = (int64_t)below(h, 120);
  fixture_faults.skip = (int)below(h, 3);
  for (int i = 0; i < 6; i++) {
    int rc = below(h, 2) ? fixture_put(f, h->seed, 3, 40, f->now) : fixture_put_batch(f, h->seed, 2, 20, f->now);
    h->seed += 10;
    OK(rc == 0 || rc == SDM_TOO_LARGE || CHECK_INT(rc, SDM_DISK_FULL));
  }
  memset(&fixture_faults, 0, sizeof fixture_faults);
}

static void drop_reader(history *h) {
  sdm_reader_close(h->reader);
  h->reader = NULL;
}

static size_t segments(history *h) {
  sdm_segment **list;
  size_t count = 0;
  OK(CHECK_INT(sdm_log_segment_refs(h->f.log, INT64_MAX, &list, &count), 0));
  sdm_segments_unref(list, count);
  return count;
}

static void spoil(history *h) {
  static const uint8_t zeros[700];
  static const char *const kinds[] = {"log", "index", "timeindex"};
  fixture *f = &h->f;
  char *names = fixture_names(f, ".log"), *last = strrchr(names, ' ');
  char name[64];
  last = last ? last + 1 : names;
  if (below(h, 3) == 0) fixture_write(f, last, zeros, 1 + below(h, sizeof zeros - 1), fixture_size(f, last));
  if (below(h, 3) == 0) {
    uint64_t which = below(h, (strlen(names) + 1) / 25);
    snprintf(name, sizeof name, "%.20s.%s", names + 25 * which, kinds[1 + below(h, 2)]);
    if (below(h, 2) && fixture_size(f, name) >= 0) fixture_remove(f, name);
    else fixture_write(f, name, zeros, 480, fixture_size(f, name) < 0 ? 0 : fixture_size(f, name));
  }
  sdm_free(names);
}

/* What is left after a loss: the model's records up to some offset that is not below `durable`. */
static void accept_loss(history *h, int64_t durable) {
  fixture *f = &h->f;
  sdm_reader *r;
  sdm_record record;
  int64_t start = sdm_log_start(f->log);
  size_t i = 0;
  int rc;
  while (i < f->count && f->model[i].offset < start) i++;
  OK(CHECK_INT(sdm_reader_open(f->log, start, SDM_TO_END, 0, &r), 0));
  if (!h->ok) return;
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    OK(CHECK(i < f->count && fixture_is(&record, &f->model[i])));
    if (!h->ok) break;
    i++;
  }
  if (rc < 0) {
    char *names = fixture_names(f, "");
    printf("%s: %s\n", sdm_errmsg(), names);
    sdm_free(names);
  }
  OK(CHECK_INT(rc, h->ok ? 0 : 1));
  sdm_reader_close(r);
  if (i >= f->count) return;
  OK(CHECK(f->model[i].offset >= durable));
  fixture_forget(f, f->model[i].offset);
}

/* Unsynced bytes of the last segment, and the control page, may be gone. */
static void lose_power(history *h) {
  fixture *f = &h->f;
  int64_t durable = atomic_load(&f->log->control->durable_end);
  fixture_power_loss(f);
  char *names = fixture_names(f, ".log"), *last = strrchr(names, ' ');
  last = last ? last + 1 : names;
  if (below(h, 2)) fixture_remove(f, SDM_CONTROL_NAME);
  if (below(h, 2) && durable <= strtoll(last, NULL, 10)) fixture_truncate(f, last, (int64_t)below(h, (uint64_t)fixture_size(f, last) + 1));
  if (below(h, 2)) spoil(h);
  sdm_free(names);
  OK(fixture_open(f));
  if (h->ok) accept_loss(h, durable);
}

static void restart(history *h) {
  fixture *f = &h->f;
  drop_reader(h);
  uint64_t how = below(h, 3);
  if (how == 0) return lose_power(h);
  if (how == 1) fixture_crash(f);
  else OK(fixture_close(f));
  if (how == 2) h->lagging = true;
  if (below(h, 2)) spoil(h);
  OK(fixture_open(f));
}

static void delete_some(history *h) {
  fixture *f = &h->f;
  int64_t start = sdm_log_start(f->log), end, got;
  OK(CHECK_INT(sdm_log_latest(f->log, &end), 0));
  if (below(h, 2)) fixture_retire(f, fixture_base(f, below(h, segments(h))));
  else if (end > start) {
    int64_t before = start + (int64_t)below(h, (uint64_t)(end - start) / 2 + 1);
    OK(CHECK_INT(sdm_log_delete_records(f->log, before, f->now, &got), 0));
  }
}

static void swap_some(history *h) {
  fixture *f = &h->f;
  size_t n = segments(h);
  if (n < 3) return;
  size_t from = below(h, n - 2), to = from + 1 + below(h, n - 1 - from);
  fixture_swap(f, fixture_base(f, from), fixture_base(f, to));
  h->lagging = true;
}

static void flush_or_roll(history *h) {
  fixture *f = &h->f;
  int64_t offset;
  if (below(h, 2)) OK(CHECK_INT(sdm_log_roll(f->log, f->now, &offset), 0));
  else OK(CHECK_INT(sdm_log_flush(f->log, f->now, &offset), 0));
}

/* ---- what must hold ---- */

static int64_t naive(history *h, int64_t ms) {
  fixture *f = &h->f;
  for (size_t i = 0; i < f->count; i++) {
    if (f->model[i].offset >= sdm_log_start(f->log) && f->model[i].timestamp >= ms) return f->model[i].offset;
  }
  return -1;
}

static void check(history *h) {
  fixture *f = &h->f;
  int64_t start, end, ms = some_time(h), found = -1;
  OK(CHECK_INT(sdm_log_earliest(f->log, &start), 0) && CHECK_INT(sdm_log_latest(f->log, &end), 0) && CHECK(end > h->highest));
  if (!h->ok) return;
  OK(fixture_check_from(f, f->log, start) && fixture_check_from(f, f->log, start + (int64_t)below(h, (uint64_t)(end - start) + 1)));
  OK(sdm_log_offset_for_time(f->log, ms, &found) >= 0 && CHECK_INT(found, naive(h, ms)));
}

static void use_reader(history *h) {
  fixture *f = &h->f;
  if (!h->reader) {
    int64_t start = sdm_log_start(f->log);
    OK(CHECK_INT(sdm_log_latest(f->log, &h->reader_end), 0));
    OK(CHECK_INT(sdm_reader_open(f->log, start + (int64_t)below(h, (uint64_t)(h->reader_end - start) + 1), SDM_TO_END, 0, &h->reader), 0));
    return;
  }
  size_t i = 0;
  sdm_record record;
  while (i < f->count && f->model[i].offset < sdm_reader_position(h->reader)) i++;
  for (uint64_t n = below(h, 30); n > 0 && h->ok; n--, i++) {
    int rc = sdm_reader_next(h->reader, &record);
    if (rc == 0) OK(CHECK(i == f->count || f->model[i].offset >= h->reader_end));
    else OK(CHECK_INT(rc, 1) && CHECK(i < f->count && fixture_is(&record, &f->model[i])));
    if (rc <= 0) return drop_reader(h);
  }
}

static void check_end(history *h) {
  fixture *f = &h->f;
  drop_reader(h);
  OK(fixture_close(f) && fixture_open(f));
  uint64_t digest = fixture_digest(f);
  fixture_power_loss(f);
  OK(fixture_open(f) && CHECK(fixture_digest(f) == digest));
  if (!h->ok) return;
  check(h);
  for (size_t i = 0, n = segments(h); i < n; i++) {
    OK(fixture_check_entries(f, fixture_base(f, i)));
    if (!h->lagging) OK(fixture_check_indexes(f, fixture_base(f, i), f->cfg.index_interval_bytes, true));
  }
}

static void step(history *h) {
  fixture *f = &h->f;
  uint64_t what = below(h, 32);
  f->now += (int64_t)below(h, 200);
  if (what < 16) append(h);
  else if (what < 21) use_reader(h);
  else if (what < 24) restart(h);
  else if (what < 26) flush_or_roll(h);
  else if (what < 28) delete_some(h);
  else if (what < 30) swap_some(h);
  else full_disk(h);
  note_highest(h);
  if (h->ok) check(h);
}

static bool run(uint64_t number) {
  history h = {.r = {number}, .highest = -1, .ok = true, .seed = 1};
  fixture_begin(&h.f);
  sdm_log_config *cfg = &h.f.cfg;
  cfg->segment_bytes = 200 + (int64_t)below(&h, 3897);
  cfg->index_interval_bytes = (int64_t[]){0, 1, 200, 4096}[below(&h, 4)];
  cfg->segment_ms = below(&h, 2) ? 1000 + (int64_t)below(&h, 2000) : 604800000;
  cfg->segment_index_bytes = below(&h, 3) ? 10485760 : 60;
  cfg->log_append_time = below(&h, 4) == 0;
  h.f.env.batch_size = below(&h, 2) ? SDM_STAGE_BYTES : 100 + (int64_t)below(&h, 900);
  h.f.env.linger_ms = below(&h, 2) ? INT64_MAX : 100;
  h.ok = fixture_open(&h.f);
  for (int i = 0; i < STEPS && h.ok; i++) step(&h);
  if (h.ok) check_end(&h);
  drop_reader(&h);
  fixture_end(&h.f);
  return h.ok;
}

TEST(random_histories) {
  const char *one = getenv("SDM_HISTORY");
  for (uint64_t i = one ? strtoull(one, NULL, 10) : 0; i < (one ? strtoull(one, NULL, 10) + 1 : HISTORIES); i++) {
    if (CHECK(run(i))) continue;
    printf("... in history %llu (SDM_HISTORY=%llu runs it alone)\n", (unsigned long long)i, (unsigned long long)i);
    return;
  }
}
