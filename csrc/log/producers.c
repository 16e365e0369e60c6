/* Open addressing with linear probing; at most three quarters are in use, so every probe ends. */
#include "log/producers.h"

#include "base/clock.h"
#include "base/mem.h"

static sdm_producer *slot_of(const sdm_producers *p, int64_t id) {
  size_t mask = p->capacity - 1, i = (size_t)((uint64_t)id * 0x9e3779b97f4a7c15u >> 20) & mask;
  while (p->slots[i].used && p->slots[i].id != id) i = (i + 1) & mask;
  return &p->slots[i];
}

static bool grow(sdm_producers *p) {
  sdm_producers bigger = {.count = p->count, .capacity = p->capacity ? 2 * p->capacity : 16};
  bigger.slots = sdm_calloc(bigger.capacity, sizeof *bigger.slots);
  if (!bigger.slots) return false;
  for (size_t i = 0; i < p->capacity; i++) {
    if (p->slots[i].used) *slot_of(&bigger, p->slots[i].id) = p->slots[i];
  }
  sdm_free(p->slots);
  *p = bigger;
  return true;
}

sdm_producer *sdm_producers_at(sdm_producers *p, int64_t id) {
  if (4 * (p->count + 1) > 3 * p->capacity && !grow(p)) return NULL;
  sdm_producer *slot = slot_of(p, id);
  if (slot->used) return slot;
  *slot = (sdm_producer){.id = id, .first_open = -1, .last_data = -1, .last_timestamp = SDM_NO_TIMESTAMP, .coordinator_epoch = -1, .epoch = -1, .used = true};
  p->count++;
  return slot;
}

sdm_producer *sdm_producers_find(const sdm_producers *p, int64_t id) {
  sdm_producer *slot = p->capacity ? slot_of(p, id) : NULL;
  return slot && slot->used ? slot : NULL;
}

void sdm_producers_free(sdm_producers *p) {
  sdm_free(p->slots);
  *p = (sdm_producers){0};
}

void sdm_producer_note(sdm_producer *p, const sdm_batch *b) {
  if (p->epoch != b->producer_epoch) p->last_data = -1;
  p->epoch = b->producer_epoch;
  p->last_timestamp = b->max_timestamp;
  if (sdm_batch_is(b, SDM_ATTR_CONTROL)) return;
  p->last_data = sdm_batch_last_offset(b);
  p->last_delta = b->last_offset_delta;
  p->last_sequence = (int32_t)(((int64_t)b->base_sequence + b->last_offset_delta) & INT32_MAX);       /* numbers go on with 0 after the last one */
}

bool sdm_producers_need(const sdm_producers *p, const sdm_batch *b, int64_t now) {
  const sdm_producer *known = b->producer_id >= 0 ? sdm_producers_find(p, b->producer_id) : NULL;
  if (!known || (known->first_open < 0 && sdm_sub_sat(now, known->last_timestamp) >= SDM_PRODUCER_EXPIRES_MS)) return false;
  if (known->last_data >= 0) return sdm_batch_last_offset(b) == known->last_data;
  return sdm_batch_is(b, SDM_ATTR_CONTROL) && b->producer_epoch == known->epoch;
}
