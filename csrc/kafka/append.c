/* Invariant: an append lives until its holder has let go of it and no record of it is under way. Reports come inside rd_kafka_poll, so on the
** client's thread.
*/
#include "kafka/append.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kafka/inner.h"

struct sdk_append {
  sdk_client *client;
  rd_kafka_t *producer;
  int codec;
  bool held;                              /* by the caller */
  int64_t until;                          /* the caller's patience */
  size_t under_way, delivered;
  sdk_appended result;
  rd_kafka_resp_err_t err;                /* of the first that failed */
  int32_t failed;                         /* its partition; below 0: it had none yet */
  bool maybe;                             /* that one may be in the log all the same */
  char topic[];
};

/* ---- reports ---- */

static void end_if_over(sdk_append *a) {
  if (a->held || a->under_way > 0) return;
  sdk_client_release(a->client);
  sdm_free(a);
}

static void note_delivery(sdk_append *a, const rd_kafka_message_t *m) {
  if (a->delivered == 0 || m->offset < a->result.first) a->result.first = m->offset;
  if (a->delivered == 0 || m->offset > a->result.last) a->result.last = m->offset;
  a->result.partition = m->partition;
  a->delivered++;
}

void sdk_reported(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque) {
  sdk_append *a = message->_private;
  (void)rk, (void)opaque;
  a->under_way--;
  if (!message->err) note_delivery(a, message);
  else if (!a->err) {
    a->err = message->err;
    a->failed = message->partition;
    a->maybe = rd_kafka_message_status(message) != RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
  }
  end_if_over(a);
}

/* ---- handing over ---- */

int sdk_append_new(sdk_client *c, const char *topic, int codec, sdk_append **out) {
  rd_kafka_t *producer;
  int rc = sdk_producer(c, codec, &producer);
  if (rc < 0) return rc;
  size_t size = strlen(topic) + 1;
  sdk_append *a = sdm_calloc(1, sizeof *a + size);
  if (!a) return sdm_no_memory();
  memcpy(a->topic, topic, size);
  a->client = c;
  a->producer = producer;
  a->codec = codec;
  a->held = true;
  a->until = sdm_monotonic_ms() + c->timeout_ms;
  sdk_client_hold(c);
  *out = a;
  return 0;
}

rd_kafka_resp_err_t sdk_produce(rd_kafka_t *producer, const char *topic, rd_kafka_topic_t *handle, const sdk_record *r, void *opaque) {
  rd_kafka_headers_t *headers = (rd_kafka_headers_t *)(uintptr_t)r->headers;
  rd_kafka_vu_t vus[] = {
    { .vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic },
    { .vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = r->partition < 0 ? RD_KAFKA_PARTITION_UA : r->partition },
    { .vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY },
    { .vtype = RD_KAFKA_VTYPE_KEY, .u.mem = { r->key_size < 0 ? NULL : (void *)(uintptr_t)r->key, r->key_size < 0 ? 0 : (size_t)r->key_size } },
    { .vtype = RD_KAFKA_VTYPE_VALUE, .u.mem = { r->value_size < 0 ? NULL : (void *)(uintptr_t)r->value, r->value_size < 0 ? 0 : (size_t)r->value_size } },
    { .vtype = RD_KAFKA_VTYPE_TIMESTAMP, .u.i64 = r->timestamp },
    { .vtype = RD_KAFKA_VTYPE_OPAQUE, .u.ptr = opaque },
    { .vtype = RD_KAFKA_VTYPE_HEADERS, .u.headers = headers },
  };
  if (handle) vus[0] = (rd_kafka_vu_t){ .vtype = RD_KAFKA_VTYPE_RKT, .u.rkt = handle };
  rd_kafka_error_t *error = rd_kafka_produceva(producer, vus, sizeof vus / sizeof *vus - (headers ? 0 : 1));
  rd_kafka_resp_err_t err = error ? rd_kafka_error_code(error) : RD_KAFKA_RESP_ERR_NO_ERROR;
  if (error) rd_kafka_error_destroy(error);
  return err;
}

static rd_kafka_resp_err_t produce(sdk_append *a, const sdk_record *r) { return sdk_produce(a->producer, a->topic, NULL, r, a); }

/* A topic that was made, or grew, since the producer asked for it is asked for again: once, and as long as brokers may differ about it. */
static rd_kafka_resp_err_t produce_known(sdk_append *a, const sdk_record *r) {
  enum { TURN_MS = 20 };
  int64_t since = sdm_monotonic_ms();
  rd_kafka_resp_err_t err = produce(a, r);
  int code = sdk_code(err);
  if (code != SDM_UNKNOWN_TOPIC && code != SDM_UNKNOWN_PARTITION) return err;
  while (true) {
    sdk_refresh_topic(a->client, a->topic);
    err = produce(a, r);
    if (!sdk_client_settles(a->client, sdk_code(err), since)) return err;
    rd_kafka_poll(a->producer, TURN_MS);
  }
}

enum { LOOK_MS = 1000 };                  /* for what is missing */

int sdk_check_timestamp(int64_t ms) {
  if (ms == 0) return sdm_fail(SDM_UNSUPPORTED, "a timestamp of 0 cannot be sent: librdkafka takes it for the time it is");
  if (ms < -1) return sdm_fail(SDM_INVALID_TIMESTAMP, "timestamp %lld: -1, which means none, or more expected", (long long)ms);
  return 0;
}

int sdk_append_add(sdk_append *a, const sdk_record *record) {
  enum { TURN_MS = 20 };
  int rc = sdk_check_timestamp(record->timestamp);
  if (rc < 0) {
    sdk_headers_free((sdk_headers *)(uintptr_t)record->headers);
    return rc;
  }
  int64_t until = sdm_monotonic_ms() + a->client->timeout_ms;
  rd_kafka_resp_err_t err = produce_known(a, record);
  while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL && sdm_monotonic_ms() < until) {
    rd_kafka_poll(a->producer, TURN_MS);
    err = produce(a, record);
  }
  if (!err) {
    a->under_way++;
    return 0;
  }
  sdk_headers_free((sdk_headers *)(uintptr_t)record->headers);
  if (err == RD_KAFKA_RESP_ERR__QUEUE_FULL) err = RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE;
  return sdk_fail_at(a->client, err, "append to ", a->topic, record->partition, LOOK_MS);
}

/* ---- waiting ---- */

/* The code of a failure, told as what it may have left behind. */
static int may_be_there(int code, bool maybe) {
  bool open = maybe && (code == SDM_TIMEOUT || code == SDM_UNAVAILABLE || code == SDM_IO);
  return open ? sdm_fail_within(code, "the record may be in the log, or not: ") : code;
}

int sdk_fail_delivery(sdk_client *c, rd_kafka_resp_err_t err, const char *topic, int32_t partition, bool maybe) {
  return may_be_there(sdk_fail_at(c, err, "append to ", topic, partition, LOOK_MS), maybe);
}

static int failure(sdk_append *a) {
  int code = sdk_fail_at(a->client, a->err, "append to ", a->topic, a->failed, LOOK_MS);
  int64_t left = a->until - sdm_monotonic_ms();
  if (code != SDM_TIMEOUT || a->failed < 0 || left < 1) return code;
  int known = sdk_fail_by_replicas(a->client, "append to ", a->topic, a->failed, left < LOOK_MS ? (int)left : LOOK_MS);
  return known < 0 ? known : sdk_fail_at(a->client, a->err, "append to ", a->topic, a->failed, LOOK_MS);
}

static int verdict(sdk_append *a, sdk_appended *out) {
  if (a->err) return may_be_there(failure(a), a->maybe);
  *out = a->result;
  sdk_well(a->client);
  return 1;
}

int sdk_append_poll(sdk_append *a, int slice_ms, sdk_appended *out) {
  int64_t until = sdm_monotonic_ms() + slice_ms;
  while (a->under_way > 0) {
    int64_t left = until - sdm_monotonic_ms();
    rd_kafka_poll(a->producer, left > 0 ? (int)left : 0);
    if (left <= 0 && a->under_way > 0) return 0;
  }
  return verdict(a, out);
}

void sdk_append_free(sdk_append *a) {
  if (!a) return;
  a->held = false;
  end_if_over(a);
}
