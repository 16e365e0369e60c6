#include "log/transactions.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "format/batch_records.h"
#include "log/segment_digest.h"

typedef struct walk {
  sdm_transactions *out;
  int64_t *open;                           /* ids of the producers whose transaction is open, in the order of their beginnings */
  size_t open_count, open_capacity;
  int64_t end;                             /* batches from here on are Sediment's own */

  sdm_segment *segment;                    /* in hand */
  sdm_scanner scan;
  int64_t expected;                        /* offset at which what is to come begins, or later */
  int64_t before, expected_before;         /* position of the batch before, INT64_MAX: it is verified; `expected` there */
} walk;

sdm_marker sdm_marker_of(const sdm_batch *b, const uint8_t *bytes, int32_t *coordinator_epoch) {
  sdm_record_iter it;
  sdm_record r;
  sdm_buf plain = SDM_BUF_INIT;            /* brokers do not compress markers, but may keep those that were given so */
  int type = -1;
  if (sdm_record_iter_open(&it, b, bytes, &plain) == 0 && sdm_record_next(&it, &r) == 1 && r.key_size >= 4) {
    type = sdm_get16((const uint8_t *)r.key + 2);
    if (coordinator_epoch && r.value_size >= 6) *coordinator_epoch = (int32_t)sdm_get32((const uint8_t *)r.value + 2);
  }
  sdm_buf_free(&plain);
  return type == SDM_MARKER_ABORT || type == SDM_MARKER_COMMIT ? (sdm_marker)type : SDM_MARKER_NONE;
}

/* ---- the walk ---- */

static int note_open(walk *w, sdm_producer *p, int64_t first) {
  int64_t *open = sdm_grown(w->open, w->open_count, &w->open_capacity, sizeof *open);
  if (!open) return sdm_no_memory();
  w->open = open;
  w->open[w->open_count++] = p->id;
  p->first_open = first;
  return 0;
}

static int64_t first_open(const walk *w) {
  return w->open_count > 0 ? sdm_producers_find(&w->out->producers, w->open[0])->first_open : INT64_MAX;
}

static void note_ended(walk *w, const sdm_producer *p) {
  size_t i = 0;
  while (w->open[i] != p->id) i++;
  memmove(&w->open[i], &w->open[i + 1], (--w->open_count - i) * sizeof *w->open);
}

static int note_aborted(walk *w, const sdm_producer *p, int64_t first, int64_t last) {
  sdm_transactions *t = w->out;
  sdm_txnindex_entry *items = sdm_grown(t->aborted, t->count, &t->capacity, sizeof *items);
  if (!items) return sdm_no_memory();
  int64_t stable = first_open(w);
  t->aborted = items;
  t->aborted[t->count++] = (sdm_txnindex_entry){p->id, first, last, stable < last + 1 ? stable : last + 1};
  return 0;
}

/* A marker ends its producer's transaction. One whose records cleaning has removed ends nothing; one that cleaning has emptied tells of the producer. */
static int take_marker(walk *w, const sdm_batch *b, const uint8_t *bytes) {
  int32_t coordinator_epoch = -1;
  sdm_marker type = sdm_marker_of(b, bytes, &coordinator_epoch);
  if (type == SDM_MARKER_NONE && b->count > 0) return 0;
  sdm_producer *p = sdm_producers_at(&w->out->producers, b->producer_id);
  if (!p) return sdm_no_memory();
  sdm_producer_note(p, b);
  p->coordinator_epoch = coordinator_epoch;
  int64_t first = p->first_open;
  if (first < 0 || type == SDM_MARKER_NONE) return 0;
  p->first_open = -1;
  note_ended(w, p);
  return type == SDM_MARKER_ABORT ? note_aborted(w, p, first, sdm_batch_last_offset(b)) : 0;
}

static int take_batch(walk *w, const sdm_batch *b, const uint8_t *bytes) {
  if (sdm_batch_is(b, SDM_ATTR_CONTROL)) return take_marker(w, b, bytes);
  sdm_producer *p = sdm_producers_at(&w->out->producers, b->producer_id);
  if (!p) return sdm_no_memory();
  sdm_producer_note(p, b);
  return sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL) && p->first_open < 0 ? note_open(w, p, b->base_offset) : 0;
}

/* ---- damage: a marker may be in it ---- */

static int note_uncertain(walk *w, const sdm_producer *p, int64_t position) {
  sdm_transactions *t = w->out;
  sdm_uncertain *items = sdm_grown(t->uncertain, t->uncertain_count, &t->uncertain_capacity, sizeof *items);
  if (!items) return sdm_no_memory();
  t->uncertain = items;
  t->uncertain[t->uncertain_count++] = (sdm_uncertain){p->id, p->first_open, w->expected - 1, w->segment->base_offset, position};
  return 0;
}

/* Of no transaction that is open here it is known how it ended. What follows the damage is taken up from the next batch on that stands where it says. */
static int pass_damage(walk *w, int64_t at) {
  const uint8_t *bytes;
  sdm_batch b;
  w->scan.position = w->before;
  if (w->before < at && sdm_scan_batch(&w->scan, &b, &bytes) == SDM_CORRUPT) {         /* a damaged size has led here */
    at = w->before;
    w->expected = w->expected_before;
  }
  for (size_t i = 0; i < w->open_count; i++) {
    sdm_producer *p = sdm_producers_find(&w->out->producers, w->open[i]);
    int rc = note_uncertain(w, p, at);
    if (rc < 0) return rc;
    p->first_open = -1;
  }
  w->open_count = 0;
  w->before = INT64_MAX;
  w->scan.position = at;
  return sdm_scan_resync(&w->scan, w->expected);
}

/* 1: verified. 0: it is damaged, or the one before it is. */
static int verify(walk *w, int64_t at, sdm_batch *b, const uint8_t **bytes) {
  w->scan.position = w->before < at ? w->before : at;
  int rc = 1;
  while (rc == 1 && w->scan.position <= at) rc = sdm_scan_batch(&w->scan, b, bytes);
  return rc == SDM_CORRUPT ? 0 : rc;
}

/* Headers are believed while batches are of no producer with an id and without gaps; others are verified, and with them the one before. 1: a batch that was
** verified, or need not be. 0: the end.
*/
static int next_batch(walk *w, sdm_batch *b, const uint8_t **bytes) {
  for (;;) {
    int64_t at = w->scan.position;
    int rc = sdm_scan_header(&w->scan, b);
    bool plain = rc == 1 && b->producer_id < 0 && !sdm_batch_is(b, SDM_ATTR_CONTROL | SDM_ATTR_TRANSACTIONAL);
    bool damaged = rc == SDM_CORRUPT || (rc == 0 && w->scan.torn) || (rc == 1 && (b->base_offset < w->expected || !sdm_segment_can_hold(w->segment, b)));
    if (!damaged && rc <= 0) return rc;
    if (damaged && rc != 1 && (rc = sdm_scan_padding(&w->scan)) != 0) return rc < 0 ? rc : 0;
    if (!damaged && !(plain && b->base_offset == w->expected)) {
      if ((rc = verify(w, at, b, bytes)) < 0) return rc;
      damaged = rc == 0;
    }
    if (!damaged) {
      w->before = plain ? at : INT64_MAX;
      w->expected_before = w->expected;
      w->expected = sdm_batch_last_offset(b) + 1;
      return 1;
    }
    if ((rc = pass_damage(w, at)) <= 0) return rc;
  }
}

/* Damage is the reader's to report, who meets it as well, or data before it whose fate it hides. */
static int walk_segment(sdm_log *l, walk *w, sdm_segment *s) {
  sdm_batch b;
  const uint8_t *bytes = NULL;
  int64_t limit;
  int rc = sdm_log_segment_limit(l, s, &limit);
  if (rc == 0) rc = sdm_segment_scan(s, &w->scan, 0, limit);
  if (rc < 0) return rc;
  w->segment = s;
  w->expected = s->base_offset;
  w->before = INT64_MAX;
  while ((rc = next_batch(w, &b, &bytes)) == 1 && b.base_offset < w->end) {
    if (b.producer_id >= 0 && (rc = take_batch(w, &b, bytes)) < 0) break;
  }
  return rc < 0 && rc != SDM_UNSUPPORTED ? rc : 0;
}

static int by_place(const void *a, const void *b) {
  const sdm_txnindex_entry *x = a, *y = b;
  if (x->producer_id != y->producer_id) return x->producer_id < y->producer_id ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

static int walk_all(sdm_log *l, walk *w) {
  sdm_segment **segments;
  size_t count;
  int rc = sdm_log_segment_refs(l, w->end, &segments, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    rc = walk_segment(l, w, segments[i]);
    sdm_segment_rest(segments[i]);
  }
  sdm_segments_unref(segments, count);
  sdm_scanner_free(&w->scan);
  w->out->first_open = first_open(w);
  if (w->out->count > 1) qsort(w->out->aborted, w->out->count, sizeof *w->out->aborted, by_place);
  return rc;
}

/* ---- remembering it ---- */

static sdm_transactions *remembered(sdm_log *l, uint64_t generation) {
  sdm_mutex_lock(&l->lock);
  sdm_transactions *t = l->transactions && l->transactions_generation == generation ? l->transactions : NULL;
  if (t) atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  sdm_mutex_unlock(&l->lock);
  return t;
}

static void remember(sdm_log *l, uint64_t generation, sdm_transactions *t) {
  sdm_mutex_lock(&l->lock);
  sdm_transactions *old = l->transactions;
  atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
  l->transactions = t;
  l->transactions_generation = generation;
  sdm_mutex_unlock(&l->lock);
  sdm_transactions_unref(old);
}

static int find(sdm_log *l, void *context) {
  sdm_transactions **out = context;
  uint64_t generation = l->control ? atomic_load_explicit(&l->control->generation, memory_order_acquire) : 0;
  walk w = {.end = l->control ? atomic_load_explicit(&l->control->foreign_end, memory_order_relaxed) : INT64_MAX};
  if (l->control && (*out = remembered(l, generation))) return 0;
  sdm_transactions *t = sdm_calloc(1, sizeof *t);
  if (!t) return sdm_no_memory();
  atomic_init(&t->refs, 1);
  w.out = t;
  int rc = walk_all(l, &w);
  sdm_free(w.open);
  if (rc < 0) {
    sdm_transactions_unref(t);
    return rc;
  }
  if (l->control && atomic_load_explicit(&l->control->generation, memory_order_acquire) == generation) remember(l, generation, t);
  *out = t;
  return 0;
}

bool sdm_transactions_may_be(const sdm_log *l) { return !l->control || atomic_load_explicit(&l->control->foreign_end, memory_order_relaxed) != 0; }

int sdm_transactions_get(sdm_log *l, sdm_transactions **out) {
  *out = NULL;
  if (!sdm_transactions_may_be(l)) return 0;
  return sdm_log_steadily(l, find, out);
}

void sdm_transactions_unref(sdm_transactions *t) {
  if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
  sdm_producers_free(&t->producers);
  sdm_free(t->aborted);
  sdm_free(t->uncertain);
  sdm_free(t);
}

/* ---- asking it ---- */

const sdm_txnindex_entry *sdm_transactions_find(const sdm_transactions *t, const sdm_batch *b) {
  size_t low = 0, high = t->count;
  while (low < high) {                     /* the last of that producer that begins at or before the batch */
    size_t middle = low + (high - low) / 2;
    const sdm_txnindex_entry *e = &t->aborted[middle];
    if (e->producer_id < b->producer_id || (e->producer_id == b->producer_id && e->first <= b->base_offset)) low = middle + 1;
    else high = middle;
  }
  const sdm_txnindex_entry *e = low > 0 ? &t->aborted[low - 1] : NULL;
  return e && e->producer_id == b->producer_id && b->base_offset <= e->last ? e : NULL;
}

bool sdm_transactions_hide(const sdm_transactions *t, const sdm_batch *b) {
  return sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL) && sdm_transactions_find(t, b);
}

int sdm_transactions_check(const sdm_transactions *t, const sdm_batch *b, const char *dir) {
  if (!sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL)) return 0;
  for (size_t i = 0; i < t->uncertain_count; i++) {
    const sdm_uncertain *u = &t->uncertain[i];
    if (u->producer_id != b->producer_id || b->base_offset < u->first || b->base_offset > u->last) continue;
    return sdm_fail(SDM_CORRUPT, "%s: whether the transaction of producer %lld that begins at offset %lld was committed cannot be told: %020lld.log is damaged at "
                    "position %lld (isolation \"uncommitted\" reads on)", dir, (long long)u->producer_id, (long long)u->first, (long long)u->segment_base,
                    (long long)u->position);
  }
  return 0;
}
