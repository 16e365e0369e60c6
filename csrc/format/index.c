/* Offset and time index entries. The files carry no checksum, so nothing here trusts an entry: a search over nonsense answers nonsense
** within bounds, and the caller holds what it finds against the log.
*/
#include "format/index.h"

#include "base/bytes.h"
#include "base/err.h"

static int32_t get_relative(const uint8_t *p) {
  return (int32_t)sdm_get32(p);
}

static int64_t add(int64_t base_offset, int32_t relative) {
  return (int64_t)((uint64_t)base_offset + (uint64_t)(int64_t)relative);
}

void sdm_index_encode(uint8_t *p, const sdm_index_entry *e, int64_t base_offset) {
  sdm_put32(p, (uint32_t)(e->offset - base_offset));
  sdm_put32(p + 4, (uint32_t)e->position);
}

void sdm_index_decode(const uint8_t *p, int64_t base_offset, sdm_index_entry *out) {
  out->offset = add(base_offset, get_relative(p));
  out->position = get_relative(p + 4);
}

void sdm_timeindex_encode(uint8_t *p, const sdm_timeindex_entry *e, int64_t base_offset) {
  sdm_put64(p, (uint64_t)e->timestamp);
  sdm_put32(p + 8, (uint32_t)(e->offset - base_offset));
}

void sdm_timeindex_decode(const uint8_t *p, int64_t base_offset, sdm_timeindex_entry *out) {
  out->timestamp = (int64_t)sdm_get64(p);
  out->offset = add(base_offset, get_relative(p + 8));
}

ptrdiff_t sdm_index_floor(const uint8_t *p, size_t count, int64_t base_offset, int64_t offset) {
  size_t low = 0;   /* entries below it are <= the target, those from `count` on are above */
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if (add(base_offset, get_relative(p + middle * SDM_INDEX_ENTRY)) <= offset) low = middle + 1;
    else count = middle;
  }
  return (ptrdiff_t)low - 1;
}

ptrdiff_t sdm_timeindex_floor(const uint8_t *p, size_t count, int64_t timestamp) {
  size_t low = 0;
  while (low < count) {
    size_t middle = low + (count - low) / 2;
    if ((int64_t)sdm_get64(p + middle * SDM_TIMEINDEX_ENTRY) <= timestamp) low = middle + 1;
    else count = middle;
  }
  return (ptrdiff_t)low - 1;
}

static int check_size(const char *what, size_t size, size_t entry) {
  if (size % entry == 0) return 0;
  return sdm_fail(SDM_CORRUPT, "%s: %zu bytes are not a whole number of entries", what, size);
}

static int check_offsets(const char *what, int64_t first, int64_t last, int64_t base_offset, int64_t next_offset) {
  if (first >= base_offset && last < next_offset) return 0;
  return sdm_fail(SDM_CORRUPT, "%s: entries from offset %lld to %lld in a segment from %lld to before %lld", what, (long long)first,
                  (long long)last, (long long)base_offset, (long long)next_offset);
}

/* A position of 0 is what padding has: the first batch of a segment never gets an entry. */
int sdm_index_check(const uint8_t *p, size_t size, int64_t base_offset, int64_t next_offset, int64_t log_size) {
  sdm_index_entry first, last;
  int rc = check_size("offset index", size, SDM_INDEX_ENTRY);
  if (rc < 0 || size == 0) return rc;
  sdm_index_decode(p, base_offset, &first);
  sdm_index_decode(p + size - SDM_INDEX_ENTRY, base_offset, &last);
  if (last.position <= 0) return sdm_fail(SDM_CORRUPT, "offset index: its last entry is padding");
  if (size > SDM_INDEX_ENTRY && (last.offset <= first.offset || last.position <= first.position)) {
    return sdm_fail(SDM_CORRUPT, "offset index: entries do not ascend from offset %lld at %lld to offset %lld at %lld",
                    (long long)first.offset, (long long)first.position, (long long)last.offset, (long long)last.position);
  }
  if (first.position <= 0 || last.position >= log_size) {
    return sdm_fail(SDM_CORRUPT, "offset index: positions from %lld to %lld in a log of %lld bytes", (long long)first.position,
                    (long long)last.position, (long long)log_size);
  }
  return check_offsets("offset index", first.offset, last.offset, base_offset, next_offset);
}

int sdm_timeindex_check(const uint8_t *p, size_t size, int64_t base_offset, int64_t next_offset) {
  sdm_timeindex_entry first, last;
  int rc = check_size("time index", size, SDM_TIMEINDEX_ENTRY);
  if (rc < 0 || size == 0) return rc;
  sdm_timeindex_decode(p, base_offset, &first);
  sdm_timeindex_decode(p + size - SDM_TIMEINDEX_ENTRY, base_offset, &last);
  if (first.timestamp < 0) return sdm_fail(SDM_CORRUPT, "time index: its first timestamp is %lld", (long long)first.timestamp);
  if (size > SDM_TIMEINDEX_ENTRY && (last.timestamp <= first.timestamp || last.offset < first.offset)) {
    return sdm_fail(SDM_CORRUPT, "time index: entries do not ascend from %lld at offset %lld to %lld at offset %lld",
                    (long long)first.timestamp, (long long)first.offset, (long long)last.timestamp, (long long)last.offset);
  }
  return check_offsets("time index", first.offset, last.offset, base_offset, next_offset);
}
