/* A disk that fails at any step of a swap, once or until it is mended: nobody ever reads with a hole, neither those who have the log open nor who
** opens it next; and the next to lock the log finishes the swap or undoes it.
*/
#include <stdlib.h>

#include "base/mem.h"
#include "log/swap.h"
#include "log_fixture.h"
#include "test.h"

static struct {
  int countdown;                           /* calls that succeed before one fails; -1: all do */
  int code;
  bool lasting;                            /* all fail from then on */
  int failed;
} disk = {.countdown = -1};

static int fault(const char *what) {
  if (disk.countdown < 0 || disk.countdown-- > 0) return 0;
  if (disk.lasting) disk.countdown = 0;
  disk.failed++;
  return sdm_fail(disk.code, "%s: injected", what);
}

static int faulty_rename(sdm_fs *fs, const char *from, const char *to) {
  int rc = fault("rename");
  return rc < 0 ? rc : sdm_fs_posix()->rename(fs, from, to);
}

static int faulty_unlink(sdm_fs *fs, const char *path) {
  int rc = fault("unlink");
  return rc < 0 ? rc : sdm_fs_posix()->unlink(fs, path);
}

static int faulty_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  (void)fs, (void)path, (void)lost;
  return fault("sync the directory");
}

static int faulty_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  int rc = flags & SDM_OPEN_CREATE ? fault("create") : 0;
  return rc < 0 ? rc : sdm_fs_posix()->open(fs, path, flags, out);
}

static int faulty_set_modified(sdm_file *f, int64_t ms) {
  int rc = fault("set the time");
  return rc < 0 ? rc : sdm_fs_posix()->set_modified(f, ms);
}

/* Segments at 0, 4, 8 and 12, the last one active and with a stage; the first three are cleaned into one that drops nothing. `other` is another
** process's view of the log.
*/
static void begin(fixture *f, sdm_log **other) {
  sdm_buf all = SDM_BUF_INIT;
  int64_t base;
  disk.countdown = -1;
  fixture_begin(f);
  f->fs.rename = faulty_rename;
  f->fs.unlink = faulty_unlink;
  f->fs.sync_dir = faulty_sync_dir;
  f->fs.open = faulty_open;
  f->fs.set_modified = faulty_set_modified;
  fixture_open(f);
  for (uint32_t s = 0; s < 3; s++) {
    char name[64];
    size_t size;
    CHECK_INT(fixture_put_batch(f, 100 * s, 2, 30, f->now), 0);
    CHECK_INT(fixture_put_batch(f, 100 * s + 2, 2, 30, f->now), 0);
    CHECK_INT(sdm_log_roll(f->log, f->now, &base), 0);
    snprintf(name, sizeof name, "%020d.log", (int)s * 4);
    uint8_t *bytes = fixture_read(f, name, &size);
    sdm_buf_append(&all, bytes, size);
    sdm_free(bytes);
  }
  CHECK_INT(fixture_add(f, 1000), 0);
  fixture_write(f, "00000000000000000000.log.cleaned", all.data, all.size, -1);
  fixture_write(f, "00000000000000000000.index.cleaned", "", 0, -1);
  fixture_write(f, "00000000000000000000.timeindex.cleaned", "", 0, -1);
  sdm_buf_free(&all);
  CHECK_INT(sdm_log_open(&f->env, FIXTURE_TOPIC, 0, &f->cfg, f->now, other), 0);
}

static int swap(fixture *f) {
  CHECK_INT(sdm_log_lock(f->log), 0);
  int rc = sdm_swap_locked(f->log, 0, 12, f->now);
  sdm_log_unlock(f->log);
  return rc;
}

/* What is read is true, from the start, without a gap; it may end with a failure while the disk has one. */
static void check_no_hole(fixture *f, sdm_log *l) {
  sdm_reader *r;
  sdm_record record;
  size_t i = 0;
  int rc = sdm_reader_open(l, 0, SDM_TO_END, 0, &r);
  if (rc == 0) {
    while ((rc = sdm_reader_next(r, &record)) == 1 && CHECK(i < f->count) && CHECK(fixture_is(&record, &f->model[i]))) i++;
    sdm_reader_close(r);
  }
  CHECK(rc == 0 ? i == f->count : rc == disk.code);
}

static void check_none(fixture *f, const char *suffix) {
  char *names = fixture_names(f, suffix);
  CHECK_STR(names, "");
  sdm_free(names);
}

/* The others go on: first while the disk is as it is, then mended. */
static void live_on(fixture *f, sdm_log *other) {
  check_no_hole(f, other);
  check_no_hole(f, f->log);
  disk.countdown = -1;
  CHECK(fixture_check_from(f, other, 0));
  CHECK(fixture_check_from(f, other, 9));
  CHECK_INT(fixture_add(f, 1001), 0);
  CHECK(fixture_check_all(f));
  CHECK(fixture_check_from(f, other, 0));
  check_none(f, ".swap");                  /* a .cleaned may be another cleaning's, for all they know */
}

static void reopen(fixture *f) {
  disk.countdown = -1;
  fixture_crash(f);
  if (!fixture_open(f)) return;
  CHECK(fixture_check_all(f));
  check_none(f, ".swap");
  check_none(f, ".cleaned");
  CHECK_INT(fixture_add(f, 1002), 0);
  CHECK(fixture_check_all(f));
}

/* Answers whether the fault was met at all. */
static bool fail_at(int step, int code, bool lasting, bool lives_on) {
  fixture f;
  sdm_log *other = NULL;
  begin(&f, &other);
  CHECK(fixture_check_from(&f, other, 0));
  disk.countdown = step;
  disk.code = code;
  disk.lasting = lasting;
  disk.failed = 0;
  int rc = swap(&f);
  bool met = disk.failed > 0;
  if (met) CHECK_INT(rc, code);
  else CHECK_INT(rc, 0);
  if (lives_on) live_on(&f, other);
  sdm_log_unref(other);
  reopen(&f);
  fixture_end(&f);
  return met;
}

static void fail_everywhere(int code, bool lasting, bool lives_on) {
  int step = 0;
  while (step < 100 && fail_at(step, code, lasting, lives_on)) step++;
  CHECK(step > 15 && step < 100);
}

TEST(a_swap_that_fails_once_is_put_right_by_the_living) { fail_everywhere(SDM_DISK_FULL, false, true); }
TEST(a_swap_that_fails_for_long_is_put_right_by_the_living) { fail_everywhere(SDM_IO, true, true); }
TEST(a_swap_that_fails_once_is_put_right_by_the_next_opening) { fail_everywhere(SDM_IO, false, false); }
TEST(a_swap_that_fails_for_long_is_put_right_by_the_next_opening) { fail_everywhere(SDM_DISK_FULL, true, false); }
