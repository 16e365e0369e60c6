/* Key -> latest offset, inside a byte budget: what a cleaning pass knows of the dirty part. Keys are told apart by their 128-bit hash (XXH3), as
** Kafka does with MD5; 24 bytes a slot. The table grows by doubling as long as old and new fit the budget together, so its memory never exceeds it.
*/
#ifndef SDM_CLEANER_OFFSET_MAP_H
#define SDM_CLEANER_OFFSET_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xxh.h"

typedef struct sdm_offset_slot {
  uint64_t lo, hi;
  int64_t offset;                        /* + 1, so that zeroed memory is empty */
} sdm_offset_slot;

typedef struct sdm_offset_map {
  sdm_offset_slot *slots;
  uint64_t capacity, count, limit;       /* limit: keys that fit before it grows or is full */
  size_t budget;                         /* bytes */
  double load;
} sdm_offset_map;

enum { SDM_OFFSET_MAP_LEAST = 2 * sizeof(sdm_offset_slot) };       /* bytes that a key needs */

/* There is room for one key at least, whatever the load factor. */
int sdm_offset_map_init(sdm_offset_map *m, size_t budget, double load_factor);
void sdm_offset_map_free(sdm_offset_map *m);

/* Brings the key's slot into the cache ahead of its use. */
void sdm_offset_map_prefetch(const sdm_offset_map *m, struct sdm_hash128 h);

/* Notes that the key was last seen at `offset`. False: the map is full and does not know the key; nothing was noted. */
bool sdm_offset_map_put(sdm_offset_map *m, struct sdm_hash128 h, int64_t offset);

int64_t sdm_offset_map_get(const sdm_offset_map *m, struct sdm_hash128 h);   /* -1: not there */

#endif
