/* Kafka's small text files: offset checkpoints, partition.metadata (docs/format.md 3). No I/O. */
#ifndef SDM_FORMAT_CHECKPOINT_H
#define SDM_FORMAT_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SDM_TOPIC_NAME_MAX 249

typedef struct sdm_checkpoint_entry {
  char topic[SDM_TOPIC_NAME_MAX + 1];
  int32_t partition;
  int64_t offset;
} sdm_checkpoint_entry;

/* topic-partition-offset checkpoints, as a growable array; zero-initialised is empty. */
typedef struct sdm_checkpoint {
  sdm_checkpoint_entry *entries;
  size_t count, capacity;
} sdm_checkpoint;

/* Reads the whole text. An empty text is no entries. SDM_CORRUPT (with line number) when it is malformed in any way: version other than 0,
** a count that does not match, a line of other than three fields, a number out of range, a NUL; SDM_NO_MEMORY. */
int sdm_checkpoint_decode(sdm_checkpoint *c, const char *text, size_t size);
int sdm_checkpoint_encode(const sdm_checkpoint *c, sdm_buf *out);
const sdm_checkpoint_entry *sdm_checkpoint_find(const sdm_checkpoint *c, const char *topic, int32_t partition);   /* NULL: not there */
int sdm_checkpoint_set(sdm_checkpoint *c, const char *topic, int32_t partition, int64_t offset);                   /* adds or changes */
void sdm_checkpoint_remove(sdm_checkpoint *c, const char *topic, int32_t first, int32_t end);                      /* those that are there, `end` is not of them */
void sdm_checkpoint_free(sdm_checkpoint *c);

/* partition.metadata. The id is 16 bytes; its text is 22 characters of URL-safe base64 without padding. */
typedef struct sdm_uuid { uint8_t bytes[16]; } sdm_uuid;
#define SDM_UUID_TEXT 22

void sdm_uuid_encode(const sdm_uuid *id, char text[SDM_UUID_TEXT + 1]);
int sdm_uuid_decode(sdm_uuid *id, const char *text, size_t size);                        /* SDM_CORRUPT; all zero is refused too */
int sdm_metadata_encode(sdm_buf *out, const sdm_uuid *topic_id);
int sdm_metadata_decode(sdm_uuid *topic_id, const char *text, size_t size);             /* SDM_CORRUPT: not version 0, no or bad id */

/* Splits the name of a partition's folder ("a-b-0") at its last dash. SDM_MISUSE when it is none. `topic` has room for
** SDM_TOPIC_NAME_MAX + 1 bytes. */
int sdm_partition_name_decode(const char *name, char *topic, int32_t *partition);

#endif
