#include "kafka/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kafka/inner.h"

/* ---- topics ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The pointers and the texts behind them, in one allocation. */
static char **names_of(const struct rd_kafka_metadata *m) {
  size_t count = (size_t)m->topic_cnt, bytes = (count + 1) * sizeof(char *);
  for (size_t i = 0; i < count; i++) bytes += strlen(m->topics[i].topic) + 1;
  char **names = sdm_malloc(bytes), *p = (char *)(names + count + 1);
  for (size_t i = 0; names && i < count; i++) {
    size_t size = strlen(m->topics[i].topic) + 1;
    names[i] = memcpy(p, m->topics[i].topic, size);
    p += size;
  }
  return names;
}

int sdk_topics(sdk_client *c, int timeout_ms, char ***names, size_t *count) {
  const struct rd_kafka_metadata *m;
  rd_kafka_resp_err_t err = rd_kafka_metadata(c->asking, 1, NULL, &m, timeout_ms);
  rd_kafka_poll(c->asking, 0);
  if (err) return sdk_fail(c, err, NULL, "list the topics");
  char **list = names_of(m);
  size_t n = (size_t)m->topic_cnt;
  rd_kafka_metadata_destroy(m);
  if (!list) return sdm_no_memory();
  qsort(list, n, sizeof *list, by_name);
  *names = list;
  *count = n;
  return sdk_well(c);
}

/* ---- partitions ---- */

static int unknown_topic(const char *topic) { return sdm_fail(SDM_UNKNOWN_TOPIC, "there is no topic '%s'", topic); }

static int count_partitions(sdk_client *c, const char *topic, bool led, const struct rd_kafka_metadata *m, int32_t *count) {
  if (m->topic_cnt < 1) return unknown_topic(topic);
  const struct rd_kafka_metadata_topic *t = &m->topics[0];
  if (t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART) return unknown_topic(topic);
  if (t->err == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION) return sdm_fail(SDM_MISUSE, "topic '%.300s': a name has 1 to 249 of a-z A-Z 0-9 . _ -", topic);
  if (t->err && t->err != RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) return sdk_fail(c, t->err, NULL, "topic '%s'", topic);
  for (int i = 0; led && i < t->partition_cnt; i++) {
    if (t->partitions[i].leader < 0) return sdk_fail(c, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, NULL, "%s-%d", topic, (int)t->partitions[i].id);
  }
  if (t->partition_cnt == 0) return sdk_fail(c, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, NULL, "topic '%s'", topic);
  *count = t->partition_cnt;
  return sdk_well(c);
}

static int judge_replicas(const char *what, const char *topic, int32_t partition, const struct rd_kafka_metadata *m) {
  for (int i = 0; m->topic_cnt == 1 && i < m->topics[0].partition_cnt; i++) {
    const struct rd_kafka_metadata_partition *p = &m->topics[0].partitions[i];
    if (p->id != partition) continue;
    if (p->leader < 0) return sdm_fail(SDM_UNAVAILABLE, "%s%s-%d: it has no leader", what, topic, (int)partition);
    if (p->isr_cnt >= p->replica_cnt) return 0;
    return sdm_fail(SDM_UNAVAILABLE, "%s%s-%d: not taken in time; %d of %d replicas are in sync", what, topic, (int)partition, p->isr_cnt, p->replica_cnt);
  }
  return 0;
}

int sdk_fail_by_replicas(sdk_client *c, const char *what, const char *topic, int32_t partition, int timeout_ms) {
  const struct rd_kafka_metadata *m;
  rd_kafka_topic_t *rkt = rd_kafka_topic_new(c->asking, topic, NULL);
  rd_kafka_resp_err_t err = rkt ? rd_kafka_metadata(c->asking, 0, rkt, &m, timeout_ms) : RD_KAFKA_RESP_ERR__FAIL;
  if (rkt) rd_kafka_topic_destroy(rkt);
  if (err) return 0;
  int rc = judge_replicas(what, topic, partition, m);
  rd_kafka_metadata_destroy(m);
  return rc;
}

int sdk_partitions(sdk_client *c, const char *topic, bool led, int timeout_ms, int32_t *count) {
  const struct rd_kafka_metadata *m;
  rd_kafka_topic_t *rkt = rd_kafka_topic_new(c->asking, topic, NULL);
  if (!rkt) return sdm_fail(SDM_MISUSE, "topic '%.300s': a name has 1 to 249 of a-z A-Z 0-9 . _ -", topic);
  rd_kafka_resp_err_t err = rd_kafka_metadata(c->asking, 0, rkt, &m, timeout_ms);
  rd_kafka_topic_destroy(rkt);
  rd_kafka_poll(c->asking, 0);
  if (err) return sdk_fail(c, err, NULL, "topic '%s'", topic);
  sdk_count_brokers(c, m);
  int rc = count_partitions(c, topic, led, m, count);
  rd_kafka_metadata_destroy(m);
  return rc;
}

/* ---- offsets ---- */

/* librdkafka and Kafka have one error for a missing topic and a missing partition of it, and for what is just being made or deleted. */
int sdk_fail_at(sdk_client *c, rd_kafka_resp_err_t err, const char *what, const char *topic, int32_t partition, int timeout_ms) {
  int32_t count;
  int code = sdk_code(err);
  if (code != SDM_UNKNOWN_TOPIC && code != SDM_UNKNOWN_PARTITION) {
    if (partition < 0) return sdk_fail(c, err, NULL, "%stopic '%s'", what, topic);
    return sdk_fail(c, err, NULL, "%s%s-%d", what, topic, (int)partition);
  }
  int rc = sdk_partitions(c, topic, false, timeout_ms, &count);
  if (rc < 0) return rc;
  if (partition < count) return sdm_fail(SDM_UNAVAILABLE, "%stopic '%s': it is just being made or changed; try again", what, topic);
  return sdm_fail(SDM_UNKNOWN_PARTITION, "topic '%s' has no partition %d; it has %d", topic, (int)partition, (int)count);
}

/* Asks for an offset by time, or by what Kafka has in place of one. rd_kafka_query_watermark_offsets would answer both ends at once, but waits for ever
** for a broker that stands still. When the time is over this one answers as if all were well, and leaves what it was given: by its error that is known.
** What librdkafka tells meanwhile comes by polling, but never of the handle of a member: its records are in the same queue, which rd_kafka_poll aborts at. */
static rd_kafka_resp_err_t ask(sdk_client *c, rd_kafka_t *rk, const char *topic, int32_t partition, int64_t time, int timeout_ms, int64_t *out) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_t *of = rd_kafka_topic_partition_list_add(list, topic, partition);
  of->offset = time;
  of->err = RD_KAFKA_RESP_ERR__IN_PROGRESS;
  rd_kafka_resp_err_t err = rd_kafka_offsets_for_times(rk, list, timeout_ms);
  if (!err) err = of->err;
  if (err == RD_KAFKA_RESP_ERR__IN_PROGRESS) err = RD_KAFKA_RESP_ERR__TIMED_OUT;
  *out = of->offset;
  rd_kafka_topic_partition_list_destroy(list);
  rd_kafka_poll(c->asking, 0);
  return err;
}

int sdk_bounds(sdk_client *c, const char *topic, int32_t partition, int timeout_ms, int64_t *start, int64_t *end) {
  int64_t low, high;
  rd_kafka_resp_err_t err = ask(c, c->asking, topic, partition, RD_KAFKA_OFFSET_BEGINNING, timeout_ms, &low);
  if (!err) err = ask(c, c->asking, topic, partition, RD_KAFKA_OFFSET_END, timeout_ms, &high);
  if (err) return sdk_fail_at(c, err, "", topic, partition, timeout_ms);
  *start = low;
  *end = high;
  return sdk_well(c);
}

int sdk_ask_end(sdk_client *c, rd_kafka_t *rk, const char *topic, int32_t partition, int timeout_ms, int64_t *end) {
  int64_t found;
  rd_kafka_resp_err_t err = ask(c, rk, topic, partition, RD_KAFKA_OFFSET_END, timeout_ms, &found);
  if (err) return sdk_fail_at(c, err, "", topic, partition, timeout_ms);
  *end = found;
  return sdk_well(c);
}

int sdk_offset_for_time(sdk_client *c, const char *topic, int32_t partition, int64_t ms, int timeout_ms, int64_t *offset) {
  int64_t found;                          /* times below 0 have another meaning to Kafka, and nothing is before 0 */
  rd_kafka_resp_err_t err = ask(c, c->asking, topic, partition, ms > 0 ? ms : 0, timeout_ms, &found);
  if (err) return sdk_fail_at(c, err, "", topic, partition, timeout_ms);
  sdk_well(c);
  if (found < 0) return 0;
  *offset = found;
  return 1;
}
