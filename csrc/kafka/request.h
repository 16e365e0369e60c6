/* Requests of the admin API: what admin.c and groups.c share. */
#ifndef SDM_KAFKA_REQUEST_H
#define SDM_KAFKA_REQUEST_H

#include "kafka/admin.h"
#include "kafka/inner.h"

struct sdk_request {
  sdk_client *client;
  sdk_request *previous, *next;           /* of the client's */
  rd_kafka_queue_t *queue;                /* NULL once the client is closed */
  rd_kafka_AdminOptions_t *options;
  rd_kafka_event_t *event;                /* the answer; what is told of it points into it */
  int (*judge)(sdk_request *r);           /* 0, or the failure that stands in the answer */
  char what[300];                         /* for messages */
};

/* A request that is still to be sent, by the function that librdkafka has for it, to r->queue. */
int sdk_request_new(sdk_client *c, rd_kafka_admin_op_t op, int (*judge)(sdk_request *), const char *what, const char *of, sdk_request **out);
int sdk_judge_error(sdk_request *r, const rd_kafka_error_t *error);

#endif
