/* What a cluster knows of its topics: their names, how many partitions they have, where those begin and end. */
#ifndef SDM_KAFKA_LOOKUP_H
#define SDM_KAFKA_LOOKUP_H

#include "kafka/client.h"

/* Names of the topics, sorted; *names is one allocation, to be freed with sdm_free. */
int sdk_topics(sdk_client *c, int timeout_ms, char ***names, size_t *count);

/* SDM_UNKNOWN_TOPIC. With `led` also SDM_UNAVAILABLE while any partition is without a leader. */
int sdk_partitions(sdk_client *c, const char *topic, bool led, int timeout_ms, int32_t *count);

/* The log start offset, and the next one to be written that every replica in sync has. SDM_UNKNOWN_TOPIC, SDM_UNKNOWN_PARTITION. */
int sdk_bounds(sdk_client *c, const char *topic, int32_t partition, int timeout_ms, int64_t *start, int64_t *end);

/* 1: the first record with this timestamp or a later one has *offset; 0: there is none. SDM_UNKNOWN_TOPIC, SDM_UNKNOWN_PARTITION. */
int sdk_offset_for_time(sdk_client *c, const char *topic, int32_t partition, int64_t ms, int timeout_ms, int64_t *offset);

#endif
