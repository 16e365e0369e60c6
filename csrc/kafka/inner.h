/* What the files of this folder share; the one header that knows librdkafka's. */
#ifndef SDM_KAFKA_INNER_H
#define SDM_KAFKA_INNER_H

#include <librdkafka/rdkafka.h>

#include "kafka/client.h"
#include "kafka/record.h"

/* The last trouble that librdkafka told of by itself: what a timeout does not say. */
typedef struct sdk_note {
  bool all_down;                          /* no broker is to be reached, as far as is known */
  int code;                               /* SDM_UNAUTHORIZED when it was that; 0: nothing was told since the last success */
  char text[400];
} sdk_note;

enum { SDK_CODECS = 5, SDK_IDLE_MAX = 4 };

typedef struct sdk_pipeline sdk_pipeline;

struct sdk_client {
  int references;                         /* the caller's, and of all that came from it */
  bool closed;
  int64_t timeout_ms;
  int brokers;                            /* the most that were told of */
  rd_kafka_conf_t *conf;                  /* what all handles have in common */
  rd_kafka_t *asking;                     /* for metadata, look-ups and administration; never a producer, which would make topics by asking */
  rd_kafka_t *producers[SDK_CODECS];      /* by codec, made when they are first needed */
  rd_kafka_t *idle[2][SDK_IDLE_MAX];      /* handles that readers have left; [1] are for uncommitted records */
  sdk_pipeline *pipeline;                 /* made when it is first needed */
  bool lingers;                           /* the caller has said for how long */
  unsigned next_partition;                /* of records without key; atomic */
  sdk_note note;
  struct sdk_request *requests;           /* that are not freed: they go with `asking` */
};

void sdk_requests_end(sdk_client *c);     /* admin.c */
void sdk_pipeline_end(sdk_client *c);     /* pipeline.c */
void sdk_client_hold(sdk_client *c);
void sdk_client_release(sdk_client *c);

/* A handle of the client's settings and `extra` ones (name NULL ends them). `conf` NULL: none was prepared. */
int sdk_handle_new(sdk_client *c, rd_kafka_type_t type, rd_kafka_conf_t *conf, const sdk_setting *extra, rd_kafka_t **out);

/* Sets message and code of librdkafka's error: "what: its text", with what the note knows where that explains it. */
int sdk_fail(sdk_client *c, rd_kafka_resp_err_t err, const char *reason, const char *format, ...) __attribute__((format(printf, 4, 5), cold));
/* The same about a topic (partition below 0) or a partition: asks the cluster what is missing, for timeout_ms at most. */
int sdk_fail_at(sdk_client *c, rd_kafka_resp_err_t err, const char *what, const char *topic, int32_t partition, int timeout_ms);
/* SDM_UNAVAILABLE with the reason when a partition has no leader, or not all replicas in sync; 0: it has, or that is not known within timeout_ms. */
int sdk_fail_by_replicas(sdk_client *c, const char *what, const char *topic, int32_t partition, int timeout_ms);
int sdk_code(rd_kafka_resp_err_t err);    /* 0 for no error */
bool sdk_passes(rd_kafka_resp_err_t err); /* trouble that librdkafka itself goes on from: a connection, a leader that moves */

void sdk_note_error(sdk_client *c, int err, const char *reason);

/* Where a handle's reading of a partition ends: by its isolation, at the log end or the last stable offset. */
int sdk_ask_end(sdk_client *c, rd_kafka_t *rk, const char *topic, int32_t partition, int timeout_ms, int64_t *end);

static inline int sdk_well(sdk_client *c) {   /* an answer has come */
  c->note.all_down = false;
  c->note.code = 0;
  return 0;
}

static inline void sdk_count_brokers(sdk_client *c, const struct rd_kafka_metadata *m) {
  if (m->broker_cnt > c->brokers) c->brokers = m->broker_cnt;
}

/* A producer, with records compressed by the codec. SDM_UNSUPPORTED: librdkafka was built without it. */
int sdk_producer(sdk_client *c, int codec, rd_kafka_t **out);

/* One more, for who stops it himself. `more` settings may be NULL. Stopping reports what is under way as given up. */
typedef void sdk_on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *client);
int sdk_producer_new(sdk_client *c, int codec, sdk_on_report *on_report, const sdk_setting *more, rd_kafka_t **out);
void sdk_producer_stop(rd_kafka_t *rk);
void sdk_reported(rd_kafka_t *rk, const rd_kafka_message_t *message, void *client);        /* append.c: of those of append */
rd_kafka_t *sdk_pipeline_producer(const sdk_client *c);      /* NULL: there is none */

/* append.c: hands a record to a producer, for the topic of that name, or of that handle, if there is one. */
rd_kafka_resp_err_t sdk_produce(rd_kafka_t *producer, const char *topic, rd_kafka_topic_t *handle, const sdk_record *r, void *opaque);
/* ... and what became of it: message and code of a failure, which tells whether it may be in the log. */
int sdk_fail_delivery(sdk_client *c, rd_kafka_resp_err_t err, const char *topic, int32_t partition, bool maybe);

void sdk_refresh_topic(sdk_client *c, const char *topic);    /* every producer asks anew how many partitions it has */

/* A message's record, as long as the message lives. */
void sdk_record_of(const rd_kafka_message_t *message, sdk_record *out);

#endif
