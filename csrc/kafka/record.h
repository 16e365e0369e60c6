/* Records as they go to a cluster and come from it. */
#ifndef SDM_KAFKA_RECORD_H
#define SDM_KAFKA_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sdk_headers sdk_headers;   /* of a record; librdkafka's */

typedef struct sdk_header {
  const char *name;
  const void *value;
  int64_t value_size;                     /* -1: null */
} sdk_header;

typedef struct sdk_record {
  const char *topic;
  int32_t partition;
  int64_t offset;
  int64_t timestamp;                      /* -1: none */
  const void *key, *value;
  int64_t key_size, value_size;           /* -1: null */
  const sdk_headers *headers;             /* NULL: none */
} sdk_record;

size_t sdk_header_count(const sdk_headers *headers);
bool sdk_header_at(const sdk_headers *headers, size_t i, sdk_header *out);

/* For a record that is to be sent. NULL: memory is short. */
sdk_headers *sdk_headers_new(size_t count);
void sdk_headers_free(sdk_headers *headers);
int sdk_headers_add(sdk_headers *headers, const void *name, int32_t name_size, const void *value, int32_t value_size);

#endif
