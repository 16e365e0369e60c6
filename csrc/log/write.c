/* Writing a batch at the sealed end of a log, and sealing the stage. Order of writes: the batch's bytes, then index entries, then the control page.
** Nothing before the last step can be seen by anyone, and the bytes past the published end are nobody's.
*/
#include "base/bytes.h"
#include "log/log.h"
#include "log/stage.h"

/* The index lags behind rather than that an append fails for it: entries are hints and are made anew when they lack. */
static void add_index_entries(sdm_segment *s, sdm_end *next, const sdm_batch *b, int64_t position) {
  sdm_file *index, *timeindex;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  sdm_index_entry e = {sdm_batch_last_offset(b), position};
  next->bytes_since_index = 0;
  if (sdm_segment_file(s, SDM_FILE_INDEX, &index) < 0 || sdm_segment_file(s, SDM_FILE_TIMEINDEX, &timeindex) < 0) return;
  sdm_index_encode(bytes, &e, s->base_offset);
  if (s->fs->write(index, bytes, SDM_INDEX_ENTRY, next->index_entries * SDM_INDEX_ENTRY) < 0) return;
  next->index_entries++;
  if (next->max_timestamp <= next->indexed_timestamp) return;
  sdm_timeindex_entry t = {next->max_timestamp, next->max_timestamp_offset};
  sdm_timeindex_encode(bytes, &t, s->base_offset);
  if (s->fs->write(timeindex, bytes, SDM_TIMEINDEX_ENTRY, next->timeindex_entries * SDM_TIMEINDEX_ENTRY) < 0) return;
  next->timeindex_entries++;
  next->indexed_timestamp = next->max_timestamp;
}

static void account(sdm_end *next, const sdm_batch *b, bool staged, int64_t tombstone, int64_t now) {
  if (b->max_timestamp > next->max_timestamp) {
    next->max_timestamp = b->max_timestamp;
    next->max_timestamp_offset = sdm_batch_last_offset(b);
  }
  if (next->position == 0 && !staged) {
    next->first_timestamp = b->max_timestamp;
    next->first_append_ms = now;
  }
  if (next->records >= 0) next->records += b->count;
  if (tombstone > next->last_tombstone && next->last_tombstone != SDM_UNKNOWN) next->last_tombstone = tombstone;
  next->sealed_end = sdm_batch_last_offset(b) + 1;
  next->modified_ms = now;
}

int sdm_log_write_locked(sdm_log *l, const sdm_log_config *cfg, const uint8_t *batch, const sdm_batch *b, int64_t tombstone, int64_t now) {
  sdm_end next;
  sdm_file *f;
  int rc = sdm_log_sync_locked(l);
  if (rc == 0) rc = sdm_segment_file(l->active, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  bool staged = sdm_stage_size(sdm_control_end(l->control)) > 0;
  sdm_control_prepare(l->control, &next);
  int64_t position = next.position;
  if ((rc = l->fs->write(f, batch, (size_t)b->size, position)) < 0) return rc;
  account(&next, b, staged, tombstone, now);
  if (next.max_timestamp < 0 && l->fs->set_modified(f, now) < 0) return SDM_IO;   /* the file's time is the segment's age then */
  next.position += b->size;
  if (next.bytes_since_index > cfg->index_interval_bytes) add_index_entries(l->active, &next, b, position);
  next.bytes_since_index += b->size;
  sdm_control_publish(l->control, &next);
  return 0;
}

int sdm_log_seal_locked(sdm_log *l, const sdm_log_config *cfg) {
  sdm_control *c = l->control;
  sdm_end *e = sdm_control_end(c);
  sdm_batch b;
  if (sdm_stage_size(e) == 0) return 0;
  sdm_stage_header(e, &b);
  sdm_batch_seal(sdm_control_stage(c), &b);
  return sdm_log_write_locked(l, cfg, sdm_control_stage(c), &b, e->staged_tombstone, e->modified_ms);
}
