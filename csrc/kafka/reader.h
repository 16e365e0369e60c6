/* Reading partitions without a group: each from an offset on, all of them through one queue that librdkafka fills from behind. */
#ifndef SDM_KAFKA_READER_H
#define SDM_KAFKA_READER_H

#include "kafka/client.h"
#include "kafka/record.h"

/* What a look for the next record has found, beside failures. */
typedef enum sdk_found {
  SDK_NOTHING,                            /* none came in time */
  SDK_RECORD,
  SDK_END,                                /* a partition has been read up to what its leader takes for its end: see sdk_reader_end */
  SDK_ASSIGNED                            /* of a group: other partitions are ours now */
} sdk_found;

typedef struct sdk_reader sdk_reader;

int sdk_reader_new(sdk_client *c, bool uncommitted, sdk_reader **out);
void sdk_reader_free(sdk_reader *r);      /* NULL is fine */

/* Reads a partition from the offset on, also one that is being read already or was paused. SDM_UNKNOWN_TOPIC and the like come later, from next. */
int sdk_reader_start(sdk_reader *r, const char *topic, int32_t partition, int64_t from);
int sdk_reader_stop(sdk_reader *r, const char *topic, int32_t partition);     /* leaves it out until it is started again */

/* A value of sdk_found, after timeout_ms at most. Of SDK_RECORD and SDK_END, *out tells: until the next call, and of an end the topic, the partition
** and the offset that comes next. Of a failure as well, if it is one partition's; else its topic is NULL. SDM_OFFSET_OUT_OF_RANGE, SDM_UNKNOWN_TOPIC, SDM_UNKNOWN_PARTITION,
** SDM_CORRUPT. A connection that is lost is no failure: the reader goes on when it is back. */
int sdk_reader_next(sdk_reader *r, int timeout_ms, sdk_record *out);

/* Where reading a partition ends: the log end, or where a transaction that is open begins. A leader that has just come back may tell an SDK_END too
** early; this it tells when it knows. SDM_UNKNOWN_TOPIC, SDM_UNKNOWN_PARTITION. */
int sdk_reader_end(sdk_reader *r, const char *topic, int32_t partition, int timeout_ms, int64_t *end);

#endif
