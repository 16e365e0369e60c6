/* What a crash leaves in a partition's folder, by file names alone. In this order (Kafka's, docs/format.md 7):
**   *.deleted   were waiting for their deletion: go.
**   *.cleaned   an unfinished cleaning: go, and with them every .swap from the lowest of them on: that swap had not begun for good.
**   *.swap      a swap past its point of no return: the old segments it replaces go, and it gets its name.
**   indexes without a .log: go, unless they are those of a closed segment that was lost.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "log/recover.h"
#include "log/segment_digest.h"
#include "log/swap.h"

typedef struct folder {
  sdm_fs *fs;
  const char *dir;
  int64_t known_from, known_to;          /* offsets that the log is known to have had */
  sdm_names names;
} folder;

typedef struct entry {
  int64_t base;
  sdm_file_kind kind;
  const char *suffix;                    /* "" for a plain file, ".swap", ... */
} entry;

static int unlink_name(folder *d, const char *name) {
  char *path = sdm_format("%s/%s", d->dir, name);
  int rc = path ? d->fs->unlink(d->fs, path) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int list(folder *d) {
  sdm_names_clear(&d->names);
  return d->fs->list(d->fs, d->dir, &d->names);
}

/* A .snapshot counts as a segment's file here: it goes and comes with the others. */
static bool base_of(const char *name, int64_t *base, const char **suffix) {
  const char *dot;
  char digits[21];
  if (strlen(name) < 21 || name[20] != '.' || strspn(name, "0123456789") != 20) return false;
  memcpy(digits, name, 20);
  digits[20] = 0;
  *base = strtoll(digits, NULL, 10);
  dot = strchr(name + 21, '.');
  *suffix = dot ? dot : "";
  return true;
}

static int unlink_where(folder *d, const char *suffix, int64_t from, int64_t to) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < d->names.count; i++) {
    int64_t base;
    const char *s;
    if (base_of(d->names.items[i], &base, &s) && strcmp(s, suffix) == 0 && base >= from && base < to) rc = unlink_name(d, d->names.items[i]);
  }
  return rc;
}

static bool lowest(folder *d, const char *suffix, int64_t *base) {
  for (size_t i = 0; i < d->names.count; i++) {      /* sorted, and the digits lead */
    const char *s;
    if (base_of(d->names.items[i], base, &s) && strcmp(s, suffix) == 0) return true;
  }
  return false;
}

static int rename_swaps(folder *d) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < d->names.count; i++) {
    int64_t base;
    const char *suffix;
    if (!base_of(d->names.items[i], &base, &suffix) || strcmp(suffix, ".swap") != 0) continue;
    char *from = sdm_format("%s/%s", d->dir, d->names.items[i]), *to = sdm_strdup(from ? from : "");
    if (from && to) to[strlen(to) - strlen(".swap")] = 0;
    rc = from && to ? d->fs->rename(d->fs, from, to) : sdm_no_memory();
    sdm_free(from);
    sdm_free(to);
  }
  return rc;
}

/* Each step is on the disk before the next, so that another crash finds either the .swap files or nothing more to do. The first is that they have their
** names: a process may have died before they were saved, and where one is a .cleaned again and the old segments are gone, the rest would go too.
*/
static int finish_swaps(folder *d) {
  int64_t from, to, any;
  bool swaps = lowest(d, ".swap", &any);
  int rc = sdm_swap_pending(d->fs, d->dir, &d->names, &from, &to);
  if (rc == 0 && swaps) rc = d->fs->sync_dir(d->fs, d->dir, NULL);
  if (rc == 0) rc = unlink_where(d, "", from, to);
  if (rc == 0 && swaps) rc = d->fs->sync_dir(d->fs, d->dir, NULL);
  if (rc == 0) rc = rename_swaps(d);
  if (rc == 0 && swaps) rc = d->fs->sync_dir(d->fs, d->dir, NULL);
  if (rc == 0) rc = unlink_name(d, SDM_SWAP_NAME);
  return rc;
}

static int undo_cleaned(folder *d) {
  int64_t cleaned;
  if (!lowest(d, ".cleaned", &cleaned)) return 0;
  int rc = unlink_where(d, ".swap", cleaned, INT64_MAX);
  return rc == 0 ? unlink_where(d, ".cleaned", 0, INT64_MAX) : rc;
}

static int by_name(const void *key, const void *item) { return strcmp(key, *(char *const *)item); }

static bool has(const folder *d, int64_t base, const char *extension) {
  char name[40];
  snprintf(name, sizeof name, "%020lld.%s", (long long)base, extension);
  return bsearch(name, d->names.items, d->names.count, sizeof *d->names.items, by_name) != NULL;
}

/* A deletion takes the oldest segments, below the log start, a broker's all files but the digest, which it does not know, and a loss of power what was not
** saved. So a .log behind the first that is missing while the others are there, among offsets that are known to have been there, was lost. */
static bool seems_lost(const folder *d, const entry *e, size_t logs_before) {
  return e->kind == SDM_FILE_DIGEST && logs_before > 0 && e->base >= d->known_from && e->base < d->known_to && has(d, e->base, "timeindex") && !has(d, e->base, "log");
}

/* Binds the digest of `base` to an empty file of that name. 0: there is no digest that says anything. */
static int bind_to_empty(folder *d, int64_t base, const char *path) {
  sdm_segment *s;
  sdm_file *f;
  int rc = d->fs->open(d->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  if (rc < 0) return rc;
  d->fs->close(f);
  if ((rc = sdm_segment_open_as(d->fs, d->dir, base, path, &s)) < 0) return rc;
  rc = sdm_segment_digest_bind(s);
  sdm_segment_unref(s);
  return rc;
}

/* An empty .log takes the place of the lost one. Its digest says that it was cut, which all are told who come there. Until that is so there is none:
** a death in between leaves what was found. 0: it would not be told. */
static int stand_in(folder *d, int64_t base) {
  char *log = sdm_segment_path(d->dir, base, SDM_FILE_LOG, ""), *made = sdm_segment_path(d->dir, base, SDM_FILE_LOG, ".tmp");
  int rc = log && made ? bind_to_empty(d, base, made) : sdm_no_memory();
  bool told = rc == 1;
  if (told) rc = d->fs->rename(d->fs, made, log);
  else if (rc == 0) rc = d->fs->unlink(d->fs, made);
  sdm_free(log);
  sdm_free(made);
  return rc == 0 ? told : rc;
}

/* Sorted names put 0042.digest and .index before 0042.log, so the .log is looked for. Returns the bases of the plain logs. */
static int drop_orphans(folder *d, int64_t **bases, size_t *count) {
  int rc = 0;
  *count = 0;
  *bases = sdm_malloc(d->names.count * sizeof(**bases));
  if (!*bases) return sdm_no_memory();
  for (size_t i = 0; rc == 0 && i < d->names.count; i++) {
    entry e;
    if (sdm_segment_name_decode(d->names.items[i], &e.base, &e.kind, &e.suffix) < 0 || *e.suffix) continue;
    if (seems_lost(d, &e, *count)) rc = stand_in(d, e.base);
    if (rc == 1 || e.kind == SDM_FILE_LOG) (*bases)[(*count)++] = e.base;
    else if (rc == 0 && !has(d, e.base, "log")) rc = unlink_name(d, d->names.items[i]);
    if (rc == 1) rc = 0;
  }
  return rc;
}

int sdm_recover_files(sdm_fs *fs, const char *dir, int64_t known_from, int64_t known_to, int64_t **bases, size_t *count) {
  folder d = {.fs = fs, .dir = dir, .known_from = known_from, .known_to = known_to};
  *bases = NULL;
  int rc = list(&d);
  if (rc == 0) rc = unlink_where(&d, ".deleted", 0, INT64_MAX);
  if (rc == 0) rc = undo_cleaned(&d);
  if (rc == 0) rc = list(&d);
  if (rc == 0) rc = finish_swaps(&d);
  if (rc == 0) rc = list(&d);
  if (rc == 0) rc = drop_orphans(&d, bases, count);
  sdm_names_clear(&d.names);
  if (rc < 0) {
    sdm_free(*bases);
    *bases = NULL;
  }
  return rc;
}

/* A deletion that ended half-way: the .log has its new name, and the rest of its files not. It must not be there longer than those behind it (retired.h). */
static int finish_deletions(folder *d) {
  int rc = list(d);
  for (size_t i = 0; rc == 0 && i < d->names.count; i++) {
    entry e;
    if (sdm_segment_name_decode(d->names.items[i], &e.base, &e.kind, &e.suffix) < 0 || e.kind != SDM_FILE_LOG || strcmp(e.suffix, ".deleted") != 0) continue;
    if (!has(d, e.base, "log")) rc = sdm_segment_rename(d->fs, d->dir, e.base, "", ".deleted");
  }
  return rc;
}

int sdm_recover_set(sdm_fs *fs, const char *dir, int64_t active_base) {
  folder d = {.fs = fs, .dir = dir};
  int64_t from, to;
  int rc = list(&d);
  if (rc == 0) rc = unlink_where(&d, "", active_base + 1, INT64_MAX);
  if (rc == 0 && sdm_swap_read(fs, dir, &from, &to)) {
    rc = undo_cleaned(&d);
    if (rc == 0) rc = list(&d);
    if (rc == 0) rc = finish_swaps(&d);
  }
  if (rc == 0) rc = finish_deletions(&d);
  sdm_names_clear(&d.names);
  return rc;
}
