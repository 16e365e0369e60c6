/* The stage: one-record appends gather in shared memory and become one batch in the file. How it is published and what a death leaves is
** told in control.h. Everything here happens under control->lock.
*/
#include "log/stage.h"

#include <string.h>

#include "base/clock.h"
#include "base/crc32c.h"

static uint32_t count_of(const sdm_end *e) { return atomic_load_explicit(&e->staged_count, memory_order_relaxed); }
static uint32_t bytes_of(const sdm_end *e) { return atomic_load_explicit(&e->staged_bytes, memory_order_relaxed); }

static bool near(int64_t a, int64_t b) {
  int64_t apart = sdm_sub_sat(a, b);
  return apart > -INT32_MAX && apart < INT32_MAX;
}

bool sdm_stage_fits(const sdm_end *e, const sdm_record *r, int64_t most, bool append_time, int64_t capacity, int64_t now, int64_t linger_ms) {
  if (append_time != (e->staged_append_time == 1) || !near(r->timestamp, e->staged_timestamp)) return false;
  if (append_time && e->staged_max_timestamp != now) return false;         /* such a batch has one timestamp */
  if (sdm_sub_sat(now, e->staged_since_ms) > linger_ms) return false;
  int64_t left = capacity - SDM_BATCH_HEADER - (int64_t)bytes_of(e);
  return most <= left || (int64_t)sdm_record_size(r, e->sealed_end, e->staged_timestamp) <= left;
}

static void begin(sdm_end *e, const sdm_record *r, bool append_time, int64_t now) {
  e->staged_timestamp = r->timestamp;
  e->staged_append_time = append_time ? 1 : 0;
  e->staged_max_timestamp = append_time ? now : SDM_NO_TIMESTAMP;
  e->staged_tombstone = -1;
  e->staged_since_ms = now;
  e->staged_crc = 0;
  atomic_store_explicit(&e->staged_bytes, 0, memory_order_relaxed);
}

static void account(sdm_end *e, const sdm_record *r, const uint8_t *bytes, size_t size) {
  e->staged_crc = sdm_crc32c(e->staged_crc, bytes, size);
  if (e->staged_append_time == 0 && r->timestamp > e->staged_max_timestamp) e->staged_max_timestamp = r->timestamp;
  if (r->value_size < 0) e->staged_tombstone = r->offset;
}

void sdm_stage_add(sdm_control *c, const sdm_record *r, bool append_time, int64_t now) {
  sdm_end *e = sdm_control_end(c);
  uint32_t count = count_of(e);
  if (count == 0) begin(e, r, append_time, now);
  uint32_t used = bytes_of(e);
  uint8_t *start = sdm_control_stage(c) + SDM_BATCH_HEADER + used;
  size_t size = (size_t)(sdm_record_encode(start, r, e->sealed_end, e->staged_timestamp) - start);
  account(e, r, start, size);
  atomic_store_explicit(&e->staged_bytes, used + (uint32_t)size, memory_order_relaxed);
  atomic_store_explicit(&e->staged_count, count + 1, memory_order_release);
  atomic_store_explicit(&c->log_end, r->offset + 1, memory_order_release);
}

void sdm_stage_header(const sdm_end *e, sdm_batch *out) {
  uint32_t count = count_of(e);
  *out = (sdm_batch){
    .base_offset = e->sealed_end, .size = SDM_BATCH_HEADER + (int32_t)bytes_of(e), .leader_epoch = 0,
    .attributes = e->staged_append_time ? SDM_ATTR_APPEND_TIME : 0, .last_offset_delta = (int32_t)count - 1,
    .base_timestamp = e->staged_timestamp, .max_timestamp = e->staged_max_timestamp,
    .producer_id = SDM_NO_PRODUCER, .producer_epoch = -1, .base_sequence = -1, .count = (int32_t)count,
  };
}

int sdm_stage_repair(sdm_control *c) {
  sdm_end *e = sdm_control_end(c);
  const uint8_t *start = sdm_control_stage(c) + SDM_BATCH_HEADER, *p = start;
  uint32_t count = count_of(e);
  sdm_batch b;
  sdm_record_iter it;
  sdm_record r;
  if (count > SDM_STAGE_BYTES) return sdm_fail(SDM_CORRUPT, "the stage claims %u records", count);
  atomic_store_explicit(&e->staged_bytes, SDM_STAGE_BYTES - SDM_BATCH_HEADER, memory_order_relaxed);
  sdm_stage_header(e, &b);
  b.max_timestamp = e->staged_max_timestamp;
  sdm_record_iter_init(&it, &b, start, SDM_STAGE_BYTES - SDM_BATCH_HEADER);
  e->staged_crc = 0;
  e->staged_tombstone = -1;
  if (!e->staged_append_time) e->staged_max_timestamp = SDM_NO_TIMESTAMP;
  for (uint32_t i = 0; i < count; i++) {
    it.left = 2;                             /* what follows the published records is nobody's: no claim that they fill the stage */
    int rc = sdm_record_next(&it, &r);
    if (rc <= 0) return sdm_fail(SDM_CORRUPT, "record %u of the stage cannot be read", i);
    account(e, &r, p, (size_t)(it.p - p));
    p = it.p;
  }
  atomic_store_explicit(&e->staged_bytes, (uint32_t)(p - start), memory_order_relaxed);
  atomic_store_explicit(&c->log_end, sdm_end_offset(e), memory_order_release);
  return 0;
}

bool sdm_stage_intact(sdm_control *c) {
  sdm_end *e = sdm_control_end(c);
  uint32_t bytes = bytes_of(e), crc = e->staged_crc;
  int64_t newest = e->staged_max_timestamp;             /* no CRC covers the base timestamp: this gives it away */
  if (sdm_stage_repair(c) < 0 || bytes_of(e) != bytes || e->staged_crc != crc) return false;
  return e->staged_max_timestamp == newest && (!e->staged_append_time || e->staged_since_ms == newest);
}
