/* Writing a batch at the sealed end of a log, and sealing the stage. Order of writes: the batch's bytes, then index entries, then the control page.
** Nothing before the last step can be seen by anyone, and the bytes past the published end are nobody's.
*/
#include "base/bytes.h"
#include "format/codec.h"
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

int sdm_log_write_locked(sdm_log *l, const sdm_log_config *cfg, uint8_t *batch, const sdm_batch *b, int64_t tombstone, int64_t now) {
  sdm_end next;
  sdm_file *f;
  int rc = sdm_log_sync_locked(l);
  if (rc == 0) rc = sdm_segment_file(l->active, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  bool staged = sdm_stage_size(sdm_control_end(l->control)) > 0;
  sdm_control_prepare(l->control, &next);
  int64_t position = next.position;
  sdm_batch_set_leader_epoch(batch, atomic_load_explicit(&l->control->leader_epoch, memory_order_relaxed));
  if ((rc = l->fs->write(f, batch, (size_t)b->size, position)) < 0) return rc;
  account(&next, b, staged, tombstone, now);
  if (next.max_timestamp < 0 && l->fs->set_modified(f, now) < 0) return SDM_IO;   /* the file's time is the segment's age then */
  next.position += b->size;
  if (next.bytes_since_index > cfg->index_interval_bytes) add_index_entries(l->active, &next, b, position);
  next.bytes_since_index += b->size;
  sdm_control_publish(l->control, &next);
  return 0;
}

sdm_codec sdm_log_codec_for(const sdm_log_config *cfg, sdm_codec asked) {
  return cfg->compression_type == SDM_COMPRESSION_PRODUCER ? asked : (sdm_codec)cfg->compression_type;
}

int sdm_log_level_for(const sdm_log_config *cfg, sdm_codec codec) {
  switch (codec) {
  case SDM_CODEC_GZIP: return cfg->gzip_level;
  case SDM_CODEC_LZ4: return cfg->lz4_level;
  case SDM_CODEC_ZSTD: return cfg->zstd_level;
  default: return 0;
  }
}

/* The staged batch compressed, at the end of an empty `out`. False: it does not get smaller that way, or cannot be compressed here; it is written as it
** is then: the segment has no more room than that, and sealing fails for nothing but the disk. */
static bool pack_stage(sdm_log *l, const sdm_log_config *cfg, sdm_batch *b, sdm_buf *out) {
  sdm_codec codec = sdm_log_codec_for(cfg, SDM_CODEC_NONE);
  size_t plain = (size_t)b->size - SDM_BATCH_HEADER;
  const uint8_t *records = sdm_control_stage(l->control) + SDM_BATCH_HEADER;
  if (codec == SDM_CODEC_NONE || sdm_buf_reserve(out, SDM_BATCH_HEADER) < 0) return false;
  out->size = SDM_BATCH_HEADER;
  if (sdm_codec_compress(codec, sdm_log_level_for(cfg, codec), records, plain, out) < 0 || out->size - SDM_BATCH_HEADER >= plain) return false;
  b->attributes = (int16_t)(b->attributes | (int)codec);
  b->size = (int32_t)out->size;
  return true;
}

int sdm_log_seal_locked(sdm_log *l, const sdm_log_config *cfg) {
  sdm_end *e = sdm_control_end(l->control);
  sdm_buf packed = SDM_BUF_INIT;
  sdm_batch b;
  if (sdm_stage_size(e) == 0) return 0;
  sdm_stage_header(e, &b);
  uint8_t *bytes = sdm_control_stage(l->control);
  if (pack_stage(l, cfg, &b, &packed)) sdm_batch_seal(bytes = packed.data, &b);
  else sdm_batch_seal_known(bytes, &b, e->staged_crc);
  int rc = sdm_log_write_locked(l, cfg, bytes, &b, e->staged_tombstone, e->modified_ms);
  sdm_buf_free(&packed);
  return rc;
}
