/* Appending: records that are sent, and the reports of their delivery. Acknowledged by all replicas in sync, and never twice in the log:
** librdkafka tries again with the same sequence numbers.
**
**     sdk_append_new, sdk_append_add for each record, sdk_append_poll until it is not 0, sdk_append_free
*/
#ifndef SDM_KAFKA_APPEND_H
#define SDM_KAFKA_APPEND_H

#include "kafka/client.h"
#include "kafka/record.h"

enum { SDK_ANY_PARTITION = -1 };          /* by the key; in turn without */

typedef struct sdk_append sdk_append;
typedef struct sdk_appended {
  int64_t first, last;                    /* offsets */
  int32_t partition;                      /* of the last */
} sdk_appended;

int32_t sdk_next_partition(sdk_client *c, int32_t partitions);                /* in turn, of so many */

/* codec: 0 to 4, none gzip snappy lz4 zstd. SDM_UNSUPPORTED: one that librdkafka was built without. */
int sdk_append_new(sdk_client *c, const char *topic, int codec, sdk_append **out);

/* SDM_UNSUPPORTED (0, which librdkafka takes for now), SDM_INVALID_TIMESTAMP: what sdk_append_add would say. */
int sdk_check_timestamp(int64_t ms);

/* Hands a record over; its bytes are copied, its headers taken, also on failure. Of it, key, value, timestamp, headers and partition count.
** Waits while too many records are under way. SDM_UNKNOWN_TOPIC, SDM_UNKNOWN_PARTITION, SDM_TOO_LARGE, SDM_TIMEOUT, SDM_UNAVAILABLE, and
** as sdk_check_timestamp. */
int sdk_append_add(sdk_append *a, const sdk_record *record);

/* 1: all that were added are in the log; 0: not yet, after slice_ms. A failure is the first of them, when none is under way any more; its message
** tells whether the record may be in the log. As sdk_append_add, and SDM_INVALID_RECORD, SDM_INVALID_TIMESTAMP. */
int sdk_append_poll(sdk_append *a, int slice_ms, sdk_appended *out);

/* Records that are under way stay so. */
void sdk_append_free(sdk_append *a);

#endif
