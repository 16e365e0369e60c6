#include "cleaner/versions.h"

#include "base/err.h"
#include "base/mem.h"

/* Of the budget: the counts, and a slot of the map, which needs room for its old table as it grows. */
enum { A_KEY = 3 * sizeof(sdm_offset_slot) / 2 + sizeof(sdm_key_versions) };

int sdm_versions_init(sdm_versions *v, size_t budget, double load_factor) {
  *v = (sdm_versions){.limit = budget / A_KEY + 1};
  size_t map = budget - budget / A_KEY * sizeof(sdm_key_versions);
  return sdm_offset_map_init(&v->map, map < SDM_OFFSET_MAP_LEAST ? SDM_OFFSET_MAP_LEAST : map, load_factor);
}

void sdm_versions_free(sdm_versions *v) {
  sdm_offset_map_free(&v->map);
  sdm_free(v->keys);
  *v = (sdm_versions){0};
}

static int too_many(const sdm_versions *v) {
  return sdm_fail(SDM_POLICY, "there are more than %zu keys; where a policy script is asked, log.cleaner.dedupe.buffer.size has no room for them: raise it", v->count);
}

static struct sdm_hash128 hash_of(const sdm_record *r) { return sdm_hash128(r->key, (size_t)r->key_size); }

static int add(sdm_versions *v, const sdm_record *r, sdm_key_versions **out) {
  if (v->count >= v->limit) return too_many(v);
  sdm_key_versions *keys = sdm_grown(v->keys, v->count, &v->capacity, sizeof *keys);
  if (!keys) return sdm_no_memory();
  v->keys = keys;
  if (!sdm_offset_map_put(&v->map, hash_of(r), (int64_t)v->count)) return too_many(v);
  *out = &keys[v->count++];
  **out = (sdm_key_versions){0};
  return 0;
}

sdm_key_versions *sdm_versions_find(const sdm_versions *v, const sdm_record *r) {
  int64_t i = sdm_offset_map_get(&v->map, hash_of(r));
  return i < 0 ? NULL : &v->keys[i];
}

int sdm_versions_count(sdm_versions *v, const sdm_record *r, bool closed) {
  sdm_key_versions *k = sdm_versions_find(v, r);
  int rc = k ? 0 : add(v, r, &k);
  if (rc < 0) return rc;
  k->offset = r->offset;
  k->timestamp = r->timestamp;
  k->tombstone = r->value_size < 0;
  k->bytes += (int64_t)r->key_size + (r->value_size > 0 ? r->value_size : 0);
  k->records++;
  k->closed += closed;
  return 0;
}

void sdm_versions_restart(sdm_versions *v) {
  for (size_t i = 0; i < v->count; i++) {
    v->keys[i].met = 0;
    v->keys[i].older_stays = false;
  }
}

bool sdm_versions_next(sdm_key_versions *k) {
  k->met++;
  return (int64_t)(k->closed - k->met) >= k->keeps;
}
