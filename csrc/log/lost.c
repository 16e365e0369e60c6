#include "log/lost.h"

#include <string.h>

#include "base/mem.h"
#include "log/segment.h"
#include "log/swap.h"

int sdm_no_directory(const char *path) {
  return sdm_fail(SDM_NOT_FOUND, "%s is no directory; a partition's directory is expected, with its .log files in it", path);
}

/* A preallocated index without entries is all zeros. */
static int has_entries(sdm_fs *fs, const char *dir, const char *name) {
  uint8_t first[SDM_INDEX_ENTRY];
  char *path = sdm_format("%s/%s", dir, name);
  size_t got = 0;
  sdm_file *f;
  int rc = path ? fs->open(fs, path, SDM_OPEN_READ, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;
  rc = fs->read(f, first, sizeof first, 0, &got);
  fs->close(f);
  for (size_t i = 0; rc == 0 && i < got; i++) rc = first[i] != 0;
  return rc;
}

/* Under any suffix: one that is being deleted is not lost. The names are sorted, and those with a base stand together. */
static bool has_log(const sdm_names *names, size_t i, int64_t base) {
  int64_t other;
  sdm_file_kind kind;
  const char *suffix;
  while (i > 0 && strncmp(names->items[i - 1], names->items[i], 20) == 0) i--;
  for (; i < names->count; i++) {
    if (sdm_segment_name_decode(names->items[i], &other, &kind, &suffix) < 0) continue;
    if (other != base) return false;
    if (kind == SDM_FILE_LOG) return true;
  }
  return false;
}

static int check(sdm_fs *fs, const char *dir, const sdm_names *names) {
  int64_t swap_from, swap_to;
  bool begun = false;
  int rc = sdm_swap_pending(fs, dir, names, &swap_from, &swap_to);
  for (size_t i = 0; rc == 0 && i < names->count; i++) {
    int64_t base;
    sdm_file_kind kind;
    const char *suffix;
    if (sdm_segment_name_decode(names->items[i], &base, &kind, &suffix) < 0 || *suffix) continue;
    begun = begun || kind == SDM_FILE_LOG;
    if (!begun || (kind != SDM_FILE_INDEX && kind != SDM_FILE_TIMEINDEX) || (base >= swap_from && base < swap_to) || has_log(names, i, base)) continue;
    if ((rc = has_entries(fs, dir, names->items[i])) <= 0) continue;
    rc = sdm_fail(SDM_CORRUPT, "%s/%020lld.log is missing, though its index is there: records are lost; take the directory from another replica, or remove "
                  "the index to go on with what is left", dir, (long long)base);
  }
  return rc;
}

int sdm_check_none_lost(sdm_fs *fs, const char *dir) {
  sdm_names names = {0};
  int rc = fs->list(fs, dir, &names);
  if (rc == 0) rc = check(fs, dir, &names);
  sdm_names_clear(&names);
  return rc;
}
