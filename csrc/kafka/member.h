/* A member of a consumer group: Kafka's group protocol, which librdkafka speaks from behind. A member must be asked for records now and then, at least
** every max.poll.interval.ms (5 minutes): its partitions come and go inside sdk_member_next, and who does not ask is put out.
*/
#ifndef SDM_KAFKA_MEMBER_H
#define SDM_KAFKA_MEMBER_H

#include "kafka/client.h"
#include "kafka/reader.h"
#include "kafka/record.h"

typedef struct sdk_member sdk_member;

typedef struct sdk_place {                /* a partition, and an offset in it */
  const char *topic, *metadata;           /* metadata: of a commit; may be NULL */
  int32_t partition;
  size_t metadata_size;
  int64_t offset;
} sdk_place;

/* Joins; `reset`, where to begin without a commit, is "earliest", "latest" or "error". */
int sdk_member_new(sdk_client *c, const char *group, const char *const *topics, size_t count, const char *reset, bool uncommitted, sdk_member **out);

/* As sdk_reader_next, and SDK_ASSIGNED. SDM_OFFSET_OUT_OF_RANGE also: nothing is committed, and reset is "error". */
int sdk_member_next(sdk_member *m, int timeout_ms, sdk_record *out);

/* Asks the cluster for its topics anew, so that those that the group wants and that were missing are found. */
int sdk_member_look(sdk_member *m, int timeout_ms);

int sdk_member_end(sdk_member *m, const char *topic, int32_t partition, int timeout_ms, int64_t *end);     /* as sdk_reader_end */

bool sdk_member_joined(const sdk_member *m);                   /* it has been told, at least once, what is its own */
unsigned sdk_member_epoch(const sdk_member *m);                /* another one: it has lost all that was its own, and what is its own now begins at the commits */
bool sdk_member_holds(const sdk_member *m, size_t i, sdk_place *out);         /* partition i of those that are its own now; false: there are no more */

/* Goes on elsewhere in a partition of its own. SDM_FENCED: it is not. */
int sdk_member_seek(sdk_member *m, const char *topic, int32_t partition, int64_t offset, int timeout_ms);
int sdk_member_pause(sdk_member *m, const char *topic, int32_t partition, bool paused);

/* What the group has committed: 1 and place->offset and its metadata (sdm_free), 0: nothing. Asks for place->topic and place->partition. */
int sdk_member_committed(sdk_member *m, sdk_place *place, int timeout_ms);

/* Commits are begun, all of them or none, and asked after: 1 done, 0 not yet after slice_ms. SDM_FENCED: others have the partitions by now.
** Beginning one gives up on another that is under way. */
int sdk_member_commit(sdk_member *m, const sdk_place *places, size_t count);
int sdk_member_commit_poll(sdk_member *m, int slice_ms);

/* Leaves the group; 1 when that is done, 0 not yet after slice_ms. sdk_member_free without it lets the group find out by itself. */
int sdk_member_leave(sdk_member *m, int slice_ms);
void sdk_member_free(sdk_member *m);      /* NULL is fine */

#endif
