/* Appending without waiting: records are handed over, and the reports of their delivery come later, in any order but that of each partition.
** They go by a producer of their own, which collects records for a moment, so that many travel together. Its promises are those of append.h.
**
**     sdk_pipeline_add for each record; sdk_pipeline_poll now and then, and sdk_pipeline_next until it says that there is no more
*/
#ifndef SDM_KAFKA_PIPELINE_H
#define SDM_KAFKA_PIPELINE_H

#include "kafka/client.h"
#include "kafka/record.h"

typedef struct sdk_report {
  uint32_t number;                        /* the caller's, of the record */
  int32_t partition;
  int64_t offset;
  int err;                                /* 0: it is in the log; else for sdk_report_fail */
  bool maybe;                             /* it may be in the log all the same */
  const char *topic;                      /* of a failure; lives as long as the client */
} sdk_report;

/* Hands a record over, as sdk_append_add does, and never waits: SDM_BUSY when librdkafka has all that it takes (queue.buffering.max.messages,
** queue.buffering.max.kbytes). A topic that the producer does not know is asked for, which may take a moment. */
int sdk_pipeline_add(sdk_client *c, const char *topic, const sdk_record *record, uint32_t number);

/* Waits so long at most until there is a report, or, with hurry, until nothing is under way, sending at once what would be collected. */
void sdk_pipeline_poll(sdk_client *c, int slice_ms, bool hurry);
size_t sdk_pipeline_reports(const sdk_client *c);           /* how many are there; they stay until they are taken */
bool sdk_pipeline_next(sdk_client *c, sdk_report *out);
int sdk_report_fail(sdk_client *c, const sdk_report *r);    /* message and code of one that failed */

/* Gives up what is under way: its reports are there then. */
void sdk_pipeline_give_up(sdk_client *c);

/* For who goes without having waited: so long as the records may take, until they are delivered or given up. */
void sdk_pipeline_drain(sdk_client *c);

#endif
