/* The transactions of what is adopted: a .txnindex that a broker can go by, and an end for those that nobody would end. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "log/adoption.h"
#include "log/bare.h"
#include "log/transactions.h"

/* ---- .txnindex ---- */

static bool lists(const char *bytes, size_t size, const sdm_txnindex_entry *wanted) {
  for (size_t at = 0; at < size; at += SDM_TXNINDEX_ENTRY) {
    sdm_txnindex_entry e;
    if (!sdm_txnindex_decode((const uint8_t *)bytes + at, &e)) return false;
    if (e.last == wanted->last && e.producer_id == wanted->producer_id) return e.first <= wanted->first;
  }
  return false;
}

static bool complete(const char *bytes, size_t size, const sdm_txnindex_entry *wanted, size_t count) {
  if (size % SDM_TXNINDEX_ENTRY != 0) return false;
  for (size_t i = 0; i < count; i++) {
    if (!lists(bytes, size, &wanted[i])) return false;
  }
  return true;
}

static int write_txnindex(sdm_adoption *a, const char *path, const sdm_txnindex_entry *entries, size_t count) {
  sdm_file *f;
  sdm_buf bytes = SDM_BUF_INIT;
  int rc = sdm_buf_reserve(&bytes, count * SDM_TXNINDEX_ENTRY);
  if (rc < 0) return rc;
  for (size_t i = 0; i < count; i++) sdm_txnindex_encode(bytes.data + i * SDM_TXNINDEX_ENTRY, &entries[i]);
  rc = a->fs->open(a->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  if (rc == 0) {
    rc = a->fs->write(f, bytes.data, count * SDM_TXNINDEX_ENTRY, 0);
    a->fs->close(f);
  }
  sdm_buf_free(&bytes);
  return rc;
}

/* A broker goes by it after an orderly stop: so it must have every transaction whose abort the segment holds. It may have more: of some no data is left. */
static int check_txnindex(sdm_adoption *a, int64_t base, const sdm_txnindex_entry *wanted, size_t count) {
  enum { LIMIT = 1 << 30 };
  char *path = sdm_segment_path(a->to, base, SDM_FILE_TXNINDEX, ""), *bytes = NULL;
  size_t size = 0;
  int rc = path ? sdm_fs_read_all(a->fs, path, LIMIT, &bytes, &size) : sdm_no_memory();
  bool missing = rc == SDM_NOT_FOUND;
  if (missing || rc == SDM_CORRUPT) rc = 0;
  if (rc == 0 && !(bytes && complete(bytes, size, wanted, count)) && (count > 0 || !missing)) rc = write_txnindex(a, path, wanted, count);
  sdm_free(bytes);
  sdm_free(path);
  return rc;
}

static int by_end(const void *a, const void *b) {
  const sdm_txnindex_entry *x = a, *y = b;
  return (x->last > y->last) - (x->last < y->last);
}

static int check_txnindexes(sdm_adoption *a, const sdm_transactions *t) {
  size_t from = 0, to;
  int rc = 0;
  sdm_txnindex_entry *all = sdm_malloc((t->count + 1) * sizeof *all);
  if (!all) return sdm_no_memory();
  if (t->count > 0) memcpy(all, t->aborted, t->count * sizeof *all);
  qsort(all, t->count, sizeof *all, by_end);
  for (size_t i = 0; rc == 0 && i < a->count; i++, from = to) {
    for (to = from; to < t->count && (i + 1 == a->count || all[to].last < a->bases[i + 1]);) to++;
    rc = check_txnindex(a, a->bases[i], all + from, to - from);
  }
  sdm_free(all);
  return rc;
}

/* ---- ending what is open ---- */

/* Kafka's marker, as its coordinator writes it when a producer has gone. */
static int add_marker(sdm_buf *out, const sdm_producer *p, int32_t leader_epoch, int64_t offset, int64_t now) {
  uint8_t key[4] = {0}, value[6] = {0};    /* version 0, type; version 0, epoch of the coordinator */
  sdm_batch_writer w = {.batch = {.base_offset = offset, .leader_epoch = leader_epoch, .attributes = SDM_ATTR_TRANSACTIONAL | SDM_ATTR_CONTROL,
                                  .base_timestamp = now, .producer_id = p->id, .producer_epoch = p->epoch, .base_sequence = -1}};
  sdm_put16(key + 2, SDM_MARKER_ABORT);
  sdm_put32(value + 2, p->coordinator_epoch > 0 ? (uint32_t)p->coordinator_epoch : 0);
  sdm_record r = {.offset = offset, .timestamp = now, .key = key, .key_size = sizeof key, .value = value, .value_size = sizeof value};
  int rc = sdm_batch_begin(&w, out);
  if (rc == 0) rc = sdm_batch_add(&w, &r);
  return rc == 0 ? sdm_batch_end(&w) : rc;
}

static int by_first(const void *a, const void *b) {
  const sdm_producer *x = a, *y = b;
  return (x->first_open > y->first_open) - (x->first_open < y->first_open);
}

static int add_markers(sdm_adoption *a, const sdm_producers *all, int64_t now, sdm_buf *out) {
  sdm_producer *open = sdm_malloc((all->count + 1) * sizeof *open);
  size_t count = 0;
  int rc = open ? 0 : sdm_no_memory();
  for (size_t i = 0; rc == 0 && i < all->capacity; i++) {
    if (all->slots[i].used && all->slots[i].first_open >= 0) open[count++] = all->slots[i];
  }
  if (count > 1) qsort(open, count, sizeof *open, by_first);
  for (size_t i = 0; rc == 0 && i < count; i++) rc = add_marker(out, &open[i], a->leader_epoch, a->log_end + (int64_t)i, now);
  sdm_free(open);
  return rc;
}

static int append(sdm_adoption *a, const sdm_buf *bytes) {
  sdm_segment *s;
  sdm_file *f;
  int rc = sdm_segment_open(a->fs, a->to, a->bases[a->count - 1], true, &s);
  if (rc < 0) return rc;
  rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = a->fs->write(f, bytes->data, bytes->size, s->size);
  if (rc == 0) rc = a->fs->set_modified(f, s->modified_ms);
  sdm_segment_unref(s);
  return rc == 0 ? sdm_adopt_verify_segment(a, a->count - 1) : rc;
}

/* ---- the whole ---- */

static int look(sdm_adoption *a, sdm_transactions **out) {
  sdm_log *l;
  int rc = sdm_bare_open_on(a->fs, a->to, &l);
  if (rc < 0) return rc;
  rc = sdm_transactions_get(l, out);
  sdm_log_release(l);
  return rc;
}

static int abort_all(sdm_adoption *a, const sdm_transactions *t, int64_t now) {
  sdm_buf markers = SDM_BUF_INIT;
  int rc = add_markers(a, &t->producers, now, &markers);
  if (rc == 0) rc = append(a, &markers);
  sdm_buf_free(&markers);
  return rc;
}

int sdm_adopt_transactions(sdm_adoption *a, bool abort_open, int64_t now) {
  sdm_transactions *t = NULL;
  int rc = look(a, &t);
  if (rc == 0 && abort_open && t->first_open != INT64_MAX) {
    rc = abort_all(a, t, now);
    sdm_transactions_unref(t);
    t = NULL;
    if (rc == 0) rc = look(a, &t);
  }
  if (rc == 0) {
    a->foreign_end = t->producers.count > 0 ? a->log_end : 0;
    rc = check_txnindexes(a, t);
  }
  sdm_transactions_unref(t);
  return rc;
}
