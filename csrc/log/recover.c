/* Recovery of a partition at its first opening in an incarnation.
**
** What is believed, best first:
**   - the control page of the same boot: only processes died, nothing that was written is lost. The log ends where the page says, stage included.
**   - sediment.state with the mark of an orderly close: the log ends where it says.
**   - neither: every segment from the recovery point on is read, every batch verified.
** Whatever is believed, the last batches are verified, and what is not as told falls to the next row.
** Only what follows the last valid batch is cut. Damage with valid batches behind it stays, is counted, and appends go on in a new segment.
** When something may have been lost, the log goes on, in a new segment, at the mark that was durably reserved: no offset is given twice.
*/
#include "log/recover.h"

#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "format/epochs.h"
#include "format/state_file.h"
#include "log/offsets.h"
#include "log/producer_snapshot.h"
#include "log/scanner.h"
#include "log/seek.h"
#include "log/segment_digest.h"
#include "log/stage.h"
#include "log/state.h"

enum { UNFINISHED = 2 };                 /* an incarnation that never is: theirs are odd */
enum { ALL_IS_KNOWN = -1 };              /* to rescan */

typedef struct recovery {
  sdm_log *log;
  const sdm_log_config *cfg;
  int64_t now;
  sdm_control *before;                   /* a copy of the page as it was found, stage and all */
  bool same_boot;                        /* it can be believed */
  bool staged;                           /* it has a stage that counts if it continues the log */
  sdm_state_file state;
  bool hole;                             /* a closed segment has lost its end with the power: what is left behind it does not continue it */
  bool doubtful;                         /* its newer slot may be damaged, and no page tells what it said */
  int64_t log_start, recovery_point, clean_offset;       /* from the checkpoints; -1: none */
  int32_t leader_epoch;                  /* the last one of the log */
  int64_t *bases;
  size_t count;
  sdm_end end;                           /* what is found */
  int64_t truncated, corrupt;
  bool damaged_end;                      /* the last segment has damage in it: no more appends to it */
  bool broker;                           /* one has worked in the folder since Sediment did */
  bool fresh;                            /* no record was ever in it */
  bool unsaved;                          /* the state file is not known to be on the disk: its writer failed, or died, before the page had its number */
  bool as_told;                          /* the last segment was as the page or the state file says */
} recovery;

/* ---- what was there ---- */

/* Whether what the page says of the end can have been written by us: a page that was cut off or never finished is zeros. */
static bool plausible(const sdm_control *c) {
  const sdm_end *e = &c->slots[atomic_load(&c->commit) & 1];
  if (atomic_load(&c->incarnation) == 0 || atomic_load(&c->commit) == 0 || e->active_base < 0 || e->position < 0) return false;
  if (atomic_load(&c->log_start) < 0 || atomic_load(&c->log_start) > atomic_load(&c->log_end)) return false;
  if (e->position == 0) return e->sealed_end == e->active_base && e->max_timestamp == -1;
  return e->sealed_end > e->active_base;
}

/* Batches go on in the epoch of the last leader that a broker's directory had. A file that cannot be understood is as good as none. */
static int read_leader_epoch(recovery *r) {
  char *path = sdm_format("%s/%s", r->log->dir, SDM_EPOCHS_NAME), *text = NULL;
  sdm_epochs epochs = {0};
  size_t size;
  int rc = path ? sdm_fs_read_all(r->log->fs, path, SDM_EPOCHS_MAX, &text, &size) : sdm_no_memory();
  if (rc == 0 && (rc = sdm_epochs_decode(&epochs, text, size)) == 0 && epochs.count > 0) r->leader_epoch = epochs.entries[epochs.count - 1].epoch;
  sdm_epochs_free(&epochs);
  sdm_free(text);
  sdm_free(path);
  return rc == SDM_NOT_FOUND || rc == SDM_CORRUPT ? 0 : rc;
}

/* The slot that cannot be read may have been the newer one: what it said of segments and of an orderly close is not known. */
static void doubt_state(recovery *r) {
  r->doubtful = true;
  r->state.clean = false;
  r->state.cleaned_end = r->state.foreign_end = INT64_MAX;
}

/* And it had reserved more offsets, one step further at most. Where there are no records it was being written for the first time. */
static void settle_doubt(recovery *r) {
  int64_t end = r->end.sealed_end;
  r->state.cleaned_end = r->state.foreign_end = end;
  if (end == 0 && r->state.sequence == 0) return;
  r->corrupt++;
  r->state.reserved_end = sdm_add_sat(r->state.reserved_end, 2 * (int64_t)SDM_RESERVE_STEP_MAX);
}

static int read_before(recovery *r) {
  sdm_log *l = r->log;
  r->before = sdm_malloc(SDM_CONTROL_BYTES);
  if (!r->before) return sdm_no_memory();
  memcpy((void *)r->before, (const void *)l->control, SDM_CONTROL_BYTES);
  bool readable = sdm_control_valid(r->before, r->before->boot_id) && plausible(r->before);
  r->same_boot = readable && sdm_control_valid(r->before, l->env->boot_id) && sdm_stage_repair(r->before) == 0;
  r->staged = readable && (r->same_boot || sdm_stage_intact(r->before)) && sdm_stage_size(sdm_control_end(r->before)) > 0;
  int rc = sdm_log_state_read(l->fs, l->dir, &r->state);
  if (rc < 0) return rc;
  if (!r->same_boot && r->state.damaged) doubt_state(r);
  if ((rc = read_leader_epoch(r)) < 0) return rc;
  r->unsaved = sdm_control_valid(r->before, l->env->boot_id) && r->before->state_sequence < r->state.sequence;
  if (r->state.clean) r->same_boot = r->staged = false;      /* nothing was appended since, and the state file has a checksum */
  if ((rc = sdm_offsets_find(l->env, SDM_LOG_START_CHECKPOINT, l->topic, l->partition, &r->log_start)) < 0) return rc;
  r->clean_offset = sdm_offsets_hint(l->env, SDM_CLEANER_CHECKPOINT, l->topic, l->partition);
  r->recovery_point = sdm_offsets_hint(l->env, SDM_RECOVERY_CHECKPOINT, l->topic, l->partition);
  if (r->same_boot && atomic_load(&r->before->log_start) > r->log_start) r->log_start = atomic_load(&r->before->log_start);
  return 0;
}

/* The lowest offset at which the log may go on without giving one twice. */
static int64_t next_free_offset(const recovery *r, int64_t found) {
  int64_t least = r->state.clean ? r->state.end : r->state.reserved_end;
  if (r->same_boot) least = atomic_load(&r->before->log_end);
  if (r->same_boot && r->before->least_end > least) least = r->before->least_end;
  if (r->log_start > least) least = r->log_start;
  return found > least ? found : least;
}

/* ---- one segment ---- */

static int cut(recovery *r, sdm_segment *s, int64_t position) {
  sdm_file *f;
  int rc = sdm_segment_unshare(s);
  if (rc == 0 && (rc = sdm_segment_file(s, SDM_FILE_LOG, &f)) == 0) rc = r->log->fs->truncate(f, position);
  if (rc == 0) rc = r->log->fs->sync(f);   /* for good, as in a roll */
  if (rc < 0) return rc;
  r->truncated += s->size - position;
  s->size = position;
  return 0;
}

static unsigned density(const recovery *r, const sdm_segment *s) { return s->base_offset >= r->state.cleaned_end ? SDM_REINDEX_DENSE : 0; }

/* `known`: so many bytes were whole before, and what is damaged of them stays, also at the end. What follows may be a write that did not end: it is cut, unless
** nothing is known, and it may have batches of ours behind the damage. */
static int rescan(recovery *r, sdm_segment *s, unsigned flags, int64_t known, sdm_scan_result *out) {
  int64_t modified = s->modified_ms;
  int rc = sdm_reindex(s, s->size, r->cfg->index_interval_bytes, flags | density(r, s), out);
  if (rc < 0) return rc;
  r->corrupt += out->corrupt_batches;
  bool stays = known == ALL_IS_KNOWN || out->position < known || (known == 0 && out->doubtful);
  if (out->position < s->size && !stays) rc = cut(r, s, out->position);
  else if (out->position < s->size) r->corrupt++;
  if (rc == 0 && out->position < s->size && flags & SDM_REINDEX_DIGEST) rc = sdm_segment_digest_drop(s);      /* the new one, which has less */
  sdm_file *f;
  if (rc == 0) rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = r->log->fs->set_modified(f, modified);
  return rc == 0 && !r->same_boot ? r->log->fs->sync(f) : rc;      /* served from now on, so it must stay */
}

/* Then the last file, too, takes no more appends. */
static bool sync_failed(const recovery *r) { return r->same_boot && atomic_load(&r->before->failed) != 0; }

static bool trusted(const recovery *r, int64_t next_base) { return r->same_boot || r->state.clean || next_base <= r->recovery_point; }

/* Whether the digest is to be made anew: there is none; or what it was made of may have been lost, or rewritten by a broker. One that tells of a cut stays,
** so that readers tell of it. So does one of this very file after a loss of power, where the file has the size that it had: was anything lost of it, checksums
** fail, and what they do not cover is not laundered.
*/
static int look_at_digest(recovery *r, sdm_segment *s, bool believed, bool *anew) {
  sdm_digest_state state = sdm_segment_digest_state(s);
  *anew = r->broker || (believed ? (state == SDM_DIGEST_NONE && s->size > 0) || state == SDM_DIGEST_OTHER : state != SDM_DIGEST_OWN);
  if (*anew) return sdm_segment_digest_drop(s);
  if (state != SDM_DIGEST_CUT) return 0;
  r->corrupt++;
  int rc = sdm_segment_digest_bind(s);
  return rc < 0 ? rc : 0;
}

/* Where the power was lost a sector with a base offset may be, and its digest denies more than what is lost; or the end, of which it knows: then it is made anew. */
static int rescan_closed(recovery *r, sdm_segment *s, bool believed, bool anew, sdm_scan_result *found) {
  int64_t corrupt = r->corrupt;
  int rc = rescan(r, s, SDM_REINDEX_FINAL | (anew ? SDM_REINDEX_DIGEST : 0), !believed && anew ? 0 : ALL_IS_KNOWN, found);
  if (rc < 0 || anew || believed || (!found->unsure && found->position == s->size)) return rc;
  r->corrupt = corrupt;
  rc = sdm_segment_digest_drop(s);
  return rc == 0 ? rescan(r, s, SDM_REINDEX_FINAL | SDM_REINDEX_DIGEST, 0, found) : rc;
}

static int recover_closed(recovery *r, int64_t base, int64_t next_base) {
  sdm_segment *s;
  sdm_scan_result found;
  bool anew, believed = trusted(r, next_base);
  int rc = sdm_segment_open(r->log->fs, r->log->dir, base, true, &s);
  if (rc < 0) return rc;
  rc = look_at_digest(r, s, believed, &anew);
  if (rc == 0 && (anew || !believed || !sdm_indexes_sound(s, s->size, next_base, true))) {
    rc = rescan_closed(r, s, believed, anew, &found);
    r->hole = r->hole || (!believed && found.next_offset < next_base);
  }
  if (rc == 0 && sync_failed(r) && next_base > atomic_load(&r->before->durable_end)) rc = sdm_segment_write_anew(s);
  sdm_segment_unref(s);
  return rc;
}

/* ---- the last segment ---- */

static void take_scan(recovery *r, sdm_segment *s, const sdm_scan_result *found) {
  sdm_end *e = &r->end;
  e->position = found->position;
  e->sealed_end = found->next_offset;
  e->max_timestamp = found->max_timestamp;
  e->max_timestamp_offset = found->max_timestamp_offset;
  e->first_timestamp = found->first_timestamp;
  e->bytes_since_index = found->bytes_since_index;
  e->index_entries = found->index_entries;
  e->timeindex_entries = found->timeindex_entries;
  e->indexed_timestamp = found->indexed_timestamp;
  e->last_tombstone = found->last_tombstone;
  e->records = found->records;
  e->first_append_ms = s->size > 0 ? s->modified_ms : -1;
  r->damaged_end = found->corrupt_batches > 0;
}

static int last_time_entry(sdm_segment *s, sdm_end *e) {
  sdm_file *f;
  sdm_file_info info;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  sdm_timeindex_entry t;
  size_t got;
  int rc = sdm_segment_file(s, SDM_FILE_TIMEINDEX, &f);
  if (rc == 0) rc = s->fs->info(f, &info);
  if (rc < 0) return rc;
  e->timeindex_entries = info.size / SDM_TIMEINDEX_ENTRY;
  e->max_timestamp = e->indexed_timestamp = -1;
  e->max_timestamp_offset = s->base_offset;
  if (e->timeindex_entries == 0) return 0;
  rc = s->fs->read(f, bytes, sizeof bytes, info.size - SDM_TIMEINDEX_ENTRY, &got);
  if (rc < 0 || got < sizeof bytes) return rc;
  sdm_timeindex_decode(bytes, s->base_offset, &t);
  e->max_timestamp = e->indexed_timestamp = t.timestamp;
  e->max_timestamp_offset = t.offset;
  return 0;
}

/* Verifies from the last index entry on that batches reach exactly `position` with `next_offset` next. 1: so it is. */
static int tail_is(recovery *r, sdm_segment *s, int64_t position, int64_t next_offset) {
  sdm_scanner scan = {0};
  sdm_batch b;
  const uint8_t *bytes;
  sdm_end *e = &r->end;
  int64_t next = s->base_offset;
  int rc = last_time_entry(s, e);
  if (rc == 0) rc = sdm_seek_near(s, &scan, INT64_MAX, position);
  if (rc < 0) return rc;
  e->bytes_since_index = position - scan.position;
  bool whole = true, known = scan.position == 0;         /* where the first batch begins */
  while ((rc = sdm_scan_batch(&scan, &b, &bytes)) == 1) {
    whole = whole && (!known || b.base_offset == next);  /* a gap may be a flipped base offset: the scan of the whole tells */
    known = true;
    next = sdm_batch_last_offset(&b) + 1;
    if (b.max_timestamp <= e->max_timestamp) continue;
    e->max_timestamp = b.max_timestamp;
    e->max_timestamp_offset = next - 1;
  }
  bool reached = rc == 0 && whole && !scan.torn && scan.position == position && next == next_offset;
  sdm_scanner_free(&scan);
  return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : reached;
}

/* The quick way, when somebody who can be believed says where the segment ends. 1: it went. */
static int recover_as_told(recovery *r, sdm_segment *s, int64_t position, int64_t next_offset) {
  sdm_file_info info;
  sdm_file *f;
  if (s->size < position || !sdm_indexes_sound(s, position, next_offset, false)) return 0;
  int rc = tail_is(r, s, position, next_offset);
  if (rc <= 0) return rc;
  if ((rc = sdm_segment_file(s, SDM_FILE_INDEX, &f)) < 0 || (rc = s->fs->info(f, &info)) < 0) return rc;
  r->end.index_entries = info.size / SDM_INDEX_ENTRY;
  r->end.position = position;
  r->end.sealed_end = next_offset;
  r->end.records = position > 0 ? -1 : 0;
  r->end.last_tombstone = position > 0 ? SDM_UNKNOWN : -1;
  r->end.first_append_ms = position > 0 ? s->modified_ms : -1;
  rc = sdm_first_batch_timestamp(s, position, &r->end.first_timestamp);
  return rc < 0 ? rc : 1;
}

/* What only the page of the same boot knows. */
static void take_page(recovery *r, const sdm_end *page) {
  sdm_end *e = &r->end;
  e->max_timestamp = page->max_timestamp;              /* the time index may lag behind it */
  e->max_timestamp_offset = page->max_timestamp_offset;
  e->first_timestamp = page->first_timestamp;
  e->first_append_ms = page->first_append_ms;
  e->modified_ms = page->modified_ms;
  e->jitter_ms = page->jitter_ms;
  e->records = page->records;
  e->last_tombstone = page->last_tombstone;
}

/* The same by reading the segment up to there whole, when its indexes are of no help. 1: it ends there. */
static int recover_by_reading(recovery *r, sdm_segment *s, int64_t position, int64_t next_offset) {
  sdm_scan_result found;
  if (s->size < position) return 0;
  int rc = sdm_reindex(s, position, r->cfg->index_interval_bytes, density(r, s), &found);
  if (rc < 0 || found.position != position || found.next_offset != next_offset || found.corrupt_batches > 0) return rc;
  take_scan(r, s, &found);
  return 1;
}

/* The page says where the segment ends, and the batches say so too; what lies behind was begun by somebody who died. */
static int recover_by_page(recovery *r, sdm_segment *s, const sdm_end *page) {
  int rc = recover_as_told(r, s, page->position, page->sealed_end);
  if (rc == 0) rc = recover_by_reading(r, s, page->position, page->sealed_end);
  if (rc != 1) return rc;
  take_page(r, page);
  if (s->size > page->position) rc = cut(r, s, page->position);
  return rc < 0 ? rc : 1;
}

static int recover_by_state(recovery *r, sdm_segment *s) {
  int rc = recover_as_told(r, s, r->state.position, r->state.end);
  if (rc != 1) return rc;
  r->end.first_append_ms = r->state.first_append_ms;
  r->end.jitter_ms = r->state.jitter_ms;
  return 1;
}

/* The file is shorter than those say who can be believed: somebody has cut it. */
static void count_lost(recovery *r, const sdm_segment *s, const sdm_end *page) {
  int64_t position = r->same_boot && page->active_base == s->base_offset ? page->position : r->state.clean ? r->state.position : 0;
  bool its = r->same_boot || r->state.end >= s->base_offset;
  if (its && s->size < position) r->truncated += position - s->size;
}

/* The last segment itself is not there: it was lost, with all that those say was in it. */
static void count_missing(recovery *r) {
  const sdm_end *page = sdm_control_end(r->before);
  bool told = r->same_boot || (r->state.clean && !r->broker);
  if (!told || r->truncated > 0 || r->damaged_end || r->end.sealed_end >= (r->same_boot ? page->sealed_end : r->state.end)) return;
  r->truncated = r->same_boot ? page->position : r->state.position;
}

/* After an orderly close the state file tells how long it was, and all of that was whole. */
static int64_t known_of_last(const recovery *r, const sdm_segment *s) {
  bool told = !r->same_boot && r->state.clean && !r->broker && r->state.end >= s->base_offset && s->size >= r->state.position;
  return told ? r->state.position : 0;
}

/* The last bytes that were written are damaged. They stay, for readers to tell of, and the log goes on behind them. */
static void keep_damage(recovery *r, const sdm_segment *s) {
  r->damaged_end = true;
  r->end.position = s->size;
  if (r->state.end > r->end.sealed_end) r->end.sealed_end = r->state.end;
}

static int recover_last(recovery *r, int64_t base) {
  sdm_segment *s;
  sdm_scan_result found;
  sdm_log_state_place(&r->state, base);
  const sdm_end *page = sdm_control_end(r->before);
  int rc = sdm_segment_open(r->log->fs, r->log->dir, base, true, &s);
  if (rc < 0) return rc;
  if ((rc = sdm_segment_digest_drop(s)) < 0 || (rc = sdm_segment_unshare(s)) < 0) {      /* of a roll that did not end */
    sdm_segment_unref(s);
    return rc;
  }
  r->end.active_base = base;
  r->end.modified_ms = s->modified_ms;
  r->end.created_ms = r->now;
  r->end.jitter_ms = sdm_draw_jitter(r->cfg);
  int told = 0;
  count_lost(r, s, page);
  if (r->same_boot && page->active_base == base) told = recover_by_page(r, s, page);
  else if (!r->same_boot && r->state.clean && s->size == r->state.position) told = recover_by_state(r, s);
  r->as_told = told == 1;
  rc = told < 0 ? told : 0;
  if (told == 0) {
    rc = rescan(r, s, 0, known_of_last(r, s), &found);
    if (rc == 0) take_scan(r, s, &found);
    if (rc == 0 && found.position < s->size) keep_damage(r, s);
  }
  if (rc == 0 && sync_failed(r)) rc = sdm_segment_write_anew(s);
  sdm_segment_unref(s);
  return rc;
}

/* ---- the whole ---- */

/* An empty file behind the active segment of a page of this boot is an unfinished roll's. */
static void forget_unfinished_roll(recovery *r) {
  const sdm_end *page = sdm_control_end(r->before);
  sdm_file_info info;
  while (r->same_boot && r->count > 1 && r->bases[r->count - 1] > page->active_base) {
    char *path = sdm_segment_path(r->log->dir, r->bases[r->count - 1], SDM_FILE_LOG, "");
    bool empty = path && r->log->fs->path_info(r->log->fs, path, &info) == 0 && info.size == 0;
    sdm_free(path);
    if (!empty || sdm_segment_unlink(r->log->fs, r->log->dir, r->bases[r->count - 1], "") < 0) return;
    r->count--;
  }
}

/* A log that ends before its start holds nothing that counts. Or its start is damaged: so the files are put aside, not deleted. */
static int start_empty(recovery *r, int64_t base) {
  sdm_segment *s;
  for (size_t i = 0; i < r->count; i++) {
    int rc = sdm_segment_rename(r->log->fs, r->log->dir, r->bases[i], "", ".stray");
    if (rc < 0) return rc;
    r->corrupt++;
  }
  int rc = sdm_segment_create(r->log->fs, r->log->dir, base, r->now, &s);
  if (rc < 0) return rc;
  sdm_segment_unref(s);
  r->count = 1;
  r->bases[0] = base;
  memset(&r->end, 0, sizeof r->end);
  r->end.active_base = r->end.sealed_end = r->end.max_timestamp_offset = base;
  r->end.created_ms = r->end.modified_ms = r->now;
  r->end.jitter_ms = sdm_draw_jitter(r->cfg);
  r->end.max_timestamp = r->end.first_timestamp = r->end.first_append_ms = r->end.indexed_timestamp = r->end.last_tombstone = -1;
  return 0;
}

/* The staged records of the page that was, as the batch that sealing would have written. False: there are none that count. */
static bool stage_before(const recovery *r, sdm_batch *b) {
  const sdm_end *e = sdm_control_end(r->before);
  bool counts = e->sealed_end == r->end.sealed_end || (r->same_boot && e->sealed_end > r->end.sealed_end);
  if (!r->staged || !counts) return false;
  sdm_stage_header(e, b);
  return true;
}

/* Those records with the header in front, ready for the file. */
static uint8_t *sealed_stage(recovery *r, sdm_batch *b) {
  b->leader_epoch = r->leader_epoch;
  sdm_batch_seal(sdm_control_stage(r->before), b);
  return sdm_control_stage(r->before);
}

/* The log's end with the staged records that continue it: the log may start among them. */
static int64_t end_with_stage(const recovery *r) {
  sdm_batch b;
  return stage_before(r, &b) && b.base_offset == r->end.sealed_end ? sdm_batch_last_offset(&b) + 1 : r->end.sealed_end;
}

static int recover_segments(recovery *r) {
  int64_t start = r->log_start > r->state.log_start ? r->log_start : r->state.log_start;
  int64_t known_to = r->same_boot || r->state.clean ? INT64_MAX : r->recovery_point;
  int rc = sdm_recover_files(r->log->fs, r->log->dir, start, known_to, &r->bases, &r->count);
  int64_t broker_end;
  if (rc == 0) rc = sdm_broker_end(r->log->fs, r->log->dir, &broker_end);
  if (rc < 0) return rc;
  r->broker = r->state.clean && broker_end > r->state.end;
  if (broker_end > r->state.cleaned_end) r->state.cleaned_end = broker_end;
  if (broker_end > r->state.foreign_end) r->state.foreign_end = broker_end;
  forget_unfinished_roll(r);
  if (r->count == 0) {
    count_missing(r);
    r->fresh = r->state.sequence == 0;
    sdm_free(r->bases);
    r->bases = sdm_malloc(sizeof *r->bases);
    return r->bases ? start_empty(r, next_free_offset(r, 0)) : sdm_no_memory();
  }
  for (size_t i = 0; rc == 0 && i + 1 < r->count; i++) rc = recover_closed(r, r->bases[i], r->bases[i + 1]);
  if (r->hole) r->staged = false;
  if (rc == 0) rc = recover_last(r, r->bases[r->count - 1]);
  if (rc == 0) count_missing(r);
  r->fresh = r->state.sequence == 0 && r->count == 1 && r->end.position == 0;            /* opened before, but never written to */
  if (r->state.clean && !r->broker && r->bases[0] > start) r->corrupt++;      /* the first was lost: who deletes one says where the log starts */
  if (r->doubtful) settle_doubt(r);
  if (r->state.log_start > r->log_start && r->state.log_start <= r->end.sealed_end) r->log_start = r->state.log_start;
  if (rc == 0 && end_with_stage(r) < r->log_start) rc = start_empty(r, next_free_offset(r, r->log_start));
  return rc;
}

/* Where the staged records continue what was found, they go on as a stage: their bytes are in the mapped file still, the new page only has to know of
** them. So they are safe whatever happens before they are sealed.
*/
static void carry_stage(recovery *r) {
  const sdm_end *old = sdm_control_end(r->before);
  sdm_end *e = &r->end;
  sdm_batch b;
  if (!stage_before(r, &b) || old->sealed_end != e->sealed_end || r->damaged_end) return;
  e->staged_crc = old->staged_crc;
  e->staged_append_time = old->staged_append_time;
  e->staged_timestamp = old->staged_timestamp;
  e->staged_max_timestamp = old->staged_max_timestamp;
  e->staged_tombstone = old->staged_tombstone;
  e->staged_since_ms = old->staged_since_ms;
  atomic_store(&e->staged_bytes, atomic_load(&old->staged_bytes));
  atomic_store(&e->staged_count, atomic_load(&old->staged_count));
}

static void publish(recovery *r) {
  sdm_control *c = r->log->control;
  int64_t start = r->bases[0] > r->log_start ? r->bases[0] : r->log_start;
  int64_t durable = r->same_boot ? atomic_load(&r->before->durable_end) : r->end.sealed_end;
  int64_t floor = r->same_boot && atomic_load(&r->before->purge_floor) > r->state.purge_floor ? atomic_load(&r->before->purge_floor) : r->state.purge_floor;
  atomic_store(&c->log_start, start);
  atomic_store(&c->durable_end, durable < r->end.sealed_end ? durable : r->end.sealed_end);
  atomic_store(&c->purge_floor, floor);
  atomic_store(&c->dirty_since_ms, durable < r->end.sealed_end ? r->now : -1);
  atomic_store(&c->truncated_bytes, r->truncated);
  atomic_store(&c->corrupt_batches, r->corrupt);
  atomic_store(&c->cleaned_end, r->fresh ? 0 : r->state.cleaned_end);
  atomic_store(&c->foreign_end, r->fresh ? 0 : r->state.foreign_end);
  atomic_store(&c->leader_epoch, r->leader_epoch);
  atomic_store(&c->clean_offset, r->clean_offset);
  atomic_store(&c->reserved_end, r->state.clean || r->unsaved || r->state.damaged ? 0 : r->state.reserved_end);
  c->least_end = next_free_offset(r, r->end.sealed_end);
  c->state_sequence = r->unsaved ? r->before->state_sequence : r->state.sequence;
  c->clean_end = r->state.clean && !r->unsaved ? r->state.end : -1;
  sdm_control_publish(c, &r->end);
}

/* After a power loss the page cache is believed no longer: what was accepted is made durable before it is served. */
static int make_durable(recovery *r) {
  sdm_file *f;
  if (r->same_boot || (r->state.clean && r->as_told) || r->end.position == 0) return 0;
  int rc = sdm_segment_file(r->log->active, SDM_FILE_LOG, &f);
  if (rc == 0) rc = r->log->fs->sync(f);
  return rc == 0 ? r->log->fs->sync_dir(r->log->fs, r->log->dir, NULL) : rc;
}

/* The page is about to be made anew. Should that end in another death or a full disk, the staged records are in the file by then. */
static int save_stage(recovery *r) {
  sdm_segment *s;
  sdm_batch b;
  sdm_file *f;
  if (!stage_before(r, &b) || b.base_offset != r->end.sealed_end) return 0;
  int rc = sdm_segment_open(r->log->fs, r->log->dir, r->end.active_base, true, &s);
  if (rc < 0) return rc;
  rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = r->log->fs->write(f, sealed_stage(r, &b), (size_t)b.size, r->end.position);
  sdm_segment_unref(s);
  return rc == SDM_DISK_FULL ? 0 : rc;     /* they stay where they are */
}

/* The carried stage becomes a batch; on a full disk it waits. One that does not continue the log goes into a segment of its own. */
static int seal_before(recovery *r) {
  sdm_log *l = r->log;
  const sdm_end *old = sdm_control_end(r->before), *e = sdm_control_end(l->control);
  sdm_batch b;
  int rc;
  if (sdm_stage_size(e) > 0) {
    rc = sdm_log_reserve_locked(l, sdm_end_offset(e));
    if (rc == 0) rc = sdm_log_seal_locked(l, r->cfg);
    return rc == SDM_DISK_FULL ? 0 : rc;
  }
  if (!stage_before(r, &b)) return 0;
  rc = sdm_log_roll_locked(l, r->cfg, b.base_offset, r->now);
  r->damaged_end = false;
  if (rc == 0) rc = sdm_log_reserve_locked(l, sdm_batch_last_offset(&b) + 1);
  return rc < 0 ? rc : sdm_log_write_locked(l, r->cfg, sealed_stage(r, &b), &b, old->staged_tombstone, old->modified_ms);
}

/* What the state file says is relied on from here on: offsets that it reserves, a floor that it raises. It is written once more, in the same slot. A disk
** that is full may do without: the next append reserves anew. */
static int save_state(recovery *r) {
  sdm_log *l = r->log;
  if (!r->unsaved) return 0;
  bool clean = r->state.clean && r->as_told;
  int64_t end = atomic_load(&l->control->log_end), reserved = r->state.reserved_end > end ? r->state.reserved_end : end;
  int rc = sdm_log_state_write_locked(l, reserved, clean);
  if (rc == 0 && !clean) atomic_store(&l->control->reserved_end, reserved);
  return rc == SDM_DISK_FULL ? 0 : rc;
}

static int go_on(recovery *r) {
  sdm_log *l = r->log;
  int rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  l->generation = UINT64_MAX;
  rc = sdm_log_sync_locked(l);
  if (rc == 0) rc = make_durable(r);
  if (rc == 0) rc = save_state(r);
  if (rc == 0) rc = seal_before(r);
  if (rc == 0) {
    int64_t end = atomic_load(&l->control->log_end), next = next_free_offset(r, end);
    if (next > end || r->damaged_end || sync_failed(r)) rc = sdm_log_roll_locked(l, r->cfg, next, r->now);
  }
  sdm_log_unlock(l);
  return rc;
}

int sdm_recover(sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  recovery r = {.log = l, .cfg = cfg, .now = now};
  int rc = read_before(&r);
  if (rc == 0) rc = recover_segments(&r);
  if (rc == 0) rc = save_stage(&r);
  if (rc == 0) rc = r.same_boot ? sdm_control_renew(l->control) : sdm_control_reset(l->control, l->env->boot_id);
  if (rc == 0) {
    carry_stage(&r);
    publish(&r);
    atomic_store(&l->control->incarnation, UNFINISHED);      /* should the rest fail, the next recovery can believe this page */
    rc = go_on(&r);
  }
  if (rc == 0) atomic_store(&l->control->incarnation, l->env->incarnation);
  sdm_free(r.before);
  sdm_free(r.bases);
  return rc;
}
