/* Requests about consumer groups. */
#include <string.h>

#include "kafka/admin.h"
#include "kafka/request.h"

/* ---- which there are ---- */

static const rd_kafka_ListConsumerGroups_result_t *listed(const sdk_request *r) { return rd_kafka_event_ListConsumerGroups_result(r->event); }

static int judge_list(sdk_request *r) {
  size_t n;
  const rd_kafka_error_t **errors = rd_kafka_ListConsumerGroups_result_errors(listed(r), &n);
  return n > 0 ? sdk_judge_error(r, errors[0]) : 0;
}

int sdk_list_groups(sdk_client *c, sdk_request **out) {
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPS, judge_list, "list", "groups", out);
  if (rc == 0) rd_kafka_ListConsumerGroups(c->asking, (*out)->options, (*out)->queue);
  return rc;
}

const char *sdk_group_at(const sdk_request *r, size_t i) {
  size_t n;
  const rd_kafka_ConsumerGroupListing_t **list = rd_kafka_ListConsumerGroups_result_valid(listed(r), &n);
  return i < n ? rd_kafka_ConsumerGroupListing_group_id(list[i]) : NULL;
}

/* ---- one of them ---- */

static const rd_kafka_ConsumerGroupDescription_t *described(const sdk_request *r) {
  size_t n;
  const rd_kafka_ConsumerGroupDescription_t **list =
    rd_kafka_DescribeConsumerGroups_result_groups(rd_kafka_event_DescribeConsumerGroups_result(r->event), &n);
  return n > 0 ? list[0] : NULL;
}

static int judge_description(sdk_request *r) {
  const rd_kafka_ConsumerGroupDescription_t *of = described(r);
  return of ? sdk_judge_error(r, rd_kafka_ConsumerGroupDescription_error(of)) : sdm_fail(SDM_IO, "%s: an answer without the group", r->what);
}

int sdk_describe_group(sdk_client *c, const char *group, sdk_request **out) {
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS, judge_description, "describe group", group, out);
  if (rc == 0) rd_kafka_DescribeConsumerGroups(c->asking, &group, 1, (*out)->options, (*out)->queue);
  return rc;
}

bool sdk_group_is_dead(const sdk_request *r) { return rd_kafka_ConsumerGroupDescription_state(described(r)) == RD_KAFKA_CONSUMER_GROUP_STATE_DEAD; }

size_t sdk_group_members(const sdk_request *r) { return rd_kafka_ConsumerGroupDescription_member_count(described(r)); }

/* ---- its commits ---- */

static const rd_kafka_group_result_t *committed(const sdk_request *r) {
  size_t n;
  const rd_kafka_group_result_t **list =
    rd_kafka_ListConsumerGroupOffsets_result_groups(rd_kafka_event_ListConsumerGroupOffsets_result(r->event), &n);
  return n > 0 ? list[0] : NULL;
}

static int judge_commits(sdk_request *r) {
  const rd_kafka_group_result_t *of = committed(r);
  return of ? sdk_judge_error(r, rd_kafka_group_result_error(of)) : sdm_fail(SDM_IO, "%s: an answer without the group", r->what);
}

int sdk_group_commits(sdk_client *c, const char *group, sdk_request **out) {
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS, judge_commits, "commits of group", group, out);
  if (rc < 0) return rc;
  rd_kafka_ListConsumerGroupOffsets_t *of = rd_kafka_ListConsumerGroupOffsets_new(group, NULL);
  rd_kafka_ListConsumerGroupOffsets(c->asking, &of, 1, (*out)->options, (*out)->queue);
  rd_kafka_ListConsumerGroupOffsets_destroy(of);
  return 0;
}

bool sdk_commit_at(const sdk_request *r, size_t i, sdk_commit *out) {
  const rd_kafka_topic_partition_list_t *list = rd_kafka_group_result_partitions(committed(r));
  if (!list || i >= (size_t)list->cnt) return false;
  const rd_kafka_topic_partition_t *of = &list->elems[i];
  *out = (sdk_commit){ of->topic, of->metadata ? of->metadata : "", of->partition, of->metadata ? of->metadata_size : 0, of->offset };
  return true;
}

/* ---- deleting one ---- */

static int judge_deletion(sdk_request *r) {
  size_t n;
  const rd_kafka_group_result_t **list = rd_kafka_DeleteGroups_result_groups(rd_kafka_event_DeleteGroups_result(r->event), &n);
  return n > 0 ? sdk_judge_error(r, rd_kafka_group_result_error(list[0])) : 0;
}

int sdk_delete_group(sdk_client *c, const char *group, sdk_request **out) {
  int rc = sdk_request_new(c, RD_KAFKA_ADMIN_OP_DELETEGROUPS, judge_deletion, "delete group", group, out);
  if (rc < 0) return rc;
  rd_kafka_DeleteGroup_t *unwanted = rd_kafka_DeleteGroup_new(group);
  rd_kafka_DeleteGroups(c->asking, &unwanted, 1, (*out)->options, (*out)->queue);
  rd_kafka_DeleteGroup_destroy(unwanted);
  return 0;
}
