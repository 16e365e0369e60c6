#include "log/copy.h"

#include <string.h>

#include "base/mem.h"

enum { BLOCK = 1 << 20 };

static bool all_zero(const uint8_t *p, size_t n) { return n == 0 || (*p == 0 && memcmp(p, p + 1, n - 1) == 0); }

/* Zeros become a hole: a preallocated file may be a gigabyte of them. */
static int copy_bytes(sdm_file *in, int64_t size, sdm_file *out) {
  uint8_t *block = sdm_malloc(BLOCK);
  size_t got = BLOCK;
  int64_t at = 0;
  int rc = block ? 0 : sdm_no_memory();
  for (; rc == 0 && got == BLOCK && at < size; at += (int64_t)got) {
    rc = in->fs->read(in, block, size - at < BLOCK ? (size_t)(size - at) : BLOCK, at, &got);
    if (rc == 0 && !all_zero(block, got)) rc = out->fs->write(out, block, got, at);
    if (rc < 0) got = 0;
  }
  sdm_free(block);
  return rc == 0 ? out->fs->truncate(out, at) : rc;
}

int sdm_copy_open(sdm_file *in, int64_t size, const char *to) {
  sdm_fs *fs = in->fs;
  sdm_file_info info;
  sdm_file *out;
  int rc = fs->info(in, &info);
  if (rc == 0) rc = fs->open(fs, to, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &out);
  if (rc < 0) return rc;
  rc = copy_bytes(in, size, out);
  if (rc == 0) rc = fs->set_modified(out, info.modified_ms);
  fs->close(out);
  return rc;
}

int sdm_copy_file(sdm_fs *fs, const char *from, const char *to) {
  sdm_file *in;
  int rc = fs->open(fs, from, SDM_OPEN_READ, &in);
  if (rc < 0) return rc;
  rc = sdm_copy_open(in, INT64_MAX, to);
  fs->close(in);
  return rc;
}

int sdm_sync_file(sdm_fs *fs, const char *path) {
  sdm_file *f;
  int rc = fs->open(fs, path, SDM_OPEN_READ, &f);
  if (rc < 0) return rc;
  rc = fs->sync(f);
  fs->close(f);
  return rc;
}

int sdm_sync_files(sdm_fs *fs, const char *dir) {
  sdm_names names = {0};
  int rc = fs->list(fs, dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    char *path = sdm_format("%s/%s", dir, names.items[i]);
    rc = path ? sdm_sync_file(fs, path) : sdm_no_memory();
    sdm_free(path);
  }
  sdm_names_clear(&names);
  return rc == 0 ? fs->sync_dir(fs, dir, NULL) : rc;
}
