/* The snapshot of a state table, `sediment.table-*`: where the table stood in each partition, and its keys and values (docs/format.md 14). No I/O.
**
** A value is what a Lua program made of a record: false, true, a whole number, a double, a string, or a table of these. Decoding never reads beyond the end that
** it is given, and what it has accepted can be gone through without another check.
*/
#ifndef SDM_FORMAT_SNAPSHOT_H
#define SDM_FORMAT_SNAPSHOT_H

#include <stdbool.h>

#include "format/checkpoint.h"

/* Parts of the file, in their order: the head, the entries, the index (a u64 a slot), the tail. */
#define SDM_SNAPSHOT_PREFIX "sediment.table-"

enum {
  SDM_SNAPSHOT_FIXED = 44,                 /* bytes of the head before the schema */
  SDM_SNAPSHOT_TAIL = 16,                  /* u64: 1 when a value has a whole number beyond 2^53; u64: the checksum */
  SDM_SNAPSHOT_BLOCK = 4096                /* the checksum is XXH3-64 of the XXH3-64, in big-endian, of each block of what is before it */
};

typedef struct sdm_snapshot_place {        /* of a table in one partition */
  int64_t position;                        /* next offset to read; -1: it has not read the partition */
  int64_t checked;                         /* below, no tombstone was missed */
  int64_t start;                           /* log start that it went by */
} sdm_snapshot_place;

typedef struct sdm_snapshot_head {
  sdm_uuid topic_id;
  const char *schema;
  uint32_t schema_size;
  uint32_t partitions;
  const uint8_t *places;                   /* encoded: sdm_snapshot_place_at */
  uint64_t count;                          /* keys */
  size_t size;                             /* bytes of it in the file */
} sdm_snapshot_head;

typedef struct sdm_snapshot_entry {
  const uint8_t *at;                       /* where it begins, and how many bytes it has */
  size_t size;
  int32_t partition;
  const uint8_t *key, *value;
  int32_t key_size;
  bool wide;                               /* a whole number in the value is beyond 2^53 */
} sdm_snapshot_entry;

int sdm_snapshot_head_encode(const sdm_snapshot_head *h, const sdm_snapshot_place *places, sdm_buf *out);
int sdm_snapshot_head_decode(const uint8_t *bytes, size_t size, sdm_snapshot_head *out);       /* SDM_CORRUPT; SDM_UNSUPPORTED: another version */
int sdm_snapshot_head_peek(const uint8_t *bytes, size_t size, uint64_t *head_size, uint64_t *count);       /* of its first SDM_SNAPSHOT_FIXED bytes; the same */
sdm_snapshot_place sdm_snapshot_place_at(const sdm_snapshot_head *h, uint32_t partition);      /* below h->partitions */

/* An entry up to its value, which is to follow. */
int sdm_snapshot_entry_begin(sdm_buf *out, int32_t partition, const void *key, int32_t key_size);

/* False: there is no whole entry at p. */
bool sdm_snapshot_entry_decode(const uint8_t *p, const uint8_t *end, sdm_snapshot_entry *out);

/* ---- the index: linear probing in more slots than there are keys ---- */

static inline uint64_t sdm_snapshot_slots(uint64_t count) { return count + count / 2 + 1; }
static inline uint64_t sdm_snapshot_home(uint64_t hash, uint64_t slots) { return (uint64_t)(((unsigned __int128)hash * slots) >> 64); }

/* What a slot holds: the position of the entry, and bits of its key's XXH3-64; 0: nothing. */
static inline uint64_t sdm_snapshot_slot(uint64_t position, uint64_t hash) { return position << 16 | (hash & 0xffff); }

/* ---- values ---- */

typedef enum sdm_saved_type {
  SDM_SAVED_FALSE, SDM_SAVED_TRUE, SDM_SAVED_WHOLE, SDM_SAVED_DOUBLE, SDM_SAVED_STRING,
  SDM_SAVED_TABLE,                         /* values of the keys 1, 2, ...; an end; keys and values in turn; an end */
  SDM_SAVED_END
} sdm_saved_type;

enum { SDM_SAVED_DEPTH = 100 };            /* tables in tables */

int sdm_saved_put(sdm_buf *out, sdm_saved_type type);                      /* what has no bytes of its own, and ends */
int sdm_saved_put_whole(sdm_buf *out, int64_t v);
int sdm_saved_put_double(sdm_buf *out, double v);
int sdm_saved_put_string(sdm_buf *out, const void *bytes, size_t size);    /* up to INT32_MAX */
double sdm_saved_get_double(const uint8_t *p);

#endif
