/* The client's life. Its handles are made from one configuration: the caller's settings, and over them those that the promises rest on. */
#include "kafka/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/murmur2.h"
#include "kafka/append.h"
#include "kafka/inner.h"

/* What is not the caller's to choose, since the meaning of our calls rests on it. */
static const char *const OURS[] = {
  "bootstrap.servers", "metadata.broker.list", "enable.idempotence", "acks", "request.required.acks", "enable.auto.commit", "auto.commit.enable",
  "enable.auto.offset.store", "enable.partition.eof", "auto.offset.reset", "isolation.level", "group.id", "partitioner", "message.timeout.ms",
  "delivery.timeout.ms", "allow.auto.create.topics", "transactional.id", "compression.codec", "compression.type", "enabled_events",
  "produce.offset.report", "message.max.bytes", NULL,
};

/* ---- what librdkafka tells by itself ---- */

static void silent(const rd_kafka_t *rk, int level, const char *facility, const char *text) {
  (void)rk, (void)level, (void)facility, (void)text;
}

void sdk_note_error(sdk_client *c, int err, const char *reason) {
  if (err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    c->note.all_down = true;
    if (c->note.code == 0) snprintf(c->note.text, sizeof c->note.text, "%s", reason);
    return;
  }
  int code = sdk_code(err);
  if (c->note.code == SDM_UNAUTHORIZED && code != SDM_UNAUTHORIZED) return;
  c->note.code = code;
  snprintf(c->note.text, sizeof c->note.text, "%s", reason);
}

/* Called inside rd_kafka_poll and its like, so by the client's thread. */
static void note_error(rd_kafka_t *rk, int err, const char *reason, void *opaque) {
  (void)rk;
  sdk_note_error(opaque, err, reason);
}

/* ---- settings ---- */

static int refuse_ours(const char *name) {
  for (const char *const *p = OURS; *p; p++) {
    if (strcmp(*p, name) == 0) return sdm_fail(SDM_MISUSE, "option '%s': it is not to be chosen: what the calls promise rests on it", name);
  }
  return 0;
}

static int set(rd_kafka_conf_t *conf, const char *name, const char *value) {
  char text[300];
  switch (rd_kafka_conf_set(conf, name, value, text, sizeof text)) {
    case RD_KAFKA_CONF_OK: return 0;
    case RD_KAFKA_CONF_UNKNOWN: return sdm_fail(SDM_MISUSE, "option '%.80s': librdkafka has none of that name", name);
    default: return sdm_fail(SDM_MISUSE, "option '%.80s': %s", name, text);
  }
}

static int set_number(rd_kafka_conf_t *conf, const char *name, int64_t value) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, value);
  return set(conf, name, text);
}

static int64_t within(int64_t low, int64_t n, int64_t high) { return n < low ? low : n > high ? high : n; }

/* That a partition has been read up to its end is told by the answer of a fetch that has waited for more: not for long. A broker that is back is met again within a second, and a topic
** that is gone is known to be after two. A broker that does not answer is given up early enough to ask another one in time. */
static int set_defaults(rd_kafka_conf_t *conf, int64_t timeout_ms) {
  static const sdk_setting defaults[] = {
    { "client.id", "sediment" }, { "log_level", "0" }, { "socket.keepalive.enable", "true" }, { "check.crcs", "true" },
    { "reconnect.backoff.ms", "50" }, { "reconnect.backoff.max.ms", "1000" }, { "topic.metadata.propagation.max.ms", "2000" },
    { "linger.ms", "0" }, { "fetch.error.backoff.ms", "100" }, { "fetch.wait.max.ms", "100" }, { NULL, NULL },
  };
  int rc = 0;
  for (const sdk_setting *s = defaults; rc == 0 && s->name; s++) rc = set(conf, s->name, s->value);
  if (rc == 0) rc = set_number(conf, "socket.timeout.ms", within(2000, timeout_ms / 3, 20000));
  return rc;
}

static int prepare(sdk_client *c, const char *servers, const sdk_setting *settings, size_t count) {
  rd_kafka_conf_t *conf = c->conf = rd_kafka_conf_new();
  if (!conf) return sdm_no_memory();
  int rc = set_defaults(conf, c->timeout_ms);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    const char *name = settings[i].name;
    c->lingers = c->lingers || strcmp(name, "linger.ms") == 0 || strcmp(name, "queue.buffering.max.ms") == 0;
    rc = refuse_ours(name);
    if (rc == 0) rc = set(conf, name, settings[i].value);
  }
  if (rc == 0) rc = set(conf, "bootstrap.servers", servers);
  if (rc == 0) rc = set(conf, "allow.auto.create.topics", "false");
  rd_kafka_conf_set_log_cb(conf, silent);
  rd_kafka_conf_set_error_cb(conf, note_error);
  rd_kafka_conf_set_opaque(conf, c);
  return rc;
}

int sdk_handle_new(sdk_client *c, rd_kafka_type_t type, rd_kafka_conf_t *conf, const sdk_setting *extra, rd_kafka_t **out) {
  char text[300];
  int rc = 0;
  if (!conf) conf = rd_kafka_conf_dup(c->conf);
  if (!conf) return sdm_no_memory();
  for (; rc == 0 && extra && extra->name; extra++) rc = set(conf, extra->name, extra->value);
  rd_kafka_t *rk = rc == 0 ? rd_kafka_new(type, conf, text, sizeof text) : NULL;
  if (!rk) rd_kafka_conf_destroy(conf);
  else *out = rk;
  if (rc < 0) return rc;
  return rk ? 0 : sdm_fail(SDM_MISUSE, "options: %s", text);
}

/* ---- opening ---- */

int sdk_client_new(const char *servers, const sdk_setting *settings, size_t count, int64_t timeout_ms, sdk_client **out) {
  sdk_client *c = sdm_calloc(1, sizeof *c);
  if (!c) return sdm_no_memory();
  c->references = 1;
  c->timeout_ms = within(SDK_TIMEOUT_MS_MIN, timeout_ms, SDK_TIMEOUT_MS_MAX);
  int rc = prepare(c, servers, settings, count);
  const sdk_setting to_the_end[] = { { "isolation.level", "read_uncommitted" }, { NULL, NULL } };     /* of the log, and not to the last stable offset */
  if (rc == 0) rc = sdk_handle_new(c, RD_KAFKA_CONSUMER, NULL, to_the_end, &c->asking);
  if (rc < 0) sdk_client_close(c);
  else *out = c;
  return rc;
}

int sdk_client_probe(sdk_client *c, int timeout_ms, bool *final) {
  const struct rd_kafka_metadata *metadata;
  rd_kafka_resp_err_t err = rd_kafka_metadata(c->asking, 0, NULL, &metadata, timeout_ms);
  rd_kafka_poll(c->asking, 0);
  *final = err && (c->note.all_down || c->note.code == SDM_UNAUTHORIZED);
  if (err) return sdk_fail(c, err, NULL, "reach the cluster");
  sdk_count_brokers(c, metadata);
  rd_kafka_metadata_destroy(metadata);
  return sdk_well(c);
}

void sdk_client_idle(sdk_client *c, int ms) { rd_kafka_poll(c->asking, ms); }

int64_t sdk_client_timeout_ms(const sdk_client *c) { return c->timeout_ms; }

int sdk_client_brokers(const sdk_client *c) { return c->brokers; }

bool sdk_client_settles(const sdk_client *c, int code, int64_t since_ms) {
  enum { SETTLE_MS = 1000 };
  bool missing = code == SDM_UNKNOWN_TOPIC || code == SDM_UNKNOWN_PARTITION;
  return missing && c->brokers > 1 && sdm_monotonic_ms() - since_ms < SETTLE_MS;
}

/* ---- closing ---- */

void sdk_client_hold(sdk_client *c) { c->references++; }

void sdk_client_release(sdk_client *c) {
  if (--c->references > 0) return;
  if (c->conf) rd_kafka_conf_destroy(c->conf);
  sdm_free(c);
}

/* Those who wait for their records are told first: their memory is released by the reports. */
void sdk_producer_stop(rd_kafka_t *rk) {
  enum { PATIENCE_MS = 2000 };
  rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  rd_kafka_flush(rk, PATIENCE_MS);
  rd_kafka_destroy(rk);
}

void sdk_client_close(sdk_client *c) {
  if (c->closed) return;
  c->closed = true;
  sdk_pipeline_end(c);
  for (int i = 0; i < SDK_CODECS; i++) {
    if (c->producers[i]) sdk_producer_stop(c->producers[i]);
    c->producers[i] = NULL;
  }
  for (int i = 0; i < 2 * SDK_IDLE_MAX; i++) {
    rd_kafka_t *rk = c->idle[i / SDK_IDLE_MAX][i % SDK_IDLE_MAX];
    if (rk) rd_kafka_destroy(rk);
    c->idle[i / SDK_IDLE_MAX][i % SDK_IDLE_MAX] = NULL;
  }
  sdk_requests_end(c);
  if (c->asking) rd_kafka_destroy(c->asking);
  c->asking = NULL;
  sdk_client_release(c);
}

/* ---- producers ---- */

int32_t sdk_next_partition(sdk_client *c, int32_t partitions) {
  return (int32_t)(__atomic_fetch_add(&c->next_partition, 1, __ATOMIC_RELAXED) % (unsigned)partitions);
}

/* As a topic here does: murmur2 of the key, in turn without. May be called by librdkafka's threads. */
static int32_t choose(const rd_kafka_topic_t *rkt, const void *key, size_t size, int32_t partitions, void *topic_opaque, void *opaque) {
  sdk_client *c = topic_opaque;
  (void)rkt, (void)opaque;
  if (partitions < 1) return RD_KAFKA_PARTITION_UA;
  if (key) return sdm_key_partition(key, size, partitions);
  return sdk_next_partition(c, partitions);
}

static rd_kafka_conf_t *producer_conf(sdk_client *c) {
  rd_kafka_conf_t *conf = rd_kafka_conf_dup(c->conf);
  rd_kafka_topic_conf_t *given = conf ? rd_kafka_conf_get_default_topic_conf(conf) : NULL;
  rd_kafka_topic_conf_t *topic = given ? rd_kafka_topic_conf_dup(given) : conf ? rd_kafka_topic_conf_new() : NULL;
  if (!topic) return conf;
  rd_kafka_topic_conf_set_opaque(topic, c);
  rd_kafka_topic_conf_set_partitioner_cb(topic, choose);
  rd_kafka_conf_set_default_topic_conf(conf, topic);
  return conf;
}

/* The time after which a record is given up ends before the caller's patience, so that what he is told is final. */
int sdk_producer_new(sdk_client *c, int codec, sdk_on_report *on_report, const sdk_setting *more, rd_kafka_t **out) {
  static const char *const codecs[SDK_CODECS] = { "none", "gzip", "snappy", "lz4", "zstd" };
  char patience[24];
  int64_t spare = c->timeout_ms / 3 < 2000 ? c->timeout_ms / 3 : 2000;
  snprintf(patience, sizeof patience, "%" PRId64, c->timeout_ms - spare);
  const sdk_setting extra[] = { { "acks", "all" }, { "enable.idempotence", "true" }, { "message.timeout.ms", patience },
                                { "message.max.bytes", "1000000000" }, { NULL, NULL } };
  rd_kafka_conf_t *conf = producer_conf(c);
  if (!conf) return sdm_no_memory();
  rd_kafka_conf_set_dr_msg_cb(conf, on_report);
  if (set(conf, "compression.codec", codecs[codec]) < 0) {
    rd_kafka_conf_destroy(conf);
    return sdm_fail(SDM_UNSUPPORTED, "compression: librdkafka was built without %s", codecs[codec]);
  }
  for (; more && more->name; more++) set(conf, more->name, more->value);
  return sdk_handle_new(c, RD_KAFKA_PRODUCER, conf, extra, out);
}

/* An idempotent producer that met what it cannot go on from, such as a log that was cut, is replaced by another. */
int sdk_producer(sdk_client *c, int codec, rd_kafka_t **out) {
  char text[8];
  rd_kafka_t *rk = c->producers[codec];
  if (rk && rd_kafka_fatal_error(rk, text, sizeof text)) {
    sdk_producer_stop(rk);
    c->producers[codec] = rk = NULL;
  }
  int rc = rk ? 0 : sdk_producer_new(c, codec, sdk_reported, NULL, &c->producers[codec]);
  if (rc == 0) *out = c->producers[codec];
  return rc;
}

static void refresh(rd_kafka_t *producer, const char *topic) {
  enum { PATIENCE_MS = 2000 };
  const struct rd_kafka_metadata *metadata;
  rd_kafka_topic_t *rkt = producer ? rd_kafka_topic_new(producer, topic, NULL) : NULL;
  if (!rkt) return;
  if (!rd_kafka_metadata(producer, 0, rkt, &metadata, PATIENCE_MS)) rd_kafka_metadata_destroy(metadata);
  rd_kafka_topic_destroy(rkt);
}

void sdk_refresh_topic(sdk_client *c, const char *topic) {
  for (int i = 0; i < SDK_CODECS; i++) refresh(c->producers[i], topic);
  refresh(sdk_pipeline_producer(c), topic);
}
