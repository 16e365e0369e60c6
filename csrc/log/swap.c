#include "log/swap.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh.h"
#include "log/producer_snapshot.h"
#include "log/retired.h"
#include "log/scanner.h"

enum { NOTE_MAX = 128 };

int sdm_swap_note(sdm_log *l, int64_t from, int64_t to) {
  char text[NOTE_MAX];
  int n = snprintf(text, sizeof text, "sediment-swap 1\n%lld %lld\n", (long long)from, (long long)to);
  n += snprintf(text + n, sizeof text - (size_t)n, "checksum %016llx\n", (unsigned long long)sdm_hash64(text, (size_t)n));
  return sdm_fs_replace(l->fs, l->dir, SDM_SWAP_NAME, text, (size_t)n);
}

bool sdm_swap_read(sdm_fs *fs, const char *dir, int64_t *from, int64_t *to) {
  char *path = sdm_format("%s/%s", dir, SDM_SWAP_NAME), *text = NULL;
  size_t size;
  long long low, high;
  unsigned long long sum;
  bool ok = false;
  if (path && sdm_fs_read_all(fs, path, NOTE_MAX, &text, &size) == 0) {
    const char *end = strstr(text, "checksum ");
    ok = end && sscanf(text, "sediment-swap 1\n%lld %lld\nchecksum %llx", &low, &high, &sum) == 3 &&
         sum == sdm_hash64(text, (size_t)(end - text)) && low >= 0 && high > low;
  }
  if (ok) {
    *from = low;
    *to = high;
  }
  sdm_free(text);
  sdm_free(path);
  return ok;
}

static int remove_note(sdm_log *l) {
  char *path = sdm_format("%s/%s", l->dir, SDM_SWAP_NAME);
  int rc = path ? l->fs->unlink(l->fs, path) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int retire_range(sdm_log *l, int64_t from, int64_t to, int64_t now) {
  sdm_segment **old;
  size_t count;
  int rc = sdm_log_list(l, &old, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    if (old[i]->base_offset >= from && old[i]->base_offset < to) rc = sdm_retire(l, old[i], now);
  }
  sdm_segments_unref(old, count);
  return rc;
}

/* From here on there is no way back. The old segments are gone for good before the .swap is: what finds it knows which ones it replaces. */
static int switch_over(sdm_log *l, int64_t from, int64_t to, int64_t now) {
  sdm_segment *fresh = NULL;
  int rc = retire_range(l, from, to, now);
  if (rc == 0) rc = l->fs->sync_dir(l->fs, l->dir, NULL);
  if (rc == 0) rc = sdm_segment_rename(l->fs, l->dir, from, ".swap", "");
  if (rc == 0) rc = l->fs->sync_dir(l->fs, l->dir, NULL);
  if (rc == 0) rc = remove_note(l);
  if (rc == 0) rc = sdm_segment_open(l->fs, l->dir, from, true, &fresh);
  if (rc == 0 && (rc = sdm_log_edit_segments(l, from, to, fresh)) < 0) sdm_segment_unref(fresh);
  return rc;
}

/* The way back. What cannot be undone now, the next to lock undoes, or finishes if all of it is there: a .swap that stays must not meet the next
** cleaning.
*/
static int turn_back(sdm_log *l, int64_t from, int rc) {
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  int undone = sdm_segment_unlink(l->fs, l->dir, from, ".swap");
  if (undone == 0) undone = sdm_segment_unlink(l->fs, l->dir, from, ".cleaned");
  if (undone == 0) undone = remove_note(l);
  if (undone < 0) atomic_store(&l->control->unfinished, 1);
  return sdm_failure_tell(&why);
}

int sdm_swap_locked(sdm_log *l, int64_t from, int64_t to, int64_t now) {
  int rc = sdm_log_sync_locked(l);
  if (rc == 0) rc = sdm_log_raise_cleaned_locked(l, to);
  if (rc == 0) rc = sdm_producer_snapshots_drop_locked(l);
  if (rc == 0) rc = sdm_swap_note(l, from, to);
  if (rc == 0) rc = sdm_segment_rename(l->fs, l->dir, from, ".cleaned", ".swap");
  if (rc == 0) rc = l->fs->sync_dir(l->fs, l->dir, NULL);
  if (rc < 0) return turn_back(l, from, rc);
  atomic_store(&l->control->unfinished, 1);
  rc = switch_over(l, from, to, now);
  if (rc == 0) atomic_store(&l->control->unfinished, 0);
  return rc;
}

/* ---- an unfinished one ---- */

static int next_offset_of(sdm_fs *fs, const char *dir, int64_t base, int64_t *next) {
  char *path = sdm_segment_path(dir, base, SDM_FILE_LOG, ".swap");
  sdm_file *f;
  sdm_file_info info;
  sdm_scanner scan = {0};
  sdm_batch b;
  int rc = path ? fs->open(fs, path, SDM_OPEN_READ, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = fs->info(f, &info);
  if (rc == 0) {
    sdm_scanner_start(&scan, f, 0, info.size);
    while ((rc = sdm_scan_header(&scan, &b)) == 1) {
      if (sdm_batch_last_offset(&b) >= *next) *next = sdm_batch_last_offset(&b) + 1;
    }
  }
  sdm_scanner_free(&scan);
  fs->close(f);
  return rc == SDM_CORRUPT ? 0 : rc;
}

/* Whether the file has the suffix; its base. */
static bool suffixed(const char *name, const char *wanted, int64_t *base, sdm_file_kind *kind) {
  const char *suffix;
  return sdm_segment_name_decode(name, base, kind, &suffix) == 0 && strcmp(suffix, wanted) == 0;
}

static int64_t lowest_cleaned(const sdm_names *names) {
  int64_t base;
  sdm_file_kind kind;
  for (size_t i = 0; i < names->count; i++) {          /* sorted, and the digits lead */
    if (suffixed(names->items[i], ".cleaned", &base, &kind)) return base;
  }
  return INT64_MAX;
}

int sdm_swap_pending(sdm_fs *fs, const char *dir, const sdm_names *names, int64_t *from, int64_t *to) {
  int64_t lowest = -1, end = 0, cleaned = lowest_cleaned(names), noted_from, noted_to;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < names->count; i++) {
    int64_t base;
    sdm_file_kind kind;
    if (!suffixed(names->items[i], ".swap", &base, &kind) || kind != SDM_FILE_LOG || base >= cleaned) continue;
    if (lowest < 0) lowest = base;
    if (end < base + 1) end = base + 1;
    rc = next_offset_of(fs, dir, base, &end);
  }
  if (rc == 0 && lowest >= 0 && sdm_swap_read(fs, dir, &noted_from, &noted_to) && noted_from == lowest && noted_to > end) end = noted_to;
  *from = lowest < 0 ? 0 : lowest;
  *to = lowest < 0 ? 0 : end;
  return rc;
}
