/* A reader has a handle of librdkafka to itself, since one handle reads a partition once: it takes an idle one of the client, and leaves it there.
** A message that was fetched before its partition was stopped, or started elsewhere, does not come any more: librdkafka sees to that.
*/
#include "kafka/reader.h"

#include <string.h>

#include "base/mem.h"
#include "kafka/inner.h"

typedef struct part {
  rd_kafka_topic_t *topic;
  int32_t partition;
  bool running;
} part;

struct sdk_reader {
  sdk_client *client;
  rd_kafka_t *rk;
  rd_kafka_queue_t *queue;
  rd_kafka_message_t *message;            /* that was found last */
  bool uncommitted;
  part *parts;
  size_t count, capacity;
};

/* ---- handles ---- */

static int take_handle(sdk_client *c, bool uncommitted, rd_kafka_t **out) {
  const sdk_setting extra[] = {
    { "isolation.level", uncommitted ? "read_uncommitted" : "read_committed" }, { "enable.partition.eof", "true" },
    { "auto.offset.reset", "error" }, { "enable.auto.commit", "false" }, { NULL, NULL },
  };
  for (int i = 0; i < SDK_IDLE_MAX; i++) {
    rd_kafka_t **idle = &c->idle[uncommitted][i];
    if (!*idle) continue;
    *out = *idle;
    *idle = NULL;
    return 0;
  }
  return sdk_handle_new(c, RD_KAFKA_CONSUMER, NULL, extra, out);
}

static void leave_handle(sdk_client *c, bool uncommitted, rd_kafka_t *rk) {
  for (int i = 0; !c->closed && i < SDK_IDLE_MAX; i++) {
    if (c->idle[uncommitted][i]) continue;
    c->idle[uncommitted][i] = rk;
    return;
  }
  rd_kafka_destroy(rk);
}

int sdk_reader_new(sdk_client *c, bool uncommitted, sdk_reader **out) {
  sdk_reader *r = sdm_calloc(1, sizeof *r);
  if (!r) return sdm_no_memory();
  int rc = take_handle(c, uncommitted, &r->rk);
  if (rc < 0) {
    sdm_free(r);
    return rc;
  }
  sdk_client_hold(c);
  r->client = c;
  r->uncommitted = uncommitted;
  r->queue = rd_kafka_queue_new(r->rk);
  *out = r;
  return 0;
}

static void let_go_of_message(sdk_reader *r) {
  if (r->message) rd_kafka_message_destroy(r->message);
  r->message = NULL;
}

void sdk_reader_free(sdk_reader *r) {
  if (!r) return;
  let_go_of_message(r);
  for (size_t i = 0; i < r->count; i++) {
    if (r->parts[i].running) rd_kafka_consume_stop(r->parts[i].topic, r->parts[i].partition);
    rd_kafka_topic_destroy(r->parts[i].topic);
  }
  rd_kafka_queue_destroy(r->queue);
  leave_handle(r->client, r->uncommitted, r->rk);
  sdk_client_release(r->client);
  sdm_free(r->parts);
  sdm_free(r);
}

/* ---- partitions ---- */

static part *find(sdk_reader *r, const char *topic, int32_t partition) {
  for (size_t i = 0; i < r->count; i++) {
    if (r->parts[i].partition == partition && strcmp(rd_kafka_topic_name(r->parts[i].topic), topic) == 0) return &r->parts[i];
  }
  return NULL;
}

static int add(sdk_reader *r, const char *topic, int32_t partition, part **out) {
  part *grown = sdm_grown(r->parts, r->count, &r->capacity, sizeof *grown);
  if (!grown) return sdm_no_memory();
  r->parts = grown;
  rd_kafka_topic_t *rkt = rd_kafka_topic_new(r->rk, topic, NULL);
  if (!rkt) return sdm_fail(SDM_MISUSE, "topic '%.300s': a name has 1 to 249 of a-z A-Z 0-9 . _ -", topic);
  r->parts[r->count] = (part){ rkt, partition, false };
  *out = &r->parts[r->count++];
  return 0;
}

static void stop(part *p) {
  if (p->running) rd_kafka_consume_stop(p->topic, p->partition);
  p->running = false;
}

int sdk_reader_start(sdk_reader *r, const char *topic, int32_t partition, int64_t from) {
  part *p = find(r, topic, partition);
  int rc = p ? 0 : add(r, topic, partition, &p);
  if (rc < 0) return rc;
  stop(p);
  if (rd_kafka_consume_start_queue(p->topic, p->partition, from, r->queue) < 0) {
    return sdk_fail(r->client, rd_kafka_last_error(), NULL, "read %s-%d", topic, (int)partition);
  }
  p->running = true;
  return 0;
}

int sdk_reader_stop(sdk_reader *r, const char *topic, int32_t partition) {
  part *p = find(r, topic, partition);
  if (p) stop(p);
  return 0;
}

/* ---- records ---- */

static int judge(sdk_reader *r, const rd_kafka_message_t *m, const sdk_record *of) {
  if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return SDK_END;
  if (sdk_passes(m->err) || m->err == RD_KAFKA_RESP_ERR__TIMED_OUT) return SDK_NOTHING;
  return sdk_fail(r->client, m->err, rd_kafka_message_errstr(m), "read %s-%d", of->topic, (int)of->partition);
}

int sdk_reader_next(sdk_reader *r, int timeout_ms, sdk_record *out) {
  let_go_of_message(r);
  rd_kafka_message_t *m = r->message = rd_kafka_consume_queue(r->queue, 0);
  if (!m) {
    rd_kafka_poll(r->rk, 0);
    m = r->message = timeout_ms > 0 ? rd_kafka_consume_queue(r->queue, timeout_ms) : NULL;
  }
  out->topic = NULL;
  if (!m) return SDK_NOTHING;
  if (m->rkt) sdk_record_of(m, out);
  if (m->err) return judge(r, m, out);
  sdk_well(r->client);
  return SDK_RECORD;
}

int sdk_reader_end(sdk_reader *r, const char *topic, int32_t partition, int timeout_ms, int64_t *end) {
  return sdk_ask_end(r->client, r->rk, topic, partition, timeout_ms, end);
}
