/* Invariant: there is room for a report of each record that is under way. So a report, which comes inside rd_kafka_poll, always finds a place. */
#include "kafka/pipeline.h"

#include <string.h>

#include "base/mem.h"
#include "kafka/append.h"
#include "kafka/inner.h"

/* What was appended to. Making the handle anew for each record would take the lock that librdkafka's threads contend for. */
typedef struct target {
  struct target *next;
  rd_kafka_topic_t *handle;               /* NULL: none of this producer yet */
  char name[];
} target;

struct sdk_pipeline {
  rd_kafka_t *producer;
  target *targets;
  sdk_report *reports;                    /* [first, end) are there */
  size_t first, end, capacity, under_way;
  unsigned added;
};

/* ---- reports ---- */

static const char *name_of(const sdk_pipeline *p, const char *topic) {
  for (const target *t = p->targets; t; t = t->next) {
    if (strcmp(t->name, topic) == 0) return t->name;
  }
  return "?";
}

static void reported(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
  sdk_pipeline *p = ((sdk_client *)opaque)->pipeline;
  sdk_report *r = &p->reports[p->end++];
  (void)rk;
  p->under_way--;
  *r = (sdk_report){ .number = (uint32_t)(uintptr_t)m->_private, .partition = m->partition, .offset = m->offset, .err = m->err };
  if (!m->err) return;
  r->topic = name_of(p, rd_kafka_topic_name(m->rkt));
  r->maybe = rd_kafka_message_status(m) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
}

static int make_room(sdk_pipeline *p) {
  enum { LEAST = 1024 };
  if (p->first == p->end) p->first = p->end = 0;
  size_t needed = p->end + p->under_way + 1;
  if (needed <= p->capacity) return 0;
  size_t capacity = 2 * needed > LEAST ? 2 * needed : LEAST;
  sdk_report *grown = sdm_realloc(p->reports, capacity * sizeof *grown);
  if (!grown) return sdm_no_memory();
  p->reports = grown;
  p->capacity = capacity;
  return 0;
}

size_t sdk_pipeline_reports(const sdk_client *c) { return c->pipeline ? c->pipeline->end - c->pipeline->first : 0; }

bool sdk_pipeline_next(sdk_client *c, sdk_report *out) {
  sdk_pipeline *p = c->pipeline;
  if (!p || p->first == p->end) return false;
  *out = p->reports[p->first++];
  if (!out->err) sdk_well(c);
  return true;
}

int sdk_report_fail(sdk_client *c, const sdk_report *r) { return sdk_fail_delivery(c, r->err, r->topic, r->partition, r->maybe); }

/* ---- the producer ---- */

rd_kafka_t *sdk_pipeline_producer(const sdk_client *c) { return c->pipeline ? c->pipeline->producer : NULL; }

static void drop_handles(sdk_pipeline *p) {
  for (target *t = p->targets; t; t = t->next) {
    if (t->handle) rd_kafka_topic_destroy(t->handle);
    t->handle = NULL;
  }
}

static void stop(sdk_pipeline *p) {
  if (!p->producer) return;
  drop_handles(p);
  sdk_producer_stop(p->producer);
  p->producer = NULL;
}

/* As with that of append, one that cannot go on is replaced by another. */
static int get_ready(sdk_client *c) {
  static const sdk_setting linger[] = { { "linger.ms", "5" }, { NULL, NULL } };
  char text[8];
  if (!c->pipeline && !(c->pipeline = sdm_calloc(1, sizeof *c->pipeline))) return sdm_no_memory();
  sdk_pipeline *p = c->pipeline;
  if (p->producer && rd_kafka_fatal_error(p->producer, text, sizeof text)) stop(p);
  if (p->producer) return 0;
  return sdk_producer_new(c, 0, reported, c->lingers ? NULL : linger, &p->producer);
}

static int add_target(sdk_pipeline *p, const char *topic, target **out) {
  size_t size = strlen(topic) + 1;
  target *t = sdm_calloc(1, sizeof *t + size);
  if (!t) return sdm_no_memory();
  memcpy(t->name, topic, size);
  t->next = p->targets;
  p->targets = *out = t;
  return 0;
}

static int find_target(sdk_client *c, const char *topic, target **out) {
  sdk_pipeline *p = c->pipeline;
  target *t = p->targets;
  while (t && strcmp(t->name, topic) != 0) t = t->next;
  int rc = t ? 0 : add_target(p, topic, &t);
  if (rc == 0 && !t->handle) t->handle = rd_kafka_topic_new(p->producer, topic, NULL);
  *out = t;
  if (rc < 0 || t->handle) return rc;
  return sdm_fail(SDM_MISUSE, "topic '%.300s': librdkafka refuses its name", topic);
}

/* ---- handing over ---- */

/* What was acknowledged makes room. */
static rd_kafka_resp_err_t produce(sdk_pipeline *p, target *t, const sdk_record *record, uint32_t number) {
  void *opaque = (void *)(uintptr_t)number;
  rd_kafka_resp_err_t err = sdk_produce(p->producer, t->name, t->handle, record, opaque);
  if (err != RD_KAFKA_RESP_ERR__QUEUE_FULL) return err;
  rd_kafka_poll(p->producer, 0);
  return sdk_produce(p->producer, t->name, t->handle, record, opaque);
}

static int hand_over(sdk_client *c, target *t, const sdk_record *record, uint32_t number) {
  enum { LOOK_MS = 1000 };
  rd_kafka_resp_err_t err = produce(c->pipeline, t, record, number);
  int code = sdk_code(err);
  if (code == SDM_UNKNOWN_TOPIC || code == SDM_UNKNOWN_PARTITION) {       /* it was made, or grew, since the producer asked for it */
    sdk_refresh_topic(c, t->name);
    err = produce(c->pipeline, t, record, number);
  }
  if (!err) return 0;
  if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL) return sdm_fail(SDM_BUSY, "append to %s: too much is under way; take reports, then try again", t->name);
  return sdk_fail_at(c, err, "append to ", t->name, record->partition, LOOK_MS);
}

int sdk_pipeline_add(sdk_client *c, const char *topic, const sdk_record *record, uint32_t number) {
  enum { LOOK_EVERY = 64 };               /* a look costs as much as handing a record over */
  target *t;
  int rc = sdk_check_timestamp(record->timestamp);
  if (rc == 0) rc = get_ready(c);
  if (rc == 0) rc = find_target(c, topic, &t);
  if (rc == 0) rc = make_room(c->pipeline);
  if (rc == 0) rc = hand_over(c, t, record, number);
  if (rc < 0) {
    sdk_headers_free((sdk_headers *)(uintptr_t)record->headers);
    return rc;
  }
  c->pipeline->under_way++;
  if (++c->pipeline->added % LOOK_EVERY == 0) rd_kafka_poll(c->pipeline->producer, 0);
  return 0;
}

/* ---- waiting ---- */

void sdk_pipeline_poll(sdk_client *c, int slice_ms, bool hurry) {
  sdk_pipeline *p = c->pipeline;
  if (!p || !p->producer || p->under_way == 0) return;
  if (hurry) rd_kafka_flush(p->producer, slice_ms);
  else rd_kafka_poll(p->producer, p->first == p->end ? slice_ms : 0);
}

void sdk_pipeline_give_up(sdk_client *c) {
  if (c->pipeline) stop(c->pipeline);
}

void sdk_pipeline_drain(sdk_client *c) {
  if (c->pipeline && c->pipeline->under_way > 0) rd_kafka_flush(c->pipeline->producer, (int)c->timeout_ms);
}

void sdk_pipeline_end(sdk_client *c) {
  sdk_pipeline *p = c->pipeline;
  if (!p) return;
  stop(p);
  c->pipeline = NULL;
  for (target *t = p->targets, *next; t; t = next) {
    next = t->next;
    sdm_free(t);
  }
  sdm_free(p->reports);
  sdm_free(p);
}
