/* The copy's segments: every batch is verified, the indexes are made anew. Messages name the source. */
#include "base/mem.h"
#include "log/adoption.h"
#include "log/recover.h"
#include "log/scanner.h"

static int corrupt_at(const sdm_adoption *a, const sdm_segment *s, int64_t position) {
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log is damaged at position %lld, and nothing was imported; take the directory from another replica, or read what "
                  "is left of it with open_partition", a->from, (long long)s->base_offset, (long long)position);
}

/* What stands behind the last valid batch. *left_out: bytes of it; -1: it is the padding of a preallocated file. */
static int look_behind(sdm_segment *s, int64_t end, int64_t *left_out) {
  sdm_scanner scan = {0};
  sdm_file *f;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  sdm_scanner_start(&scan, f, end, s->size);
  *left_out = sdm_scan_rest(&scan);
  if (*left_out < 0) rc = (int)*left_out;
  else if ((rc = sdm_scan_padding(&scan)) == 1) *left_out = -1;
  sdm_scanner_free(&scan);
  return rc < 0 ? rc : 0;
}

/* The torn end of a log and the padding of a file are left out. Anything else is damage, also a log of which nothing is valid. */
static int cut(sdm_adoption *a, sdm_segment *s, int64_t end, bool last) {
  sdm_file *f;
  int64_t left_out = 0;
  int rc = look_behind(s, end, &left_out);
  bool torn = last && (end > 0 || a->count > 1);
  if (rc == 0 && left_out >= 0 && !torn) return corrupt_at(a, s, end);
  if (rc == 0) rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = a->fs->truncate(f, end);
  s->size = end;
  if (left_out > 0) a->left_out = left_out;
  return rc;
}

static int overlaps(const sdm_adoption *a, const sdm_segment *s, int64_t end, int64_t next_base) {
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log holds offsets up to %lld, but the next segment begins at %lld; nothing was imported", a->from,
                  (long long)s->base_offset, (long long)end - 1, (long long)next_base);
}

static int was_cut(const sdm_adoption *a, const sdm_segment *s, int64_t position) {
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log ends at position %lld, but its indexes tell of more behind that: it was cut, and nothing was imported; take the "
                  "directory from another replica", a->from, (long long)s->base_offset, (long long)position);
}

static int verify(sdm_adoption *a, sdm_segment *s, size_t i) {
  sdm_scan_result found;
  sdm_file *f;
  bool last = i + 1 == a->count;
  sdm_told told;                           /* by the source's indexes, which were copied for this */
  sdm_segment_told(s, &told);
  int rc = sdm_reindex(s, s->size, a->cfg->index_interval_bytes, SDM_REINDEX_RECORDS | (last ? 0 : SDM_REINDEX_FINAL | SDM_REINDEX_DIGEST), &found);
  if (rc < 0) return rc;
  if (found.corrupt_batches > 0) return corrupt_at(a, s, found.corrupt_position);
  if (!last && found.next_offset > a->bases[i + 1]) return overlaps(a, s, found.next_offset, a->bases[i + 1]);
  if (!last && sdm_told_more(&told, found.position, found.next_offset, found.max_timestamp)) return was_cut(a, s, found.position);
  if (found.position < s->size && (rc = cut(a, s, found.position, last)) < 0) return rc;
  rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = a->fs->set_modified(f, s->modified_ms);
  a->log_end = found.next_offset;
  a->last_size = s->size;
  a->last_modified = s->modified_ms;
  return rc;
}

int sdm_adopt_verify_segment(sdm_adoption *a, size_t i) {
  sdm_segment *s;
  int rc = sdm_segment_open(a->fs, a->to, a->bases[i], true, &s);
  if (rc < 0) return rc;
  rc = verify(a, s, i);
  sdm_segment_unref(s);
  return rc;
}

int sdm_adopt_verify(sdm_adoption *a) {
  int rc = sdm_recover_files(a->fs, a->to, 0, 0, &a->bases, &a->count);
  if (rc == 0 && a->count == 0) rc = sdm_fail(SDM_NOT_FOUND, "%s has no segments but those of an unfinished cleaning", a->from);
  for (size_t i = 0; rc == 0 && i < a->count; i++) rc = sdm_adopt_verify_segment(a, i);
  return rc;
}
