/* Walks over the log: to count, since what a script is told of a key includes its last record; to ask, since only the records have the keys' bytes; and, when it has
** answered all, to delete.
*/
#include "cleaner/judge.h"

#include "base/mem.h"
#include "cleaner/expire.h"
#include "cleaner/tombstone.h"
#include "format/batch_records.h"

enum { LOOK_AROUND = 1024 };               /* records between two looks */

typedef struct judging {
  sdm_pass *pass;
  sdm_policy *policy;
  sdm_judgement *out;
  sdm_expiry *expiry;                      /* in the last walk */
} judging;

/* Records were deleted under it: what was found may be of others. */
static int overtaken(const sdm_log *l, int rc) {
  return rc == SDM_OFFSET_OUT_OF_RANGE ? sdm_fail(SDM_BUSY, "%s changed while its policy script was asked", l->dir) : rc;
}

/* What a walk does with a record: `b` is its batch, NULL behind the pass's bound. */
typedef int visit(judging *j, const sdm_batch *b, bool held, const sdm_record *r);

/* ---- the first walk ---- */

static int count(judging *j, const sdm_batch *b, bool held, const sdm_record *r) {
  (void)held;
  return sdm_versions_count(&j->out->versions, r, b != NULL);
}

/* ---- the second ---- */

static int ask(judging *j, sdm_key_versions *k, const sdm_record *r) {
  const sdm_pass *p = j->pass;
  sdm_ruling ruling = {.versions = 1};
  if (sdm_policy_asks(j->policy, SDM_POLICY_ASKS_KEYS)) {
    sdm_policy_key about = {.topic = p->log->topic, .partition = p->log->partition, .now = p->now, .key = r->key, .key_size = (size_t)r->key_size,
                            .records = k->records, .bytes = k->bytes, .offset = k->offset, .timestamp = k->timestamp, .tombstone = k->tombstone};
    int rc = sdm_policy_of_key(j->policy, &about, &ruling);
    if (rc < 0) return rc;
  }
  k->keeps = ruling.versions;
  k->given_up = ruling.verdict == SDM_VERDICT_DELETE && !k->tombstone;
  j->out->given_up += k->given_up;
  return 0;
}

/* Of the batch's bytes a record's share. */
static int64_t share_of(const sdm_batch *b) { return b->size / (b->count > 0 ? b->count : 1); }

/* A tombstone that could go some day begins to by being given a horizon. */
static bool waits_for_horizon(const sdm_key_versions *k, const sdm_batch *b, const sdm_record *r) {
  return r->value_size < 0 && !k->older_stays && sdm_batch_horizon(b) == SDM_NO_HORIZON;
}

static int decide(judging *j, const sdm_batch *b, bool held, const sdm_record *r) {
  sdm_key_versions *k = sdm_versions_find(&j->out->versions, r);
  if (!k) return overtaken(j->pass->log, SDM_OFFSET_OUT_OF_RANGE);
  int rc = k->keeps == 0 ? ask(j, k, r) : 0;
  if (rc < 0 || !b) return rc;
  bool waits = !held && waits_for_horizon(k, b, r);
  sdm_fate fate = sdm_version_fate(k, b, r, held, j->pass->now);
  if (fate != SDM_STAYS || waits) j->out->superfluous += share_of(b);
  j->out->time_is_up = j->out->time_is_up || fate == SDM_TIME_IS_UP;
  return 0;
}

/* ---- the third ---- */

static int delete_key(judging *j, const sdm_batch *b, bool held, const sdm_record *r) {
  sdm_key_versions *k = sdm_versions_find(&j->out->versions, r);
  (void)b, (void)held;
  if (!k || !k->given_up) return 0;
  k->given_up = false;
  return sdm_expiry_add(j->expiry, r, k);
}

/* ---- walking ---- */

static int visit_batch(judging *j, const sdm_batch *b, const uint8_t *bytes, bool held, visit *f) {
  sdm_record_iter it;
  sdm_record r;
  int rc = sdm_record_iter_open(&it, b, bytes, &j->pass->plain);
  while (rc >= 0 && (rc = sdm_record_next(&it, &r)) == 1) {
    if (r.offset < j->out->start) continue;
    if (r.key_size < 0) j->out->superfluous += f == decide && !held ? share_of(b) : 0;
    else if ((rc = f(j, b, held, &r)) < 0) return rc;
  }
  if (rc == SDM_CORRUPT) j->pass->report->corrupt++;
  return rc < 0 ? sdm_fail_within(rc, "%s: ", j->pass->scan.file->path) : 0;
}

static int visit_segment(judging *j, size_t i, visit *f) {
  sdm_pass *p = j->pass;
  sdm_batch b;
  const uint8_t *bytes;
  int rc = sdm_pass_scan(p, p->segments[i]);
  while (rc == 0 && (rc = sdm_pass_next(p, &b, &bytes)) == 1) {
    rc = 0;
    if (sdm_batch_is(&b, SDM_ATTR_CONTROL) || sdm_txn_is_aborted(&p->transactions, &b)) continue;
    rc = visit_batch(j, &b, bytes, j->out->held[i], f);
  }
  p->report->bytes_read += p->scan.position;
  sdm_segment_rest(p->segments[i]);
  return rc;
}

/* What lies behind the bound: the active segment, and what must not be compacted yet. */
static int visit_tail(judging *j, visit *f) {
  sdm_reader *reader;
  sdm_record r;
  int64_t from = j->pass->bound > j->out->start ? j->pass->bound : j->out->start;
  int rc = sdm_reader_open(j->pass->log, from, j->out->end, SDM_READ_UNCOMMITTED, &reader);
  if (rc < 0) return rc;
  for (int n = 1; (rc = sdm_reader_next(reader, &r)) == 1; n++) {
    if (r.key_size >= 0 && (rc = f(j, NULL, false, &r)) < 0) break;
    j->pass->moved += (r.key_size > 0 ? r.key_size : 0) + (r.value_size > 0 ? r.value_size : 0);
    if (n % LOOK_AROUND == 0 && (rc = sdm_pass_go_on(j->pass)) < 0) break;
  }
  sdm_reader_close(reader);
  return rc;
}

static int walk(judging *j, visit *f) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < j->pass->count; i++) rc = visit_segment(j, i, f);
  return rc == 0 ? visit_tail(j, f) : rc;
}

/* ---- segments ---- */

static int ask_of_segments(judging *j, sdm_segment *const *all, size_t count) {
  sdm_pass *p = j->pass;
  for (size_t i = 0; i < p->count && i + 1 < count; i++) {
    sdm_policy_segment about;
    sdm_verdict verdict = SDM_VERDICT_NONE;
    int rc = sdm_policy_describe(p->log, all, count, i, p->now, &about);
    if (rc == 0) rc = sdm_policy_of_segment(j->policy, &about, &verdict);
    if (rc < 0) return rc;
    j->out->held[i] = verdict == SDM_VERDICT_KEEP;
    if (!j->out->held[i]) j->out->closed += about.size;
  }
  return 0;
}

static int hold_segments(judging *j) {
  sdm_pass *p = j->pass;
  sdm_segment **all;
  size_t count;
  j->out->held = sdm_calloc(p->count + 1, sizeof *j->out->held);
  if (!j->out->held) return sdm_no_memory();
  if (!sdm_policy_asks(j->policy, SDM_POLICY_ASKS_SEGMENTS)) {
    for (size_t i = 0; i < p->count; i++) j->out->closed += p->segments[i]->size;
    return 0;
  }
  int rc = sdm_log_segment_refs(p->log, INT64_MAX, &all, &count);
  if (rc < 0) return rc;
  rc = ask_of_segments(j, all, count);
  sdm_segments_unref(all, count);
  return rc;
}

/* ---- the whole ---- */

int sdm_judge(sdm_pass *p, sdm_policy *policy, const sdm_clean_options *o, sdm_judgement *out) {
  judging j = {.pass = p, .policy = policy, .out = out};
  out->start = sdm_log_start(p->log);
  int rc = sdm_log_latest(p->log, &out->end);
  if (rc == 0) rc = hold_segments(&j);
  if (rc == 0) rc = sdm_versions_init(&out->versions, o->map_bytes, o->load_factor);
  if (rc == 0) rc = walk(&j, count);
  if (rc == 0) rc = walk(&j, decide);
  sdm_versions_restart(&out->versions);
  return overtaken(p->log, rc);
}

int sdm_judge_expire(sdm_pass *p, sdm_judgement *out) {
  sdm_expiry x = {.log = p->log, .cfg = p->cfg, .versions = &out->versions, .now = p->now, .seen = out->end};
  judging j = {.pass = p, .out = out, .expiry = &x};
  if (out->given_up == 0) return 0;
  int rc = walk(&j, delete_key);
  if (rc == 0) rc = sdm_expiry_end(&x);
  p->report->expired += x.count;
  sdm_expiry_free(&x);
  return rc == 0 ? sdm_failure_tell(&x.too_large) : overtaken(p->log, rc);
}

void sdm_judgement_free(sdm_judgement *j) {
  sdm_versions_free(&j->versions);
  sdm_free(j->held);
  j->held = NULL;
}

/* A marker is told as well: it ends its transaction for what follows. */
int sdm_judge_held(sdm_pass *p, const uint8_t *bytes, const sdm_batch *b) {
  sdm_record_iter it;
  sdm_record r;
  if (sdm_batch_is(b, SDM_ATTR_CONTROL)) {
    sdm_txn_met_marker(&p->transactions, b);
    return 0;
  }
  int rc = sdm_txn_met_data(&p->transactions, b);
  if (rc < 0 || sdm_txn_is_aborted(&p->transactions, b)) return rc;
  rc = sdm_record_iter_open(&it, b, bytes, &p->plain);
  while (rc >= 0 && (rc = sdm_record_next(&it, &r)) == 1) {
    sdm_key_versions *k = r.offset < p->rewrite.start || r.key_size < 0 ? NULL : sdm_versions_find(p->rewrite.versions, &r);
    if (k) sdm_version_fate(k, b, &r, true, p->now);
  }
  return rc < 0 ? rc : 0;
}
