/* One pass: (1) map the keys of the dirty part to their latest offsets, as far as the map holds; (2) rewrite all segments up to there, clean ones
** included, group by group; (3) after each group, swap it in, durably; (4) note how far the log is clean.
** A crash between any two steps leaves a log that reads the same; the next pass does again what is missing.
**
** Where the topic has a policy script, (1) is to ask it (judge.h), and (4) is left out (rule 8 of tombstone.h).
*/
#include "cleaner/clean.h"

#include "base/clock.h"
#include "cleaner/cleanable.h"
#include "cleaner/judge.h"
#include "cleaner/maintenance.h"
#include "cleaner/pass.h"
#include "cleaner/tombstone.h"
#include "cleaner/uncleanable.h"
#include "format/batch_records.h"
#include "log/offsets.h"
#include "log/swap.h"

/* ---- (1) ---- */

enum { GROUP = 32 };

typedef struct key_group {               /* keys whose slots are on their way into the cache */
  struct sdm_hash128 hashes[GROUP];
  int64_t offsets[GROUP];
  size_t count;
} key_group;

/* Returns the offset up to which everything is mapped, exclusive; *full when it stopped short. */
static int64_t put_group(sdm_pass *p, key_group *g, int64_t mapped, bool *full) {
  for (size_t i = 0; i < g->count; i++) {
    if (!sdm_offset_map_put(&p->map, g->hashes[i], g->offsets[i])) {
      *full = true;
      break;
    }
    mapped = g->offsets[i] + 1;
  }
  g->count = 0;
  return mapped;
}

static int map_batch(sdm_pass *p, const uint8_t *bytes, const sdm_batch *b, int64_t *mapped, bool *full) {
  sdm_record_iter it;
  sdm_record r;
  key_group g;
  g.count = 0;
  int rc = sdm_record_iter_open(&it, b, bytes, &p->plain);
  while (rc >= 0 && !*full && (rc = sdm_record_next(&it, &r)) == 1) {
    if (r.offset < p->from || r.key_size < 0) continue;
    g.hashes[g.count] = sdm_hash128(r.key, (size_t)r.key_size);
    g.offsets[g.count] = r.offset;
    sdm_offset_map_prefetch(&p->map, g.hashes[g.count]);
    if (++g.count == GROUP) *mapped = put_group(p, &g, *mapped, full);
  }
  if (rc == SDM_CORRUPT) p->report->corrupt++;
  if (rc < 0) return rc;
  if (!*full) *mapped = put_group(p, &g, *mapped, full);
  if (!*full) *mapped = sdm_batch_last_offset(b) + 1;
  return 0;
}

static int map_segment(sdm_pass *p, sdm_segment *s, int64_t *mapped, bool *full) {
  sdm_batch b;
  const uint8_t *bytes;
  int rc = sdm_pass_scan(p, s);
  while (rc == 0 && !*full && (rc = sdm_pass_next(p, &b, &bytes)) == 1) {
    rc = 0;
    if (sdm_batch_last_offset(&b) < p->from) continue;
    if (sdm_batch_is(&b, SDM_ATTR_CONTROL) || sdm_txn_is_aborted(&p->transactions, &b)) *mapped = sdm_batch_last_offset(&b) + 1;
    else if ((rc = map_batch(p, bytes, &b, mapped, full)) < 0) rc = sdm_fail_within(rc, "%s: ", p->scan.file->path);
  }
  p->report->bytes_read += p->scan.position;
  return rc;
}

/* *mapped becomes the offset that this pass cleans to, exclusive. */
static int build_map(sdm_pass *p, int64_t *mapped) {
  bool full = false;
  int rc = 0;
  *mapped = p->from;
  for (size_t i = 0; rc == 0 && !full && i < p->count; i++) {
    int64_t next = sdm_pass_next_base(p, i);
    if (next <= p->from) continue;
    rc = map_segment(p, p->segments[i], mapped, &full);
    sdm_segment_rest(p->segments[i]);
    if (rc == 0 && !full) *mapped = next;
  }
  return rc;
}

/* ---- (2) and (3) ---- */

static bool is_held(const sdm_pass *p, size_t i) { return p->held && p->held[i]; }

/* How many segments from i on, which is not held, make one output segment. */
static size_t group_size(const sdm_pass *p, size_t i, size_t end) {
  int64_t bytes = 0, index = 0, timeindex = 0, base = p->segments[i]->base_offset;
  size_t n = 0;
  for (; i + n < end && !is_held(p, i + n); n++) {
    sdm_segment *s = p->segments[i + n];
    int64_t next = sdm_pass_next_base(p, i + n);
    int64_t s_index = sdm_segment_file_size(s, SDM_FILE_INDEX), s_timeindex = sdm_segment_file_size(s, SDM_FILE_TIMEINDEX);
    bool fits = bytes + s->size <= p->cfg->segment_bytes && index + s_index <= p->cfg->segment_index_bytes &&
                timeindex + s_timeindex <= p->cfg->segment_index_bytes && (s->size == 0 || next - 1 - base <= INT32_MAX);
    if (n > 0 && !fits) break;
    bytes += s->size;
    index += s_index;
    timeindex += s_timeindex;
  }
  return n;
}

static int rewrite_segment(sdm_pass *p, sdm_segment *s) {
  sdm_batch b;
  const uint8_t *bytes;
  int rc = sdm_pass_scan(p, s);
  while (rc == 0 && (rc = sdm_pass_next(p, &b, &bytes)) == 1) {
    int64_t size = p->output.size;
    rc = sdm_rewrite_batch(&p->rewrite, bytes, &b, &p->output);
    if (rc == SDM_CORRUPT) p->report->corrupt++;
    p->moved += p->output.size - size;
  }
  p->report->bytes_read += s->size;
  return rc;
}

static int swap_in(sdm_pass *p, int64_t from, int64_t to) {
  int rc = p->rewrite.floor >= 0 ? sdm_log_raise_floor(p->log, p->rewrite.floor) : 0;
  if (rc == 0) rc = sdm_log_lock(p->log);
  if (rc < 0) return rc;
  rc = sdm_log_raise_cleaned_locked(p->log, p->rewrite.bound);     /* at once for all groups of the pass: it is a durable write */
  if (rc == 0) rc = sdm_swap_locked(p->log, from, to, p->now);
  sdm_log_unlock(p->log);
  return rc;
}

static int clean_group(sdm_pass *p, size_t i, size_t n) {
  sdm_segment *last = p->segments[i + n - 1];
  int64_t base = p->segments[i]->base_offset;
  p->rewrite.changed = n > 1;
  p->rewrite.floor = -1;
  int rc = sdm_output_open(&p->output, p->log, base, p->cfg);
  for (size_t k = i; rc == 0 && k < i + n; k++) {
    rc = rewrite_segment(p, p->segments[k]);
    sdm_segment_rest(p->segments[k]);
  }
  if (rc == 0 && !p->rewrite.changed) {      /* it would be the same file */
    p->report->bytes_written += p->output.size;
    sdm_output_discard(&p->output);
    return 0;
  }
  if (rc == 0) rc = sdm_output_finish(&p->output, last->modified_ms);
  if (rc == 0) rc = swap_in(p, base, last->base_offset + 1);
  if (rc < 0) sdm_output_discard(&p->output);
  else p->report->bytes_written += p->output.size;
  return rc;
}

/* What stays counts all the same for what may go behind it. */
static int pass_over(sdm_pass *p, sdm_segment *s) {
  sdm_batch b;
  const uint8_t *bytes;
  int rc = sdm_pass_scan(p, s);
  while (rc == 0 && (rc = sdm_pass_next(p, &b, &bytes)) == 1) rc = sdm_judge_held(p, bytes, &b);
  p->report->bytes_read += s->size;
  sdm_segment_rest(s);
  return rc;
}

/* Rewrites the segments whose base is below `end`; a purge leaves each where it is. */
static int rewrite_all(sdm_pass *p, int64_t end, bool purge) {
  size_t count = 0;
  int rc = 0;
  while (count < p->count && p->segments[count]->base_offset < end) count++;
  for (size_t i = 0, n; rc == 0 && i < count; i += n) {
    bool held = is_held(p, i);
    n = purge || held ? 1 : group_size(p, i, count);
    rc = held ? pass_over(p, p->segments[i]) : clean_group(p, i, n);
  }
  p->report->records_read += p->rewrite.records_read;
  p->report->records_written += p->rewrite.records_written;
  p->report->tombstones_removed += p->rewrite.tombstones_removed;
  p->report->keyless_dropped += p->rewrite.keyless_dropped;
  atomic_fetch_add(&p->log->control->keyless_dropped, p->rewrite.keyless_dropped);
  return rc;
}

/* ---- passes ---- */

static int run_pass(sdm_pass *p, const sdm_clean_options *o, int64_t *cleaned_to) {
  int rc = sdm_pass_begin(p);
  if (rc == 0) rc = sdm_offset_map_init(&p->map, o->map_bytes, o->load_factor);
  if (rc == 0) rc = build_map(p, cleaned_to);
  if (rc == 0) rc = sdm_log_flush_closed(p->log, p->bound);        /* what supersedes a record must not be lost after it */
  if (rc == 0) {
    p->rewrite = (sdm_rewrite){.cfg = p->cfg, .map = &p->map, .transactions = &p->transactions, .mapped_end = *cleaned_to, .bound = p->bound, .now = p->now};
    rc = rewrite_all(p, *cleaned_to, false);
  }
  if (rc == 0) rc = sdm_offsets_set(p->log->env, SDM_CLEANER_CHECKPOINT, p->log->topic, p->log->partition, *cleaned_to);
  if (rc == 0) atomic_store(&p->log->control->clean_offset, *cleaned_to);
  sdm_pass_end(p);
  return rc;
}

static int run_purge(sdm_pass *p) {
  int rc = sdm_pass_begin(p);
  if (rc == 0) {
    p->rewrite = (sdm_rewrite){.cfg = p->cfg, .transactions = &p->transactions, .mapped_end = p->bound, .bound = p->bound, .now = p->now};
    rc = rewrite_all(p, p->bound, true);
  }
  sdm_pass_end(p);
  return rc;
}

static sdm_pass new_pass(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t from, int64_t bound, int64_t now, sdm_compact_report *report) {
  return (sdm_pass){.log = l, .cfg = cfg, .throttle = o->throttle, .report = report, .from = from, .bound = bound, .now = now};
}

/* Tombstones past their horizon go without new dirty data. The log may start in the active segment: that one stays as it is all the same. */
static int purge(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t first_dirty, int64_t now, sdm_compact_report *report) {
  sdm_end e;
  int rc = sdm_log_read_end(l, &e, NULL);
  if (rc < 0) return rc;
  int64_t bound = first_dirty < e.active_base ? first_dirty : e.active_base;
  if ((rc = sdm_tombstones_due(l, bound, now)) <= 0) return rc;
  report->partitions++;
  sdm_pass p = new_pass(l, cfg, o, 0, bound, now, report);
  return run_purge(&p);
}

static int clean_by_map(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t now, sdm_compact_report *report) {
  sdm_cleanable c;
  int rc = sdm_cleanable_range(l, cfg, now, &c);
  if (rc < 0) return rc;
  if (c.dirty_bytes > 0 && (o->force || sdm_cleaning_due(&c, cfg))) {
    report->partitions++;
    for (int64_t from = c.first_dirty; rc == 0 && from < c.bound && (from == c.first_dirty || !o->once);) {
      sdm_pass p = new_pass(l, cfg, o, from, c.bound, now, report);
      rc = run_pass(&p, o, &from);
    }
    return rc;
  }
  return purge(l, cfg, o, c.first_dirty, now, report);
}

/* As by the dirty ratio: what is superfluous must be more than that share, or old. */
static bool rewriting_due(const sdm_cleanable *c, const sdm_judgement *j, const sdm_log_config *cfg, bool force) {
  if (j->superfluous == 0 || j->time_is_up) return j->time_is_up;
  return force || c->overdue || (double)j->superfluous > cfg->min_cleanable_dirty_ratio * (double)j->closed;
}

static int rewrite_judged(sdm_pass *p, sdm_judgement *j) {
  int rc = sdm_log_flush_closed(p->log, p->bound);
  if (rc < 0) return rc;
  p->held = j->held;
  p->rewrite = (sdm_rewrite){.cfg = p->cfg, .versions = &j->versions, .start = j->start, .transactions = &p->transactions, .mapped_end = p->bound,
                             .bound = p->bound, .now = p->now};
  return rewrite_all(p, p->bound, false);
}

/* Where a tombstone could not be appended, for want of room perhaps, what is superfluous goes all the same. */
static int expire_and_rewrite(sdm_pass *p, const sdm_cleanable *c, sdm_judgement *j, bool force) {
  sdm_failure first = {0};
  sdm_failure_note(&first, sdm_judge_expire(p, j));
  if (first.code == SDM_CLOSED || first.code == SDM_UNKNOWN_TOPIC) return sdm_failure_tell(&first);
  if (rewriting_due(c, j, p->cfg, force)) {
    p->report->partitions++;
    sdm_failure_note(&first, rewrite_judged(p, j));
  }
  return sdm_failure_tell(&first);
}

static int clean_by_script(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, sdm_policy *policy, int64_t now, sdm_compact_report *report) {
  sdm_cleanable c;
  sdm_judgement j = {0};
  int rc = sdm_cleanable_range(l, cfg, now, &c);
  if (rc < 0) return rc;
  sdm_pass p = new_pass(l, cfg, o, c.first_dirty, c.bound, now, report);
  rc = sdm_pass_begin(&p);
  if (rc == 0) rc = sdm_judge(&p, policy, o, &j);
  if (rc == 0) rc = expire_and_rewrite(&p, &c, &j, o->force);
  if (rc == SDM_BUSY) rc = 0;              /* the next one finds the same */
  sdm_judgement_free(&j);
  sdm_pass_end(&p);
  return rc;
}

static int clean_as_configured(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t now, sdm_compact_report *report) {
  sdm_policy *policy;
  int rc = sdm_policy_open(l, cfg, &policy);
  if (rc < 0) return rc;
  rc = policy ? clean_by_script(l, cfg, o, policy, now, report) : clean_by_map(l, cfg, o, now, report);
  sdm_policy_close(policy);
  return rc;
}

int sdm_clean(sdm_log *l, const sdm_log_config *cfg, const sdm_clean_options *o, int64_t now, sdm_compact_report *report) {
  double began = sdm_monotonic_seconds();
  int64_t corrupt = report->corrupt, partitions = report->partitions;
  int rc = sdm_maintenance_lock(l);
  if (rc < 0) return sdm_cleaning_ended(l, now, rc);
  rc = sdm_cleaning_ended(l, now, clean_as_configured(l, cfg, o, now, report));
  sdm_maintenance_unlock(l);
  report->seconds += sdm_monotonic_seconds() - began;
  if (rc != SDM_CORRUPT) return sdm_log_explain(l, rc);
  if (report->corrupt == corrupt) report->corrupt++;
  atomic_fetch_add(&l->control->corrupt_batches, report->corrupt - corrupt);
  report->partitions = partitions;
  return 0;
}
