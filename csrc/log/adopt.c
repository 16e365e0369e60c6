/* What an import must find out before a store answers for a broker's directory. First a look at the source that costs little, so that what cannot be
** taken over is refused before anything was copied; then the copy is verified batch by batch (adopt_verify.c), and its small files are made.
*/
#include "log/adoption.h"

#include <string.h>

#include "base/mem.h"
#include "format/codec.h"
#include "format/epochs.h"
#include "log/copy.h"
#include "log/lost.h"
#include "log/offsets.h"
#include "log/scanner.h"
#include "log/state.h"

/* ---- a look at the source ---- */

/* A store's partition has records that are in no segment yet until it is closed in order. */
static int check_closed(sdm_adoption *a) {
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

static int glance_at_log(sdm_adoption *a, const char *name) {
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

static int glance(sdm_adoption *a) {
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
  if (rc == 0 && !any) return sdm_fail(SDM_NOT_FOUND, "%s has no segments (no .log files): it is no partition directory", a->from);
  return rc == 0 ? sdm_check_none_lost(a->fs, a->from) : rc;
}

/* ---- the small files ---- */

static int note_epochs(sdm_adoption *a, int64_t base, sdm_epochs *out) {
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
static int write_epochs(sdm_adoption *a) {
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
  if (rc == 0) a->leader_epoch = epochs.entries[epochs.count - 1].epoch;
  if (rc == 0) rc = sdm_epochs_encode(&epochs, &out);
  if (rc == 0) rc = sdm_fs_replace(a->fs, a->to, SDM_EPOCHS_NAME, out.data, out.size);
  sdm_buf_free(&out);
  sdm_epochs_free(&epochs);
  sdm_free(text);
  sdm_free(path);
  return rc;
}

/* As after an orderly close. What is there may have been cleaned, so its offsets may have gaps. */
static int write_state(sdm_adoption *a) {
  uint8_t bytes[SDM_STATE_BYTES] = {0};
  int64_t floor = a->before.purge_floor < a->log_end ? a->before.purge_floor : a->log_end - 1;
  sdm_state_file s = {.sequence = 1, .clean = true, .reserved_end = a->log_end, .purge_floor = floor, .end = a->log_end,
                      .position = a->last_size, .cleaned_end = a->log_end, .first_append_ms = a->last_size > 0 ? a->last_modified : -1,
                      .jitter_ms = sdm_draw_jitter(a->cfg), .log_start = a->log_start, .foreign_end = a->foreign_end};
  sdm_state_encode(&s, bytes + SDM_STATE_SLOT);        /* where sequence 1 belongs */
  return sdm_fs_replace(a->fs, a->to, SDM_STATE_NAME, bytes, sizeof bytes);
}

/* What the checkpoints beside the source say of it, if its folder has the name of a partition. */
static int take_checkpoints(sdm_adoption *a, sdm_adopted *out) {
  char topic[SDM_TOPIC_NAME_MAX + 1], *slash = strrchr(a->from, '/');
  int32_t partition;
  a->log_start = a->bases[0];
  out->clean_offset = -1;
  if (!slash || sdm_partition_name_decode(slash + 1, topic, &partition) < 0) return 0;
  *slash = 0;
  int64_t start = -1;
  int rc = sdm_offsets_read(a->fs, a->from, SDM_LOG_START_CHECKPOINT, topic, partition, &start);
  int64_t clean = sdm_offsets_get(a->fs, a->from, SDM_CLEANER_CHECKPOINT, topic, partition);
  *slash = '/';
  if (rc < 0) return rc;
  if (start > a->log_start) a->log_start = start;
  if (clean >= a->log_start && clean <= a->log_end) out->clean_offset = clean;
  if (a->log_start <= a->log_end) return 0;
  return sdm_fail(SDM_CORRUPT, "%s ends at offset %lld, but the " SDM_LOG_START_CHECKPOINT " beside it has it start at %lld; nothing was imported: one of the "
                  "two is of another time or damaged", a->from, (long long)a->log_end, (long long)start);
}

/* ---- the whole ---- */

static int adopt(sdm_adoption *a, const sdm_adopt_options *options, sdm_adopted *out) {
  int rc = check_closed(a);
  if (rc == 0) rc = glance(a);
  if (rc == 0) rc = sdm_adopt_copy(a->fs, a->from, a->to);
  if (rc == 0) rc = check_closed(a);       /* still: else what was copied may lack what was appended meanwhile */
  if (rc == 0) rc = sdm_adopt_verify(a);
  if (rc == 0) rc = write_epochs(a);
  if (rc == 0) rc = sdm_adopt_transactions(a, options->abort_open, options->now);
  if (rc == 0) rc = take_checkpoints(a, out);
  if (rc == 0) rc = write_state(a);
  if (rc == 0) rc = sdm_sync_files(a->fs, a->to);
  if (rc < 0) return rc;
  out->log_start = a->log_start;
  out->log_end = a->log_end;
  out->left_out = a->left_out;
  return 0;
}

int sdm_adopt(sdm_fs *fs, const char *from, const char *to, const sdm_adopt_options *options, sdm_adopted *out) {
  sdm_adoption a = {.fs = fs, .from = sdm_absolute_path(from), .to = to, .cfg = options->config};
  sdm_file_info info;
  int rc = a.from ? fs->path_info(fs, a.from, &info) : sdm_no_memory();
  if (rc == 0 && !info.directory) rc = sdm_no_directory(a.from);
  if (rc == 0) rc = adopt(&a, options, out);
  sdm_free(a.bases);
  sdm_free(a.from);
  return rc;
}
