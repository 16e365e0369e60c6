/* What is the same for every implementation of the table in fs.h. */
#include "os/fs.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int sdm_fs_read_all(sdm_fs *fs, const char *path, size_t limit, char **bytes, size_t *size) {
  sdm_file *f;
  sdm_file_info info;
  char *data = NULL;
  size_t got = 0;
  int rc = fs->open(fs, path, SDM_OPEN_READ, &f);
  if (rc < 0) return rc;
  rc = fs->info(f, &info);
  if (rc == 0 && (uint64_t)info.size > limit) rc = sdm_fail(SDM_CORRUPT, "%s has %lld bytes, more than the %zu it may have", path, (long long)info.size, limit);
  if (rc < 0) goto out;
  data = sdm_malloc((size_t)info.size + 1);
  rc = data ? fs->read(f, data, (size_t)info.size, 0, &got) : sdm_no_memory();
out:
  fs->close(f);
  if (rc < 0) {
    sdm_free(data);
    return rc;
  }
  data[got] = 0;
  *bytes = data;
  *size = got;
  return 0;
}

static int write_synced(sdm_fs *fs, const char *path, const void *bytes, size_t size) {
  sdm_file *f;
  int rc = fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  if (rc < 0) return rc;
  rc = fs->write(f, bytes, size, 0);
  if (rc == 0) rc = fs->sync(f);
  fs->close(f);
  return rc;
}

int sdm_fs_replace(sdm_fs *fs, const char *dir, const char *name, const void *bytes, size_t size) {
  char *path = sdm_format("%s/%s", dir, name);
  char *fresh = sdm_format("%s/%s.tmp", dir, name);
  int rc = path && fresh ? write_synced(fs, fresh, bytes, size) : sdm_no_memory();
  if (rc == 0) rc = fs->rename(fs, fresh, path);
  if (rc < 0 && fresh) {                   /* half a file would only take room, on a disk that may be full */
    sdm_failure why = {0};
    sdm_failure_note(&why, rc);
    fs->unlink(fs, fresh);
    rc = sdm_failure_tell(&why);
  }
  if (rc == 0) rc = fs->sync_dir(fs, dir, NULL);
  sdm_free(path);
  sdm_free(fresh);
  return rc;
}

int sdm_fs_sync_parent(sdm_fs *fs, const char *path) {
  bool lost = false;
  char *parent = sdm_strdup(path), *slash = parent ? strrchr(parent, '/') : NULL;
  int rc = parent ? 0 : sdm_no_memory();
  if (slash) {
    *(slash == parent ? slash + 1 : slash) = 0;
    rc = fs->sync_dir(fs, parent, &lost);
    if (!lost) rc = 0;
  }
  sdm_free(parent);
  return rc;
}

void sdm_names_clear(sdm_names *n) {
  for (size_t i = 0; i < n->count; i++) sdm_free(n->items[i]);
  sdm_free(n->items);
  *n = (sdm_names){0};
}

int sdm_names_add(sdm_names *n, const char *name) {
  char **items = sdm_grown(n->items, n->count, &n->capacity, sizeof *items);
  if (!items) return sdm_no_memory();
  n->items = items;
  char *copy = sdm_strdup(name);
  if (!copy) return sdm_no_memory();
  n->items[n->count++] = copy;
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void sdm_names_sort(sdm_names *n) {
  if (n->count > 1) qsort(n->items, n->count, sizeof *n->items, by_name);
}
