/* Opening after crashes, by files: indexes that are spoilt, swaps that were begun. Reference sections 9 and 10. */
#include "log_recover.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "log/recover.h"
#include "log/swap.h"

/* ---- indexes ---- */

static const char *const INDEXES[] = {"index", "timeindex"};

static void spoil(fixture *f, const char *name, int way) {
  static const uint8_t padding[4096];
  uint8_t junk[144];
  int64_t size = fixture_size(f, name);
  memset(junk, 0x77, sizeof junk);
  if (way == 0) fixture_remove(f, name);
  else if (way == 1) fixture_write(f, name, junk, sizeof junk, -1);
  else if (way == 2) fixture_write(f, name, padding, sizeof padding / 96 * 96, size);
  else if (way == 3) fixture_write(f, name, padding, 5, size);
  else fixture_truncate(f, name, size / 2 + 1);
}

static void index_case(ending how, int64_t interval, int way, int kind, int which) {
  fixture f;
  sdm_segment **segments;
  char name[64];
  int64_t base;
  size_t count;
  fixture_begin(&f);
  f.cfg.index_interval_bytes = interval;
  fixture_open(&f);
  for (uint32_t s = 0; s < 3; s++) {
    add_batches(&f, 1000 * s, 12);
    if (s < 2) CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  }
  end(&f, how);
  snprintf(name, sizeof name, "%020d.%s", which * 36, INDEXES[kind]);
  spoil(&f, name, way);
  fixture_open(&f);
  fixture_check_from(&f, f.log, 0);
  if (how != LOSES_POWER) {
    CHECK_INT(log_end(&f), 108);
    fixture_check_all(&f);
  }
  CHECK(fixture_close(&f));
  fixture_open(&f);
  CHECK_INT(sdm_log_segment_refs(f.log, INT64_MAX, &segments, &count), 0);
  for (size_t i = 0; i < count; i++) fixture_check_indexes(&f, segments[i]->base_offset, interval, true);
  sdm_segments_unref(segments, count);
  fixture_end(&f);
}

TEST(spoilt_indexes_are_made_anew) {
  static const int64_t intervals[] = {0, 300, 4096};
  for (int how = 0; how < ENDINGS; how++) {
    for (int i = 0; i < 3; i++) {
      for (int way = 0; way < 5; way++) {
        for (int kind = 0; kind < 2; kind++) {
          for (int which = 0; which < 3; which++) index_case((ending)how, intervals[i], way, kind, which);
        }
      }
    }
  }
}

TEST(indexes_without_a_log_go) {
  fixture f;
  begin(&f, 2);
  CHECK(fixture_close(&f));
  fixture_write(&f, "00000000000000000077.index", "12345678", 8, -1);
  fixture_write(&f, "00000000000000000003.timeindex", "", 0, -1);
  fixture_write(&f, "00000000000000000077.txt", "", 0, -1);
  fixture_open(&f);
  char *names = fixture_names(&f, "index");
  CHECK_STR(names, "00000000000000000000.index 00000000000000000000.timeindex");
  sdm_free(names);
  CHECK_INT(fixture_size(&f, "00000000000000000077.txt"), 0);
  fixture_check_all(&f);
  fixture_end(&f);
}

/* ---- a segment whose .log is gone ---- */

/* What is read from `from` on ends with `rc`, after so many records. */
static void check_reads(fixture *f, int64_t from, int64_t records, int rc) {
  sdm_reader *r;
  sdm_record record;
  int64_t n = 0;
  int got;
  if (!CHECK_INT(sdm_reader_open(f->log, from, SDM_TO_END, 0, &r), 0)) return;
  while ((got = sdm_reader_next(r, &record)) == 1) n++;
  CHECK_INT(got, rc);
  CHECK_INT(n, records);
  sdm_reader_close(r);
}

/* Segments at 0, 6, 12 and the active one at 18, of six records each; the one at 6 is lost. */
static void lost_case(ending how, int failing_write) {
  fixture f;
  int64_t base;
  fixture_begin(&f);
  fixture_open(&f);
  for (uint32_t s = 0; s < 4; s++) {
    add_batches(&f, 100 * s, 2);
    if (s < 3) CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  }
  end(&f, how);
  fixture_remove(&f, "00000000000000000006.log");
  if (failing_write >= 0) {
    fixture_faults.write_code = SDM_IO;
    fixture_faults.skip = failing_write;
    if (sdm_log_open(&f.env, FIXTURE_TOPIC, 0, &f.cfg, f.now, &f.log) == 0) fixture_crash(&f);
    fixture_faults.write_code = 0;
    f.log = NULL;
  }
  for (int opening = 0; opening < 3; opening++) {      /* it is told again and again */
    fixture_open(&f);
    CHECK_INT(corrupt(&f), 1);
    CHECK_INT(truncated(&f), 0);
    check_reads(&f, 0, 6, SDM_CORRUPT);
    check_reads(&f, 6, 0, SDM_CORRUPT);
    check_reads(&f, 12, 12, 0);
    if (opening == 1) CHECK(fixture_close(&f));
    else fixture_crash(&f);
  }
  fixture_end(&f);
}

TEST(a_lost_segment_is_told) {
  for (int failing_write = -1; failing_write < 6; failing_write++) {
    lost_case(DIES, failing_write);
    lost_case(CLOSES, failing_write);
  }
}

/* ---- the last one is counted by what the page or the state file says of it ---- */

TEST(a_lost_last_segment_is_counted) {
  for (int how = 0; how < ENDINGS; how++) {
    fixture f;
    int64_t base;
    begin(&f, 2);
    CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
    add_batches(&f, 100, 2);
    int64_t size = fixture_size(&f, "00000000000000000006.log");
    end(&f, how);
    fixture_remove(&f, "00000000000000000006.log");
    fixture_open(&f);
    CHECK_INT(truncated(&f), how == LOSES_POWER ? 0 : size);
    CHECK_INT(log_end(&f), how == LOSES_POWER ? 3 + RESERVED : 12);
    fixture_end(&f);
  }
}

/* ---- swaps ---- */

static void write_note(fixture *f, int64_t from, int64_t to);

/* A log of four segments (0, 6, 12, 18), the first three of which were cleaned into one without dropping anything. */
static void begin_swap(fixture *f) {
  sdm_buf all = SDM_BUF_INIT;
  int64_t base;
  fixture_begin(f);
  fixture_open(f);
  for (uint32_t s = 0; s < 4; s++) {
    char name[64];
    size_t size;
    add_batches(f, 1000 * s, 2);
    CHECK_INT(sdm_log_roll(f->log, f->now, &base), 0);
    snprintf(name, sizeof name, "%020d.log", (int)s * 6);
    uint8_t *bytes = fixture_read(f, name, &size);
    if (s < 3) sdm_buf_append(&all, bytes, size);
    sdm_free(bytes);
  }
  fixture_write(f, LOG0 ".cleaned", all.data, all.size, -1);
  fixture_write(f, "00000000000000000000.index.cleaned", "", 0, -1);
  fixture_write(f, "00000000000000000000.timeindex.cleaned", "", 0, -1);
  sdm_buf_free(&all);
}

static const char *const KINDS[] = {"log", "index", "timeindex"};

static void move(fixture *f, int base, int kind, const char *from, const char *to) {
  char a[80], b[80];
  snprintf(a, sizeof a, "%020d.%s%s", base, KINDS[kind], from);
  snprintf(b, sizeof b, "%020d.%s%s", base, KINDS[kind], to);
  fixture_rename(f, a, b);
}

/* Does what sdm_swap_locked does, up to `steps` renames; answers whether the point of no return was passed. */
static bool swap_partly(fixture *f, int steps) {
  write_note(f, 0, 18);
  for (int k = 0; k < 3; k++) {
    if (steps-- <= 0) return false;
    move(f, 0, k, ".cleaned", ".swap");
  }
  for (int base = 0; base < 18; base += 6) {
    for (int k = 0; k < 3; k++) {
      if (steps-- <= 0) return true;
      move(f, base, k, "", ".deleted");
    }
  }
  for (int k = 0; k < 3; k++) {
    if (steps-- <= 0) return true;
    move(f, 0, k, ".swap", "");
  }
  return true;
}

static void write_note(fixture *f, int64_t from, int64_t to) {
  sdm_log bare = {.fs = &f->fs, .dir = f->dir};
  int64_t a = -1, b = -1;
  CHECK_INT(sdm_swap_note(&bare, from, to), 0);
  CHECK(sdm_swap_read(&f->fs, f->dir, &a, &b));
  CHECK(a == from && b == to);
}

static void check_swapped(fixture *f, bool swapped) {
  char *names = fixture_names(f, ".log");
  const char *all = LOG0 " 00000000000000000006.log 00000000000000000012.log 00000000000000000018.log";
  const char *first = swapped ? LOG0 " 00000000000000000018.log" : all;
  CHECK(strncmp(names, first, strlen(first)) == 0);
  CHECK_INT(strlen(names), strlen(first) + 25);
  sdm_free(names);
  static const char *const leftovers[] = {".cleaned", ".swap", ".deleted", NULL};
  for (int i = 0; leftovers[i]; i++) {
    names = fixture_names(f, leftovers[i]);
    CHECK_STR(names, "");
    sdm_free(names);
  }
}

TEST(a_swap_is_finished_or_undone) {
  for (int steps = 0; steps <= 15; steps++) {
    for (int how = 0; how < ENDINGS; how++) {
      fixture f;
      begin_swap(&f);
      end(&f, (ending)how);
      bool swapped = swap_partly(&f, steps);
      if (!fixture_open(&f)) return;
      check_swapped(&f, swapped);
      fixture_check_from(&f, f.log, 0);
      fixture_check_from(&f, f.log, 13);
      if (how != LOSES_POWER) CHECK_INT(log_end(&f), 24);
      check_settled(&f);
      fixture_end(&f);
    }
  }
}

/* The same death while others live on: the next to lock finds it out. */
TEST(a_swap_is_finished_or_undone_by_the_living) {
  for (int steps = 0; steps <= 15; steps++) {
    fixture f;
    begin_swap(&f);
    swap_partly(&f, steps);
    CHECK_INT(sdm_recover_set(&f.fs, f.dir, active(&f)), 0);
    f.log->generation = 0;
    fixture_check_all(&f);
    fixture_crash(&f);
    fixture_open(&f);
    fixture_check_all(&f);
    fixture_end(&f);
  }
}

/* Without our note the range is what survived, as in Kafka. */
TEST(a_swap_of_kafkas) {
  fixture f;
  begin_swap(&f);
  fixture_crash(&f);
  swap_partly(&f, 5);
  fixture_remove(&f, SDM_SWAP_NAME);
  fixture_open(&f);
  check_swapped(&f, true);
  fixture_check_from(&f, f.log, 0);
  fixture_end(&f);
}

/* The names of a process that died may be on no disk yet. */
static struct {
  int syncs, unlinks_before;
} order;

static int counting_unlink(sdm_fs *fs, const char *path) {
  if (order.syncs == 0) order.unlinks_before++;
  return sdm_fs_posix()->unlink(fs, path);
}

static int counting_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  order.syncs++;
  return sdm_fs_posix()->sync_dir(fs, path, lost);
}

TEST(a_swap_is_saved_before_the_old_segments_go) {
  fixture f;
  int64_t base, *bases;
  size_t size, count;
  begin(&f, 4);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  fixture_crash(&f);
  uint8_t *bytes = fixture_read(&f, LOG0, &size);
  fixture_write(&f, LOG0 ".swap", bytes, size, -1);
  free(bytes);
  sdm_fs fs = *sdm_fs_posix();
  fs.unlink = counting_unlink;
  fs.sync_dir = counting_sync_dir;
  char *dir = sdm_format("%s/t-0", f.env.root);
  order.syncs = order.unlinks_before = 0;
  CHECK_INT(sdm_recover_files(&fs, dir, 0, 0, &bases, &count), 0);
  CHECK_INT(order.unlinks_before, 0);
  CHECK_INT(order.syncs, 3);
  CHECK_INT(count, 2);
  sdm_free(bases);
  sdm_free(dir);
  fixture_open(&f);
  fixture_check_all(&f);
  fixture_end(&f);
}
