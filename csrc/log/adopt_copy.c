/* Copying a partition directory, file by file. */
#include <string.h>

#include "base/mem.h"
#include "log/adoption.h"
#include "log/producer_snapshot.h"
#include "log/swap.h"

enum { BLOCK = 1 << 20 };

static bool all_zero(const uint8_t *p, size_t n) { return n == 0 || (*p == 0 && memcmp(p, p + 1, n - 1) == 0); }

/* Zeros become a hole: a preallocated file may be a gigabyte of them. */
static int copy_bytes(sdm_file *in, sdm_file *out, int64_t *size) {
  uint8_t *block = sdm_malloc(BLOCK);
  size_t got = BLOCK;
  int rc = block ? 0 : sdm_no_memory();
  for (*size = 0; rc == 0 && got == BLOCK; *size += (int64_t)got) {
    rc = in->fs->read(in, block, BLOCK, *size, &got);
    if (rc == 0 && !all_zero(block, got)) rc = out->fs->write(out, block, got, *size);
    if (rc < 0) got = 0;
  }
  sdm_free(block);
  return rc == 0 ? out->fs->truncate(out, *size) : rc;
}

static int copy_open(sdm_fs *fs, sdm_file *in, const char *to) {
  sdm_file_info info;
  sdm_file *out;
  int64_t size;
  int rc = fs->info(in, &info);
  if (rc == 0) rc = fs->open(fs, to, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &out);
  if (rc < 0) return rc;
  rc = copy_bytes(in, out, &size);
  if (rc == 0) rc = fs->set_modified(out, info.modified_ms);
  fs->close(out);
  return rc;
}

static int copy_file(sdm_fs *fs, const char *from, const char *to) {
  sdm_file *in;
  int rc = fs->open(fs, from, SDM_OPEN_READ, &in);
  if (rc < 0) return rc;
  rc = copy_open(fs, in, to);
  fs->close(in);
  return rc;
}

static int make_empty(sdm_fs *fs, const char *path) {
  sdm_file *f;
  int rc = fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  if (rc == 0) fs->close(f);
  return rc;
}

typedef enum how { LEAVE_OUT, COPY, NAME_ONLY } how;

/* Of an unfinished cleaning's output only the names matter: they tell that it is to be forgotten. */
static how how_to_copy(const char *name) {
  int64_t base;
  sdm_file_kind kind;
  const char *suffix;
  if (sdm_snapshot_name_decode(name, &base) || strcmp(name, SDM_SWAP_NAME) == 0) return COPY;
  if (sdm_segment_name_decode(name, &base, &kind, &suffix) < 0 || strcmp(suffix, ".deleted") == 0) return LEAVE_OUT;
  if (strcmp(suffix, ".cleaned") == 0) return NAME_ONLY;
  return kind == SDM_FILE_DIGEST ? LEAVE_OUT : COPY;
}

static int copy_name(sdm_fs *fs, const char *from, const char *to, const char *name) {
  how h = how_to_copy(name);
  if (h == LEAVE_OUT) return 0;
  char *in = sdm_format("%s/%s", from, name), *out = sdm_format("%s/%s", to, name);
  int rc = !in || !out ? sdm_no_memory() : h == COPY ? copy_file(fs, in, out) : make_empty(fs, out);
  if (rc == SDM_NOT_FOUND) rc = sdm_fail(SDM_BUSY, "%s was there a moment ago: a broker is at work in the directory; try again", in);
  sdm_free(in);
  sdm_free(out);
  return rc;
}

int sdm_adopt_copy(sdm_fs *fs, const char *from, const char *to) {
  sdm_names names = {0};
  int rc = fs->list(fs, from, &names);     /* sorted: of segments that are being appended to the last is copied last */
  for (size_t i = 0; rc == 0 && i < names.count; i++) rc = copy_name(fs, from, to, names.items[i]);
  sdm_names_clear(&names);
  return rc;
}

static int sync_name(sdm_fs *fs, const char *dir, const char *name) {
  sdm_file *f;
  char *path = sdm_format("%s/%s", dir, name);
  int rc = path ? fs->open(fs, path, SDM_OPEN_READ, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = fs->sync(f);
  fs->close(f);
  return rc;
}

int sdm_adopt_sync(sdm_fs *fs, const char *dir) {
  sdm_names names = {0};
  int rc = fs->list(fs, dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) rc = sync_name(fs, dir, names.items[i]);
  sdm_names_clear(&names);
  return rc == 0 ? fs->sync_dir(fs, dir, NULL) : rc;
}
