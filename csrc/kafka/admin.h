/* Administration: a request is begun, asked after, looked at, and freed, at any moment.
**
**     sdk_create_topic(c, ..., &r); while ((rc = sdk_request_poll(r, 200)) == 0) ...; sdk_request_free(r);
*/
#ifndef SDM_KAFKA_ADMIN_H
#define SDM_KAFKA_ADMIN_H

#include "kafka/client.h"

typedef struct sdk_request sdk_request;

/* 1: done; 0: not yet, after slice_ms; or why it failed. */
int sdk_request_poll(sdk_request *r, int slice_ms);
int sdk_request_give_up(sdk_request *r);  /* why there is none yet: SDM_TIMEOUT, SDM_UNAVAILABLE */
void sdk_request_free(sdk_request *r);    /* NULL is fine; what was asked may still happen */

/* ---- topics ---- */

/* partitions and replication: -1 is the cluster's default. SDM_EXISTS, SDM_POLICY (the cluster's rules; more replicas than brokers), SDM_MISUSE (a
** name or a config that it refuses). Others may see the topic a moment later. */
int sdk_create_topic(sdk_client *c, const char *topic, int32_t partitions, int32_t replication, const sdk_setting *configs, size_t count, sdk_request **out);
int sdk_delete_topic(sdk_client *c, const char *topic, sdk_request **out);                            /* SDM_UNKNOWN_TOPIC */
int sdk_grow_topic(sdk_client *c, const char *topic, int32_t partitions, sdk_request **out);          /* SDM_UNKNOWN_TOPIC, SDM_POLICY (no more than there are) */

/* Deletes what is below `before`. SDM_OFFSET_OUT_OF_RANGE, SDM_POLICY (a compacted topic), SDM_UNKNOWN_TOPIC. */
int sdk_delete_records(sdk_client *c, const char *topic, int32_t partition, int64_t before, sdk_request **out);
int64_t sdk_deleted_up_to(const sdk_request *r);               /* the log start offset then */

/* ---- configs ---- */

typedef enum sdk_source { SDK_SOURCE_DEFAULT, SDK_SOURCE_BROKER, SDK_SOURCE_TOPIC } sdk_source;
typedef struct sdk_config {
  const char *name, *value;               /* as long as the request; value NULL: it is not told */
  sdk_source source;
} sdk_config;

int sdk_describe_topic(sdk_client *c, const char *topic, sdk_request **out);                          /* SDM_UNKNOWN_TOPIC */
bool sdk_config_at(const sdk_request *r, size_t i, sdk_config *out);                                  /* false: there are no more */

/* Makes these the topic's own configs, and no others. SDM_UNKNOWN_TOPIC, SDM_POLICY, SDM_MISUSE. */
int sdk_set_configs(sdk_client *c, const char *topic, const sdk_setting *configs, size_t count, sdk_request **out);

/* ---- groups ---- */

int sdk_list_groups(sdk_client *c, sdk_request **out);
const char *sdk_group_at(const sdk_request *r, size_t i);      /* a name; NULL: there are no more */

int sdk_describe_group(sdk_client *c, const char *group, sdk_request **out);
bool sdk_group_is_dead(const sdk_request *r);                  /* it has no members, and nobody knows it */
size_t sdk_group_members(const sdk_request *r);

typedef struct sdk_commit {
  const char *topic, *metadata;           /* as long as the request */
  int32_t partition;
  size_t metadata_size;
  int64_t offset;
} sdk_commit;

int sdk_group_commits(sdk_client *c, const char *group, sdk_request **out);
bool sdk_commit_at(const sdk_request *r, size_t i, sdk_commit *out);

int sdk_delete_group(sdk_client *c, const char *group, sdk_request **out);                            /* SDM_BUSY (it has members), SDM_NOT_FOUND */

#endif
