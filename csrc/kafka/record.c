#include "kafka/record.h"

#include <limits.h>

#include "base/mem.h"
#include "kafka/inner.h"

/* sdk_headers is librdkafka's rd_kafka_headers_t under a name of ours. */
static const rd_kafka_headers_t *theirs(const sdk_headers *headers) { return (const rd_kafka_headers_t *)headers; }

size_t sdk_header_count(const sdk_headers *headers) {
  return headers ? rd_kafka_header_cnt(theirs(headers)) : 0;
}

bool sdk_header_at(const sdk_headers *headers, size_t i, sdk_header *out) {
  size_t size;
  if (rd_kafka_header_get_all(theirs(headers), i, &out->name, &out->value, &size)) return false;
  out->value_size = out->value ? (int64_t)size : -1;
  return true;
}

sdk_headers *sdk_headers_new(size_t count) {
  return (sdk_headers *)rd_kafka_headers_new(count < INT_MAX ? count : INT_MAX);
}

void sdk_headers_free(sdk_headers *headers) {
  if (headers) rd_kafka_headers_destroy((rd_kafka_headers_t *)headers);
}

int sdk_headers_add(sdk_headers *headers, const void *name, int32_t name_size, const void *value, int32_t value_size) {
  const void *bytes = value_size < 0 ? NULL : value_size == 0 ? "" : value;
  rd_kafka_resp_err_t err = rd_kafka_header_add((rd_kafka_headers_t *)headers, name_size ? name : "", name_size, bytes, value_size < 0 ? 0 : value_size);
  return err ? sdm_no_memory() : 0;
}

void sdk_record_of(const rd_kafka_message_t *m, sdk_record *out) {
  rd_kafka_timestamp_type_t type;
  rd_kafka_headers_t *headers = NULL;
  rd_kafka_message_headers(m, &headers);
  out->topic = m->rkt ? rd_kafka_topic_name(m->rkt) : "";
  out->partition = m->partition;
  out->offset = m->offset;
  out->timestamp = rd_kafka_message_timestamp(m, &type);
  out->key = m->key;
  out->value = m->payload;
  out->key_size = m->key ? (int64_t)m->key_len : -1;
  out->value_size = m->payload ? (int64_t)m->len : -1;
  out->headers = (const sdk_headers *)headers;
}
