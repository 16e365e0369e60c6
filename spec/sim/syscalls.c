/* The real file table, whose system calls fail: one call of a history at a time, with each errno that can happen there. Operations say so with a code and
** a message; what was acknowledged is there afterwards; no descriptor stays open. What has to be done again (EINTR, fewer bytes than were asked for) is, and
** nobody sees it.
**
** The histories are those of world.h, in a folder of their own below $TMPDIR. The linker leads the calls here (--wrap, see the Makefile).
*/
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "command.h"
#include "sim/world.h"
#include "store/store.h"

static const char usage[] =
    "syscalls [--first SEED] [--seeds N] [--every N]            N: only each Nth failure\n"
    "syscalls --seed SEED --errno NAME --call N                 one of them again\n";

enum { STEPS = 40, STEPS_AFTER = 6, HANGS_AFTER_S = 20, FAILURES_SHOWN = 20 };

/* ---- which errno happens where ---- */

typedef enum call { OPEN = 1, PREAD = 2, PWRITE = 4, SYNC = 8, FTRUNCATE = 16, FALLOCATE = 32, STAT = 64, TIMES = 128, LOCK = 256, MAP = 512, MSYNC = 1024,
                    RENAME = 2048, UNLINK = 4096, MKDIR = 8192, RMDIR = 16384, OPENDIR = 32768, READDIR = 65536, LINK = 131072 } call;

enum { AGAIN = 1, PARTLY = 2 };           /* the product tries it again; half of a write happens first */

typedef struct fault {
  const char *name;
  int error;
  unsigned where, flags;
} fault;

static const unsigned changes = PWRITE | SYNC | FALLOCATE | MKDIR | RENAME | LINK;
static const fault faults[] = {
  {"EIO", EIO, OPEN | PREAD | PWRITE | SYNC | FTRUNCATE | FALLOCATE | STAT | TIMES | MSYNC | RENAME | LINK | UNLINK | MKDIR | RMDIR | OPENDIR | READDIR, 0},
  {"ENOSPC", ENOSPC, changes | OPEN, 0}, {"ENOSPC-partly", ENOSPC, PWRITE, PARTLY}, {"EDQUOT", EDQUOT, changes | OPEN, 0}, {"EFBIG", EFBIG, PWRITE | FALLOCATE, 0},
  {"EMFILE", EMFILE, OPEN | OPENDIR, 0}, {"ENFILE", ENFILE, OPEN | OPENDIR, 0}, {"EACCES", EACCES, OPEN | UNLINK | RENAME | LINK | MKDIR | OPENDIR, 0},
  {"EROFS", EROFS, OPEN | UNLINK | RENAME | LINK | MKDIR | FTRUNCATE | TIMES, 0}, {"ENOMEM", ENOMEM, OPEN | STAT | MAP | OPENDIR, 0},
  {"ENOLCK", ENOLCK, LOCK, 0}, {"EINTR", EINTR, OPEN | PREAD | PWRITE | SYNC | FTRUNCATE | FALLOCATE | LOCK, AGAIN},
};
enum { FAULTS = sizeof faults / sizeof *faults };

static struct {
  world w;
  char folder[300], root[310];            /* all is in the one; the store in the other */
  const fault *fault;
  uint64_t seed, target, count;           /* which call fails, 0: none; calls so far */
  int step, hit_step;                     /* -1: it has not failed yet */
  int openings, hit_openings;             /* of the store: before the step, before the failure */
  bool watching, sync_failed, half_done, few;          /* few: reads and writes do less than they are asked for */
  uint64_t every, injected, failed;
  char where[400], why[900];
} t;

static bool hits(call c, const char *what) {
  if (!t.watching || !t.fault || !(t.fault->where & c) || ++t.count != t.target) return false;
  t.hit_step = t.step;
  t.hit_openings = t.w.openings;
  t.sync_failed = (c == SYNC || c == MSYNC) && !(t.fault->flags & AGAIN);
  snprintf(t.where, sizeof t.where, "%s with %s", what, t.fault->name);
  errno = t.fault->error;
  return true;
}

/* ---- the calls ---- */

#define WRAP(type, name, kind, failed, parameters, arguments, what) \
  type __real_##name parameters;                                    \
  type __wrap_##name parameters;                                    \
  type __wrap_##name parameters { return hits(kind, "" #name " " what) ? failed : __real_##name arguments; }

WRAP(int, fdatasync, SYNC, -1, (int fd), (fd), "")
WRAP(int, fsync, SYNC, -1, (int fd), (fd), "")
WRAP(int, ftruncate, FTRUNCATE, -1, (int fd, off_t size), (fd, size), "")
WRAP(int, posix_fallocate, FALLOCATE, errno, (int fd, off_t from, off_t size), (fd, from, size), "")
WRAP(int, fstat, STAT, -1, (int fd, struct stat *out), (fd, out), "")
WRAP(int, stat, STAT, -1, (const char *path, struct stat *out), (path, out), "")
WRAP(int, futimens, TIMES, -1, (int fd, const struct timespec times[2]), (fd, times), "")
WRAP(int, msync, MSYNC, -1, (void *p, size_t size, int flags), (p, size, flags), "")
WRAP(void *, mmap, MAP, MAP_FAILED, (void *p, size_t size, int protection, int flags, int fd, off_t at), (p, size, protection, flags, fd, at), "")
WRAP(int, rename, RENAME, -1, (const char *from, const char *to), (from, to), "")
WRAP(int, link, LINK, -1, (const char *from, const char *to), (from, to), "")
WRAP(int, unlink, UNLINK, -1, (const char *path), (path), "")
WRAP(int, mkdir, MKDIR, -1, (const char *path, mode_t mode), (path, mode), "")
WRAP(int, rmdir, RMDIR, -1, (const char *path), (path), "")
WRAP(DIR *, opendir, OPENDIR, NULL, (const char *path), (path), "")
WRAP(struct dirent *, readdir, READDIR, NULL, (DIR *d), (d), "")

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  return hits(OPEN, path) ? -1 : __real_open(path, flags, mode);
}

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  struct flock *lock = va_arg(more, struct flock *);           /* the product asks for nothing else */
  va_end(more);
  return lock->l_type != F_UNLCK && hits(LOCK, "fcntl") ? -1 : __real_fcntl(fd, command, lock);
}

static size_t how_many(size_t size) { return t.few && t.watching && size > 1 ? 1 + test_random_below(&t.w.random, size) : size; }

ssize_t __real_pread(int fd, void *bytes, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t size, off_t at) { return hits(PREAD, "pread") ? -1 : __real_pread(fd, bytes, how_many(size), at); }

ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at) {
  if (t.half_done) {
    t.half_done = false;
    errno = t.fault->error;
    return -1;
  }
  if (!hits(PWRITE, "pwrite")) return __real_pwrite(fd, bytes, how_many(size), at);
  t.half_done = t.fault->flags & PARTLY && size > 1;
  return t.half_done ? __real_pwrite(fd, bytes, size / 2, at) : -1;
}

/* ---- what must hold ---- */

static void wrong(const char *when, const char *why) {
  if (!t.why[0]) snprintf(t.why, sizeof t.why, "seed %llu, step %d (%s), %s: %s\n    %s", (unsigned long long)t.seed, t.step, t.w.doing, when, why, t.where);
}

static int descriptors(void) {
  DIR *d = __real_opendir("/proc/self/fd");
  int count = 0;
  while (d && __real_readdir(d)) count++;
  if (d) closedir(d);
  return count;
}

/* What a sync was to save may be lost: the partition takes nothing more until the store is opened anew. */
static bool may_refuse(void) { return t.sync_failed && t.openings == t.hit_openings && t.w.code == SDM_IO; }

static bool is_expected(int code) {
  switch (t.fault->error) {
    case ENOSPC: case EDQUOT: case EFBIG: return code == SDM_DISK_FULL;
    case ENOMEM: return code == SDM_NO_MEMORY;
    case EROFS: return code == SDM_READONLY;
    default: return code == SDM_IO;
  }
}

static void check_step(void) {
  const world *w = &t.w;
  char text[500];
  if (w->broken) wrong("broken", w->why);
  if (w->failures == 0) return;
  snprintf(text, sizeof text, "%d failures, %s: %s", w->failures, sdm_code_name(w->code), w->message);
  if (!w->message[0]) wrong("no message", text);
  if (t.hit_step < 0 || t.fault->flags & AGAIN || t.step > t.hit_step) {
    if (t.hit_step < 0 || !may_refuse()) wrong("fails though nothing did", text);
  } else if (!is_expected(w->code) && !t.sync_failed && !w->there_anyway && strcmp(w->doing, "maintain") != 0) {
    wrong("another code", text);
  }
}

static void check_opened_again(void) {
  sdm_store *s;
  const char *why = world_open_at(t.w.fs, t.w.root, t.w.now, &s) < 0 ? sdm_errmsg() : ledger_check(&t.w.ledger, s, LEDGER_NOTHING, t.w.now);
  if (why) wrong("opened again", why);
  else sdm_store_unref(s);
  if ((why = world_check_backup(&t.w, t.w.fs))) wrong("the backup", why);
}

/* ---- histories ---- */

static void steps(void) {
  for (t.step = 0; t.step < STEPS && !t.why[0] && (t.hit_step < 0 || t.step <= t.hit_step + STEPS_AFTER); t.step++) {
    sdm_fail(0, "%s", "");
    t.openings = t.w.openings;
    t.watching = true;
    world_step(&t.w);
    t.watching = false;
    check_step();
  }
}

/* Returns whether there was a call `target` to fail. */
static bool run(uint64_t seed, const fault *f, uint64_t target) {
  int before = descriptors();
  t.seed = seed;
  t.fault = f;
  t.target = target;
  t.count = 0;
  t.hit_step = -1;
  t.sync_failed = t.half_done = false;
  t.why[0] = t.where[0] = 0;
  if (__real_mkdir(t.folder, 0777) < 0) abort();
  alarm(HANGS_AFTER_S);
  snprintf(t.root, sizeof t.root, "%s/store", t.folder);
  world_begin_at(&t.w, sdm_fs_posix(), t.root, seed);
  t.w.tolerant = t.w.backs_up = true;
  steps();
  world_leave(&t.w);
  if (!t.why[0]) check_opened_again();
  world_end(&t.w);
  alarm(0);
  if (descriptors() != before) wrong("ended", "a descriptor stayed open");
  remove_tree(t.folder);
  if (is_to_leave()) leave();
  return t.hit_step >= 0;
}

static void report(void) {
  t.injected++;
  if (!t.why[0] || t.failed++ >= FAILURES_SHOWN) return;
  progress_clear();
  printf("%s\n  repeat: syscalls --seed %llu --errno %s --call %llu\n", t.why, (unsigned long long)t.seed, t.fault ? t.fault->name : "few",
         (unsigned long long)t.target);
}

static void run_all(uint64_t seed) {
  t.few = true;
  run(seed, NULL, 0);
  report();
  t.few = false;
  for (const fault *f = faults; f < faults + FAULTS; f++) {
    run(seed, f, 0);
    if (t.why[0]) report();
    uint64_t count = t.count;
    for (uint64_t n = 1 + seed % t.every; n <= count; n += t.every) {
      progress("seed %llu, %s: %llu of %llu calls", (unsigned long long)seed, f->name, (unsigned long long)n, (unsigned long long)count);
      if (run(seed, f, n)) report();
    }
  }
}

static int run_one(uint64_t seed, const char *name, uint64_t target) {
  for (const fault *f = faults; f < faults + FAULTS; f++) {
    if (strcmp(f->name, name) == 0 && run(seed, f, target)) report();
  }
  return t.injected > 0 ? 0 : fprintf(stderr, "no such call\n"), 2;
}

/* ---- the program ---- */

int main(int argc, char **argv) {
  uint64_t first = 1, seeds = 1, seed = 0, target = 0;
  const char *name = "", *base = getenv("TMPDIR");
  t.every = 1;
  command_line(argc, argv, (command_option[]){{"--first", .number = &first}, {"--seeds", .number = &seeds}, {"--every", .number = &t.every},
               {"--seed", .number = &seed}, {"--errno", .text = &name}, {"--call", .number = &target}, {NULL}}, usage);
  leave_in_order();
  snprintf(t.folder, sizeof t.folder, "%s/sediment-syscalls.%d", base ? base : "/tmp", (int)getpid());
  if (seed) run_one(seed, name, target);
  else printf("syscalls: system calls of %llu histories, seeds from %llu on\n", (unsigned long long)seeds, (unsigned long long)first);
  fflush(stdout);
  for (uint64_t s = first; !seed && s < first + seeds; s++) run_all(s);
  progress_clear();
  printf("%llu system calls failed\n", (unsigned long long)t.injected);
  printf("%llu passed, %llu failed\n", (unsigned long long)(t.injected - t.failed), (unsigned long long)t.failed);
  return t.failed > 0 || t.injected == 0;
}
