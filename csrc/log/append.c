/* Appending: checks, the way through the stage, the way as a batch of its own, and sealing.
**
** Encoding and checksums of a batch happen before control->lock is taken; under it only what depends on the end of the log is filled in.
** Order of writes: the batch's bytes, then index entries, then the control page. Nothing before the last step can be seen by anyone, and the
** bytes past the published end are nobody's.
*/
#include "base/bytes.h"
#include "base/clock.h"
#include "format/codec.h"
#include "log/log.h"
#include "log/stage.h"

/* ---- checks, in Kafka's order: size of the batch, then timestamps before keys, then the size of a segment ---- */

static int check_timestamp(const sdm_log_config *cfg, const sdm_record *r, size_t i, int64_t now) {
  int64_t t = r->timestamp;
  if (t < SDM_NO_TIMESTAMP) {
    return sdm_fail(SDM_INVALID_TIMESTAMP, "record %zu: timestamp %lld is negative; leave it out for the clock's, or give -1 for none", i + 1, (long long)t);
  }
  if (t == SDM_NO_TIMESTAMP || cfg->log_append_time) return 0;
  if (sdm_sub_sat(now, t) > cfg->timestamp_before_max_ms) {
    return sdm_fail(SDM_INVALID_TIMESTAMP, "record %zu: timestamp %lld is %lld ms behind the clock; message.timestamp.before.max.ms allows %lld", i + 1,
                    (long long)t, (long long)sdm_sub_sat(now, t), (long long)cfg->timestamp_before_max_ms);
  }
  if (sdm_sub_sat(t, now) > cfg->timestamp_after_max_ms) {
    return sdm_fail(SDM_INVALID_TIMESTAMP, "record %zu: timestamp %lld is %lld ms ahead of the clock; message.timestamp.after.max.ms allows %lld", i + 1,
                    (long long)t, (long long)sdm_sub_sat(t, now), (long long)cfg->timestamp_after_max_ms);
  }
  return 0;
}

static int check_records(const sdm_log_config *cfg, const sdm_record *records, size_t count, int64_t now) {
  bool keyed = cfg->cleanup_policy & SDM_POLICY_COMPACT;
  size_t keyless = 0;
  for (size_t i = 0; i < count; i++) {
    if (keyed && records[i].key_size < 0) {
      if (!keyless) keyless = i + 1;
      if (records[i].timestamp >= SDM_NO_TIMESTAMP) continue;      /* Kafka does not look at a keyless record's timestamp */
    }
    int rc = check_timestamp(cfg, &records[i], i, now);
    if (rc < 0) return rc;
  }
  if (!keyless) return 0;
  return sdm_fail(SDM_INVALID_RECORD, "record %zu has no key; a topic with cleanup.policy=compact keeps the last record of each key, so each needs one", keyless);
}

static int check_batch_size(const sdm_log_config *cfg, int64_t size) {
  if (size <= cfg->max_message_bytes) return 0;
  return sdm_fail(SDM_TOO_LARGE, "the batch would have %lld bytes, more than max.message.bytes (%lld)", (long long)size, (long long)cfg->max_message_bytes);
}

static int check_segment_size(const sdm_log_config *cfg, int64_t size) {
  if (size <= cfg->segment_bytes) return 0;
  return sdm_fail(SDM_TOO_LARGE, "the batch would have %lld bytes, more than segment.bytes (%lld)", (long long)size, (long long)cfg->segment_bytes);
}

/* ---- rolling rules, reference section 5 ---- */

static bool index_full(const sdm_end *e, const sdm_log_config *cfg) {
  return e->index_entries >= cfg->segment_index_bytes / SDM_INDEX_ENTRY || e->timeindex_entries >= cfg->segment_index_bytes / SDM_TIMEINDEX_ENTRY - 1;
}

bool sdm_log_should_roll(const sdm_end *e, const sdm_log_config *cfg, int64_t bytes, int64_t max_timestamp, int64_t last_offset, int64_t now) {
  int64_t size = e->position + sdm_stage_size(e);
  if (size > cfg->segment_bytes - bytes || last_offset - e->active_base > INT32_MAX) return true;
  if (size == 0) return false;
  int64_t waited = e->first_timestamp >= 0 ? sdm_sub_sat(max_timestamp, e->first_timestamp) : sdm_sub_sat(now, e->created_ms);
  return waited > sdm_sub_sat(sdm_log_config_segment_ms(cfg), e->jitter_ms) || index_full(e, cfg);
}

/* ---- writing a batch at the sealed end ---- */

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

/* The codec for a batch whose appender asked for `asked`: compression.type overrides it, unless that is `producer`. */
static sdm_codec codec_for(const sdm_log_config *cfg, sdm_codec asked) {
  return cfg->compression_type == SDM_COMPRESSION_PRODUCER ? asked : (sdm_codec)cfg->compression_type;
}

static int level_for(const sdm_log_config *cfg, sdm_codec codec) {
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
  sdm_codec codec = codec_for(cfg, SDM_CODEC_NONE);
  size_t plain = (size_t)b->size - SDM_BATCH_HEADER;
  const uint8_t *records = sdm_control_stage(l->control) + SDM_BATCH_HEADER;
  if (codec == SDM_CODEC_NONE || sdm_buf_reserve(out, SDM_BATCH_HEADER) < 0) return false;
  out->size = SDM_BATCH_HEADER;
  if (sdm_codec_compress(codec, level_for(cfg, codec), records, plain, out) < 0 || out->size - SDM_BATCH_HEADER >= plain) return false;
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
  uint8_t *bytes = pack_stage(l, cfg, &b, &packed) ? packed.data : sdm_control_stage(l->control);
  sdm_batch_seal(bytes, &b);
  int rc = sdm_log_write_locked(l, cfg, bytes, &b, e->staged_tombstone, e->modified_ms);
  sdm_buf_free(&packed);
  return rc;
}

/* ---- the two ways ---- */

static void note_append(sdm_control *c, int64_t now) {
  if (atomic_load_explicit(&c->dirty_since_ms, memory_order_relaxed) < 0) atomic_store_explicit(&c->dirty_since_ms, now, memory_order_relaxed);
  if (atomic_load_explicit(&c->waiters, memory_order_seq_cst) != 0) sdm_log_touch_news(c);
}

void sdm_log_touch_news(sdm_control *c) {
  atomic_fetch_add_explicit(&c->news, 1, memory_order_seq_cst);
  sdm_futex_wake_all((uint32_t *)&c->news);
}

static int64_t stage_capacity(const sdm_log *l, const sdm_log_config *cfg) {
  int64_t capacity = l->env->batch_size < SDM_STAGE_BYTES ? l->env->batch_size : SDM_STAGE_BYTES;
  if (capacity > cfg->max_message_bytes) capacity = cfg->max_message_bytes;
  return capacity < cfg->segment_bytes ? capacity : cfg->segment_bytes;
}

/* More than any encoding of the record takes, so that the exact size is asked for only near a limit. */
static int64_t most_bytes(const sdm_record *r) {
  enum { LENGTHS_AND_DELTAS = 5 * SDM_VARINT_MAX + SDM_VARLONG_MAX + 1 };
  return LENGTHS_AND_DELTAS + (r->key_size > 0 ? (int64_t)r->key_size : 0) + (r->value_size > 0 ? (int64_t)r->value_size : 0) + r->headers_size;
}

static bool must_roll(const sdm_end *e, const sdm_log_config *cfg, const sdm_record *r, bool joins, int64_t most, int64_t now) {
  int64_t size = joins ? most : SDM_BATCH_HEADER + most;
  if (e->position + sdm_stage_size(e) > cfg->segment_bytes - size) {
    size = joins ? (int64_t)sdm_record_size(r, e->sealed_end, e->staged_timestamp) : SDM_BATCH_HEADER + (int64_t)sdm_record_size(r, r->offset, r->timestamp);
  }
  return sdm_log_should_roll(e, cfg, size, cfg->log_append_time ? now : r->timestamp, r->offset, now);
}

/* Makes room in the stage and in the segment; then the record goes in. */
static int stage_locked(sdm_log *l, const sdm_log_config *cfg, sdm_record *r, int64_t most, int64_t now, int64_t *offset) {
  sdm_control *c = l->control;
  sdm_end *e = sdm_control_end(c);
  int rc = 0;
  r->offset = sdm_end_offset(e);
  bool joins = sdm_stage_size(e) > 0 && sdm_stage_fits(e, r, most, cfg->log_append_time, stage_capacity(l, cfg), now, l->env->linger_ms);
  if (!joins) rc = sdm_log_seal_locked(l, cfg);
  if (rc == 0 && must_roll(sdm_control_end(c), cfg, r, joins, most, now)) rc = sdm_log_roll_locked(l, cfg, r->offset, now);
  if (rc == 0 && r->offset >= atomic_load_explicit(&c->reserved_end, memory_order_relaxed)) rc = sdm_log_reserve_locked(l, r->offset + 1);
  if (rc < 0) return rc;
  e = sdm_control_end(c);
  if (e->position == 0 && sdm_stage_size(e) == 0) {      /* whatever one who died in the first append has left there */
    e->first_append_ms = now;
    e->first_timestamp = cfg->log_append_time ? now : r->timestamp;
  }
  e->modified_ms = now;
  sdm_stage_add(c, r, cfg->log_append_time, now);
  *offset = r->offset;
  return 0;
}

static int batch_locked(sdm_log *l, const sdm_log_config *cfg, uint8_t *bytes, sdm_batch *b, int64_t tombstone, int64_t now) {
  int rc = sdm_log_seal_locked(l, cfg);
  if (rc < 0) return rc;
  int64_t end = atomic_load_explicit(&l->control->log_end, memory_order_relaxed), last = end + b->last_offset_delta;
  if (sdm_log_should_roll(sdm_control_end(l->control), cfg, b->size, b->max_timestamp, last, now)) rc = sdm_log_roll_locked(l, cfg, end, now);
  if (rc == 0 && last >= atomic_load_explicit(&l->control->reserved_end, memory_order_relaxed)) rc = sdm_log_reserve_locked(l, last + 1);
  if (rc < 0) return rc;
  b->base_offset = end;
  sdm_batch_set_base_offset(bytes, end);
  return sdm_log_write_locked(l, cfg, bytes, b, tombstone < 0 ? -1 : end + tombstone, now);
}

/* Encodes the records as one batch with base offset 0; *tombstone: delta of the last one, -1. */
static int encode(const sdm_append *a, const sdm_log_config *cfg, int64_t now, sdm_batch *b, int64_t *tombstone) {
  sdm_codec codec = codec_for(cfg, a->codec);
  sdm_batch_writer w = {.level = level_for(cfg, codec), .batch = {
    .attributes = (int16_t)((int)codec | (cfg->log_append_time ? SDM_ATTR_APPEND_TIME : 0)), .base_timestamp = a->records[0].timestamp,
    .max_timestamp = cfg->log_append_time ? now : SDM_NO_TIMESTAMP, .producer_id = SDM_NO_PRODUCER, .producer_epoch = -1, .base_sequence = -1,
  }};
  sdm_buf_clear(a->scratch);
  *tombstone = -1;
  int rc = sdm_batch_begin(&w, a->scratch);
  for (size_t i = 0; rc == 0 && i < a->count; i++) {
    sdm_record r = a->records[i];
    r.offset = (int64_t)i;
    if (r.value_size < 0) *tombstone = (int64_t)i;
    rc = sdm_batch_add(&w, &r);
  }
  if (rc == 0) rc = sdm_batch_end(&w);
  *b = w.batch;
  return rc;
}

static int append_batch(sdm_log *l, const sdm_log_config *cfg, const sdm_append *a, int64_t now, int64_t *first, int64_t *last) {
  sdm_batch b;
  int64_t tombstone;
  if (a->count > INT32_MAX) return sdm_fail(SDM_TOO_LARGE, "a batch of %zu records; 2147483647 is the most", a->count);
  int rc = encode(a, cfg, now, &b, &tombstone);
  if (rc == 0) rc = check_batch_size(cfg, b.size);
  if (rc == 0) rc = check_records(cfg, a->records, a->count, now);
  if (rc == 0) rc = check_segment_size(cfg, b.size);
  if (rc == 0) rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  rc = batch_locked(l, cfg, a->scratch->data, &b, tombstone, now);
  if (rc == 0) note_append(l->control, now);
  sdm_log_unlock(l);
  if (rc < 0) return rc;
  *first = b.base_offset;
  *last = sdm_batch_last_offset(&b);
  return 0;
}

/* What fits the stage is within max.message.bytes and segment.bytes: its capacity is. */
static int append_staged(sdm_log *l, const sdm_log_config *cfg, const sdm_record *given, int64_t most, int64_t now, int64_t *offset) {
  sdm_record r = *given;
  int rc = check_records(cfg, &r, 1, now);
  if (rc == 0) rc = sdm_log_lock(l);
  if (rc < 0) return rc;
  rc = stage_locked(l, cfg, &r, most, now, offset);
  if (rc == 0) note_append(l->control, now);
  sdm_log_unlock(l);
  return rc;
}

/* Whether a batch of this record alone fits the stage. */
static bool stages(const sdm_log *l, const sdm_log_config *cfg, const sdm_record *r, int64_t most) {
  int64_t left = stage_capacity(l, cfg) - SDM_BATCH_HEADER;
  return most <= left || (int64_t)sdm_record_size(r, r->offset, r->timestamp) <= left;
}

static bool flush_due(const sdm_log *l, const sdm_log_config *cfg, unsigned flags) {
  if (flags & SDM_SYNC) return true;
  if (cfg->flush_messages == INT64_MAX) return false;
  int64_t durable = atomic_load_explicit(&l->control->durable_end, memory_order_relaxed);
  return atomic_load_explicit(&l->control->log_end, memory_order_relaxed) - durable >= cfg->flush_messages;
}

int sdm_log_append(sdm_log *l, const sdm_log_config *cfg, const sdm_append *a, int64_t now, int64_t *first, int64_t *last) {
  int rc = sdm_log_check_writable(l);
  if (rc < 0) return rc;
  if (a->count == 0) return sdm_fail(SDM_INVALID_RECORD, "an empty batch; give at least one record");
  if ((rc = sdm_codec_check(codec_for(cfg, a->codec))) < 0) return rc;
  int64_t most = a->own_batch ? 0 : most_bytes(a->records);
  if (a->own_batch || !stages(l, cfg, a->records, most)) rc = append_batch(l, cfg, a, now, first, last);
  else if ((rc = append_staged(l, cfg, a->records, most, now, first)) == 0) *last = *first;
  if (rc == 0 && flush_due(l, cfg, a->flags)) rc = sdm_log_flush_to_disk(l, cfg, now, &(int64_t){0});
  return rc;
}
