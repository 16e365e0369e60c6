/* Entries of the offset index (8 bytes) and of the time index (12 bytes): docs/format.md 2. No I/O. */
#ifndef SDM_FORMAT_INDEX_H
#define SDM_FORMAT_INDEX_H

#include <stddef.h>
#include <stdint.h>

#define SDM_INDEX_ENTRY 8
#define SDM_TIMEINDEX_ENTRY 12

typedef struct sdm_index_entry {
  int64_t offset;       /* last offset of a batch, absolute */
  int64_t position;     /* where in the .log that batch begins */
} sdm_index_entry;

typedef struct sdm_timeindex_entry {
  int64_t timestamp;    /* the largest so far in the segment */
  int64_t offset;       /* last offset of the batch that reached it, absolute */
} sdm_timeindex_entry;

void sdm_index_encode(uint8_t *p, const sdm_index_entry *e, int64_t base_offset);
void sdm_index_decode(const uint8_t *p, int64_t base_offset, sdm_index_entry *out);
void sdm_timeindex_encode(uint8_t *p, const sdm_timeindex_entry *e, int64_t base_offset);
void sdm_timeindex_decode(const uint8_t *p, int64_t base_offset, sdm_timeindex_entry *out);

/* Index of the last of `count` entries at p that is <= the target (by offset, by timestamp), or -1. Binary search. */
ptrdiff_t sdm_index_floor(const uint8_t *p, size_t count, int64_t base_offset, int64_t offset);
ptrdiff_t sdm_timeindex_floor(const uint8_t *p, size_t count, int64_t timestamp);

/* Whether a whole index may be trusted at a glance: size a multiple of the entry size, first entry not before the base, entries not
** padding (a preallocated index of a killed process looks full), last one inside a log of log_size bytes that ends before next_offset.
** 0, or SDM_CORRUPT with the reason. An empty index is fine. */
int sdm_index_check(const uint8_t *p, size_t size, int64_t base_offset, int64_t next_offset, int64_t log_size);
int sdm_timeindex_check(const uint8_t *p, size_t size, int64_t base_offset, int64_t next_offset);

#endif
