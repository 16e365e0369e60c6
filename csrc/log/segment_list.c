/* This process's list of a log's segments: brought up to date when the control page's generation has moved, handed out as references. */
#include <string.h>

#include "base/mem.h"
#include "log/bare.h"
#include "log/log.h"
#include "log/swap.h"

typedef struct list {
  sdm_segment **items;
  size_t count, capacity;
} list;

static int list_add(list *a, sdm_segment *s) {
  sdm_segment **items = sdm_grown(a->items, a->count, &a->capacity, sizeof(*items));
  if (!items) return sdm_no_memory();
  a->items = items;
  a->items[a->count++] = s;
  return 0;
}

void sdm_segments_unref(sdm_segment **segments, size_t count) {
  for (size_t i = 0; i < count; i++) sdm_segment_unref(segments[i]);
  sdm_free(segments);
}

/* Greatest i with base <= offset, or -1. */
static ptrdiff_t floor_of(sdm_segment *const *segments, size_t count, int64_t offset) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (segments[middle]->base_offset <= offset) low = middle + 1;
    else high = middle;
  }
  return (ptrdiff_t)low - 1;
}

/* The segment as it is on disk now; the object known so far when it is the same file and was closed then as well. */
static int look_at(sdm_log *l, int64_t base, const char *suffix, int64_t active_base, sdm_segment **out) {
  ptrdiff_t i = floor_of(l->segments, l->count, base);
  sdm_segment *known = i >= 0 && l->segments[i]->base_offset == base ? l->segments[i] : NULL;
  int rc = *suffix ? sdm_segment_open_suffixed(l->fs, l->dir, base, suffix, out) : sdm_segment_open(l->fs, l->dir, base, l->writable, out);
  if (rc < 0 || !known || known->inode != (*out)->inode || strcmp(known->suffix, suffix) != 0) return rc;
  bool was_active = known == l->active, is_active = base == active_base;
  if (was_active == is_active && (is_active || known->size == (*out)->size)) {
    sdm_segment_unref(*out);
    *out = sdm_segment_ref(known);
  }
  return 0;
}

/* Which of the names in a folder stand for a segment: the plain ones; and where an interrupted swap is only read, its .swap files in place of those that they
** replace.
*/
typedef struct choice {
  int64_t active_base;
  int64_t from, to;                        /* the range of an interrupted swap; empty when there is none */
} choice;

static const char *chosen(const choice *c, const char *name, int64_t *base) {
  sdm_file_kind kind;
  const char *suffix;
  if (sdm_segment_name_decode(name, base, &kind, &suffix) < 0 || kind != SDM_FILE_LOG || *base > c->active_base) return NULL;      /* above: an unfinished roll's */
  bool within = *base >= c->from && *base < c->to;
  if (strcmp(suffix, ".swap") == 0) return within ? ".swap" : NULL;
  return *suffix || within ? NULL : "";
}

static int add_segments(sdm_log *l, const choice *c, const sdm_names *names, list *out) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < names->count; i++) {
    sdm_segment *s;
    int64_t base;
    const char *suffix = chosen(c, names->items[i], &base);
    if (!suffix) continue;
    if ((rc = look_at(l, base, suffix, c->active_base, &s)) == 0 && (rc = list_add(out, s)) < 0) sdm_segment_unref(s);
  }
  return rc;
}

static int read_list(sdm_log *l, int64_t active_base, list *out) {
  sdm_names names = {0};
  choice c = {.active_base = active_base};
  int rc = l->fs->list(l->fs, l->dir, &names);
  bool bare = rc == 0 && active_base == INT64_MAX;     /* the page may have come since */
  if (rc == 0 && !l->writable) rc = sdm_swap_pending(l->fs, l->dir, &names, &c.from, &c.to);
  if (rc == 0 && !bare && c.from < c.to) rc = sdm_fail(SDM_NOT_FOUND, "%s: segments are being replaced", l->dir);
  if (rc == 0) rc = add_segments(l, &c, &names, out);
  if (rc == SDM_NOT_FOUND && bare) rc = SDM_BUSY;          /* a file that was listed is gone */
  sdm_names_clear(&names);
  if (rc < 0) return rc;
  if (bare) return out->count > 0 ? 0 : sdm_fail(SDM_NOT_FOUND, "%s has no segments (no .log files): it is no partition directory", l->dir);
  if (out->count > 0 && out->items[out->count - 1]->base_offset == active_base) return 0;
  return sdm_fail(SDM_CORRUPT, "%s: the active segment %020lld.log is missing; close the store in every process and open it again", l->dir, (long long)active_base);
}

static void install(sdm_log *l, list *fresh) {
  list old = {l->segments, l->count, l->capacity};
  sdm_segment *active = l->active;
  for (size_t i = 0; i < old.count; i++) atomic_store_explicit(&old.items[i]->listed, false, memory_order_release);
  for (size_t i = 0; i < fresh->count; i++) atomic_store_explicit(&fresh->items[i]->listed, true, memory_order_release);
  l->segments = fresh->items;
  l->count = fresh->count;
  l->capacity = fresh->capacity;
  l->active = l->count ? sdm_segment_ref(l->segments[l->count - 1]) : NULL;
  sdm_segment_unref(active);
  sdm_segments_unref(old.items, old.count);
}

static int reload(sdm_log *l, int64_t active_base) {
  list fresh = {0};
  sdm_mutex_lock(&l->lock);
  int rc = read_list(l, active_base, &fresh);
  if (rc == 0) install(l, &fresh);
  else sdm_segments_unref(fresh.items, fresh.count);
  sdm_mutex_unlock(&l->lock);
  return rc;
}

int sdm_log_sync_locked(sdm_log *l) {
  sdm_log_warm(l);
  uint64_t generation = atomic_load_explicit(&l->control->generation, memory_order_acquire);
  if (generation == l->generation) return 0;
  int rc = reload(l, sdm_control_end(l->control)->active_base);
  if (rc == 0) l->generation = generation;
  return rc;
}

/* Without the right to lock: looks again when the set changed while it was looking. */
static int sync_readonly(sdm_log *l) {
  enum { TRIES = SDM_AWAIT_MAX };
  sdm_end end;
  int rc = 0;
  for (int i = 0; i < TRIES; i++) {
    uint64_t generation = atomic_load_explicit(&l->control->generation, memory_order_acquire);
    if (generation == l->generation) return 0;
    sdm_control_read(l->control, &end);
    rc = reload(l, end.active_base);
    if (atomic_load_explicit(&l->control->generation, memory_order_acquire) != generation) continue;
    if (rc == SDM_NOT_FOUND && i + 1 < TRIES) {          /* a swap or a deletion is on its way */
      sdm_log_await_change(l, i);
      continue;
    }
    if (rc == 0) l->generation = generation;
    return rc;
  }
  return rc < 0 ? rc : sdm_fail(SDM_BUSY, "%s: its segments keep changing; try again", l->dir);
}

static int sync_list(sdm_log *l) {
  if (!l->control) {
    atomic_store(&l->bare_stale, false);
    int rc = sdm_bare_refresh(l);
    if (rc < 0 || !l->control) return rc;
  }
  sdm_log_warm(l);
  if (!l->writable) return sdm_log_tell_deleted(l, sync_readonly(l));
  if (atomic_load_explicit(&l->control->generation, memory_order_acquire) == l->generation) return 0;
  int rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  rc = sdm_log_sync_locked(l);
  sdm_log_unlock(l);
  return rc;
}

int sdm_log_reload_bare(sdm_log *l) { return reload(l, INT64_MAX); }

static int refs_below(sdm_log *l, int64_t below, sdm_segment ***out, size_t *count) {
  sdm_mutex_lock(&l->lock);
  size_t n = (size_t)(floor_of(l->segments, l->count, below == INT64_MAX ? below : below - 1) + 1);
  sdm_segment **refs = sdm_malloc(n * sizeof(*refs));
  for (size_t i = 0; refs && i < n; i++) refs[i] = sdm_segment_ref(l->segments[i]);
  sdm_mutex_unlock(&l->lock);
  if (!refs) return sdm_no_memory();
  *out = refs;
  *count = n;
  return 0;
}

int sdm_log_list(sdm_log *l, sdm_segment ***out, size_t *count) { return refs_below(l, INT64_MAX, out, count); }

int sdm_log_segment_refs(sdm_log *l, int64_t below, sdm_segment ***out, size_t *count) {
  int rc = sync_list(l);
  return rc < 0 ? rc : refs_below(l, below, out, count);
}

/* In a bare directory that would be a look at every file, for each segment that a reader comes to. One that is closed is as it was, or its file is gone. */
static bool list_will_do(sdm_log *l, int64_t offset) {
  if (l->control || atomic_load(&l->bare_stale)) return false;
  sdm_mutex_lock(&l->lock);
  bool closed = l->count > 1 && offset >= l->segments[0]->base_offset && offset < l->segments[l->count - 1]->base_offset;
  sdm_mutex_unlock(&l->lock);
  return closed;
}

int sdm_log_find(sdm_log *l, int64_t offset, sdm_segment **out, int64_t *next_base) {
  int rc = list_will_do(l, offset) ? 0 : sync_list(l);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  ptrdiff_t i = floor_of(l->segments, l->count, offset);
  *out = i >= 0 ? sdm_segment_ref(l->segments[i]) : NULL;
  *next_base = (size_t)(i + 1) < l->count ? l->segments[i + 1]->base_offset : INT64_MAX;
  sdm_mutex_unlock(&l->lock);
  return 0;
}

int sdm_log_steadily(sdm_log *l, int (*f)(sdm_log *l, void *context), void *context) {
  int rc = SDM_NOT_FOUND;
  for (int i = 0; rc == SDM_NOT_FOUND && i < SDM_AWAIT_MAX; i++) {
    if (i > 0) sdm_log_await_change(l, i - 1);
    rc = f(l, context);
    if (rc == SDM_NOT_FOUND) atomic_store(&l->bare_stale, true);
  }
  return sdm_log_explain(l, rc);
}

bool sdm_log_is_dense(const sdm_log *l, const sdm_segment *s) {
  const _Atomic int64_t *cleaned_end = l->control ? &l->control->cleaned_end : &l->bare_cleaned_end;
  return s->base_offset >= atomic_load_explicit(cleaned_end, memory_order_acquire);
}

static void raise_generation(sdm_log *l) {
  l->generation = atomic_fetch_add_explicit(&l->control->generation, 1, memory_order_acq_rel) + 1;
}

int sdm_log_edit_segments(sdm_log *l, int64_t from, int64_t to, sdm_segment *fresh) {
  list edited = {0};
  int rc = 0;
  sdm_mutex_lock(&l->lock);
  for (size_t i = 0; rc == 0 && i < l->count; i++) {
    sdm_segment *s = l->segments[i];
    if (fresh && s->base_offset >= to) {
      rc = list_add(&edited, fresh);
      fresh = NULL;
    }
    if (rc == 0 && (s->base_offset < from || s->base_offset >= to) && (rc = list_add(&edited, s)) == 0) sdm_segment_ref(s);
  }
  if (rc == 0 && fresh) rc = list_add(&edited, fresh);
  if (rc == 0) install(l, &edited);
  sdm_mutex_unlock(&l->lock);
  if (rc < 0) {
    for (size_t i = 0; i < edited.count; i++) {
      if (edited.items[i]->base_offset < from || edited.items[i]->base_offset >= to) sdm_segment_unref(edited.items[i]);
    }
    sdm_free(edited.items);
    return rc;
  }
  raise_generation(l);
  return 0;
}

/* ---- where the log begins and ends ---- */

/* Who only reads may find the page just being made anew: it says nothing until that is over. */
static int read_page(sdm_log *l, sdm_end *out, uint64_t *number) {
  for (;;) {
    *number = sdm_control_read(l->control, out);
    if (l->writable || atomic_load_explicit(&l->control->incarnation, memory_order_acquire) == l->incarnation) return 0;
    int rc = sdm_log_check(l);
    if (rc < 0) return rc;
  }
}

int sdm_log_read_end(sdm_log *l, sdm_end *out, uint64_t *commit) {
  uint64_t number = 0;
  int rc = l->control ? 0 : sdm_bare_refresh(l);
  bool paged = l->control;                 /* from here on, whatever other threads find */
  if (rc == 0 && paged) rc = read_page(l, out, &number);
  if (rc < 0) return rc;
  if (!paged) sdm_bare_end(l, out);
  if (commit) *commit = number;
  return 0;
}

void sdm_log_last_end(sdm_log *l, sdm_end *out) {
  if (l->control) sdm_control_read(l->control, out);
  else sdm_bare_end(l, out);
}

int64_t sdm_log_start(sdm_log *l) {
  return l->control ? atomic_load_explicit(&l->control->log_start, memory_order_acquire) : l->bare_start;
}

int sdm_log_segment_limit(sdm_log *l, sdm_segment *s, int64_t *limit) {
  sdm_end end;
  sdm_file *f;
  sdm_file_info info;
  sdm_log_last_end(l, &end);
  if (s->base_offset == end.active_base) {
    *limit = end.position;
    return 0;
  }
  int rc;
  if ((rc = sdm_segment_file(s, SDM_FILE_LOG, &f)) < 0 || (rc = l->fs->info(f, &info)) < 0) return rc;
  *limit = info.size;
  return 0;
}
