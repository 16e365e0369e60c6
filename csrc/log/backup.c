/* The list of segments at one moment and the files in it are a state of the log, whatever happens to their names later: so nothing is locked. Each file must turn
** out to be the one that was listed; else all is done again from a new list. What the page tells is taken on the side on which a change meanwhile does no
** harm: log start and cleaner's checkpoint before the list, purge floor and cleaned end after it.
*/
#include "log/backup.h"

#include <string.h>

#include "base/mem.h"
#include "format/epochs.h"
#include "log/copy.h"
#include "log/offsets.h"
#include "log/producer_snapshot.h"
#include "log/recover.h"
#include "log/segment_digest.h"
#include "log/stage.h"
#include "log/state.h"

enum { PATIENCE = 8 };

typedef struct backup {
  sdm_log *log;
  const char *to;
  int64_t now;
  sdm_log_config cfg;
  sdm_backed_up *out;
  int attempts;                          /* it was found to be in a state so often that should not last */
  sdm_segment **segments;
  size_t count;
  int64_t durable;                       /* what lies below is on the disk: only that is shared */
  sdm_end end;
  sdm_state_file state;                  /* the source's; what the copy's will be */
  uint8_t *stage;                        /* a copy of the staged records, with room for a header, as a batch of `staged` bytes */
  int64_t staged;
} backup;

/* ---- one segment ---- */

static char *target(const backup *b, const sdm_segment *s, sdm_file_kind kind) { return sdm_segment_path(b->to, s->base_offset, kind, ""); }
static char *source(const sdm_segment *s, sdm_file_kind kind) { return sdm_segment_path(s->dir, s->base_offset, kind, s->suffix); }

static int copy_log(sdm_segment *s, int64_t size, const char *to) {
  sdm_file *f;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  return rc == 0 ? sdm_copy_open(f, size, to) : rc;
}

/* *copied: it could not be shared. */
static int take_log(const backup *b, sdm_segment *s, int64_t next_base, bool *copied) {
  char *from = source(s, SDM_FILE_LOG), *to = target(b, s, SDM_FILE_LOG);
  int rc = !from || !to ? sdm_no_memory() : next_base <= b->durable ? s->fs->link(s->fs, from, to) : SDM_UNSUPPORTED;
  *copied = rc == SDM_UNSUPPORTED;
  if (rc == 0) rc = sdm_segment_check_name(s, to);
  else if (*copied) rc = copy_log(s, s->size, to);
  sdm_free(from);
  sdm_free(to);
  return rc;
}

/* In a swap the .log gets its name before its indexes do. A digest, or an index of transactions, may lack for good. */
static int take_side_file(backup *b, sdm_segment *s, sdm_file_kind kind) {
  char *from = source(s, kind), *to = target(b, s, kind);
  int rc = from && to ? sdm_copy_file(s->fs, from, to) : sdm_no_memory();
  bool may_lack = kind == SDM_FILE_DIGEST || kind == SDM_FILE_TXNINDEX || b->attempts >= PATIENCE;
  if (rc == SDM_NOT_FOUND && may_lack) rc = 0;
  else if (rc == SDM_NOT_FOUND) b->attempts++;
  sdm_free(from);
  sdm_free(to);
  return rc;
}

/* The digest is of the copy from now on. */
static int bind(const backup *b, const sdm_segment *s) {
  sdm_segment *copy;
  int rc = sdm_segment_open(s->fs, b->to, s->base_offset, true, &copy);
  if (rc < 0) return rc;
  rc = sdm_segment_digest_bind(copy);
  sdm_segment_unref(copy);
  return rc < 0 ? rc : 0;
}

static int take_closed(backup *b, sdm_segment *s, int64_t next_base) {
  bool copied;
  int rc = take_log(b, s, next_base, &copied);
  for (int k = SDM_FILE_LOG + 1; rc == 0 && k < SDM_FILE_KINDS; k++) rc = take_side_file(b, s, (sdm_file_kind)k);
  char *from = source(s, SDM_FILE_LOG);
  if (rc == 0) rc = from ? sdm_segment_check_name(s, from) : sdm_no_memory();      /* so those were its own */
  sdm_free(from);
  if (rc == 0 && copied) rc = bind(b, s);
  sdm_segment_rest(s);
  return rc;
}

/* ---- the active segment ---- */

static int append_stage(const backup *b, const char *path) {
  sdm_file *f;
  int rc = b->log->fs->open(b->log->fs, path, SDM_OPEN_WRITE, &f);
  if (rc < 0) return rc;
  rc = b->log->fs->write(f, b->stage, (size_t)b->staged, b->end.position);
  b->log->fs->close(f);
  return rc;
}

/* Its indexes are made for what there is: those of the source are ahead by now. */
static int index_copy(const backup *b, const sdm_segment *s) {
  sdm_scan_result found;
  sdm_segment *copy;
  sdm_file *f;
  int rc = sdm_segment_open(s->fs, b->to, s->base_offset, true, &copy);
  if (rc < 0) return rc;
  int64_t modified = b->log->control ? b->end.modified_ms : s->modified_ms;
  bool dense = s->base_offset >= b->state.cleaned_end;
  rc = sdm_reindex(copy, copy->size, b->cfg.index_interval_bytes, SDM_REINDEX_FINAL | (dense ? SDM_REINDEX_DENSE : 0), &found);
  if (rc == 0) rc = sdm_segment_file(copy, SDM_FILE_LOG, &f);
  if (rc == 0) rc = s->fs->set_modified(f, modified);
  sdm_segment_unref(copy);
  return rc;
}

static int take_active(backup *b) {
  sdm_segment *s = b->segments[b->count - 1];
  char *to = target(b, s, SDM_FILE_LOG);
  int rc = to ? copy_log(s, b->end.position, to) : sdm_no_memory();
  if (rc == 0 && b->staged > 0) rc = append_stage(b, to);
  sdm_free(to);
  return rc == 0 ? index_copy(b, s) : rc;
}

/* ---- small files ---- */

static int copy_name(const backup *b, const char *name) {
  char *from = sdm_format("%s/%s", b->log->dir, name), *to = sdm_format("%s/%s", b->to, name);
  int rc = from && to ? sdm_copy_file(b->log->fs, from, to) : sdm_no_memory();
  sdm_free(from);
  sdm_free(to);
  return rc == SDM_NOT_FOUND ? 0 : rc;
}

static int copy_snapshots(const backup *b) {
  sdm_names names = {0};
  int64_t offset;
  int rc = b->log->fs->list(b->log->fs, b->log->dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (sdm_snapshot_name_decode(names.items[i], &offset) && offset <= b->out->log_end) rc = copy_name(b, names.items[i]);
  }
  sdm_names_clear(&names);
  return rc;
}

/* As after an orderly close. */
static int write_state(backup *b) {
  uint8_t bytes[SDM_STATE_BYTES] = {0};
  sdm_state_file *s = &b->state;
  s->sequence = 1;
  s->clean = true;
  s->end = s->reserved_end = b->out->log_end;
  s->position = b->end.position + b->staged;
  s->log_start = b->out->log_start;
  sdm_state_encode(s, bytes + SDM_STATE_SLOT);           /* where sequence 1 belongs */
  return sdm_fs_replace(b->log->fs, b->to, SDM_STATE_NAME, bytes, sizeof bytes);
}

static int take_small_files(backup *b) {
  int rc = copy_name(b, "partition.metadata");
  if (rc == 0) rc = copy_name(b, SDM_EPOCHS_NAME);
  if (rc == 0) rc = copy_snapshots(b);
  return rc == 0 ? write_state(b) : rc;
}

/* ---- what there is ---- */

static int64_t checkpoint(const backup *b, const char *name) {
  char *root = sdm_strdup(b->log->dir);
  if (!root) return -1;
  *strrchr(root, '/') = 0;
  int64_t offset = sdm_offsets_get(b->log->fs, root, name, b->log->topic, b->log->partition);
  sdm_free(root);
  return offset;
}

static void look_before(backup *b) {
  sdm_control *c = b->log->control;
  b->out->log_start = sdm_log_start(b->log);
  b->out->clean_offset = c ? atomic_load(&c->clean_offset) : checkpoint(b, SDM_CLEANER_CHECKPOINT);
}

static void look_after(backup *b) {
  sdm_control *c = b->log->control;
  b->state.purge_floor = atomic_load(&c->purge_floor);
  b->state.cleaned_end = atomic_load(&c->cleaned_end);
  b->state.foreign_end = atomic_load(&c->foreign_end);
  b->state.first_append_ms = b->staged > 0 && b->end.position == 0 ? b->end.staged_since_ms : b->end.first_append_ms;
  b->state.jitter_ms = b->end.jitter_ms;
}

/* Makes a batch of the copy of the stage, with as many records as the end tells; more bytes may have come. */
static int seal_copy(backup *b, uint32_t bytes) {
  sdm_batch batch;
  sdm_record_iter it;
  sdm_record r;
  sdm_stage_header(&b->end, &batch);
  if (!b->end.staged_append_time) batch.max_timestamp = SDM_NO_TIMESTAMP;
  sdm_record_iter_init(&it, &batch, b->stage + SDM_BATCH_HEADER, bytes);
  for (int32_t i = 0; i < batch.count; i++) {
    it.left = 2;                         /* no claim that they fill it */
    if (sdm_record_next(&it, &r) != 1) return sdm_fail(SDM_CORRUPT, "%s: record %d of the stage cannot be read", b->log->dir, i);
    if (r.timestamp > batch.max_timestamp) batch.max_timestamp = r.timestamp;
  }
  b->staged = it.p - b->stage;
  batch.size = (int32_t)b->staged;
  batch.leader_epoch = atomic_load(&b->log->control->leader_epoch);
  sdm_batch_seal(b->stage, &batch);
  return 0;
}

/* The end of the log and, where nobody has sealed it for us, the stage, at one moment. */
static int read_end(backup *b) {
  uint64_t commit;
  uint32_t bytes = 0;
  for (;;) {
    int rc = sdm_log_read_end(b->log, &b->end, &commit);
    b->staged = 0;
    if (rc < 0 || b->log->writable || sdm_stage_size(&b->end) == 0) return rc;
    if (sdm_control_read_stage(b->log->control, commit, 0, b->stage + SDM_BATCH_HEADER, &bytes)) break;
  }
  return seal_copy(b, bytes);
}

/* Somebody may have opened and closed the store since the list was taken. */
static int in_disorder(backup *b) {
  if (b->attempts++ < PATIENCE) return sdm_fail(SDM_NOT_FOUND, "%s does not end where its state says", b->log->dir);
  return sdm_fail(SDM_BUSY, "%s was not closed in order; open the store and close it once, or back up while it is open", b->log->dir);
}

/* Where no process has it open the state file tells the end. */
static int read_closed(backup *b) {
  int rc = sdm_log_state_read(b->log->fs, b->log->dir, &b->state);
  if (rc < 0) return rc;
  const sdm_segment *last = b->segments[b->count - 1];
  bool empty = b->state.sequence == 0 && b->count == 1 && last->size == 0;
  if (!empty && (!b->state.clean || last->size != b->state.position)) return in_disorder(b);
  memset(&b->end, 0, sizeof b->end);
  b->end.active_base = last->base_offset;
  b->end.position = last->size;
  b->end.sealed_end = empty ? last->base_offset : b->state.end;
  b->durable = b->end.sealed_end;
  if (empty) b->state = (sdm_state_file){.purge_floor = -1, .first_append_ms = -1};
  return 0;
}

static int read_open(backup *b) {
  int rc = b->log->writable ? sdm_log_flush_to_disk(b->log, &b->cfg, b->now, &b->durable) : 0;
  b->durable = atomic_load(&b->log->control->durable_end);
  if (rc == 0) rc = read_end(b);
  if (rc < 0) return rc;
  look_after(b);
  if (b->end.active_base == b->segments[b->count - 1]->base_offset) return 0;
  return sdm_fail(SDM_NOT_FOUND, "%s has been rolled meanwhile", b->log->dir);
}

/* ---- the whole ---- */

/* Of an attempt before this one. */
static int empty_folder(sdm_fs *fs, const char *dir) {
  sdm_names names = {0};
  int rc = fs->list(fs, dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    char *path = sdm_format("%s/%s", dir, names.items[i]);
    rc = path ? fs->unlink(fs, path) : sdm_no_memory();
    sdm_free(path);
  }
  sdm_names_clear(&names);
  return rc;
}

static int take_listed(backup *b) {
  int rc = b->log->control ? read_open(b) : read_closed(b);
  if (rc < 0) return rc;
  int64_t first = b->segments[0]->base_offset;
  b->out->log_end = sdm_end_offset(&b->end);
  if (b->log->writable) b->out->log_end = b->end.sealed_end;
  if (b->out->log_start < first) b->out->log_start = first;
  for (size_t i = 0; rc == 0 && i + 1 < b->count; i++) rc = take_closed(b, b->segments[i], b->segments[i + 1]->base_offset);
  if (rc == 0) rc = take_active(b);
  return rc == 0 ? take_small_files(b) : rc;
}

static int take(sdm_log *l, void *context) {
  backup *b = context;
  int rc = sdm_log_check(l);
  if (rc == 0) rc = empty_folder(l->fs, b->to);
  if (rc < 0) return rc;
  look_before(b);
  if ((rc = sdm_log_segment_refs(l, INT64_MAX, &b->segments, &b->count)) < 0) return rc;
  rc = take_listed(b);
  sdm_segments_unref(b->segments, b->count);
  if (rc == 0) rc = sdm_log_check(l);      /* still: else the names may have been another topic's */
  return rc;
}

int sdm_backup_log(sdm_log *l, const char *to, int64_t now, sdm_backed_up *out) {
  backup b = {.log = l, .to = to, .now = now, .out = out, .stage = sdm_malloc(SDM_STAGE_BYTES)};
  if (!b.stage) return sdm_no_memory();
  sdm_log_get_config(l, &b.cfg);
  int rc = sdm_log_steadily(l, take, &b);
  sdm_free(b.stage);
  if (rc == SDM_NOT_FOUND) rc = sdm_fail(SDM_BUSY, "%s: its segments keep changing; try again", l->dir);
  return rc == 0 ? sdm_sync_files(l->fs, to) : rc;
}
