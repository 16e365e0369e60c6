/* What a partition tells of itself: its segments and its numbers. */
#include <string.h>

#include "base/mem.h"
#include "cleaner/cleanable.h"
#include "log/stage.h"
#include "log/transactions.h"
#include "store/store.h"

/* An array and, behind it, the text of its paths: one allocation. */
static sdm_segment_info *new_infos(sdm_segment *const *segments, size_t count) {
  size_t text = 0;
  for (size_t i = 0; i < count; i++) text += strlen(segments[i]->dir) + sizeof "/00000000000000000000.log.swap";
  sdm_segment_info *infos = sdm_calloc(1, count * sizeof *infos + text + 1);
  char *p = infos ? (char *)(infos + count) : NULL;
  for (size_t i = 0; infos && i < count; i++) {
    char *path = sdm_segment_path(segments[i]->dir, segments[i]->base_offset, SDM_FILE_LOG, segments[i]->suffix);
    if (!path) {
      sdm_free(infos);
      return NULL;
    }
    infos[i].path = memcpy(p, path, strlen(path) + 1);
    p += strlen(path) + 1;
    sdm_free(path);
  }
  return infos;
}

/* `next_base`: of the segment after it, -1 for the active one. A segment that is clean in part is dirty. */
static int fill(sdm_log *l, sdm_segment *s, int64_t next_base, int64_t first_dirty, sdm_segment_info *out) {
  sdm_end end;
  bool active = next_base < 0;
  out->base_offset = s->base_offset;
  out->state = active ? SDM_SEGMENT_ACTIVE : next_base <= first_dirty ? SDM_SEGMENT_CLEAN : SDM_SEGMENT_DIRTY;
  int rc = sdm_log_count_segment(l, s, &out->records, NULL);
  if (rc == 0) rc = sdm_log_max_timestamp(l, s, &out->max_timestamp);
  if (rc == 0) rc = sdm_log_segment_limit(l, s, &out->size);
  if (rc == 0 && active && (rc = sdm_log_read_end(l, &end, NULL)) == 0 && end.active_base == s->base_offset) out->size = end.position + sdm_stage_size(&end);
  return rc;
}

typedef struct listing {
  sdm_segment_info *infos;
  size_t count;
} listing;

static int list_all(sdm_log *l, void *context) {
  listing *out = context;
  sdm_segment **segments;
  int rc = sdm_log_segment_refs(l, INT64_MAX, &segments, &out->count);
  if (rc < 0) return rc;
  int64_t first_dirty = sdm_first_dirty(l);
  out->infos = new_infos(segments, out->count);
  if (!out->infos) rc = sdm_no_memory();
  for (size_t i = 0; rc == 0 && i < out->count; i++) {
    rc = fill(l, segments[i], i + 1 < out->count ? segments[i + 1]->base_offset : -1, first_dirty, &out->infos[i]);
    sdm_segment_rest(segments[i]);
  }
  sdm_segments_unref(segments, out->count);
  if (rc < 0) sdm_free(out->infos);
  return rc;
}

int sdm_log_segments(sdm_log *l, sdm_segment_info **out, size_t *count) {
  listing all;
  int rc = sdm_log_check(l);
  if (rc == 0) rc = sdm_log_steadily(l, list_all, &all);
  if (rc < 0) return rc;
  *out = all.infos;
  *count = all.count;
  return 0;
}

void sdm_segments_free(sdm_segment_info *segments) { sdm_free(segments); }

static int sum_sizes(sdm_log *l, void *context) {
  sdm_log_stats *out = context;
  sdm_segment **segments;
  size_t count;
  sdm_end end;
  int rc = sdm_log_segment_refs(l, INT64_MAX, &segments, &count);
  if (rc < 0) return rc;
  out->segments = (int64_t)count;
  out->size = 0;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    int64_t size;
    rc = sdm_log_segment_limit(l, segments[i], &size);
    if (rc == 0) out->size += size;
    sdm_segment_rest(segments[i]);
  }
  if (rc == 0 && (rc = sdm_log_read_end(l, &end, NULL)) == 0) out->size += sdm_stage_size(&end);
  sdm_segments_unref(segments, count);
  return rc;
}

static void take_counters(const sdm_control *c, sdm_log_stats *out) {
  out->durable_offset = atomic_load(&c->durable_end);
  out->purge_floor = atomic_load(&c->purge_floor);
  out->rewritten_end = atomic_load(&c->cleaned_end);
  out->truncated_bytes = atomic_load(&c->truncated_bytes);
  out->corrupt_batches = atomic_load(&c->corrupt_batches);
  out->keyless_dropped = atomic_load(&c->keyless_dropped);
  out->uncleanable = atomic_load(&c->uncleanable);
  out->retention_failed = atomic_load(&c->retention_failed);
  out->cleaned_ms = atomic_load(&c->cleaned_ms);
}

static void take_found(const sdm_log *l, sdm_log_stats *out) {
  out->truncated_bytes = l->bare_left_out;
  if (l->bare_state.sequence > 0) out->purge_floor = l->bare_state.purge_floor;
}

static int last_stable(sdm_log *l, int64_t end, int64_t *out) {
  sdm_transactions *t;
  int rc = sdm_transactions_get(l, &t);
  *out = rc == 0 && t && t->first_open < end ? t->first_open : end;
  sdm_transactions_unref(t);
  return rc;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int sdm_log_get_bounds(sdm_log *l, sdm_log_bounds *out) {
  sdm_log_stats s = {.purge_floor = -1};
  int64_t end, stable = 0;
  int rc = sdm_log_latest(l, &end);
  if (rc == 0) rc = last_stable(l, end, &stable);
  if (rc < 0) return rc;
  int64_t start = sdm_log_start(l);
  if (l->control) take_counters(l->control, &s);
  else take_found(l, &s);
  *out = (sdm_log_bounds){start, end, least(s.purge_floor, stable - 1), least(s.rewritten_end, stable)};
  return 0;
}

int sdm_log_get_stats(sdm_log *l, int64_t now, sdm_log_stats *out) {
  sdm_log_config cfg;
  sdm_cleanable cleanable;
  sdm_log_stats s = {.purge_floor = -1, .cleaned_ms = -1};
  int rc = sdm_log_latest(l, &s.log_end_offset);
  if (rc == 0) rc = sdm_log_steadily(l, sum_sizes, &s);
  if (rc == 0) rc = last_stable(l, s.log_end_offset, &s.last_stable_offset);
  if (rc < 0) return rc;
  s.log_start_offset = sdm_log_start(l);
  s.durable_offset = s.log_end_offset;
  s.clean_offset = sdm_first_dirty(l);
  if (l->control) take_counters(l->control, &s);
  else take_found(l, &s);
  sdm_log_get_config(l, &cfg);
  if (!(cfg.cleanup_policy & SDM_POLICY_COMPACT)) s.uncleanable = 0;
  else {
    if ((rc = sdm_cleanable_range(l, &cfg, now, &cleanable)) < 0) return rc;
    s.dirty_ratio = sdm_dirty_ratio(&cleanable);
  }
  *out = s;
  return 0;
}
