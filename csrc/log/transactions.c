#include "log/transactions.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "format/batch_records.h"
#include "log/scanner.h"

typedef struct walk {
  sdm_transactions *out;
  sdm_transactions open;                   /* begun and not ended; `last` means nothing */
} walk;

static int add(sdm_transactions *t, int64_t producer_id, int64_t first, int64_t last) {
  sdm_transaction *items = sdm_grown(t->aborted, t->count, &t->capacity, sizeof *items);
  if (!items) return sdm_no_memory();
  t->aborted = items;
  t->aborted[t->count++] = (sdm_transaction){producer_id, first, last};
  return 0;
}

static sdm_transaction *find_open(walk *w, int64_t producer_id) {
  for (size_t i = 0; i < w->open.count; i++) {
    if (w->open.aborted[i].producer_id == producer_id) return &w->open.aborted[i];
  }
  return NULL;
}

/* Type of an end-of-transaction marker: 0 abort, 1 commit; -1 for other control records. */
static int marker_type(const sdm_batch *b, const uint8_t *bytes) {
  sdm_record_iter it;
  sdm_record r;
  sdm_buf plain = SDM_BUF_INIT;            /* brokers do not compress markers, but may keep those that were given so */
  int type = -1;
  if (sdm_record_iter_open(&it, b, bytes, &plain) == 0 && sdm_record_next(&it, &r) == 1 && r.key_size >= 4) {
    type = sdm_get16((const uint8_t *)r.key + 2);
  }
  sdm_buf_free(&plain);
  return type <= 1 ? type : -1;
}

/* A marker ends its producer's transaction. One whose records cleaning has removed ends nothing. */
static int take_marker(walk *w, const sdm_batch *b, const uint8_t *bytes) {
  sdm_transaction *t = find_open(w, b->producer_id);
  int type = marker_type(b, bytes), rc = 0;
  if (!t || type < 0) return 0;
  if (type == 0) rc = add(w->out, t->producer_id, t->first, sdm_batch_last_offset(b));
  *t = w->open.aborted[--w->open.count];
  return rc;
}

static int take_batch(walk *w, sdm_scanner *scan, int64_t at, sdm_batch *b) {
  const uint8_t *bytes;
  if (!sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL)) return 0;
  if (!sdm_batch_is(b, SDM_ATTR_CONTROL)) return find_open(w, b->producer_id) ? 0 : add(&w->open, b->producer_id, b->base_offset, -1);
  scan->position = at;
  int rc = sdm_scan_batch(scan, b, &bytes);
  return rc == 1 ? take_marker(w, b, bytes) : rc;
}

/* Damage is the reader's to report, who meets it as well: here it is stepped over. */
static int walk_segment(sdm_log *l, walk *w, sdm_segment *s) {
  sdm_scanner scan = {0};
  sdm_batch b;
  sdm_file *f;
  int64_t limit;
  int rc = sdm_log_segment_limit(l, s, &limit);
  if (rc == 0) rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  sdm_scanner_start(&scan, f, 0, limit);
  for (;;) {
    int64_t at = scan.position;
    rc = sdm_scan_header(&scan, &b);
    if (rc == 1) rc = take_batch(w, &scan, at, &b) < 0 ? SDM_CORRUPT : 1;
    if (rc == SDM_CORRUPT && sdm_scan_resync(&scan, s->base_offset) == 1) continue;
    if (rc <= 0) break;
  }
  sdm_scanner_free(&scan);
  return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : 0;
}

int sdm_transactions_read(sdm_log *l, int64_t end, sdm_transactions *out) {
  walk w = {.out = out};
  sdm_segment **segments;
  size_t count;
  int rc = sdm_log_segment_refs(l, INT64_MAX, &segments, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; rc == 0 && i < count; i++) {
    rc = walk_segment(l, &w, segments[i]);
    sdm_segment_rest(segments[i]);
  }
  out->stable_end = end;
  for (size_t i = 0; i < w.open.count; i++) {
    if (w.open.aborted[i].first < out->stable_end) out->stable_end = w.open.aborted[i].first;
  }
  sdm_segments_unref(segments, count);
  sdm_transactions_free(&w.open);
  return rc;
}

bool sdm_transactions_hide(const sdm_transactions *t, const sdm_batch *b) {
  if (!sdm_batch_is(b, SDM_ATTR_TRANSACTIONAL)) return false;
  for (size_t i = 0; i < t->count; i++) {
    const sdm_transaction *a = &t->aborted[i];
    if (a->producer_id == b->producer_id && b->base_offset >= a->first && b->base_offset <= a->last) return true;
  }
  return false;
}

void sdm_transactions_free(sdm_transactions *t) {
  sdm_free(t->aborted);
  *t = (sdm_transactions){0};
}
