/* Retention, delete_records and a change of policy while a cleaning stands between what it has written and its swap. */
#include <pthread.h>

#include "base/mem.h"
#include "cleaner/clean.h"
#include "cleaner/retention.h"
#include "log_fixture.h"
#include "test.h"

/* The cleaner stops where it is about to rename its output, until it is told to go on. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool armed, arrived, go;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void pass_gate(void) {
  pthread_mutex_lock(&gate.lock);
  if (gate.armed) {
    gate.armed = false;
    gate.arrived = true;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.go) pthread_cond_wait(&gate.changed, &gate.lock);
  }
  pthread_mutex_unlock(&gate.lock);
}

static void await_cleaner(void) {
  pthread_mutex_lock(&gate.lock);
  while (!gate.arrived) pthread_cond_wait(&gate.changed, &gate.lock);
  pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void) {
  pthread_mutex_lock(&gate.lock);
  gate.go = true;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
}

/* The .log is complete when its indexes are written. */
static int gated_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  if (strstr(path, ".timeindex.cleaned")) pass_gate();
  return sdm_fs_posix()->open(fs, path, flags, out);
}

typedef struct work {
  fixture *f;
  sdm_log_config cfg;
  int rc;
  sdm_compact_report cleaned;
  sdm_retain_report retained;
} work;

static void *clean(void *argument) {
  work *w = argument;
  sdm_clean_options o = {.map_bytes = 1 << 16, .load_factor = 0.9, .force = true};
  w->rc = sdm_clean(w->f->log, &w->cfg, &o, w->f->now, &w->cleaned);
  pass_gate();                             /* should it not have come there: nobody is to wait for ever */
  return NULL;
}

static void *retain(void *argument) {
  work *w = argument;
  w->rc = sdm_retain(w->f->log, &w->cfg, w->f->now, &w->retained);
  return NULL;
}

/* Closed segments at 0, 4 and 8 with the same four keys, and the active one at 12 with another. */
static void begin(fixture *f, int policy) {
  int64_t base;
  fixture_begin(f);
  f->fs.open = gated_open;
  f->cfg.cleanup_policy = policy;
  fixture_open(f);
  for (int s = 0; s < 3; s++) {
    CHECK_INT(fixture_put_batch(f, 0, 2, 30, f->now), 0);
    CHECK_INT(fixture_put_batch(f, 2, 2, 30, f->now), 0);
    CHECK_INT(sdm_log_roll(f->log, f->now, &base), 0);
  }
  CHECK_INT(fixture_add(f, 9), 0);
  gate.armed = true;
  gate.arrived = gate.go = false;
}

/* The offsets of all records, from the log start on. */
static void check_offsets(fixture *f, const char *expected) {
  char text[200] = "";
  size_t n = 0;
  sdm_reader *r;
  sdm_record record;
  int rc;
  if (!CHECK_INT(sdm_reader_open(f->log, sdm_log_start(f->log), SDM_TO_END, 0, &r), 0)) return;
  while ((rc = sdm_reader_next(r, &record)) == 1) n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", n ? " " : "", (int)record.offset);
  CHECK_INT(rc, 0);
  sdm_reader_close(r);
  CHECK_STR(text, expected);
}

static void check_none(fixture *f, const char *suffix) {
  char *names = fixture_names(f, suffix);
  CHECK_STR(names, "");
  sdm_free(names);
}

static void check_settled(fixture *f, const char *offsets) {
  int64_t unlinked = 0;
  check_offsets(f, offsets);
  check_none(f, ".cleaned");
  check_none(f, ".swap");
  CHECK_INT(sdm_retention_unlink(f->log, &f->cfg, f->now + f->cfg.file_delete_delay_ms, &unlinked), 0);
  check_none(f, ".deleted");
  fixture_crash(f);
  fixture_open(f);
  check_offsets(f, offsets);
  CHECK_INT(fixture_add(f, 10), 0);
}

/* Cleans while `meddle` and then a retention come in between. */
static void clean_beside_retention(fixture *f, work *cleaner, work *keeper, void (*meddle)(work *keeper)) {
  pthread_t a, b;
  *cleaner = *keeper = (work){.f = f, .cfg = f->cfg};
  pthread_create(&a, NULL, clean, cleaner);
  await_cleaner();
  CHECK_INT(cleaner->cleaned.records_written, 0);  /* counted when all is done */
  meddle(keeper);
  pthread_create(&b, NULL, retain, keeper);
  open_gate();
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  CHECK_INT(cleaner->rc, 0);
  CHECK_INT(cleaner->cleaned.partitions, 1);
  CHECK_INT(keeper->rc, 0);
}

static void delete_all_closed(work *keeper) {
  keeper->cfg.cleanup_policy = SDM_POLICY_DELETE;
  keeper->cfg.retention_bytes = 0;
}

/* KAFKA-12840, KAFKA-7322: the policy becomes delete in the middle of a cleaning, and retention wants the segments that are being replaced. */
TEST(a_policy_that_changes_while_cleaning) {
  fixture f;
  work cleaner, keeper;
  begin(&f, SDM_POLICY_COMPACT);
  clean_beside_retention(&f, &cleaner, &keeper, delete_all_closed);
  CHECK_INT(keeper.retained.segments, 1);          /* what the cleaning has made of the three: none is deleted twice */
  CHECK_INT(sdm_log_start(f.log), 12);
  check_settled(&f, "12");
  fixture_end(&f);
}

static void move_start(work *keeper) {
  int64_t start;
  CHECK_INT(sdm_log_delete_records(keeper->f->log, 10, keeper->f->now, &start), 0);
  CHECK_INT(start, 10);
}

/* testCleanSegmentsWithConcurrentSegmentDeletion: the log start passes segments that are being cleaned. */
TEST(a_log_start_that_moves_while_cleaning) {
  fixture f;
  work cleaner, keeper;
  begin(&f, SDM_POLICY_COMPACT | SDM_POLICY_DELETE);
  clean_beside_retention(&f, &cleaner, &keeper, move_start);
  CHECK_INT(keeper.retained.segments, 0);          /* they are one segment now, in which the log starts */
  check_settled(&f, "10 11 12");
  fixture_end(&f);
}

static void delete_first_two(work *keeper) {
  int64_t start;
  CHECK_INT(sdm_log_delete_records(keeper->f->log, 8, keeper->f->now, &start), 0);
}

/* The same, each segment being cleaned by itself: the first swap stands, and retention takes its result. */
TEST(segments_deleted_while_others_are_cleaned) {
  fixture f;
  work cleaner, keeper;
  begin(&f, SDM_POLICY_COMPACT | SDM_POLICY_DELETE);
  f.cfg.segment_bytes = fixture_size(&f, "00000000000000000000.log");
  clean_beside_retention(&f, &cleaner, &keeper, delete_first_two);
  CHECK_INT(keeper.retained.segments, 2);
  check_settled(&f, "8 9 10 11 12");
  fixture_end(&f);
}
