/* Invariant: `own` is what librdkafka fetches for this member: both change in the rebalance callback only, which runs inside sdk_member_next and
** sdk_member_leave, on the caller's thread. The offset of a partition in it is where it was sought, until something of it comes; else
** RD_KAFKA_OFFSET_INVALID.
*/
#include "kafka/member.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kafka/inner.h"

struct sdk_member {
  sdk_client *client;
  rd_kafka_t *rk;
  rd_kafka_topic_partition_list_t *own;
  rd_kafka_queue_t *committing;           /* where a commit's answer comes; NULL: none is under way */
  rd_kafka_queue_t *leaving;
  rd_kafka_message_t *message, *waiting;  /* what was found last; what comes next */
  bool joined, changed;
  bool lost;                              /* partitions were taken from it unasked, or are no more: see destroy_flags */
  int sought;                             /* partitions of `own` that have an offset */
  unsigned epoch;
};

/* ---- what is its own ---- */

static void take_over(sdk_member *m) {
  rd_kafka_topic_partition_list_t *now = NULL;
  if (rd_kafka_assignment(m->rk, &now)) return;
  if (m->own) rd_kafka_topic_partition_list_destroy(m->own);
  for (int i = 0; i < now->cnt; i++) now->elems[i].offset = RD_KAFKA_OFFSET_INVALID;
  m->own = now;
  m->sought = 0;
  m->changed = true;
}

static void note_loss(sdk_member *m) { m->lost = m->lost || rd_kafka_assignment_lost(m->rk); }

static void rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t err, rd_kafka_topic_partition_list_t *partitions, void *opaque) {
  sdk_member *m = opaque;
  bool assigned = err == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
  const char *protocol = rd_kafka_rebalance_protocol(rk);
  note_loss(m);
  if (protocol && strcmp(protocol, "COOPERATIVE") == 0) {
    rd_kafka_error_t *error = assigned ? rd_kafka_incremental_assign(rk, partitions) : rd_kafka_incremental_unassign(rk, partitions);
    if (error) rd_kafka_error_destroy(error);
  } else {
    rd_kafka_assign(rk, assigned ? partitions : NULL);
    m->epoch++;
  }
  m->joined = m->joined || assigned;
  take_over(m);
}

static void note_error(rd_kafka_t *rk, int err, const char *reason, void *opaque) {
  (void)rk;
  sdk_note_error(((sdk_member *)opaque)->client, err, reason);
}

bool sdk_member_joined(const sdk_member *m) { return m->joined; }
unsigned sdk_member_epoch(const sdk_member *m) { return m->epoch; }

bool sdk_member_holds(const sdk_member *m, size_t i, sdk_place *out) {
  if (!m->own || i >= (size_t)m->own->cnt) return false;
  *out = (sdk_place){ .topic = m->own->elems[i].topic, .partition = m->own->elems[i].partition };
  return true;
}

static bool is_own(const sdk_member *m, const char *topic, int32_t partition) {
  return m->own && rd_kafka_topic_partition_list_find(m->own, topic, partition) != NULL;
}

/* ---- joining ---- */

static int subscribe(sdk_member *m, const char *const *topics, size_t count) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
  for (size_t i = 0; i < count; i++) rd_kafka_topic_partition_list_add(list, topics[i], RD_KAFKA_PARTITION_UA);
  rd_kafka_resp_err_t err = rd_kafka_subscribe(m->rk, list);
  rd_kafka_topic_partition_list_destroy(list);
  return err ? sdk_fail(m->client, err, NULL, "join the group") : 0;
}

static int connect_member(sdk_member *m, const char *group, const char *reset, bool uncommitted) {
  const sdk_setting extra[] = {
    { "group.id", group }, { "auto.offset.reset", reset }, { "isolation.level", uncommitted ? "read_uncommitted" : "read_committed" },
    { "enable.partition.eof", "true" }, { "enable.auto.commit", "false" }, { "enable.auto.offset.store", "false" }, { NULL, NULL },
  };
  rd_kafka_conf_t *conf = rd_kafka_conf_dup(m->client->conf);
  if (!conf) return sdm_no_memory();
  rd_kafka_conf_set_opaque(conf, m);
  rd_kafka_conf_set_error_cb(conf, note_error);
  rd_kafka_conf_set_rebalance_cb(conf, rebalance);
  int rc = sdk_handle_new(m->client, RD_KAFKA_CONSUMER, conf, extra, &m->rk);
  if (rc == 0) rd_kafka_poll_set_consumer(m->rk);
  return rc;
}

int sdk_member_new(sdk_client *c, const char *group, const char *const *topics, size_t count, const char *reset, bool uncommitted, sdk_member **out) {
  sdk_member *m = sdm_calloc(1, sizeof *m);
  if (!m) return sdm_no_memory();
  sdk_client_hold(c);
  m->client = c;
  int rc = connect_member(m, group, reset, uncommitted);
  if (rc == 0) rc = subscribe(m, topics, count);
  if (rc < 0) sdk_member_free(m);
  else *out = m;
  return rc;
}

/* ---- records ---- */

static void let_go_of_message(sdk_member *m) {
  if (m->message) rd_kafka_message_destroy(m->message);
  m->message = NULL;
}

static int judge(sdk_member *m, const rd_kafka_message_t *message, const sdk_record *of) {
  rd_kafka_resp_err_t err = message->err;
  if (err == RD_KAFKA_RESP_ERR__PARTITION_EOF) return SDK_END;
  m->lost = m->lost || sdk_code(err) == SDM_UNKNOWN_TOPIC || sdk_code(err) == SDM_UNKNOWN_PARTITION;
  if (sdk_passes(err) || err == RD_KAFKA_RESP_ERR__TIMED_OUT || err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED) return SDK_NOTHING;
  const char *reason = rd_kafka_message_errstr(message);
  if (!of->topic) return sdk_fail(m->client, err, reason, "read as a group");
  return sdk_fail(m->client, err, reason, "read %s-%d", of->topic, (int)of->partition);
}

static void note_arrival(sdk_member *m, const sdk_record *of) {
  rd_kafka_topic_partition_t *place = m->sought > 0 ? rd_kafka_topic_partition_list_find(m->own, of->topic, of->partition) : NULL;
  if (!place || place->offset == RD_KAFKA_OFFSET_INVALID) return;
  place->offset = RD_KAFKA_OFFSET_INVALID;
  m->sought--;
}

/* What a rebalance has changed is told before the message that came in the same call. */
int sdk_member_next(sdk_member *m, int timeout_ms, sdk_record *out) {
  rd_kafka_message_t *message = m->waiting;
  let_go_of_message(m);
  m->waiting = NULL;
  out->topic = NULL;
  if (!message) message = rd_kafka_consumer_poll(m->rk, timeout_ms);
  if (m->changed) {
    m->changed = false;
    m->waiting = message;
    return SDK_ASSIGNED;
  }
  m->message = message;
  if (!message) return SDK_NOTHING;
  if (message->rkt) sdk_record_of(message, out);
  if (message->err) return judge(m, message, out);
  note_arrival(m, out);
  sdk_well(m->client);
  return SDK_RECORD;
}

int sdk_member_look(sdk_member *m, int timeout_ms) {
  const struct rd_kafka_metadata *all;
  rd_kafka_resp_err_t err = rd_kafka_metadata(m->rk, 1, NULL, &all, timeout_ms);
  if (err) return sdk_fail(m->client, err, NULL, "list the topics");
  rd_kafka_metadata_destroy(all);
  return 0;
}

int sdk_member_end(sdk_member *m, const char *topic, int32_t partition, int timeout_ms, int64_t *end) {
  return sdk_ask_end(m->client, m->rk, topic, partition, timeout_ms, end);
}

/* ---- where it stands ---- */

static int not_own(const char *topic, int32_t partition) {
  return sdm_fail(SDM_FENCED, "%s-%d is another member's; poll again, and go on with what it gives", topic, (int)partition);
}

static rd_kafka_topic_partition_list_t *one(const char *topic, int32_t partition, int64_t offset) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
  rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
  return list;
}

static void stand_where_sought(const sdk_member *m, rd_kafka_topic_partition_list_t *list) {
  for (int i = 0; i < list->cnt; i++) {
    int64_t sought = m->own->elems[i].offset;
    if (sought != RD_KAFKA_OFFSET_INVALID) list->elems[i].offset = sought;
    else if (list->elems[i].offset < 0) list->elems[i].offset = RD_KAFKA_OFFSET_STORED;
  }
}

/* A partition that is not being read, as one whose offset the log did not have, cannot be sought in: what is our own is assigned again, with this one
** at its offset and the others where they stand. */
static rd_kafka_resp_err_t restart(sdk_member *m, const char *topic, int32_t partition, int64_t offset) {
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(m->own);
  rd_kafka_resp_err_t err = rd_kafka_position(m->rk, list);
  stand_where_sought(m, list);
  rd_kafka_topic_partition_list_set_offset(list, topic, partition, offset);
  if (!err) err = rd_kafka_assign(m->rk, list);
  rd_kafka_topic_partition_list_destroy(list);
  return err;
}

static rd_kafka_resp_err_t seek(sdk_member *m, const char *topic, int32_t partition, int64_t offset, int timeout_ms) {
  rd_kafka_topic_partition_list_t *list = one(topic, partition, offset);
  rd_kafka_error_t *error = rd_kafka_seek_partitions(m->rk, list, timeout_ms);
  rd_kafka_resp_err_t err = error ? rd_kafka_error_code(error) : list->elems[0].err;
  if (error) rd_kafka_error_destroy(error);
  rd_kafka_topic_partition_list_destroy(list);
  return err;
}

int sdk_member_seek(sdk_member *m, const char *topic, int32_t partition, int64_t offset, int timeout_ms) {
  if (!is_own(m, topic, partition)) return not_own(topic, partition);
  rd_kafka_resp_err_t err = seek(m, topic, partition, offset, timeout_ms);
  if (err == RD_KAFKA_RESP_ERR__STATE) err = restart(m, topic, partition, offset);
  if (err) return sdk_fail(m->client, err, NULL, "seek in %s-%d", topic, (int)partition);
  rd_kafka_topic_partition_t *of = rd_kafka_topic_partition_list_find(m->own, topic, partition);
  m->sought += of->offset == RD_KAFKA_OFFSET_INVALID;
  of->offset = offset;
  return 0;
}

int sdk_member_pause(sdk_member *m, const char *topic, int32_t partition, bool paused) {
  if (!is_own(m, topic, partition)) return not_own(topic, partition);
  rd_kafka_topic_partition_list_t *list = one(topic, partition, 0);
  rd_kafka_resp_err_t err = paused ? rd_kafka_pause_partitions(m->rk, list) : rd_kafka_resume_partitions(m->rk, list);
  rd_kafka_topic_partition_list_destroy(list);
  return err ? sdk_fail(m->client, err, NULL, "pause %s-%d", topic, (int)partition) : 0;
}

/* ---- commits ---- */

static int copy_metadata(const rd_kafka_topic_partition_t *of, sdk_place *place) {
  size_t size = of->metadata ? of->metadata_size : 0;
  char *copy = sdm_malloc(size + 1);
  if (!copy) return sdm_no_memory();
  if (size > 0) memcpy(copy, of->metadata, size);
  copy[size] = '\0';
  place->metadata = copy;
  place->metadata_size = size;
  return 1;
}

int sdk_member_committed(sdk_member *m, sdk_place *place, int timeout_ms) {
  rd_kafka_topic_partition_list_t *list = one(place->topic, place->partition, RD_KAFKA_OFFSET_INVALID);
  rd_kafka_topic_partition_t *of = &list->elems[0];
  rd_kafka_resp_err_t err = rd_kafka_committed(m->rk, list, timeout_ms);
  if (!err) err = of->err;
  int rc = 0;
  if (err) rc = sdk_fail(m->client, err, NULL, "commit of %s-%d", place->topic, (int)place->partition);
  else if (of->offset >= 0) rc = copy_metadata(of, place);
  place->offset = of->offset;
  rd_kafka_topic_partition_list_destroy(list);
  return rc;
}

/* librdkafka frees the metadata with free(). */
static int add_place(rd_kafka_topic_partition_list_t *list, const sdk_place *place) {
  rd_kafka_topic_partition_t *of = rd_kafka_topic_partition_list_add(list, place->topic, place->partition);
  of->offset = place->offset;
  if (!place->metadata) return 0;
  of->metadata = malloc(place->metadata_size + 1);
  if (!of->metadata) return sdm_no_memory();
  memcpy(of->metadata, place->metadata, place->metadata_size);
  of->metadata_size = place->metadata_size;
  return 0;
}

static void end_commit(sdk_member *m) {
  if (m->committing) rd_kafka_queue_destroy(m->committing);
  m->committing = NULL;
}

int sdk_member_commit(sdk_member *m, const sdk_place *places, size_t count) {
  int rc = 0;
  for (size_t i = 0; i < count; i++) {
    if (!is_own(m, places[i].topic, places[i].partition)) return not_own(places[i].topic, places[i].partition);
  }
  rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new((int)count);
  for (size_t i = 0; rc == 0 && i < count; i++) rc = add_place(list, &places[i]);
  end_commit(m);
  m->committing = rc == 0 ? rd_kafka_queue_new(m->rk) : NULL;
  rd_kafka_resp_err_t err = rc == 0 ? rd_kafka_commit_queue(m->rk, list, m->committing, NULL, NULL) : RD_KAFKA_RESP_ERR_NO_ERROR;
  rd_kafka_topic_partition_list_destroy(list);
  if (rc < 0 || err) end_commit(m);
  return err ? sdk_fail(m->client, err, NULL, "commit") : rc;
}

static rd_kafka_resp_err_t error_of(rd_kafka_event_t *event) {
  rd_kafka_resp_err_t err = rd_kafka_event_error(event);
  rd_kafka_topic_partition_list_t *list = rd_kafka_event_topic_partition_list(event);
  for (int i = 0; !err && list && i < list->cnt; i++) err = list->elems[i].err;
  return err;
}

int sdk_member_commit_poll(sdk_member *m, int slice_ms) {
  if (!m->committing) return 1;
  rd_kafka_event_t *event = rd_kafka_queue_poll(m->committing, slice_ms);
  if (!event) return 0;
  rd_kafka_resp_err_t err = error_of(event);
  rd_kafka_event_destroy(event);
  end_commit(m);
  return err ? sdk_fail(m->client, err, NULL, "commit") : 1;
}

/* ---- leaving ---- */

static void let_go_of_messages(sdk_member *m) {
  let_go_of_message(m);
  m->message = m->waiting;
  m->waiting = NULL;
  let_go_of_message(m);
}

static bool is_among(const struct rd_kafka_metadata *all, const char *topic) {
  for (int i = 0; i < all->topic_cnt; i++) {
    if (strcmp(all->topics[i].topic, topic) == 0) return all->topics[i].err != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
  }
  return false;
}

static bool has_deleted_topic(sdk_member *m) {
  enum { LOOK_MS = 300 };
  bool found = false;
  const struct rd_kafka_metadata *all;
  rd_kafka_topic_partition_list_t *wanted = NULL;
  if (rd_kafka_subscription(m->rk, &wanted)) return false;
  if (!rd_kafka_metadata(m->rk, 1, NULL, &all, LOOK_MS)) {
    for (int i = 0; i < wanted->cnt; i++) found = found || !is_among(all, wanted->elems[i].topic);
    rd_kafka_metadata_destroy(all);
  }
  rd_kafka_topic_partition_list_destroy(wanted);
  return found;
}

int sdk_member_leave(sdk_member *m, int slice_ms) {
  if (!m->rk) return 1;
  let_go_of_messages(m);
  end_commit(m);
  note_loss(m);
  if (!m->leaving) {
    m->lost = m->lost || has_deleted_topic(m);
    m->leaving = rd_kafka_queue_new(m->rk);
    rd_kafka_error_t *error = rd_kafka_consumer_close_queue(m->rk, m->leaving);
    if (error) rd_kafka_error_destroy(error);
  }
  int64_t until = sdm_monotonic_ms() + slice_ms;
  while (!rd_kafka_consumer_closed(m->rk)) {
    int64_t left = until - sdm_monotonic_ms();
    rd_kafka_event_t *event = rd_kafka_queue_poll(m->leaving, left > 0 ? (int)(left < 20 ? left : 20) : 0);
    note_loss(m);
    if (event && rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE) rd_kafka_assign(m->rk, NULL);
    if (event) rd_kafka_event_destroy(event);
    else if (left <= 0) return 0;
  }
  return 1;
}

/* librdkafka forgets to let go of partitions that a member has lost, because their topic was deleted or it was not heard of in time, and waits for them
** for ever when it is destroyed (its 2.1.0 mends most of that). Such a handle is not waited for: its thread and its memory stay. */
static int destroy_flags(const sdk_member *m) {
  enum { AT_ONCE = 0x4 };                 /* RD_KAFKA_DESTROY_F_IMMEDIATE, which its header does not name */
  return RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE | (m->lost ? AT_ONCE : 0);
}

void sdk_member_free(sdk_member *m) {
  if (!m) return;
  let_go_of_messages(m);
  end_commit(m);
  if (m->leaving) rd_kafka_queue_destroy(m->leaving);
  if (m->own) rd_kafka_topic_partition_list_destroy(m->own);
  if (m->rk) rd_kafka_destroy_flags(m->rk, destroy_flags(m));
  sdk_client_release(m->client);
  sdm_free(m);
}
