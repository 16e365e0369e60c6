/* Appending: checks, the way through the stage, the way as a batch of its own.
**
** Encoding and checksums of a batch happen before control->lock is taken; under it only what depends on the end of the log is filled in.
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

__attribute__((cold)) static int too_many_headers(size_t i, int32_t count) {
  return sdm_fail(SDM_TOO_LARGE, "record %zu has %d headers; %d are the most", i + 1, count, SDM_HEADERS_MAX);
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
    if (rc == 0 && records[i].header_count > SDM_HEADERS_MAX) rc = too_many_headers(i, records[i].header_count);
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

/* ---- the two ways ---- */

static void note_append(sdm_control *c, int64_t now) {
  if (atomic_load_explicit(&c->dirty_since_ms, memory_order_relaxed) < 0) atomic_store_explicit(&c->dirty_since_ms, now, memory_order_relaxed);
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

/* Only damage brings a log there. */
static int no_offset_left(const sdm_log *l, int64_t end) { return sdm_fail(SDM_CORRUPT, "%s ends at %lld: there is no offset left", l->dir, (long long)end); }

/* Makes room in the stage and in the segment; then the record goes in. */
static int stage_locked(sdm_log *l, const sdm_log_config *cfg, sdm_record *r, int64_t most, int64_t now, int64_t *offset) {
  sdm_control *c = l->control;
  sdm_end *e = sdm_control_end(c);
  int rc = 0;
  r->offset = sdm_end_offset(e);
  if (r->offset == INT64_MAX) return no_offset_left(l, r->offset);
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

static int batch_locked(sdm_log *l, const sdm_log_config *cfg, const sdm_append *a, sdm_batch *b, int64_t tombstone, int64_t now) {
  uint8_t *bytes = a->scratch->data;
  if (a->only_at && atomic_load(&l->control->log_end) != *a->only_at) return sdm_fail(SDM_BUSY, "%s has grown meanwhile", l->dir);
  int rc = sdm_log_seal_locked(l, cfg);
  if (rc < 0) return rc;
  int64_t end = atomic_load_explicit(&l->control->log_end, memory_order_relaxed);
  if (end >= INT64_MAX - b->last_offset_delta) return no_offset_left(l, end);
  int64_t last = end + b->last_offset_delta;
  if (sdm_log_should_roll(sdm_control_end(l->control), cfg, b->size, b->max_timestamp, last, now)) rc = sdm_log_roll_locked(l, cfg, end, now);
  if (rc == 0 && last >= atomic_load_explicit(&l->control->reserved_end, memory_order_relaxed)) rc = sdm_log_reserve_locked(l, last + 1);
  if (rc < 0) return rc;
  b->base_offset = end;
  sdm_batch_set_base_offset(bytes, end);
  return sdm_log_write_locked(l, cfg, bytes, b, tombstone < 0 ? -1 : end + tombstone, now);
}

/* Encodes the records as one batch with base offset 0; *tombstone: delta of the last one, -1. */
static int encode(const sdm_append *a, const sdm_log_config *cfg, int64_t now, sdm_batch *b, int64_t *tombstone) {
  sdm_codec codec = sdm_log_codec_for(cfg, a->codec);
  sdm_batch_writer w = {.level = sdm_log_level_for(cfg, codec), .batch = {
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
  rc = batch_locked(l, cfg, a, &b, tombstone, now);
  if (rc == 0) note_append(l->control, now);
  sdm_log_unlock(l);
  if (rc < 0) return rc;
  sdm_log_tell_news(l->control);
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
  if (rc == 0) sdm_log_tell_news(l->control);
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

/* With other codes nothing was appended. Here it was: everybody can read it, and the message says so. */
static int not_durable(int rc, int64_t first) {
  if (rc >= 0 || rc == SDM_UNKNOWN_TOPIC || rc == SDM_BUSY) return rc;
  return sdm_fail_within(rc == SDM_DISK_FULL ? rc : SDM_IO, "offset %lld was appended, but may not be on the disk: ", (long long)first);
}

int sdm_log_append(sdm_log *l, const sdm_log_config *cfg, const sdm_append *a, int64_t now, int64_t *first, int64_t *last) {
  int rc = sdm_log_check_writable(l);
  if (rc < 0) return rc;
  if (a->count == 0) return sdm_fail(SDM_INVALID_RECORD, "an empty batch; give at least one record");
  sdm_codec codec = sdm_log_codec_for(cfg, a->codec);
  if (codec != SDM_CODEC_NONE && (rc = sdm_codec_check(codec)) < 0) return rc;
  int64_t most = a->own_batch ? 0 : most_bytes(a->records);
  if (a->own_batch || !stages(l, cfg, a->records, most)) rc = append_batch(l, cfg, a, now, first, last);
  else if ((rc = append_staged(l, cfg, a->records, most, now, first)) == 0) *last = *first;
  if (rc == 0 && flush_due(l, cfg, a->flags)) rc = not_durable(sdm_log_flush_to_disk(l, cfg, now, &(int64_t){0}), *first);
  return sdm_log_explain(l, rc);
}
