/* Where a log ends of which no page tells: behind the last valid batch of its last segment. A broker may be writing there, or have died doing so, so what
** follows that batch is left out, whatever it is, and counted. But damage with valid batches behind it is no end, and neither are batches that are whole
** and out of place: the end lies behind them, and who reads comes to them and is told.
*/
#include "log/bare.h"

#include <string.h>

#include "log/scanner.h"
#include "log/seek.h"

typedef struct look {
  sdm_log *log;
  sdm_segment *last;
  bool only;                               /* there is no other segment */
  sdm_scanner scan;
  sdm_end end;
} look;

/* 1: its base offset is damaged. */
static int misplaced(look *k, const sdm_batch *b, int64_t expected) {
  bool adjoins = k->scan.position - b->size == k->end.position;
  if (b->base_offset < expected || !sdm_segment_can_hold(k->last, b)) return 1;
  if (adjoins && sdm_log_is_dense(k->log, k->last)) return b->base_offset != expected;
  return sdm_scan_displaced(&k->scan, b, expected, NULL);
}

/* A batch whose base offset is damaged still takes as many offsets as it says. */
static int take_batch(look *k, const sdm_batch *b) {
  int64_t expected = k->end.sealed_end;
  int rc = misplaced(k, b, expected);
  if (rc < 0) return rc;
  k->end.sealed_end = rc == 1 ? expected + b->last_offset_delta + 1 : sdm_batch_last_offset(b) + 1;
  k->end.position = k->scan.position;
  return 0;
}

/* What comes here has no valid batch behind it; it is not searched again while the file stays as it is. */
static int stop_here(look *k) {
  sdm_log *l = k->log;
  int64_t left_out = sdm_scan_rest(&k->scan);
  int rc = left_out < 0 ? (int)left_out : 0;
  bool nothing = k->end.position == 0 && k->only && left_out > 0;
  if (rc == 0 && nothing && (rc = sdm_scan_unfinished(&k->scan, k->last->base_offset)) == 0) {
    rc = sdm_fail(SDM_CORRUPT, "%s has no valid batch: it is damaged, or no segment of a log", k->scan.file->path);
  }
  if (rc < 0) return rc;
  l->bare_stop = k->scan.position;
  l->bare_size = k->scan.limit;
  l->bare_left_out = left_out;
  return 0;
}

/* From the last index entry, or from the last look's end on. */
static int scan_tail(look *k) {
  sdm_batch b;
  const uint8_t *bytes;
  for (;;) {
    int rc = sdm_scan_batch(&k->scan, &b, &bytes);
    if (rc == 1) {
      if ((rc = take_batch(k, &b)) < 0) return rc;
      continue;
    }
    if (rc < 0 && rc != SDM_CORRUPT) return rc;
    if (k->scan.position == k->log->bare_stop && k->scan.limit == k->log->bare_size) return 0;
    if (k->scan.position < k->scan.limit && (rc = sdm_scan_resync(&k->scan, k->end.sealed_end)) < 0) return rc;
    if (rc != 1) return stop_here(k);
  }
}

/* The last indexed batch that is whole: a broker may have indexed one that it was still writing. *base: its base offset, which the index has confirmed. */
static int start_near_end(look *k, int64_t size, int64_t *base) {
  sdm_batch b;
  const uint8_t *bytes;
  int64_t below = INT64_MAX;
  for (;;) {
    int rc = sdm_seek_near(k->last, &k->scan, below, size);
    int64_t at = k->scan.position;
    if (rc < 0 || at == 0) return rc;
    rc = sdm_scan_batch(&k->scan, &b, &bytes);
    k->scan.position = at;
    *base = b.base_offset;
    if (rc != 0 && rc != SDM_CORRUPT) return rc < 0 ? rc : 0;
    below = sdm_batch_last_offset(&b) - 1;
  }
}

static int look_at_last(look *k) {
  sdm_segment *s = k->last;
  sdm_end *end = &k->end;
  sdm_file *f;
  sdm_file_info info;
  int64_t base = s->base_offset;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = s->fs->info(f, &info);
  if (rc == 0) rc = start_near_end(k, info.size, &base);
  if (rc < 0) return rc;
  if (end->active_base != s->base_offset || end->position > info.size) {
    memset(end, 0, sizeof *end);
    end->active_base = end->sealed_end = s->base_offset;
    end->max_timestamp = -1;
  }
  if (end->position < k->scan.position) end->sealed_end = base;
  if (end->position < k->scan.position) end->position = k->scan.position;
  k->scan.position = end->position;
  return scan_tail(k);
}

int sdm_bare_find_end(sdm_log *l, sdm_segment *last, bool only) {
  look k = {.log = l, .last = last, .only = only};
  sdm_mutex_lock(&l->lock);
  memcpy(&k.end, &l->bare_end, sizeof k.end);
  sdm_mutex_unlock(&l->lock);
  int rc = look_at_last(&k);
  sdm_scanner_free(&k.scan);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  memcpy(&l->bare_end, &k.end, sizeof k.end);
  sdm_mutex_unlock(&l->lock);
  return 0;
}
