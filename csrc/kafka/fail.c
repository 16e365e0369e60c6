/* librdkafka's errors, and those of Kafka's protocol, as our codes.
**
** Timeouts say little: librdkafka tries again and again, and what it met on the way it tells beside them, to a callback. The client notes that,
** and a timeout while no broker is to be reached is SDM_UNAVAILABLE with the reason.
*/
#include <stdarg.h>
#include <stdio.h>

#include "kafka/inner.h"

#define E(name) RD_KAFKA_RESP_ERR_##name

bool sdk_passes(rd_kafka_resp_err_t err) {
  switch (err) {
    case E(_TRANSPORT): case E(_ALL_BROKERS_DOWN): case E(_RESOLVE): case E(_WAIT_COORD): case E(_WAIT_CACHE): case E(_IN_PROGRESS):
    case E(BROKER_NOT_AVAILABLE): case E(LEADER_NOT_AVAILABLE): case E(NOT_LEADER_FOR_PARTITION): case E(REPLICA_NOT_AVAILABLE):
    case E(NETWORK_EXCEPTION): case E(COORDINATOR_LOAD_IN_PROGRESS): case E(COORDINATOR_NOT_AVAILABLE): case E(NOT_COORDINATOR):
    case E(NOT_CONTROLLER): case E(NOT_ENOUGH_REPLICAS): case E(NOT_ENOUGH_REPLICAS_AFTER_APPEND): case E(OFFSET_NOT_AVAILABLE):
    case E(FENCED_LEADER_EPOCH): case E(UNKNOWN_LEADER_EPOCH): case E(STALE_BROKER_EPOCH): case E(_UNKNOWN_BROKER):
    case E(PREFERRED_LEADER_NOT_AVAILABLE): case E(ELIGIBLE_LEADERS_NOT_AVAILABLE): return true;
    default: return false;
  }
}

static int record_code(rd_kafka_resp_err_t err) {
  switch (err) {
    case E(OFFSET_OUT_OF_RANGE): case E(_AUTO_OFFSET_RESET): return SDM_OFFSET_OUT_OF_RANGE;
    case E(UNKNOWN_TOPIC_OR_PART): case E(_UNKNOWN_TOPIC): return SDM_UNKNOWN_TOPIC;
    case E(_UNKNOWN_PARTITION): return SDM_UNKNOWN_PARTITION;
    case E(MSG_SIZE_TOO_LARGE): case E(INVALID_MSG_SIZE): case E(RECORD_LIST_TOO_LARGE): return SDM_TOO_LARGE;
    case E(INVALID_RECORD): return SDM_INVALID_RECORD;
    case E(INVALID_TIMESTAMP): return SDM_INVALID_TIMESTAMP;
    case E(INVALID_MSG): case E(_BAD_MSG): case E(_BAD_COMPRESSION): return SDM_CORRUPT;
    case E(_QUEUE_FULL): return SDM_BUSY;
    default: return 0;
  }
}

static int refusal_code(rd_kafka_resp_err_t err) {
  switch (err) {
    case E(_AUTHENTICATION): case E(_SSL): case E(SASL_AUTHENTICATION_FAILED): case E(UNSUPPORTED_SASL_MECHANISM): case E(ILLEGAL_SASL_STATE):
    case E(TOPIC_AUTHORIZATION_FAILED): case E(GROUP_AUTHORIZATION_FAILED): case E(CLUSTER_AUTHORIZATION_FAILED):
    case E(TRANSACTIONAL_ID_AUTHORIZATION_FAILED): return SDM_UNAUTHORIZED;
    case E(TOPIC_ALREADY_EXISTS): return SDM_EXISTS;
    case E(POLICY_VIOLATION): case E(INVALID_PARTITIONS): case E(INVALID_REPLICATION_FACTOR): return SDM_POLICY;
    case E(INVALID_CONFIG): case E(TOPIC_EXCEPTION): case E(INVALID_REQUEST): case E(_INVALID_ARG):
    case E(INVALID_GROUP_ID): case E(OFFSET_METADATA_TOO_LARGE): return SDM_MISUSE;
    case E(NON_EMPTY_GROUP): case E(GROUP_SUBSCRIBED_TO_TOPIC): return SDM_BUSY;
    case E(GROUP_ID_NOT_FOUND): return SDM_NOT_FOUND;
    case E(UNSUPPORTED_VERSION): case E(UNSUPPORTED_COMPRESSION_TYPE): case E(_UNSUPPORTED_FEATURE): case E(_NOT_IMPLEMENTED):
    case E(UNSUPPORTED_FOR_MESSAGE_FORMAT): return SDM_UNSUPPORTED;
    case E(ILLEGAL_GENERATION): case E(UNKNOWN_MEMBER_ID): case E(REBALANCE_IN_PROGRESS): case E(FENCED_INSTANCE_ID): case E(_FENCED):
    case E(_ASSIGNMENT_LOST): case E(_STATE): return SDM_FENCED;
    default: return 0;
  }
}

int sdk_code(rd_kafka_resp_err_t err) {
  if (err == E(NO_ERROR)) return 0;
  if (sdk_passes(err) || err == E(_DESTROY)) return SDM_UNAVAILABLE;
  switch (err) {
    case E(_TIMED_OUT): case E(_MSG_TIMED_OUT): case E(_TIMED_OUT_QUEUE): case E(REQUEST_TIMED_OUT):
    case E(_PURGE_QUEUE): case E(_PURGE_INFLIGHT): return SDM_TIMEOUT;      /* given up when the time was over */
    default: break;
  }
  int code = record_code(err);
  if (code == 0) code = refusal_code(err);
  return code ? code : SDM_IO;
}

int sdk_fail(sdk_client *c, rd_kafka_resp_err_t err, const char *reason, const char *format, ...) {
  char what[500];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  int code = sdk_code(err);
  const char *text = reason && *reason ? reason : rd_kafka_err2str(err);
  if (code != SDM_TIMEOUT && code != SDM_UNAVAILABLE) return sdm_fail(code, "%s: %s", what, text);
  if (c->note.code == SDM_UNAUTHORIZED) code = SDM_UNAUTHORIZED;
  else if (c->note.all_down) code = SDM_UNAVAILABLE;
  if (!c->note.all_down && c->note.code == 0) return sdm_fail(code, "%s: %s", what, text);
  return sdm_fail(code, "%s: %s (%s)", what, text, c->note.text);
}
