/* Open addressing with linear probing. Invariant: count <= limit < capacity, so every probe ends. */
#include "cleaner/offset_map.h"

#include "base/err.h"
#include "base/mem.h"
#include "os/host.h"

enum { FIRST_BYTES = 1 << 20 };

static uint64_t home(const sdm_offset_map *m, struct sdm_hash128 h) {
  return (uint64_t)(((unsigned __int128)h.lo * m->capacity) >> 64);
}

static sdm_offset_slot *find(const sdm_offset_map *m, struct sdm_hash128 h) {
  for (uint64_t i = home(m, h);;) {
    sdm_offset_slot *s = &m->slots[i];
    if (s->offset == 0 || (s->lo == h.lo && s->hi == h.hi)) return s;
    if (++i == m->capacity) i = 0;
  }
}

static bool set_table(sdm_offset_map *m, size_t bytes) {
  uint64_t capacity = bytes / sizeof *m->slots;
  sdm_offset_slot *slots = sdm_pages_alloc(capacity * sizeof *slots);
  if (!slots) return false;
  m->slots = slots;
  m->capacity = capacity;
  m->limit = (uint64_t)((double)capacity * m->load);
  if (m->limit == 0) m->limit = 1;
  if (m->limit >= capacity) m->limit = capacity - 1;
  return true;
}

static size_t first_bytes(size_t budget) { return budget < 2 * (size_t)FIRST_BYTES ? budget : FIRST_BYTES; }

int sdm_offset_map_init(sdm_offset_map *m, size_t budget, double load_factor) {
  *m = (sdm_offset_map){.budget = budget, .load = load_factor};
  if (budget < SDM_OFFSET_MAP_LEAST) return sdm_fail(SDM_MISUSE, "an offset map of %zu bytes has no room for a key", budget);
  return set_table(m, first_bytes(budget)) ? 0 : sdm_no_memory();
}

void sdm_offset_map_free(sdm_offset_map *m) {
  sdm_pages_free(m->slots, m->capacity * sizeof *m->slots);
  *m = (sdm_offset_map){0};
}

/* To double, or to what the budget leaves beside the old table; not worth it when that is little more than now. */
static bool grow(sdm_offset_map *m) {
  sdm_offset_map old = *m;
  size_t bytes = old.capacity * sizeof *old.slots, left = m->budget - bytes, want = 2 * bytes;
  if (m->budget < bytes) return false;
  if (want > left) want = left;
  if (want < bytes + bytes / 8 || !set_table(m, want)) return false;
  for (uint64_t i = 0; i < old.capacity; i++) {
    const sdm_offset_slot *s = &old.slots[i];
    if (s->offset) *find(m, (struct sdm_hash128){s->lo, s->hi}) = *s;
  }
  sdm_pages_free(old.slots, bytes);
  return true;
}

void sdm_offset_map_prefetch(const sdm_offset_map *m, struct sdm_hash128 h) { __builtin_prefetch(&m->slots[home(m, h)], 1); }

/* A full map takes no record at all, one of a key that it has neither: where a pass ends is Kafka's, to the record. */
bool sdm_offset_map_put(sdm_offset_map *m, struct sdm_hash128 h, int64_t offset) {
  if (m->count >= m->limit && !grow(m)) return false;
  sdm_offset_slot *s = find(m, h);
  if (s->offset == 0) {
    s->lo = h.lo;
    s->hi = h.hi;
    m->count++;
  }
  s->offset = offset + 1;
  return true;
}

int64_t sdm_offset_map_get(const sdm_offset_map *m, struct sdm_hash128 h) { return find(m, h)->offset - 1; }
