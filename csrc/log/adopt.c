/* What an import must find out before a store answers for a broker's directory. First a look at the source that costs little, so that what cannot be
** taken over is refused before anything was copied; then the copy is verified batch by batch. Messages name the source, which is what its owner knows.
*/
#include "log/adopt.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/codec.h"
#include "format/epochs.h"
#include "format/state_file.h"
#include "log/offsets.h"
#include "log/recover.h"
#include "log/scanner.h"
#include "log/state.h"
#include "log/transactions.h"

typedef struct adoption {
  sdm_fs *fs;
  char *from;                              /* absolute */
  const char *to;
  const sdm_log_config *cfg;
  sdm_state_file before;                   /* the source's sediment.state, if it has one */
  int64_t *bases;
  size_t count;
  int64_t log_start, log_end;
  int64_t last_size, last_modified;        /* of the last segment */
  int64_t foreign_end;
} adoption;

/* ---- a look at the source ---- */

/* A store's partition has records that are in no segment yet until it is closed in order. */
static int check_closed(adoption *a) {
  sdm_file_info info;
  int rc = sdm_log_state_read(a->fs, a->from, &a->before);
  if (rc < 0 || a->before.sequence == 0 || a->before.clean) return rc;
  char *control = sdm_format("%s/%s", a->from, SDM_CONTROL_NAME);
  rc = control ? a->fs->path_info(a->fs, control, &info) : sdm_no_memory();
  sdm_free(control);
  if (rc == SDM_NOT_FOUND) return 0;
  return rc < 0 ? rc : sdm_fail(SDM_BUSY, "%s is in use by a store, or was not closed in order: close the store in every process; after a crash open and close it once", a->from);
}

/* Old formats and codecs that are not built in are found here. Damage is found, and told better, when the copy is verified. */
static int glance_at_batches(sdm_scanner *scan) {
  sdm_batch b;
  int rc;
  while ((rc = sdm_scan_header(scan, &b)) == 1) {
    if ((rc = sdm_codec_check(sdm_batch_codec(&b))) < 0) {
      return sdm_fail_within(rc, "%s at position %lld: ", scan->file->path, (long long)(scan->position - b.size));
    }
  }
  return rc == SDM_CORRUPT ? 0 : rc;
}

static int glance_at_log(adoption *a, const char *name) {
  sdm_scanner scan = {0};
  sdm_file *f;
  sdm_file_info info;
  char *path = sdm_format("%s/%s", a->from, name);
  int rc = path ? a->fs->open(a->fs, path, SDM_OPEN_READ, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = a->fs->info(f, &info);
  sdm_scanner_start(&scan, f, 0, info.size);
  if (rc == 0) rc = glance_at_batches(&scan);
  sdm_scanner_free(&scan);
  a->fs->close(f);
  return rc;
}

static int glance(adoption *a) {
  sdm_names names = {0};
  bool any = false;
  int rc = a->fs->list(a->fs, a->from, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    int64_t base;
    sdm_file_kind kind;
    const char *suffix;
    if (sdm_segment_name_decode(names.items[i], &base, &kind, &suffix) < 0 || kind != SDM_FILE_LOG) continue;
    if (strcmp(suffix, "") != 0 && strcmp(suffix, ".swap") != 0) continue;
    any = true;
    rc = glance_at_log(a, names.items[i]);
  }
  sdm_names_clear(&names);
  return rc == 0 && !any ? sdm_fail(SDM_NOT_FOUND, "%s has no segments (no .log files): it is no partition directory", a->from) : rc;
}

/* ---- the copy's segments ---- */

static int corrupt_at(const adoption *a, const sdm_segment *s, int64_t position) {
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log is damaged at position %lld, and nothing was imported; take the directory from another replica, or read what "
                  "is left of it with open_partition", a->from, (long long)s->base_offset, (long long)position);
}

/* 1: the file has nothing but zeros from there on, as preallocated ones have. */
static int zeros_from(sdm_segment *s, int64_t position) {
  enum { BLOCK = 65536 };
  sdm_file *f;
  size_t got = BLOCK;
  uint8_t *block = sdm_malloc(BLOCK);
  int rc = block ? sdm_segment_file(s, SDM_FILE_LOG, &f) : sdm_no_memory();
  bool zeros = true;
  while (rc == 0 && zeros && got == BLOCK) {
    rc = s->fs->read(f, block, BLOCK, position, &got);
    for (size_t i = 0; rc == 0 && i < got; i++) zeros = zeros && block[i] == 0;
    position += (int64_t)got;
  }
  sdm_free(block);
  return rc < 0 ? rc : zeros;
}

/* What follows the last valid batch is left out: the torn end of a log, or the padding of a file. Anything else is damage, also a log of which nothing is
** valid. */
static int cut(adoption *a, sdm_segment *s, int64_t end, bool last) {
  sdm_file *f;
  bool torn = last && (end > 0 || a->count > 1);
  int rc = torn ? 1 : zeros_from(s, end);
  if (rc <= 0) return rc < 0 ? rc : corrupt_at(a, s, end);
  rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = a->fs->truncate(f, end);
  s->size = end;
  return rc;
}

static int verify(adoption *a, sdm_segment *s, size_t i) {
  sdm_scan_result found;
  sdm_file *f;
  bool last = i + 1 == a->count;
  int rc = sdm_reindex(s, s->size, a->cfg->index_interval_bytes, !last, false, &found);
  if (rc < 0) return rc;
  if (found.corrupt_batches > 0) return corrupt_at(a, s, found.corrupt_position);
  if (!last && found.next_offset > a->bases[i + 1]) {
    return sdm_fail(SDM_CORRUPT, "%s/%020lld.log holds offsets up to %lld, but the next segment begins at %lld; nothing was imported", a->from,
                    (long long)s->base_offset, (long long)found.next_offset - 1, (long long)a->bases[i + 1]);
  }
  if (found.position < s->size && (rc = cut(a, s, found.position, last)) < 0) return rc;
  rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = a->fs->set_modified(f, s->modified_ms);
  a->log_end = found.next_offset;
  a->last_size = s->size;
  a->last_modified = s->modified_ms;
  return rc;
}

static int verify_all(adoption *a) {
  int rc = sdm_recover_files(a->fs, a->to, &a->bases, &a->count);
  if (rc == 0 && a->count == 0) rc = sdm_fail(SDM_NOT_FOUND, "%s has no segments but those of an unfinished cleaning", a->from);
  for (size_t i = 0; rc == 0 && i < a->count; i++) {
    sdm_segment *s;
    rc = sdm_segment_open(a->fs, a->to, a->bases[i], true, &s);
    if (rc < 0) return rc;
    rc = verify(a, s, i);
    sdm_segment_unref(s);
  }
  return rc;
}

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

static int write_txnindex(adoption *a, const char *path, const sdm_txnindex_entry *entries, size_t count) {
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
static int check_txnindex(adoption *a, int64_t base, const sdm_txnindex_entry *wanted, size_t count) {
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

static int check_txnindexes(adoption *a, const sdm_transactions *t) {
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

static int look_at_transactions(adoption *a) {
  sdm_log *l;
  sdm_transactions *t;
  int rc = sdm_log_open_bare(a->to, &l);
  if (rc < 0) return rc;
  rc = sdm_transactions_get(l, &t);
  if (rc == 0) {
    a->foreign_end = t->producers.count > 0 ? a->log_end : 0;
    rc = check_txnindexes(a, t);
  }
  sdm_transactions_unref(t);
  sdm_log_release(l);
  return rc;
}

/* ---- the small files ---- */

static int note_epochs(adoption *a, int64_t base, sdm_epochs *out) {
  sdm_scanner scan = {0};
  sdm_segment *s;
  sdm_file *f;
  sdm_batch b;
  int rc = sdm_segment_open(a->fs, a->to, base, false, &s);
  if (rc < 0) return rc;
  if ((rc = sdm_segment_file(s, SDM_FILE_LOG, &f)) == 0) {
    sdm_scanner_start(&scan, f, 0, s->size);
    while ((rc = sdm_scan_header(&scan, &b)) == 1 && (rc = sdm_epochs_add(out, b.leader_epoch, b.base_offset)) == 0) {}
  }
  sdm_scanner_free(&scan);
  sdm_segment_unref(s);
  return rc;
}

/* The source's, or what its batches tell. */
static int write_epochs(adoption *a) {
  char *path = sdm_format("%s/%s", a->from, SDM_EPOCHS_NAME), *text = NULL;
  sdm_epochs epochs = {0};
  sdm_buf out = SDM_BUF_INIT;
  size_t size;
  int rc = path ? sdm_fs_read_all(a->fs, path, SDM_EPOCHS_MAX, &text, &size) : sdm_no_memory();
  if (rc == 0) rc = sdm_epochs_decode(&epochs, text, size);
  if (rc == SDM_NOT_FOUND || rc == SDM_CORRUPT) rc = 0;
  bool told = epochs.count > 0;
  for (size_t i = 0; rc == 0 && !told && i < a->count; i++) rc = note_epochs(a, a->bases[i], &epochs);
  if (rc == 0 && epochs.count == 0) rc = sdm_epochs_add(&epochs, 0, a->bases[0]);
  if (rc == 0) rc = sdm_epochs_encode(&epochs, &out);
  if (rc == 0) rc = sdm_fs_replace(a->fs, a->to, SDM_EPOCHS_NAME, out.data, out.size);
  sdm_buf_free(&out);
  sdm_epochs_free(&epochs);
  sdm_free(text);
  sdm_free(path);
  return rc;
}

/* As after an orderly close. What is there may have been cleaned, so its offsets may have gaps. */
static int write_state(adoption *a) {
  uint8_t bytes[SDM_STATE_BYTES] = {0};
  int64_t floor = a->before.purge_floor < a->log_end ? a->before.purge_floor : a->log_end - 1;
  sdm_state_file s = {.sequence = 1, .clean = true, .reserved_end = a->log_end, .purge_floor = floor, .end = a->log_end,
                      .position = a->last_size, .cleaned_end = a->log_end, .first_append_ms = a->last_size > 0 ? a->last_modified : -1,
                      .jitter_ms = sdm_draw_jitter(a->cfg), .log_start = a->log_start, .foreign_end = a->foreign_end};
  sdm_state_encode(&s, bytes + SDM_STATE_SLOT);        /* where sequence 1 belongs */
  return sdm_fs_replace(a->fs, a->to, SDM_STATE_NAME, bytes, sizeof bytes);
}

/* What the checkpoints beside the source say of it, if its folder has the name of a partition. */
static int take_checkpoints(adoption *a, sdm_adopted *out) {
  char topic[SDM_TOPIC_NAME_MAX + 1], *slash = strrchr(a->from, '/');
  int32_t partition;
  a->log_start = a->bases[0];
  out->clean_offset = -1;
  if (!slash || sdm_partition_name_decode(slash + 1, topic, &partition) < 0) return 0;
  *slash = 0;
  int64_t start = sdm_offsets_get(a->fs, a->from, SDM_LOG_START_CHECKPOINT, topic, partition);
  int64_t clean = sdm_offsets_get(a->fs, a->from, SDM_CLEANER_CHECKPOINT, topic, partition);
  *slash = '/';
  if (start > a->log_start) a->log_start = start;
  if (clean >= a->log_start && clean <= a->log_end) out->clean_offset = clean;
  if (a->log_start <= a->log_end) return 0;
  return sdm_fail(SDM_CORRUPT, "%s ends at offset %lld, but the " SDM_LOG_START_CHECKPOINT " beside it has it start at %lld; nothing was imported: one of the "
                  "two is of another time or damaged", a->from, (long long)a->log_end, (long long)start);
}

/* ---- the whole ---- */

static int adopt(adoption *a, sdm_adopted *out) {
  int rc = check_closed(a);
  if (rc == 0) rc = glance(a);
  if (rc == 0) rc = sdm_adopt_copy(a->fs, a->from, a->to);
  if (rc == 0) rc = check_closed(a);       /* still: else what was copied may lack what was appended meanwhile */
  if (rc == 0) rc = verify_all(a);
  if (rc == 0) rc = look_at_transactions(a);
  if (rc == 0) rc = take_checkpoints(a, out);
  if (rc == 0) rc = write_epochs(a);
  if (rc == 0) rc = write_state(a);
  if (rc == 0) rc = sdm_adopt_sync(a->fs, a->to);
  if (rc < 0) return rc;
  out->log_start = a->log_start;
  out->log_end = a->log_end;
  return 0;
}

int sdm_adopt(sdm_fs *fs, const char *from, const char *to, const sdm_log_config *cfg, sdm_adopted *out) {
  adoption a = {.fs = fs, .from = sdm_absolute_path(from), .to = to, .cfg = cfg};
  sdm_file_info info;
  int rc = a.from ? fs->path_info(fs, a.from, &info) : sdm_no_memory();
  if (rc == 0 && !info.directory) rc = sdm_fail(SDM_NOT_FOUND, "%s is no directory; a partition's directory is expected, with its .log files in it", a.from);
  if (rc == 0) rc = adopt(&a, out);
  sdm_free(a.bases);
  sdm_free(a.from);
  return rc;
}
