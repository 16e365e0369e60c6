/* Requests, and those about topics and their configs. */
#include "kafka/admin.h"

#include <stdio.h>

#include "base/mem.h"
#include "kafka/request.h"

enum { TEXT = 300 };

/* ---- requests ---- */

int sdk_request_new(sdk_client *c, rd_kafka_admin_op_t op, int (*judge)(sdk_request *), const char *what, const char *of, sdk_request **out) {
  char text[TEXT];
  sdk_request *r = sdm_calloc(1, sizeof *r);
  if (!r) return sdm_no_memory();
  sdk_client_hold(c);
  r->client = c;
  r->next = c->requests;
  if (r->next) r->next->previous = r;
  c->requests = r;
  r->judge = judge;
  snprintf(r->what, sizeof r->what, "%s '%.250s'", what, of);
  r->queue = rd_kafka_queue_new(c->asking);
  r->options = rd_kafka_AdminOptions_new(c->asking, op);
  if (r->queue && r->options) {
    rd_kafka_AdminOptions_set_request_timeout(r->options, (int)c->timeout_ms, text, sizeof text);
    *out = r;
    return 0;
  }
  sdk_request_free(r);
  return sdm_no_memory();
}

int sdk_request_poll(sdk_request *r, int slice_ms) {
  if (!r->queue) return sdm_fail(SDM_CLOSED, "the store is closed");
  if (!r->event) r->event = rd_kafka_queue_poll(r->queue, slice_ms);
  rd_kafka_poll(r->client->asking, 0);
  if (!r->event) return 0;
  rd_kafka_resp_err_t err = rd_kafka_event_error(r->event);
  if (err) return sdk_fail(r->client, err, rd_kafka_event_error_string(r->event), "%s", r->what);
  sdk_well(r->client);
  int rc = r->judge(r);
  return rc < 0 ? rc : 1;
}

int sdk_request_give_up(sdk_request *r) { return sdk_fail(r->client, RD_KAFKA_RESP_ERR__TIMED_OUT, NULL, "%s", r->what); }

static void end(sdk_request *r) {
  if (r->event) rd_kafka_event_destroy(r->event);
  if (r->options) rd_kafka_AdminOptions_destroy(r->options);
  if (r->queue) rd_kafka_queue_destroy(r->queue);
  r->event = NULL;
  r->options = NULL;
  r->queue = NULL;
}

void sdk_requests_end(sdk_client *c) {
  for (sdk_request *r = c->requests; r; r = r->next) end(r);
}

void sdk_request_free(sdk_request *r) {
  if (!r) return;
  end(r);
  if (r->previous) r->previous->next = r->next;
  else r->client->requests = r->next;
  if (r->next) r->next->previous = r->previous;
  sdk_client_release(r->client);
  sdm_free(r);
}

int sdk_judge_error(sdk_request *r, const rd_kafka_error_t *error) {
  return error ? sdk_fail(r->client, rd_kafka_error_code(error), rd_kafka_error_string(error), "%s", r->what) : 0;
}

/* ---- topics ---- */

static int judge_topics(sdk_request *r, const rd_kafka_topic_result_t **results, size_t count) {
  if (count < 1) return sdm_fail(SDM_IO, "%s: an answer without the topic", r->what);
  rd_kafka_resp_err_t err = rd_kafka_topic_result_error(results[0]);
  return err ? sdk_fail(r->client, err, rd_kafka_topic_result_error_string(results[0]), "%s", r->what) : 0;
}

static int judge_creation(sdk_request *r) {
  size_t n;
  const rd_kafka_topic_result_t **list = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(r->event), &n);
  return judge_topics(r, list, n);
}

static int judge_deletion(sdk_request *r) {
  size_t n;
  const rd_kafka_topic_result_t **list = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(r->event), &n);
  return judge_topics(r, list, n);
}

static int judge_growth(sdk_request *r) {
  size_t n;
  const rd_kafka_topic_result_t **list = rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(r->event), &n);
  return judge_topics(r, list, n);
}

int sdk_create_topic(sdk_client *c, const char *topic, int32_t partitions, int32_t replication, const sdk_setting *configs, size_t count, sdk_request **out) {
  char text[TEXT];
  sdk_request *r;
  rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, replication, text, sizeof text);
  if (!wanted) return sdm_fail(SDM_MISUSE, "make topic '%.250s': %s", topic, text);
  for (size_t i = 0; i < count; i++) rd_kafka_NewTopic_set_config(wanted, configs[i].name, configs[i].value);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_CREATETOPICS, judge_creation, "make topic", topic, &r);
  if (rc == 0) {
    rd_kafka_CreateTopics(c->asking, &wanted, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_NewTopic_destroy(wanted);
  return rc;
}

int sdk_delete_topic(sdk_client *c, const char *topic, sdk_request **out) {
  sdk_request *r;
  rd_kafka_DeleteTopic_t *unwanted = rd_kafka_DeleteTopic_new(topic);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_DELETETOPICS, judge_deletion, "delete topic", topic, &r);
  if (rc == 0) {
    rd_kafka_DeleteTopics(c->asking, &unwanted, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_DeleteTopic_destroy(unwanted);
  return rc;
}

int sdk_grow_topic(sdk_client *c, const char *topic, int32_t partitions, sdk_request **out) {
  char text[TEXT];
  sdk_request *r;
  rd_kafka_NewPartitions_t *more = rd_kafka_NewPartitions_new(topic, (size_t)partitions, text, sizeof text);
  if (!more) return sdm_fail(SDM_MISUSE, "more partitions for topic '%.250s': %s", topic, text);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_CREATEPARTITIONS, judge_growth, "more partitions for topic", topic, &r);
  if (rc == 0) {
    rd_kafka_CreatePartitions(c->asking, &more, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_NewPartitions_destroy(more);
  return rc;
}

/* ---- records ---- */

static const rd_kafka_topic_partition_t *deleted_from(const sdk_request *r) {
  const rd_kafka_topic_partition_list_t *list = rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(r->event));
  return list->cnt > 0 ? &list->elems[0] : NULL;
}

static int judge_records(sdk_request *r) {
  const rd_kafka_topic_partition_t *of = deleted_from(r);
  if (!of) return sdm_fail(SDM_IO, "%s: an answer without the partition", r->what);
  return of->err ? sdk_fail(r->client, of->err, NULL, "%s", r->what) : 0;
}

int sdk_delete_records(sdk_client *c, const char *topic, int32_t partition, int64_t before, sdk_request **out) {
  sdk_request *r;
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, topic, partition)->offset = before;
  rd_kafka_DeleteRecords_t *unwanted = rd_kafka_DeleteRecords_new(list);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_DELETERECORDS, judge_records, "delete records of topic", topic, &r);
  if (rc == 0) {
    rd_kafka_DeleteRecords(c->asking, &unwanted, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_DeleteRecords_destroy(unwanted);
  rd_kafka_topic_partition_list_destroy(list);
  return rc;
}

int64_t sdk_deleted_up_to(const sdk_request *r) { return deleted_from(r)->offset; }

/* ---- configs ---- */

static int judge_resource(sdk_request *r, const rd_kafka_ConfigResource_t *of) {
  rd_kafka_resp_err_t err = rd_kafka_ConfigResource_error(of);
  return err ? sdk_fail(r->client, err, rd_kafka_ConfigResource_error_string(of), "%s", r->what) : 0;
}

static const rd_kafka_ConfigResource_t *described(const sdk_request *r) {
  size_t n;
  const rd_kafka_ConfigResource_t **list = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(r->event), &n);
  return n > 0 ? list[0] : NULL;
}

static int judge_description(sdk_request *r) {
  const rd_kafka_ConfigResource_t *of = described(r);
  return of ? judge_resource(r, of) : sdm_fail(SDM_IO, "%s: an answer without the topic", r->what);
}

int sdk_describe_topic(sdk_client *c, const char *topic, sdk_request **out) {
  sdk_request *r;
  rd_kafka_ConfigResource_t *of = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, judge_description, "describe topic", topic, &r);
  if (rc == 0) {
    rd_kafka_DescribeConfigs(c->asking, &of, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_ConfigResource_destroy(of);
  return rc;
}

static sdk_source source_of(const rd_kafka_ConfigEntry_t *e) {
  switch (rd_kafka_ConfigEntry_source(e)) {
    case RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG: return SDK_SOURCE_TOPIC;
    case RD_KAFKA_CONFIG_SOURCE_DYNAMIC_BROKER_CONFIG: case RD_KAFKA_CONFIG_SOURCE_DYNAMIC_DEFAULT_BROKER_CONFIG:
    case RD_KAFKA_CONFIG_SOURCE_STATIC_BROKER_CONFIG: return SDK_SOURCE_BROKER;
    default: return SDK_SOURCE_DEFAULT;
  }
}

bool sdk_config_at(const sdk_request *r, size_t i, sdk_config *out) {
  size_t n;
  const rd_kafka_ConfigEntry_t **list = rd_kafka_ConfigResource_configs(described(r), &n);
  if (i >= n) return false;
  out->name = rd_kafka_ConfigEntry_name(list[i]);
  out->value = rd_kafka_ConfigEntry_value(list[i]);
  out->source = source_of(list[i]);
  return true;
}

static int judge_alteration(sdk_request *r) {
  size_t n;
  const rd_kafka_ConfigResource_t **list = rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(r->event), &n);
  return n > 0 ? judge_resource(r, list[0]) : sdm_fail(SDM_IO, "%s: an answer without the topic", r->what);
}

int sdk_set_configs(sdk_client *c, const char *topic, const sdk_setting *configs, size_t count, sdk_request **out) {
  sdk_request *r;
  rd_kafka_ConfigResource_t *of = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
  for (size_t i = 0; i < count; i++) rd_kafka_ConfigResource_set_config(of, configs[i].name, configs[i].value);
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_ALTERCONFIGS, judge_alteration, "configure topic", topic, &r);
  if (rc == 0) {
    rd_kafka_AlterConfigs(c->asking, &of, 1, r->options, r->queue);
    *out = r;
  }
  rd_kafka_ConfigResource_destroy(of);
  return rc;
}
