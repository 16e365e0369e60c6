/* One segment at a time, from the first to the one that is active when it is come to, and then the stage. Each is opened anew and read only: so its files
** are all of one version, and nobody else is disturbed.
*/
#include "log/verify.h"

#include <string.h>

#include "base/mem.h"
#include "format/batch_records.h"
#include "format/epochs.h"
#include "log/bare.h"
#include "log/index_audit.h"
#include "log/offsets.h"
#include "log/producer_snapshot.h"
#include "log/segment_digest.h"
#include "log/stage.h"
#include "log/state.h"
#include "log/walk.h"

typedef struct verification {
  sdm_log *log;
  sdm_verification *v;
  int64_t from;                          /* what lies below was counted already, in a segment that has been replaced since */
  sdm_buf plain;
  sdm_state_file state;
  uint8_t *stage;                        /* a copy of it */
  sdm_index_audit indexes;

  /* the segment in hand */
  sdm_segment *segment;
  int64_t base, next_base;                     /* of the one behind it; INT64_MAX: it is the active one */
  int64_t limit;                         /* bytes of it that count */
  int attempts;                          /* a file of it was found missing or wrong so often */
  sdm_end end;                           /* of the log, when its active segment was come to */
  uint32_t staged;                       /* bytes in the copy of the stage */
  bool damaged;
} verification;

enum { PATIENCE = 8 };                   /* so often what somebody may just be writing or renaming is looked at again */

static bool active(const verification *x) { return x->next_base == INT64_MAX; }

static int problem(verification *x, int64_t position, int64_t offset, int rc, sdm_harm harm) {
  char *path = sdm_segment_path(x->segment->dir, x->segment->base_offset, SDM_FILE_LOG, x->segment->suffix);
  if (harm == SDM_HARM_DATA) x->damaged = true;
  rc = path ? sdm_report_problem(x->v, path, position, offset, rc, harm) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

/* ---- records ---- */

static int check_newest(const sdm_batch *b, int64_t newest) {
  if (b->count == 0 || newest == b->max_timestamp) return 0;
  return sdm_fail(SDM_CORRUPT, "the batch with the offsets %lld to %lld has %lld as its largest timestamp, but that of its records is %lld",
                  (long long)b->base_offset, (long long)sdm_batch_last_offset(b), (long long)b->max_timestamp, (long long)newest);
}

/* *last: offset of the last record that could be read. */
static int check_records(sdm_record_iter *it, int64_t *last) {
  sdm_record r;
  int64_t newest = -1;
  int rc;
  while ((rc = sdm_record_next(it, &r)) == 1) {
    if (r.timestamp > newest) newest = r.timestamp;
    *last = r.offset;
  }
  return rc < 0 ? rc : check_newest(&it->batch, newest);
}

static int check_batch(verification *x, const sdm_walk *w, const sdm_batch *b, const uint8_t *bytes) {
  sdm_record_iter it;
  int64_t last = b->base_offset;
  int rc = sdm_record_iter_open(&it, b, bytes, &x->plain);
  if (rc == 0) rc = check_records(&it, &last);
  if (rc < 0 && rc != SDM_NO_MEMORY) {
    rc = sdm_fail_within(rc, "%s at position %lld: ", w->scan.file->path, (long long)w->at);
    return problem(x, w->at, last, rc, SDM_HARM_DATA);
  }
  if (rc < 0 || sdm_batch_last_offset(b) < x->next_base) return rc;
  rc = sdm_fail(SDM_CORRUPT, "%s: the batch at position %lld has offsets up to %lld, but the next segment begins at %lld", w->scan.file->path, (long long)w->at,
                (long long)sdm_batch_last_offset(b), (long long)x->next_base);
  return problem(x, w->at, b->base_offset, rc, SDM_HARM_DATA);
}

static void count_batch(verification *x, const sdm_batch *b) {
  sdm_verify_report *r = x->v->report;
  if (sdm_batch_last_offset(b) < x->from) return;
  r->batches++;
  r->bytes += b->size;
  if (!sdm_batch_is(b, SDM_ATTR_CONTROL)) r->records += b->count;
}

/* ---- the .log ---- */

/* What stands behind the last valid batch: the padding of a preallocated file of a broker's is none. */
static int check_rest(verification *x, sdm_walk *w) {
  if (w->why.code == 0) return 0;
  if (!x->log->control && !active(x)) {
    int padding = sdm_scan_padding(&w->scan);
    if (padding != 0) return padding < 0 ? padding : 0;
  }
  return problem(x, w->at, w->next_offset, sdm_failure_tell(&w->why), SDM_HARM_DATA);
}

/* The .log of a closed segment is shorter than it was, at the border of two batches: other files tell. */
static int check_cut(verification *x, const sdm_walk *w) {
  sdm_told told;
  if (x->damaged || active(x)) return 0;
  sdm_digest_state state = sdm_segment_digest_state(x->segment);
  sdm_segment_told(x->segment, &told);
  bool vouched = state == SDM_DIGEST_FITS || state == SDM_DIGEST_OWN;
  if (vouched || (state != SDM_DIGEST_CUT && !sdm_told_more(&told, w->position, w->next_offset, x->indexes.max_timestamp))) return 0;
  return problem(x, w->position, w->next_offset, sdm_fail(SDM_CORRUPT, "%s ends at position %lld, but its %s more behind that: it was cut", w->scan.file->path,
                 (long long)w->position, state == SDM_DIGEST_CUT ? "digest tells of" : "indexes tell of"), SDM_HARM_DATA);
}

/* The page says where the active segment ends; damage may have hidden that. */
static int check_end(verification *x, const sdm_walk *w) {
  if (!active(x) || !x->log->control || x->damaged || w->next_offset == x->end.sealed_end) return 0;
  return problem(x, w->position, w->next_offset, sdm_fail(SDM_CORRUPT, "%s ends with offset %lld, but the log has sealed records up to %lld", w->scan.file->path,
                 (long long)w->next_offset - 1, (long long)x->end.sealed_end - 1), SDM_HARM_DATA);
}

static int walk(verification *x, sdm_walk *w) {
  sdm_batch b;
  const uint8_t *bytes;
  int rc;
  while ((rc = sdm_walk_next(w, &b, &bytes)) > 0) {
    if (rc == SDM_WALK_BATCH) {
      count_batch(x, &b);
      rc = check_batch(x, w, &b, bytes);
      if (rc == 0) rc = sdm_index_audit_batch(&x->indexes, &b, w->at);
    } else {
      sdm_index_audit_damage(&x->indexes);
      rc = problem(x, w->at, w->begins, sdm_failure_tell(&w->why), SDM_HARM_DATA);
    }
    if (rc == 0 && (rc = sdm_log_check(x->log)) == 0) continue;
    return rc;
  }
  if (rc == SDM_IO) return problem(x, w->at, w->next_offset, rc, SDM_HARM_DATA);
  if (rc == 0) rc = check_rest(x, w);
  if (rc == 0) rc = check_cut(x, w);
  if (rc == 0 && x->damaged) sdm_index_audit_damage(&x->indexes);
  return rc == 0 ? check_end(x, w) : rc;
}

/* ---- a segment ---- */

/* Names change hands in a swap, the .log's first: where that is still the one that was listed, the others are, or were, of it. */
static int check_same(verification *x) {
  sdm_file *f;
  sdm_segment *s = x->segment;
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_LOG, s->suffix);
  int rc = path ? sdm_segment_file(s, SDM_FILE_LOG, &f) : sdm_no_memory();
  if (rc == 0) rc = sdm_segment_check_name(s, path);
  sdm_free(path);
  return rc;
}

/* In a swap the .log gets its name before the other files do: what is not as it should be may be so in a moment. */
static int look_again(verification *x) {
  if (x->attempts++ >= PATIENCE) return 0;
  return sdm_fail(SDM_NOT_FOUND, "the segment at offset %lld lacks a file", (long long)x->segment->base_offset);
}

static int check_whole(verification *x) { return sdm_index_audit_lacks_file(&x->indexes) ? look_again(x) : 0; }

static int check_digest(verification *x) {
  sdm_file *f;
  sdm_digest_state state = sdm_segment_digest_state(x->segment);
  if (active(x) || (state != SDM_DIGEST_NONE && state != SDM_DIGEST_OTHER)) return 0;
  int rc = sdm_segment_file(x->segment, SDM_FILE_DIGEST, &f);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;
  if ((rc = look_again(x)) < 0) return rc;
  rc = sdm_fail(SDM_CORRUPT, "%s is %s", f->path, state == SDM_DIGEST_NONE ? "damaged" : "of another .log");
  return sdm_report_problem(x->v, f->path, -1, -1, rc, SDM_HARM_DERIVED);
}

static int verify_segment(verification *x) {
  sdm_walk w = {0};
  bool dense = sdm_log_is_dense(x->log, x->segment);
  x->damaged = false;
  int rc = sdm_walk_open(&w, x->segment, x->limit, dense ? SDM_WALK_DENSE : 0);
  if (rc == 0) rc = sdm_index_audit_begin(&x->indexes, x->v, x->segment, !active(x), dense || w.scan.digest);
  if (rc == 0) rc = check_same(x);
  if (rc == 0) rc = check_whole(x);
  if (rc == 0) rc = check_digest(x);
  if (rc == 0) x->v->report->segments++;
  if (rc == 0) rc = walk(x, &w);
  if (rc == 0) rc = sdm_index_audit_end(&x->indexes, w.position);
  sdm_walk_close(&w);
  return rc == SDM_IO ? problem(x, -1, x->segment->base_offset, rc, SDM_HARM_DATA) : rc;
}

/* The end of the log, and the stage behind it, as they were at one moment. */
static int read_end(verification *x) {
  uint64_t commit;
  for (;;) {
    int rc = sdm_log_read_end(x->log, &x->end, &commit);
    if (rc < 0) return rc;
    x->staged = 0;
    if (!x->log->control || sdm_stage_size(&x->end) == 0) return 0;
    if (sdm_control_read_stage(x->log->control, commit, 0, x->stage, &x->staged)) return 0;
  }
}

/* A copy of the one that is listed, with files of its own. */
static int open_segment(verification *x, const sdm_segment *listed) {
  int rc = sdm_segment_open_suffixed(x->log->fs, x->log->dir, listed->base_offset, listed->suffix, &x->segment);
  if (rc < 0) return rc;
  if (x->segment->inode != listed->inode) return sdm_fail(SDM_NOT_FOUND, "the segment at offset %lld was replaced meanwhile", (long long)listed->base_offset);
  if (!active(x)) {
    x->limit = x->segment->size;
    return 0;
  }
  if ((rc = read_end(x)) < 0) return rc;
  x->limit = x->end.position;
  return x->end.active_base == listed->base_offset ? 0 : sdm_fail(SDM_NOT_FOUND, "%s has been rolled meanwhile", x->log->dir);
}

/* The one that has the offset x->from, or the first behind it. */
static int find_and_verify(sdm_log *l, void *context) {
  verification *x = context;
  sdm_segment *listed;
  int rc = sdm_log_check(l);
  if (rc == 0) rc = sdm_log_find(l, x->from, &listed, &x->next_base);
  if (rc == 0 && !listed) rc = sdm_log_find(l, x->next_base, &listed, &x->next_base);
  if (rc < 0) return rc;
  if (!listed) return sdm_fail(SDM_NOT_FOUND, "%s: its segments keep changing", l->dir);
  x->base = listed->base_offset;
  rc = open_segment(x, listed);
  if (rc == 0) rc = verify_segment(x);
  sdm_segment_unref(x->segment);
  x->segment = NULL;
  sdm_segment_unref(listed);
  return rc;
}

static int verify_stage(verification *x) {
  sdm_record_iter it;
  sdm_batch b;
  sdm_record r;
  if (x->staged == 0) return 0;
  sdm_stage_header(&x->end, &b);
  int32_t count = b.count;
  b.count++;                             /* the copy may hold part of a record that is just being added */
  sdm_record_iter_init(&it, &b, x->stage, x->staged);
  int rc = 1;
  for (int32_t i = 0; rc == 1 && i < count; i++) {
    rc = sdm_record_next(&it, &r);
    if (rc == 1 && r.offset >= x->from) x->v->report->records++;
  }
  if (rc == 1) return 0;
  char *path = sdm_format("%s/%s", x->log->dir, SDM_CONTROL_NAME);
  if (path) sdm_fail(SDM_CORRUPT, "%s: a record of the stage cannot be read", path);
  rc = path ? sdm_report_problem(x->v, path, -1, it.last_offset + 1, SDM_CORRUPT, SDM_HARM_DATA) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static uint64_t generation(const verification *x) { return x->log->control ? atomic_load(&x->log->control->generation) : 0; }

/* Looked for again and again, its file was not there. If the segments have not changed meanwhile, nobody has taken it away who may. */
static int not_found(verification *x, uint64_t before) {
  if (!x->log->control || generation(x) != before) return sdm_fail(SDM_BUSY, "%s: its segments keep changing; try again", x->log->dir);
  char *path = sdm_segment_path(x->log->dir, x->base, SDM_FILE_LOG, "");
  int rc = path ? sdm_report_problem(x->v, path, -1, x->base, sdm_fail(SDM_NOT_FOUND, "%s is missing", path), SDM_HARM_DATA) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int verify_segments(verification *x) {
  do {
    uint64_t before = generation(x);
    x->attempts = 0;
    int rc = sdm_log_steadily(x->log, find_and_verify, x);
    if (rc == SDM_NOT_FOUND) rc = not_found(x, before);
    if (rc < 0) return rc;
    if (!active(x)) x->from = x->next_base;
  } while (!active(x));
  return verify_stage(x);
}

/* ---- small files ---- */

static int small_problem(verification *x, const char *name, int rc) {
  char *path = sdm_format("%s/%s", x->log->dir, name);
  rc = path ? sdm_report_problem(x->v, path, -1, -1, sdm_fail_within(rc, "%s: ", path), SDM_HARM_DERIVED) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

/* Somebody may just be writing it: one that is damaged is looked at again. */
static int read_state(verification *x) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < PATIENCE; i++) {
    if (i > 0) sdm_log_await_change(x->log, i);
    rc = sdm_log_state_read(x->log->fs, x->log->dir, &x->state);
    if (!x->state.damaged) break;
  }
  if (rc == 0 && x->state.damaged) rc = sdm_fail(SDM_CORRUPT, "a slot of it is damaged, which may have been the newer one");
  return rc < 0 && sdm_is_finding(rc) ? small_problem(x, SDM_STATE_NAME, rc) : rc;
}

static int verify_epochs(verification *x) {
  char *path = sdm_format("%s/%s", x->log->dir, SDM_EPOCHS_NAME), *text = NULL;
  sdm_epochs epochs = {0};
  size_t size;
  int rc = path ? sdm_fs_read_all(x->log->fs, path, SDM_EPOCHS_MAX, &text, &size) : sdm_no_memory();
  if (rc == 0) rc = sdm_epochs_decode(&epochs, text, size);
  sdm_epochs_free(&epochs);
  sdm_free(text);
  sdm_free(path);
  if (rc == SDM_NOT_FOUND) return 0;
  return rc < 0 && sdm_is_finding(rc) ? small_problem(x, SDM_EPOCHS_NAME, rc) : rc;
}

/* The folder that the partition's is in; a fresh string. */
static char *root_of(const verification *x) {
  char *root = sdm_strdup(x->log->dir);
  if (root) *strrchr(root, '/') = 0;       /* an absolute path */
  return root;
}

/* What the checkpoint beside the folder says, -1: nothing. */
static int read_start(verification *x, int64_t *start) {
  char *root = root_of(x);
  if (!root) return sdm_no_memory();
  int rc = sdm_offsets_read(x->log->fs, root, SDM_LOG_START_CHECKPOINT, x->log->topic, x->log->partition, start);
  sdm_free(root);
  return rc;
}

/* An opening would put aside all that is there. */
static int starts_behind(verification *x, int64_t start, const sdm_end *end) {
  int rc = sdm_fail(SDM_CORRUPT, SDM_LOG_START_CHECKPOINT " has %s-%d start at offset %lld, but it ends at %lld", x->log->topic, x->log->partition,
                    (long long)start, (long long)end->sealed_end);
  char *root = root_of(x), *path = root ? sdm_format("%s/" SDM_LOG_START_CHECKPOINT, root) : NULL;
  rc = path ? sdm_report_problem(x->v, path, -1, start, rc, SDM_HARM_DATA) : sdm_no_memory();
  sdm_free(path);
  sdm_free(root);
  return rc;
}

/* After an orderly close the log ends where the state file says. Where the store is open its page has been asked; by the time that the end is looked at it may be:
** what was read before is right for that end, or is older. */
static int check_end_told(verification *x) {
  sdm_end found;
  if (sdm_bare_check_end(x->log, &found) == 0) return 0;
  char *path = sdm_segment_path(x->log->dir, found.active_base, SDM_FILE_LOG, "");
  int rc = path ? sdm_report_problem(x->v, path, found.position, found.sealed_end, SDM_CORRUPT, SDM_HARM_DATA) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int check_bounds(verification *x) {
  sdm_end end;
  int64_t start = -1;
  int rc = read_start(x, &start);
  if (rc == 0) rc = sdm_log_read_end(x->log, &end, NULL);
  if (rc < 0 || x->log->control || x->state.sequence == 0 || x->state.damaged) return rc;
  return start > end.sealed_end ? starts_behind(x, start, &end) : check_end_told(x);
}

/* ---- the whole ---- */

static int verify(verification *x) {
  x->stage = sdm_malloc(SDM_STAGE_BYTES);
  int rc = x->stage ? sdm_log_check(x->log) : sdm_no_memory();
  if (rc == 0) rc = read_state(x);
  if (rc == 0) rc = verify_epochs(x);
  if (rc == 0) rc = check_bounds(x);
  return rc == 0 ? verify_segments(x) : rc;
}

int sdm_verify_log(sdm_log *l, sdm_verification *v) {
  verification *x = sdm_calloc(1, sizeof *x);
  if (!x) return sdm_no_memory();
  x->log = l;
  x->v = v;
  v->report->partitions++;
  int rc = verify(x);
  if (rc < 0 && sdm_is_finding(rc)) rc = sdm_report_problem(v, l->dir, -1, -1, rc, SDM_HARM_DATA);
  sdm_buf_free(&x->plain);
  sdm_free(x->stage);
  sdm_free(x);
  return rc;
}

int sdm_log_verify(sdm_log *l, sdm_verify_report **out) {
  sdm_verify_report *r = sdm_calloc(1, sizeof *r);
  sdm_verification v = {.report = r, .topic = l->topic, .partition = l->partition};
  int rc = r ? sdm_verify_log(l, &v) : sdm_no_memory();
  if (rc < 0) sdm_verify_report_free(r);
  else *out = r;
  return rc;
}
