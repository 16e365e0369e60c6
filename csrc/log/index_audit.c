/* Each cursor stands at the first entry that was not met yet: a batch passes it, finds it wrong, or comes before it. */
#include "log/index_audit.h"

#include "base/bytes.h"
#include "base/mem.h"
#include "format/txn_index.h"
#include "log/recover.h"

static const struct {
  sdm_file_kind kind;
  const char *name;
  int64_t entry;
} kinds[] = {{SDM_FILE_INDEX, "offset index", SDM_INDEX_ENTRY}, {SDM_FILE_TIMEINDEX, "time index", SDM_TIMEINDEX_ENTRY},
             {SDM_FILE_TXNINDEX, "transaction index", SDM_TXNINDEX_ENTRY}};
enum { OFFSETS, TIMES, TRANSACTIONS, CURSORS };

/* ---- the cursor ---- */

static int give_up(sdm_index_audit *x, int i, int64_t position, int rc) {
  sdm_index_cursor *c = &x->cursors[i];
  const char *path = c->file->path;
  c->file = NULL;
  return sdm_report_problem(x->v, path, position, -1, rc, SDM_HARM_DERIVED);
}

static int wrong(sdm_index_audit *x, int i, const char *what) {
  int64_t at = x->cursors[i].position;
  return give_up(x, i, at, sdm_fail(SDM_CORRUPT, "%s: the entry at position %lld of the %s %s", x->cursors[i].file->path, (long long)at, kinds[i].name, what));
}

static bool is_padding(const uint8_t *p, int64_t size) {
  while (size > 0 && p[size - 1] == 0) size--;
  return size == 0;
}

/* 1: *entry is the one in hand. 0: there is no more. */
static int peek(sdm_index_audit *x, int i, const uint8_t **entry) {
  sdm_index_cursor *c = &x->cursors[i];
  int64_t size = kinds[i].entry;
  if (!c->file || c->position + size > c->size) return 0;
  if (c->position < c->block_at || c->position + size > c->block_at + (int64_t)c->block_size) {
    int rc = c->file->fs->read(c->file, c->block, (size_t)(SDM_INDEX_AUDIT_ENTRIES * size), c->position, &c->block_size);
    c->block_at = c->position;
    if (rc < 0) return sdm_is_finding(rc) ? give_up(x, i, c->position, rc) : rc;
    if (c->block_size < (size_t)size) return 0;
  }
  *entry = c->block + (c->position - c->block_at);
  return !(!x->ours && !x->closed && is_padding(*entry, size));
}

static void advance(sdm_index_audit *x, int i) { x->cursors[i].position += kinds[i].entry; }

/* ---- one entry against one batch: 1: it is passed. 0: it is of a later one. ---- */

static int hold_offset(sdm_index_audit *x, const uint8_t *entry, const sdm_batch *b, int64_t position, bool lost) {
  sdm_index_entry e;
  int64_t last = sdm_batch_last_offset(b);
  sdm_index_decode(entry, x->segment->base_offset, &e);
  if (e.position > position) return 0;
  if (e.position < position && lost && e.position > 0) return 1;
  if (e.position < position || position == 0) return wrong(x, OFFSETS, "names a position at which no batch begins");
  if (e.offset < last || (x->ours && e.offset != last)) return wrong(x, OFFSETS, "names another offset than that of the batch there");
  return 1;
}

static int hold_time(sdm_index_audit *x, const uint8_t *entry, const sdm_batch *b, bool lost) {
  sdm_timeindex_entry e;
  int64_t last = sdm_batch_last_offset(b);
  sdm_timeindex_decode(entry, x->segment->base_offset, &e);
  if (e.offset > last) return 0;
  if (e.offset < b->base_offset && lost) return 1;
  if (e.offset < b->base_offset || (x->ours && e.offset != last)) return wrong(x, TIMES, "names an offset with which no batch ends");
  if (e.timestamp != b->max_timestamp) return wrong(x, TIMES, "has another timestamp than the batch that it names");
  if (e.timestamp < x->max_timestamp) return wrong(x, TIMES, "has a timestamp that older batches are beyond");
  return 1;
}

static int hold_transaction(sdm_index_audit *x, const uint8_t *entry, const sdm_batch *b, bool lost) {
  sdm_txnindex_entry e;
  if (!sdm_txnindex_decode(entry, &e)) return wrong(x, TRANSACTIONS, "is of an unknown version");
  if (e.last > sdm_batch_last_offset(b)) return 0;
  if (e.last < b->base_offset && lost) return 1;
  if (e.last < b->base_offset || !sdm_batch_is(b, SDM_ATTR_CONTROL) || e.producer_id != b->producer_id || e.first > e.last) {
    return wrong(x, TRANSACTIONS, "names a transaction that does not end there");
  }
  return 1;
}

static int hold(sdm_index_audit *x, int i, const uint8_t *entry, const sdm_batch *b, int64_t position) {
  bool lost = x->damaged;
  return i == OFFSETS ? hold_offset(x, entry, b, position, lost) : i == TIMES ? hold_time(x, entry, b, lost) : hold_transaction(x, entry, b, lost);
}

int sdm_index_audit_batch(sdm_index_audit *x, const sdm_batch *b, int64_t position) {
  const uint8_t *entry;
  int rc = 0;
  if (b->max_timestamp > x->max_timestamp) x->max_timestamp = b->max_timestamp;
  if (position == 0) x->first_size = b->size;
  for (int i = 0; rc >= 0 && i < CURSORS; i++) {
    while ((rc = peek(x, i, &entry)) == 1 && (rc = hold(x, i, entry, b, position)) == 1) advance(x, i);
  }
  return rc < 0 ? rc : 0;
}

void sdm_index_audit_damage(sdm_index_audit *x) { x->damaged = true; }

/* ---- the whole ---- */

static int open_failed(sdm_index_audit *x, int i, int rc) {
  char *path = sdm_segment_path(x->segment->dir, x->segment->base_offset, kinds[i].kind, x->segment->suffix);
  rc = path ? sdm_report_problem(x->v, path, -1, -1, rc, SDM_HARM_DERIVED) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

/* That one is missing is told at the end: it may have been renamed, with the .log, a moment ago. */
static int open_cursor(sdm_index_audit *x, int i) {
  sdm_index_cursor *c = &x->cursors[i];
  sdm_file_info info;
  int rc = sdm_segment_file(x->segment, kinds[i].kind, &c->file);
  if (rc == 0) rc = x->segment->fs->info(c->file, &info);
  if (rc == 0) {
    c->size = info.size;
    return 0;
  }
  c->file = NULL;
  c->missing = rc == SDM_NOT_FOUND && i != TRANSACTIONS;
  return rc == SDM_NOT_FOUND ? 0 : sdm_is_finding(rc) ? open_failed(x, i, rc) : rc;
}

int sdm_index_audit_begin(sdm_index_audit *x, sdm_verification *v, sdm_segment *s, bool closed, bool ours) {
  int rc = 0;
  *x = (sdm_index_audit){.v = v, .segment = s, .closed = closed, .ours = ours, .max_timestamp = -1};
  for (int i = 0; rc == 0 && i < CURSORS; i++) rc = open_cursor(x, i);
  return rc;
}

bool sdm_index_audit_lacks_file(const sdm_index_audit *x) { return x->cursors[OFFSETS].missing || x->cursors[TIMES].missing; }

/* Of a closed segment nothing may be left over. Of an active one entries come before the batch is told of, and may be half written. */
static int check_rest(sdm_index_audit *x, int i) {
  const uint8_t *entry;
  sdm_index_cursor *c = &x->cursors[i];
  if (c->missing) return open_failed(x, i, sdm_fail(SDM_NOT_FOUND, "the %s of %s/%020lld.log is missing", kinds[i].name, x->segment->dir, (long long)x->segment->base_offset));
  if (!c->file || !x->closed || x->damaged) return 0;
  int rc = peek(x, i, &entry);
  if (rc == 1) return wrong(x, i, "names what is not in the segment");
  if (rc < 0 || !c->file || c->size % kinds[i].entry == 0) return rc;
  return give_up(x, i, c->position, sdm_fail(SDM_CORRUPT, "%s: %lld bytes are not a whole number of entries", c->file->path, (long long)c->size));
}

static int lacks(sdm_index_audit *x, int i, const char *what) {
  return give_up(x, i, -1, sdm_fail(SDM_CORRUPT, "%s: the %s lacks an entry for %s", x->cursors[i].file->path, kinds[i].name, what));
}

/* What retention goes by, and what a look-up cannot do without. */
static int check_enough(sdm_index_audit *x, int64_t size) {
  sdm_index_cursor *offsets = &x->cursors[OFFSETS], *times = &x->cursors[TIMES];
  int rc = 0;
  if (!x->closed || x->damaged) return 0;
  if (offsets->file && offsets->size == 0 && size - x->first_size >= SDM_SURELY_INDEXED) rc = lacks(x, OFFSETS, "what is in the segment");
  if (rc < 0 || !times->file || x->max_timestamp < 0) return rc;
  int64_t newest = -1;
  if (times->size > 0) {
    const uint8_t *entry;
    times->position = times->size - SDM_TIMEINDEX_ENTRY;
    if ((rc = peek(x, TIMES, &entry)) < 0) return rc;
    if (rc == 1) newest = (int64_t)sdm_get64(entry);
  }
  return newest != x->max_timestamp && (x->ours || newest < 0) ? lacks(x, TIMES, "the largest timestamp of the segment") : 0;
}

int sdm_index_audit_end(sdm_index_audit *x, int64_t size) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < CURSORS; i++) rc = check_rest(x, i);
  return rc == 0 ? check_enough(x, size) : rc;
}
