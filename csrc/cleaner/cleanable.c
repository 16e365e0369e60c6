#include "cleaner/cleanable.h"

#include "base/clock.h"
#include "log/offsets.h"
#include "log/transactions.h"

int64_t sdm_first_dirty(sdm_log *l) {
  int64_t start = sdm_log_start(l), end = start;
  sdm_end e;
  if (!l->env) return start;
  if (sdm_log_read_end(l, &e, NULL) == 0) end = sdm_end_offset(&e);
  int64_t kept = l->control ? atomic_load(&l->control->clean_offset) : sdm_offsets_get(l->fs, l->env->root, SDM_CLEANER_CHECKPOINT, l->topic, l->partition);
  return kept < start || kept > end ? start : kept;
}

/* One look at all segments: closed[i] ends where the next begins; the last is the active one. */
typedef struct view {
  sdm_segment **segments;
  size_t count;
} view;

static bool holds_from(const view *v, size_t i, int64_t from) { return i + 1 >= v->count || v->segments[i + 1]->base_offset > from; }
static int64_t active_base(const view *v) { return v->segments[v->count - 1]->base_offset; }

/* min.compaction.lag.ms: the first dirty segment that is too young ends the range. */
static int bound_by_lag(sdm_log *l, const view *v, const sdm_log_config *cfg, int64_t now, int64_t first, int64_t *bound) {
  if (cfg->min_compaction_lag_ms <= 0) return 0;
  for (size_t i = 0; i + 1 < v->count; i++) {
    int64_t newest;
    if (!holds_from(v, i, first)) continue;
    int rc = sdm_log_largest_timestamp(l, v->segments[i], &newest);
    sdm_segment_rest(v->segments[i]);
    if (rc < 0) return rc;
    if (newest <= sdm_sub_sat(now, cfg->min_compaction_lag_ms)) continue;
    if (v->segments[i]->base_offset < *bound) *bound = v->segments[i]->base_offset;
    return 0;
  }
  return 0;
}

/* What is of no decided transaction yet must stay as it is: nothing past the last stable offset is cleaned. */
static int bound_by_stability(sdm_log *l, int64_t *bound) {
  sdm_transactions *t;
  int rc = sdm_transactions_get(l, &t);
  if (t && t->first_open < *bound) *bound = t->first_open;
  sdm_transactions_unref(t);
  return rc;
}

/* Base of the closed segment that contains it, else of the active one. */
static int64_t round_down(const view *v, int64_t bound) {
  for (size_t i = 0; i + 1 < v->count; i++) {
    if (v->segments[i + 1]->base_offset > bound) return v->segments[i]->base_offset;
  }
  return active_base(v);
}

static void sum_bytes(const view *v, sdm_cleanable *c) {
  for (size_t i = 0; i + 1 < v->count; i++) {
    int64_t base = v->segments[i]->base_offset, size = v->segments[i]->size;
    if (base < c->first_dirty) c->clean_bytes += size;
    if (c->first_dirty < c->bound && base < c->bound && holds_from(v, i, c->first_dirty)) c->dirty_bytes += size;
  }
}

static int find_overdue(sdm_log *l, const view *v, const sdm_log_config *cfg, int64_t now, sdm_cleanable *c) {
  int64_t limit = sdm_sub_sat(now, cfg->max_compaction_lag_ms);
  for (size_t i = 0; limit > 0 && i + 1 < v->count; i++) {
    int64_t first;
    if (!holds_from(v, i, c->first_dirty)) continue;
    int rc = sdm_log_first_timestamp(l, v->segments[i], &first);
    sdm_segment_rest(v->segments[i]);
    if (rc < 0) return rc;
    if (first > 0 && first < limit) c->overdue = true;
  }
  return 0;
}

typedef struct question {
  const sdm_log_config *cfg;
  int64_t now;
  sdm_cleanable *out;
} question;

static int find_range(sdm_log *l, void *context) {
  question *q = context;
  sdm_cleanable *out = q->out;
  view v;
  int rc = sdm_log_segment_refs(l, INT64_MAX, &v.segments, &v.count);
  if (rc < 0) return rc;
  *out = (sdm_cleanable){.first_dirty = sdm_first_dirty(l), .bound = active_base(&v)};
  rc = bound_by_stability(l, &out->bound);
  if (rc == 0) rc = bound_by_lag(l, &v, q->cfg, q->now, out->first_dirty, &out->bound);
  if (out->bound < out->first_dirty) out->bound = out->first_dirty;
  out->bound = round_down(&v, out->bound);
  sum_bytes(&v, out);
  if (rc == 0) rc = find_overdue(l, &v, q->cfg, q->now, out);
  sdm_segments_unref(v.segments, v.count);
  return rc;
}

int sdm_cleanable_range(sdm_log *l, const sdm_log_config *cfg, int64_t now, sdm_cleanable *out) {
  question q = {cfg, now, out};
  return sdm_log_steadily(l, find_range, &q);
}

double sdm_dirty_ratio(const sdm_cleanable *c) {
  int64_t total = c->clean_bytes + c->dirty_bytes;
  return total > 0 ? (double)c->dirty_bytes / (double)total : 0;
}

bool sdm_cleaning_due(const sdm_cleanable *c, const sdm_log_config *cfg) {
  return c->dirty_bytes > 0 && (c->overdue || sdm_dirty_ratio(c) > cfg->min_cleanable_dirty_ratio);
}
