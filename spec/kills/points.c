#include "kills/points.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "log/log.h"
#include "os/fs.h"

static sdm_fs real;                        /* as it was */

const char *point_name(point_call c) {
  static const char *const names[] = {"create", "write", "sync", "truncate", "allocate", "set_modified", "lock", "map", "rename", "link", "unlink", "make_dir",
                                      "remove_dir", "sync_dir"};
  return names[c];
}

/* ---- ending at a call ---- */

static void end_here(point_call c) {
  atomic_store(&me->armed, 0);
  atomic_store(&me->ended_ns, now_ns());
  atomic_store(&me->reached, 1 + (int)c);
  tell_news();
  kill(getpid(), me->signal);
}

/* Whether this call is the one. */
static bool strikes(point_call c) {
  int32_t left = atomic_load(&me->armed);
  if (left == 0 || atomic_fetch_sub(&me->armed, 1) != 1) return false;
  if (me->when == WHEN_BEFORE) end_here(c);
  return me->when != WHEN_BEFORE;
}

/* The call, with what may come before and behind it. */
#define POINT(c, call)        \
  bool this_one = strikes(c); \
  int rc = (call);            \
  if (this_one) end_here(c);  \
  return rc

static int point_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  sdm_file_info info;
  if (!(flags & (SDM_OPEN_CREATE | SDM_OPEN_FRESH)) || (!(flags & SDM_OPEN_FRESH) && real.path_info(fs, path, &info) == 0)) return real.open(fs, path, flags, out);
  POINT(CALL_CREATE, real.open(fs, path, flags, out));
}

static int point_write(sdm_file *f, const void *bytes, size_t size, int64_t position) {
  bool this_one = strikes(CALL_WRITE);
  int rc = this_one && me->when == WHEN_HALFWAY ? real.write(f, bytes, size / 2, position) : real.write(f, bytes, size, position);
  if (this_one) end_here(CALL_WRITE);
  return this_one && me->when == WHEN_HALFWAY ? real.write(f, bytes, size, position) : rc;       /* it was only stopped, and goes on */
}

static int point_sync(sdm_file *f) { POINT(CALL_SYNC, real.sync(f)); }
static int point_truncate(sdm_file *f, int64_t size) { POINT(CALL_TRUNCATE, real.truncate(f, size)); }
static int point_allocate(sdm_file *f, int64_t size) { POINT(CALL_ALLOCATE, real.allocate(f, size)); }
static int point_set_modified(sdm_file *f, int64_t ms) { POINT(CALL_SET_MODIFIED, real.set_modified(f, ms)); }
static int point_lock(sdm_file *f, int64_t byte, sdm_lock_mode mode, bool wait) { POINT(CALL_LOCK, real.lock(f, byte, mode, wait)); }
static int point_map(sdm_file *f, size_t size, bool writable, void **out) { POINT(CALL_MAP, real.map(f, size, writable, out)); }
static int point_rename(sdm_fs *fs, const char *from, const char *to) { POINT(CALL_RENAME, real.rename(fs, from, to)); }
static int point_link(sdm_fs *fs, const char *from, const char *to) { POINT(CALL_LINK, real.link(fs, from, to)); }
static int point_unlink(sdm_fs *fs, const char *path) { POINT(CALL_UNLINK, real.unlink(fs, path)); }
static int point_make_dir(sdm_fs *fs, const char *path) { POINT(CALL_MAKE_DIR, real.make_dir(fs, path)); }
static int point_remove_dir(sdm_fs *fs, const char *path) { POINT(CALL_REMOVE_DIR, real.remove_dir(fs, path)); }
static int point_sync_dir(sdm_fs *fs, const char *path, bool *lost) { POINT(CALL_SYNC_DIR, real.sync_dir(fs, path, lost)); }

void points_begin(void) {
  sdm_fs *fs = sdm_fs_posix();
  real = *fs;
  fs->open = point_open;
  fs->write = point_write;
  fs->sync = point_sync;
  fs->truncate = point_truncate;
  fs->allocate = point_allocate;
  fs->set_modified = point_set_modified;
  fs->lock = point_lock;
  fs->map = point_map;
  fs->rename = point_rename;
  fs->link = point_link;
  fs->unlink = point_unlink;
  fs->make_dir = point_make_dir;
  fs->remove_dir = point_remove_dir;
  fs->sync_dir = point_sync_dir;
}

/* ---- which locks it has ---- */

static const sdm_control *_Atomic known[TOPICS];

void points_know(int topic, const sdm_log *log) { atomic_store(&known[topic], log ? log->control : NULL); }

static int name_of(const sdm_shared_mutex *m) {
  for (int i = 0; i < TOPICS; i++) {
    const sdm_control *c = atomic_load(&known[i]);
    if (c && m == &c->lock) return LOCK_END + i;
    if (c && m == &c->maintenance) return LOCK_MAINTENANCE + i;
  }
  return LOCK_OTHER;
}

/* A lock is given back under the name that it was taken by: it may have become known meanwhile. */
enum { DEPTH_MAX = 8 };
static _Thread_local struct { const sdm_shared_mutex *lock; int name; } taken[DEPTH_MAX];
static _Thread_local int depth;

static void note_taken(const sdm_shared_mutex *m, int name) {
  if (depth == DEPTH_MAX) wrong("%d shared locks at once", depth);
  taken[depth].lock = m;
  taken[depth++].name = name;
  atomic_fetch_add(&me->held[name], 1);
}

static int note_given_back(const sdm_shared_mutex *m) {
  int i = depth - 1, name;
  while (i >= 0 && taken[i].lock != m) i--;
  if (i < 0) wrong("a shared lock is given back that was not taken");
  name = taken[i].name;
  for (depth--; i < depth; i++) taken[i] = taken[i + 1];
  atomic_fetch_sub(&me->held[name], 1);
  return name;
}

static void pause_here(int name) {
  if (name >= LOCK_MAINTENANCE) return;
  atomic_store(&me->pauses, false);
  raise(SIGSTOP);
}

int __real_sdm_shared_mutex_lock(sdm_shared_mutex *m, bool *owner_died);
int __wrap_sdm_shared_mutex_lock(sdm_shared_mutex *m, bool *owner_died);
int __real_sdm_shared_mutex_try(sdm_shared_mutex *m, bool *owner_died);
int __wrap_sdm_shared_mutex_try(sdm_shared_mutex *m, bool *owner_died);
void __real_sdm_shared_mutex_unlock(sdm_shared_mutex *m);
void __wrap_sdm_shared_mutex_unlock(sdm_shared_mutex *m);

int __wrap_sdm_shared_mutex_lock(sdm_shared_mutex *m, bool *owner_died) {
  int name = name_of(m);
  if (atomic_load(&me->pauses)) pause_here(name);
  atomic_fetch_add(&me->near[name], 1);
  if (atomic_load(&the_herd->watched)) tell_news();
  int rc = __real_sdm_shared_mutex_lock(m, owner_died);
  if (rc < 0) wrong("a shared lock failed: %s", sdm_errmsg());
  note_taken(m, name);
  if (*owner_died) atomic_fetch_add(&the_herd->inherited[name], 1);
  return rc;
}

int __wrap_sdm_shared_mutex_try(sdm_shared_mutex *m, bool *owner_died) {
  int name = name_of(m), rc = __real_sdm_shared_mutex_try(m, owner_died);
  if (rc < 0) wrong("a shared lock failed: %s", sdm_errmsg());
  if (rc == 0) return 0;
  atomic_fetch_add(&me->near[name], 1);
  note_taken(m, name);
  if (*owner_died) atomic_fetch_add(&the_herd->inherited[name], 1);
  return rc;
}

void __wrap_sdm_shared_mutex_unlock(sdm_shared_mutex *m) {
  int name = note_given_back(m);
  __real_sdm_shared_mutex_unlock(m);
  atomic_fetch_sub(&me->near[name], 1);
}
