/* A reader walks segments, batches, records, and at last the stage.
**
** Invariant: every record below `next` was given or is none of ours; the batch in hand (in_batch) holds the records from `next` on. Whoever
** renames, replaces or seals meanwhile changes only where the records from `next` on are found: the reader looks them up anew, segment by
** segment, by offset. It holds a reference on the segment it stands in.
*/
#include "log/reader.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/batch_records.h"
#include "log/bare.h"
#include "log/retired.h"
#include "log/scanner.h"
#include "log/seek.h"
#include "log/stage.h"
#include "log/transactions.h"

struct sdm_reader {
  sdm_log *log;
  int64_t next, end;                     /* records with next <= offset < end are still to come */
  int64_t to, seen_end;                  /* as asked for; where the log ended when that was looked at last */
  bool committed;                        /* nothing that is not */
  sdm_segment *segment;                  /* in hand, or NULL */
  bool active;                           /* it was the active one when its limit was taken */
  int64_t segment_end;                   /* base of the one after it when it was found, INT64_MAX: it was the last */
  int64_t bound;                         /* its batches end below, INT64_MAX: not known, as of a deleted segment */
  sdm_scanner scan;
  bool in_batch, staged;                 /* there is one; it is a copy of the stage */
  sdm_record_iter records;
  sdm_buf plain;                         /* its records, when it is compressed */
  int64_t batch_end;                     /* offset after the batch in hand */
  int64_t scanned_end;                   /* offset after the last batch that was met in the segment in hand, -1: none was */
  int64_t skipped_to;                    /* where the batch that was skipped last ends by its own words, -1: none was */
  bool dense;                            /* its batches follow each other without a gap */
  int turns;                             /* so often the last segment has ended before `next`, one after the other */
  uint8_t *stage;                        /* a copy of it, once it is needed */
  bool stage_goes_on;                    /* `records` stands behind what was given of it, as of stage_commit: only what is new need be copied */
  uint64_t stage_commit;
  sdm_transactions *transactions;        /* what read_committed hides; NULL: nothing */
  sdm_reader_filter filter;
};

static int hide_uncommitted(sdm_reader *r) {
  sdm_transactions_unref(r->transactions);
  int rc = sdm_transactions_get(r->log, &r->transactions);
  if (rc == 0 && r->transactions && r->transactions->first_open < r->end) r->end = r->transactions->first_open;
  return rc;
}

/* The transactions are those of the segments that were there. Did retention pass the reader meanwhile, it does not know what to hide. */
static int take_end(sdm_reader *r, int64_t log_end) {
  r->seen_end = log_end;
  r->end = r->to < log_end ? r->to : log_end;
  if (!r->committed || !sdm_transactions_may_be(r->log)) return 0;
  int rc = hide_uncommitted(r);
  return rc == 0 && r->next < sdm_log_start(r->log) ? sdm_log_out_of_range(r->log, r->next, log_end) : rc;
}

int sdm_reader_open(sdm_log *l, int64_t from, int64_t to, unsigned flags, sdm_reader **out) {
  sdm_end e;
  int rc = sdm_log_check(l);
  if (rc == 0) rc = sdm_log_read_end(l, &e, NULL);
  if (rc < 0) return rc;
  int64_t end = sdm_end_offset(&e);
  if (from < sdm_log_start(l) || from > end) return sdm_log_out_of_range(l, from, end);
  sdm_reader *r = sdm_calloc(1, sizeof *r);
  if (!r) return sdm_no_memory();
  r->log = sdm_log_ref(l);
  r->next = from;
  r->to = to;
  r->committed = !(flags & SDM_READ_UNCOMMITTED);
  if ((rc = take_end(r, end)) < 0) {
    sdm_reader_close(r);
    return rc;
  }
  *out = r;
  return 0;
}

static void leave_segment(sdm_reader *r) {
  sdm_segment_unref(r->segment);
  r->segment = NULL;
}

void sdm_reader_close(sdm_reader *r) {
  if (!r) return;
  leave_segment(r);
  sdm_scanner_free(&r->scan);
  sdm_buf_free(&r->plain);
  sdm_free(r->stage);
  sdm_transactions_unref(r->transactions);
  if (r->filter.free) r->filter.free(r->filter.context);
  sdm_log_unref(r->log);
  sdm_free(r);
}

void sdm_reader_set_filter(sdm_reader *r, const sdm_reader_filter *filter) { r->filter = *filter; }

int64_t sdm_reader_position(const sdm_reader *r) { return r->next; }

/* ---- finding the segment ---- */

static int enter(sdm_reader *r, sdm_segment *s, int64_t segment_end, bool retired) {
  int64_t limit;
  sdm_end e;
  int rc = 0;
  sdm_log_last_end(r->log, &e);
  r->active = s->base_offset == e.active_base;
  if (r->active) limit = e.position;
  else rc = sdm_log_segment_limit(r->log, s, &limit);
  r->dense = !retired && sdm_log_is_dense(r->log, s);
  if (rc == 0) rc = sdm_seek(s, &r->scan, r->next, limit, r->dense, &r->scanned_end);
  if (rc < 0) return rc;
  r->skipped_to = -1;
  r->segment_end = segment_end;
  r->bound = retired ? INT64_MAX : r->active ? e.sealed_end : segment_end;
  r->segment = sdm_segment_ref(s);
  return 0;
}

/* All live segments lie above: a deleted one may still have its file. *next_base: the first live one's, or that of the deleted one between. */
static int find_retired(sdm_reader *r, sdm_segment **s, int64_t *next_base) {
  sdm_end e;
  int rc = sdm_retired_find(r->log, r->next, s, next_base);
  if (rc == 1) return rc;
  if (rc == 0) rc = sdm_log_read_end(r->log, &e, NULL);
  return rc < 0 ? rc : sdm_log_out_of_range(r->log, r->next, sdm_end_offset(&e));
}

/* Segments go and are replaced at any time between being found and being opened; then they are looked for again. */
static int find_segment(sdm_reader *r) {
  int rc = 0;
  for (int i = 0; i < SDM_AWAIT_MAX; i++) {
    sdm_segment *s;
    int64_t next_base;
    if ((rc = sdm_log_find(r->log, r->next, &s, &next_base)) < 0) return rc;
    bool retired = !s;
    if (retired && (rc = find_retired(r, &s, &next_base)) < 0) return rc;
    rc = enter(r, s, next_base, retired);
    sdm_segment_unref(s);
    if (rc != SDM_NOT_FOUND) return rc;
    atomic_store(&r->log->bare_stale, true);
    sdm_log_await_change(r->log, i);
  }
  return sdm_log_explain(r->log, rc);
}

/* ---- the stage ---- */

/* The batch of the stage has more records now. */
static void continue_records(sdm_record_iter *it, const sdm_batch *b, const uint8_t *end) {
  it->left += b->count - it->batch.count;
  it->batch = *b;
  it->end = end;
}

/* Gives the staged records as the batch in hand. 0: it was sealed since; they are in the file now. Who follows the log has read most of them: what was given had
** been published, and cannot have changed in the same commit. */
static int take_stage(sdm_reader *r) {
  sdm_end e;
  sdm_batch b;
  uint32_t bytes;
  uint64_t commit;
  int rc = sdm_log_read_end(r->log, &e, &commit);
  if (rc < 0 || e.sealed_end > r->next || sdm_stage_size(&e) == 0) return rc;
  if (!r->stage && !(r->stage = sdm_malloc(SDM_STAGE_BYTES))) return sdm_no_memory();
  bool goes_on = r->stage_goes_on && r->stage_commit == commit;
  r->stage_goes_on = false;
  if (!sdm_control_read_stage(r->log->control, commit, goes_on ? (uint32_t)(r->records.p - r->stage) : 0, r->stage, &bytes)) return 0;
  sdm_stage_header(&e, &b);
  r->batch_end = sdm_batch_last_offset(&b) + 1;
  b.count++;                             /* the copy may hold part of a record that is just being added: no claim that it ends with the last */
  if (goes_on) continue_records(&r->records, &b, r->stage + bytes);
  else sdm_record_iter_init(&r->records, &b, r->stage, bytes);
  r->stage_commit = commit;
  r->in_batch = r->staged = true;
  return 1;
}

/* ---- batches ---- */

/* A batch whose records cannot be had stays in front of the reader: to ask again gives the same answer. */
static int open_records(sdm_reader *r, const sdm_batch *b, const uint8_t *bytes) {
  r->stage_goes_on = false;
  int rc = sdm_record_iter_open(&r->records, b, bytes, &r->plain);
  if (rc == 0) return 0;
  r->scan.position -= b->size;
  return sdm_fail_within(rc, "%s at position %lld: ", r->scan.file->path, (long long)r->scan.position);
}

static int misplaced(sdm_reader *r, const sdm_batch *b, int64_t expected) {
  r->scan.position -= b->size;
  return sdm_fail(SDM_CORRUPT, "%s: the batch at position %lld claims the offsets %lld to %lld, which do not fit those around it (from %lld on): a base "
                  "offset is damaged", r->scan.file->path, (long long)r->scan.position, (long long)b->base_offset, (long long)sdm_batch_last_offset(b),
                  (long long)expected);
}

/* No CRC covers a base offset; going on would give records under wrong offsets, or leave some out without a word. In a segment that cleaning never
** touched each batch begins where the one before it ended; in others at least nothing overlaps, and nothing reaches out of the segment.
*/
static int check_place(sdm_reader *r, const sdm_batch *b, const uint8_t **bytes) {
  int64_t expected = r->scanned_end >= 0 ? r->scanned_end : r->segment->base_offset;
  if (b->base_offset < expected || sdm_batch_last_offset(b) >= r->bound || !sdm_segment_can_hold(r->segment, b)) return misplaced(r, b, expected);
  if (b->base_offset == expected) return 0;
  if (r->dense && r->scanned_end >= 0) return misplaced(r, b, expected);
  if (r->dense && b->base_offset == r->skipped_to) return 0;
  int rc = r->dense ? sdm_scan_joins(&r->scan, b, bytes) : sdm_scan_displaced(&r->scan, b, expected, bytes);
  return rc == !r->dense ? misplaced(r, b, expected) : rc < 0 ? rc : 0;
}

/* The end of the segment, or what is no batch. Of directories that others wrote: files may be padded, and the index tells of a .log that was cut. */
static int no_batch(sdm_reader *r, int rc) {
  bool foreign = !r->log->control && !r->active;
  if (foreign && (rc == SDM_CORRUPT || (rc == 0 && r->scan.torn))) {
    int padding = sdm_scan_padding(&r->scan);
    if (padding == 1) r->scan.torn = false;
    if (padding != 0) rc = padding < 0 ? padding : 0;
  }
  if (rc == 0 && r->scan.torn) return sdm_fail(SDM_CORRUPT, "%s is cut off in the batch at position %lld", r->scan.file->path, (long long)r->scan.position);
  if (rc == 0 && r->active && !r->log->control) return sdm_bare_check_end(r->log, NULL);
  if (rc < 0 || !foreign) return rc;
  int64_t next_offset = r->scanned_end >= 0 ? r->scanned_end : r->scan.position == 0 ? r->segment->base_offset : INT64_MAX;
  return sdm_bare_check_cut(r->log, r->segment, r->scan.position, next_offset);
}

/* 1: a batch with records for us is in hand. 0: the segment has no more. */
static int next_batch(sdm_reader *r) {
  sdm_batch b;
  const uint8_t *bytes;
  for (;;) {
    int rc = sdm_scan_batch(&r->scan, &b, &bytes);
    if (rc <= 0) return no_batch(r, rc);
    if ((rc = check_place(r, &b, &bytes)) < 0) return rc;
    int64_t before = r->scanned_end;
    r->scanned_end = sdm_batch_last_offset(&b) + 1;
    if (sdm_batch_last_offset(&b) < r->next || b.count == 0 || sdm_batch_is(&b, SDM_ATTR_CONTROL)) continue;
    if (r->transactions && sdm_transactions_hide(r->transactions, &b)) continue;
    if (r->transactions && (rc = sdm_transactions_check(r->transactions, &b, r->log->dir)) < 0) {
      r->scan.position -= b.size;
      r->scanned_end = before;
      return rc;
    }
    if ((rc = open_records(r, &b, bytes)) < 0) {
      r->scanned_end = before;
      return rc;
    }
    r->batch_end = sdm_batch_last_offset(&b) + 1;
    r->in_batch = true;
    r->staged = false;
    return 1;
  }
}

/* The active segment has no more batches below the limit that was taken: more may have been sealed since, or lie in the stage. */
static int after_active(sdm_reader *r, const sdm_end *e) {
  if (e->position > r->scan.limit) {
    r->scan.limit = e->position;
    r->bound = e->sealed_end;
    return 0;
  }
  if (r->next < e->sealed_end) r->next = e->sealed_end < r->end ? e->sealed_end : r->end;
  int rc = r->next < r->end ? take_stage(r) : 0;
  return rc < 0 ? rc : 0;
}

/* Another may follow the last one by now. Not for ever: an end that is beyond all segments is damage. */
static int look_again(sdm_reader *r) {
  if (r->turns++ > 0) sdm_log_await_change(r->log, r->turns);
  if (r->turns <= SDM_AWAIT_MAX) return 0;
  r->turns = 0;
  return sdm_fail(SDM_CORRUPT, "%s: no segment has the offset %lld, though the log ends at %lld", r->log->dir, (long long)r->next, (long long)r->end);
}

/* The segment in hand has no more batches. What comes next is looked for by offset: the list may have changed in any way since, and the one
** that is found may hold more than this one (a swap), or be this one again, now closed, with a gap behind its last batch. */
static int after_segment(sdm_reader *r) {
  int64_t limit;
  sdm_end e;
  int rc;
  if (r->active) {
    if ((rc = sdm_log_read_end(r->log, &e, NULL)) < 0) return rc;
    if (e.active_base == r->segment->base_offset) return after_active(r, &e);
    r->active = false;                   /* rolled since: what was sealed before that is in its file */
    if ((rc = sdm_log_segment_limit(r->log, r->segment, &limit)) < 0) return rc;
    r->bound = INT64_MAX;
    if (limit > r->scan.limit) {
      r->scan.limit = limit;
      return 0;
    }
  }
  leave_segment(r);
  if (r->segment_end == INT64_MAX) return look_again(r);
  if (r->segment_end > r->next) r->next = r->segment_end < r->end ? r->segment_end : r->end;
  return 0;
}

/* Brings a batch in hand, or next to end. */
static int advance(sdm_reader *r) {
  while (!r->in_batch && r->next < r->end) {
    int rc = r->segment ? 0 : find_segment(r);
    if (rc == 0) rc = next_batch(r);
    if (rc == 0) rc = after_segment(r);
    if (rc < 0) return rc;
  }
  if (r->in_batch) r->turns = 0;
  return r->in_batch ? 1 : 0;
}

/* ---- damage ---- */

/* No batch behind it in its segment can be had. */
static int skip_rest(sdm_reader *r) {
  r->scan.position = r->scan.limit;
  if (!r->active) return after_segment(r);
  if (r->next < r->bound) r->next = r->bound < r->end ? r->bound : r->end;
  return 0;
}

/* Where the damaged batch that begins at `begins` ends, if its header can be believed. */
static int64_t own_words(sdm_reader *r, int64_t begins) {
  sdm_batch b;
  int64_t at = r->scan.position;
  bool plausible = sdm_scan_header(&r->scan, &b) == 1 && b.base_offset == begins;
  r->scan.position = at;
  return plausible ? sdm_batch_last_offset(&b) + 1 : -1;
}

/* The next valid batch whose offsets can be. 1: the scanner stands there. */
static int find_next(sdm_reader *r, int64_t begins, sdm_batch *b) {
  int rc;
  while ((rc = sdm_scan_resync(&r->scan, begins)) == 1 && (rc = sdm_scan_header(&r->scan, b)) == 1) {
    r->scan.position -= b->size;
    if (sdm_segment_can_hold(r->segment, b) && sdm_batch_last_offset(b) < r->bound) return 1;
  }
  return rc == SDM_CORRUPT ? 0 : rc;
}

static int skip_batch(sdm_reader *r) {
  sdm_batch b;
  int64_t begins = r->scanned_end >= 0 ? r->scanned_end : r->segment->base_offset;
  r->skipped_to = own_words(r, begins);
  int rc = find_next(r, begins, &b);
  if (rc < 0) return rc;
  if (rc == 0) return skip_rest(r);
  r->scanned_end = -1;
  if (b.base_offset > r->next) r->next = b.base_offset < r->end ? b.base_offset : r->end;
  return 0;
}

/* Nothing of a segment that cannot even be entered. */
static int skip_segment(sdm_reader *r) {
  sdm_segment *s;
  int64_t next_base;
  int rc = sdm_log_find(r->log, r->next, &s, &next_base);
  if (rc < 0) return rc;
  sdm_segment_unref(s);
  r->next = next_base < r->end ? next_base : r->end;
  return 0;
}

int sdm_reader_skip(sdm_reader *r, int64_t *from, int64_t *to) {
  int rc = 0;
  *from = r->next;
  if (r->in_batch) {
    r->in_batch = false;
    if (r->next < r->batch_end) r->next = r->batch_end < r->end ? r->batch_end : r->end;
  } else {
    rc = r->segment ? skip_batch(r) : skip_segment(r);
  }
  *to = r->next;
  return rc;
}

int sdm_reader_next(sdm_reader *r, sdm_record *out) {
  for (;;) {
    if (!r->in_batch) {
      int rc = sdm_log_check(r->log);
      if (rc == 0) rc = advance(r);
      if (rc <= 0) return rc;
    }
    bool whole = r->next >= r->batch_end && (r->staged || r->records.left == 0);         /* else what is left does not ascend: damage, which is to be told */
    int rc = whole ? 0 : sdm_record_next(&r->records, out);
    if (rc < 0) return sdm_fail_within(rc, "%s: ", r->log->dir);
    if (rc == 0) {
      r->in_batch = false;
      r->stage_goes_on = r->staged && whole && r->next == r->batch_end;
      if (r->next < r->batch_end) r->next = r->batch_end;
      continue;
    }
    if (out->offset < r->next) continue;
    if (out->offset >= r->end) {           /* the batch has more: who waits for that finds it anew */
      r->in_batch = false;
      r->next = r->end;
      leave_segment(r);
      return 0;
    }
    r->next = out->offset + 1;
    if (!r->filter.wants || r->filter.wants(r->filter.context, out)) return 1;
  }
}

/* ---- what is appended later ---- */

/* An end that has moved may bring nothing yet: of an open transaction. */
int sdm_reader_wait(sdm_reader *r, int64_t timeout_ms) {
  int64_t end, until = timeout_ms < 0 ? INT64_MAX : sdm_add_sat(sdm_monotonic_ms(), timeout_ms);
  while (r->next < r->to) {
    int64_t left = timeout_ms < 0 ? timeout_ms : until - sdm_monotonic_ms();
    int rc = sdm_log_wait(r->log, r->seen_end, left > 0 || timeout_ms < 0 ? left : 0);
    if (rc == 1 && (rc = sdm_log_latest(r->log, &end)) == 0) rc = take_end(r, end);
    else if (rc >= 0) return rc;
    if (rc < 0 || r->next < r->end) return rc < 0 ? rc : 1;
  }
  return SDM_ENDED;
}
