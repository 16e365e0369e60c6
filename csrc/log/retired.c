/* When a segment was retired is the modification time of its .timeindex, set by the store's clock as it was renamed: so it needs no list that a crash
** could lose, and any process can tell which files are due. What retention takes is due in the order of the offsets. Not that of the .log, which a backup may
** share.
*/
#include "log/retired.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

static bool retired(const char *name, int64_t *base, sdm_file_kind *kind) {
  const char *suffix;
  return sdm_segment_name_decode(name, base, kind, &suffix) == 0 && strcmp(suffix, ".deleted") == 0;
}

static bool retired_log(const char *name, int64_t *base) {
  sdm_file_kind kind;
  return retired(name, base, &kind) && kind == SDM_FILE_LOG;
}

/* Greatest base <= offset among the retired; only when every live segment lies above the offset may it be asked for. */
static int64_t pick(const sdm_names *names, int64_t offset) {
  int64_t best = -1, base;
  for (size_t i = 0; i < names->count; i++) {
    if (retired_log(names->items[i], &base) && base <= offset) best = base;
  }
  return best;
}

static int open_retired(sdm_log *l, int64_t base, sdm_segment **out) {
  char *path = sdm_segment_path(l->dir, base, SDM_FILE_LOG, ".deleted");
  int rc = path ? sdm_segment_open_as(l->fs, l->dir, base, path, out) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

/* The least base above `base`, if it is below `bound`. */
static int64_t next_to(const sdm_names *names, int64_t base, int64_t bound) {
  int64_t found;
  for (size_t i = 0; i < names->count; i++) {
    if (retired_log(names->items[i], &found) && found > base && found < bound) bound = found;
  }
  return bound;
}

/* Files go in the order of their offsets (time_to_retire). So one that can still be opened after the folder was listed tells that none behind it is missing in the list: a reader
** must not pass over a segment for the only reason that it has just gone.
*/
int sdm_retired_find(sdm_log *l, int64_t offset, sdm_segment **out, int64_t *next_base) {
  sdm_names names = {0};
  int rc = l->fs->list(l->fs, l->dir, &names);
  if (rc < 0) return rc;
  int64_t base = pick(&names, offset), next = next_to(&names, base, *next_base);
  sdm_names_clear(&names);
  if (base < 0) return 0;
  rc = open_retired(l, base, out);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;
  *next_base = next;
  return 1;
}

static bool is_there(sdm_log *l, int64_t base, sdm_file_kind kind, const char *suffix) {
  sdm_file_info info;
  char *path = sdm_segment_path(l->dir, base, kind, suffix);
  bool there = path && l->fs->path_info(l->fs, path, &info) == 0;
  sdm_free(path);
  return there;
}

/* With a descriptor of its own, which is closed at once: there may be thousands of segments to go. A time index that is missing is made for it. */
static int set_time(sdm_log *l, int64_t base, const char *suffix, int64_t now) {
  sdm_file *f;
  int create = is_there(l, base, SDM_FILE_LOG, suffix) ? SDM_OPEN_CREATE : 0;
  char *path = sdm_segment_path(l->dir, base, SDM_FILE_TIMEINDEX, suffix);
  int rc = path ? l->fs->open(l->fs, path, SDM_OPEN_WRITE | create, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = l->fs->set_modified(f, now);
  l->fs->close(f);
  return rc;
}

/* Never before those that went earlier, though others may have asked the clock later and come first. A clock that was set back is believed. */
static int64_t time_to_retire(sdm_control *c, int64_t now) {
  enum { LATE_MS = 60000 };
  if (now >= c->retired_ms || sdm_sub_sat(c->retired_ms, now) > LATE_MS) c->retired_ms = now;
  return c->retired_ms;
}

int sdm_retire(sdm_log *l, sdm_segment *s, int64_t now) {
  int rc = set_time(l, s->base_offset, "", time_to_retire(l->control, now));
  if (rc == SDM_NOT_FOUND) rc = 0;         /* a deletion that failed half-way goes on */
  return rc == 0 ? sdm_segment_rename(l->fs, l->dir, s->base_offset, "", ".deleted") : rc;
}

/* A time that is still to come is of a clock that ran ahead and was set right: the wait begins now. */
static int unlink_if_due(sdm_log *l, int64_t base, int64_t now, int64_t before, int64_t *segments) {
  sdm_file_info info;
  char *path = sdm_segment_path(l->dir, base, SDM_FILE_TIMEINDEX, ".deleted");
  int rc = path ? l->fs->path_info(l->fs, path, &info) : sdm_no_memory();
  sdm_free(path);
  bool remains = rc == SDM_NOT_FOUND;      /* of one that was lost, or that went half-way: nobody needs them */
  if (remains && is_there(l, base, SDM_FILE_TIMEINDEX, "")) return 0;        /* it is just going: its .log is renamed first */
  if (rc < 0 && !remains) return rc;
  bool ahead = rc == 0 && info.modified_ms > now;
  if (rc == 0 && (ahead ? now : info.modified_ms) > before) return ahead ? set_time(l, base, ".deleted", now) : 0;
  rc = sdm_segment_unlink(l->fs, l->dir, base, ".deleted");
  if (rc == 0 && !remains) (*segments)++;
  return rc;
}

int sdm_retired_unlink(sdm_log *l, int64_t now, int64_t delay_ms, int64_t *segments) {
  sdm_names names = {0};
  sdm_file_kind kind;
  int64_t base, last = -1;
  int rc = l->fs->list(l->fs, l->dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (!retired(names.items[i], &base, &kind) || base == last) continue;
    last = base;
    rc = unlink_if_due(l, base, now, sdm_sub_sat(now, delay_ms), segments);
  }
  sdm_names_clear(&names);
  return rc;
}
