#include "faults.h"

#include <unistd.h>

fault_plan faults = {.countdown = -1};

static sdm_fs faulty;

static int fault(void) {
  if (faults.countdown < 0 || faults.countdown-- > 0) return 0;
  if (faults.code == 0) _exit(FAULT_DIED);
  return sdm_fail(faults.code, "injected");
}

static int faulty_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->open(fs, path, flags, out);
}

static int faulty_read(sdm_file *f, void *bytes, size_t size, int64_t position, size_t *got) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->read(f, bytes, size, position, got);
}

static int faulty_write(sdm_file *f, const void *bytes, size_t size, int64_t position) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->write(f, bytes, size, position);
}

static int faulty_sync(sdm_file *f) {
  (void)f;
  return fault();
}

static int faulty_truncate(sdm_file *f, int64_t size) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->truncate(f, size);
}

static int faulty_rename(sdm_fs *fs, const char *from, const char *to) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->rename(fs, from, to);
}

static int faulty_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  (void)fs, (void)path, (void)lost;
  return fault();
}

static int faulty_make_dir(sdm_fs *fs, const char *path) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->make_dir(fs, path);
}

static int faulty_set_modified(sdm_file *f, int64_t ms) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->set_modified(f, ms);
}

static int faulty_remove_dir(sdm_fs *fs, const char *path) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->remove_dir(fs, path);
}

static int faulty_allocate(sdm_file *f, int64_t size) {
  int rc = fault();
  return rc < 0 ? rc : sdm_fs_posix()->allocate(f, size);
}

sdm_fs *faults_fs(int code, int countdown) {
  faulty = *sdm_fs_posix();
  faulty.open = faulty_open;
  faulty.read = faulty_read;
  faulty.write = faulty_write;
  faulty.sync = faulty_sync;
  faulty.truncate = faulty_truncate;
  faulty.allocate = faulty_allocate;
  faulty.rename = faulty_rename;
  faulty.sync_dir = faulty_sync_dir;
  faulty.make_dir = faulty_make_dir;
  faulty.remove_dir = faulty_remove_dir;
  faulty.set_modified = faulty_set_modified;
  faults = (fault_plan){countdown, code};
  return &faulty;
}

void faults_use(sdm_store *s, int code, int countdown) { s->env.fs = faults_fs(code, countdown); }

bool faults_end(sdm_store *s) {
  bool reached = faults.countdown < 0;
  faults.countdown = -1;
  s->env.fs = sdm_fs_posix();
  return reached;
}
