/* Rolling: the active segment is closed and a new one begins at the end of the log. */
#include "base/bytes.h"
#include "base/clock.h"
#include "log/log.h"
#include "log/segment_digest.h"
#include "log/stage.h"
#include "os/host.h"

/* The rules by which an append rolls: docs/format.md 4 and Kafka's own. */
static bool index_full(const sdm_end *e, const sdm_log_config *cfg) {
  return e->index_entries >= cfg->segment_index_bytes / SDM_INDEX_ENTRY || e->timeindex_entries >= cfg->segment_index_bytes / SDM_TIMEINDEX_ENTRY - 1;
}

bool sdm_log_should_roll(const sdm_end *e, const sdm_log_config *cfg, int64_t bytes, int64_t max_timestamp, int64_t last_offset, int64_t now) {
  int64_t size = e->position + sdm_stage_size(e);
  if (size > cfg->segment_bytes - bytes || last_offset - e->active_base > INT32_MAX) return true;
  if (size == 0) return false;
  int64_t waited = e->first_timestamp >= 0 ? sdm_sub_sat(max_timestamp, e->first_timestamp) : sdm_sub_sat(now, e->created_ms);
  return waited > sdm_sub_sat(sdm_log_config_segment_ms(cfg), e->jitter_ms) || index_full(e, cfg);
}

/* Each segment draws once, so that topics with one segment.ms do not all roll at one instant. */
int64_t sdm_draw_jitter(const sdm_log_config *cfg) {
  uint32_t r;
  int64_t bound = cfg->segment_jitter_ms < cfg->segment_ms ? cfg->segment_jitter_ms : cfg->segment_ms;
  if (bound <= 0 || sdm_random(&r, sizeof r) < 0) return 0;
  return (int64_t)(r >> 1) % bound;
}

/* The last time index entry of a closed segment is its largest timestamp: retention reads it there after a restart. */
static int add_final_time_entry(sdm_segment *s, sdm_end *e) {
  sdm_file *f;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  sdm_timeindex_entry t = {e->max_timestamp, e->max_timestamp_offset};
  if (e->max_timestamp <= e->indexed_timestamp) return 0;
  int rc = sdm_segment_file(s, SDM_FILE_TIMEINDEX, &f);
  sdm_timeindex_encode(bytes, &t, s->base_offset);
  if (rc == 0) rc = s->fs->write(f, bytes, SDM_TIMEINDEX_ENTRY, e->timeindex_entries * SDM_TIMEINDEX_ENTRY);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;         /* a missing index is made anew at the next opening */
  e->timeindex_entries++;
  e->indexed_timestamp = e->max_timestamp;
  return 0;
}

void sdm_log_finish_indexes_locked(sdm_log *l) {
  sdm_end next;
  if (sdm_stage_size(sdm_control_end(l->control)) > 0) return;
  sdm_control_prepare(l->control, &next);
  if (next.max_timestamp <= next.indexed_timestamp) return;
  if (add_final_time_entry(l->active, &next) == 0) sdm_control_publish(l->control, &next);
}

/* For good: a flush passes over a segment whose records are all durable, and should the bytes come back after a loss of power, a closed one looks damaged. */
static int cut(sdm_log *l, sdm_file *f, int64_t position) {
  int rc = l->fs->truncate(f, position);
  if (rc == 0 && (rc = l->fs->sync(f)) < 0) atomic_store(&l->control->failed, SDM_IO);
  return rc;
}

/* Who died before he published a batch may have left entries of it, and a time that no record has. A file that is missing is made anew at the next opening. */
static int trim_index(sdm_log *l, sdm_file_kind kind, int64_t size) {
  sdm_file *f;
  sdm_file_info info;
  int rc = sdm_segment_file(l->active, kind, &f);
  if (rc == 0) rc = l->fs->info(f, &info);
  if (rc == 0 && info.size > size) rc = cut(l, f, size);
  return rc == SDM_NOT_FOUND ? 0 : rc;
}

int sdm_log_trim_locked(sdm_log *l, const sdm_end *e) {
  sdm_file *f;
  sdm_file_info info;
  int rc = trim_index(l, SDM_FILE_INDEX, e->index_entries * SDM_INDEX_ENTRY);
  if (rc == 0) rc = trim_index(l, SDM_FILE_TIMEINDEX, e->timeindex_entries * SDM_TIMEINDEX_ENTRY);
  if (rc == 0) rc = sdm_segment_file(l->active, SDM_FILE_LOG, &f);
  if (rc == 0) rc = l->fs->info(f, &info);
  if (rc == 0 && info.size != e->position) rc = cut(l, f, e->position);
  return rc == 0 && e->position > 0 ? l->fs->set_modified(f, e->modified_ms) : rc;
}

static int finish_active(sdm_log *l, sdm_end *e) {
  sdm_segment *s = l->active;
  int rc = sdm_log_trim_locked(l, e);
  if (rc == 0) rc = add_final_time_entry(s, e);
  if (rc == 0) rc = sdm_segment_digest_make(s, e->position, sdm_log_is_dense(l, s));
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  s->size = e->position;
  s->modified_ms = e->modified_ms;
  s->max_timestamp = e->max_timestamp;
  s->first_timestamp = SDM_UNKNOWN;
  s->records = e->records >= 0 ? e->records : SDM_UNKNOWN;
  s->last_tombstone = e->last_tombstone;
  sdm_mutex_unlock(&s->lock);
  return 0;
}

static void begin_segment(sdm_end *next, const sdm_log_config *cfg, int64_t base, int64_t now) {
  next->active_base = base;
  next->position = next->bytes_since_index = next->index_entries = next->timeindex_entries = next->records = 0;
  next->sealed_end = base;
  next->max_timestamp = next->first_timestamp = next->first_append_ms = next->indexed_timestamp = next->last_tombstone = -1;
  next->max_timestamp_offset = base;
  next->created_ms = next->modified_ms = now;
  next->jitter_ms = sdm_draw_jitter(cfg);
}

static void preallocate(const sdm_log_config *cfg, sdm_segment *s) {
  sdm_file *f;
  if (cfg->preallocate && sdm_segment_file(s, SDM_FILE_LOG, &f) == 0) s->fs->allocate(f, cfg->segment_bytes);
}

/* An empty active segment that begins at `base` already is as good as a fresh one. */
static int renew_empty(sdm_log *l, const sdm_log_config *cfg, sdm_end *next, int64_t now) {
  sdm_file *f;
  int rc = sdm_segment_file(l->active, SDM_FILE_LOG, &f);
  if (rc == 0) rc = l->fs->set_modified(f, now);
  if (rc < 0) return rc;
  begin_segment(next, cfg, next->active_base, now);
  sdm_control_publish(l->control, next);
  return 0;
}

/* With its only segment a log that is empty leaves its start behind; no record lies between. */
static void raise_start(sdm_log *l, int64_t base) {
  sdm_mutex_lock(&l->lock);
  bool first = l->segments[0]->base_offset == base;
  sdm_mutex_unlock(&l->lock);
  if (first && atomic_load(&l->control->log_start) < base) atomic_store(&l->control->log_start, base);
}

/* An empty file in the midst of what is appended next would look like damage. Where it cannot go now, who locks next removes it, or does not get the lock. */
static int take_back(sdm_log *l, int64_t base, int rc) {
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  if (sdm_segment_unlink(l->fs, l->dir, base, "") < 0) atomic_store(&l->control->unfinished, 1);
  return sdm_failure_tell(&why);
}

/* An empty active segment is not kept: the new one takes its place. */
int sdm_log_roll_locked(sdm_log *l, const sdm_log_config *cfg, int64_t base, int64_t now) {
  sdm_end next;
  sdm_segment *fresh;
  int rc = sdm_log_seal_locked(l, cfg);
  if (rc == 0) rc = sdm_log_sync_locked(l);
  if (rc < 0) return rc;
  sdm_control_prepare(l->control, &next);
  bool empty = next.position == 0;
  int64_t old = next.active_base;
  if (empty && old == base) return renew_empty(l, cfg, &next, now);
  if (!empty && (rc = finish_active(l, &next)) < 0) return rc;
  if ((rc = sdm_segment_create(l->fs, l->dir, base, now, &fresh)) < 0) return take_back(l, base, rc);
  preallocate(cfg, fresh);
  if ((rc = sdm_log_edit_segments(l, empty ? old : base, base, fresh)) < 0) {
    sdm_segment_unref(fresh);
    return take_back(l, base, rc);
  }
  begin_segment(&next, cfg, base, now);
  sdm_control_publish(l->control, &next);
  if (empty) raise_start(l, base);
  return empty ? sdm_segment_unlink(l->fs, l->dir, old, "") : 0;
}
