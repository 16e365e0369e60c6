/* A client of a Kafka cluster: settings, the handles that librdkafka works with, and what it has said last.
**
** Conventions of this folder, which builds on librdkafka and knows no Lua
**   - Functions return 0 or a count, or a negative code with the thread's message set (base/err.h). SDM_NO_MEMORY may come from any.
**   - One that takes `timeout_ms` blocks for so long at most, leaves nothing behind when it fails, and may then be called again: SDM_TIMEOUT and
**     SDM_UNAVAILABLE are worth it. What takes longer is begun by one function and asked after by another, so that the caller may do
**     something else in between, and can give up at any moment.
**   - Codes that come from anything that asks the cluster: SDM_UNAVAILABLE (no broker that could answer is to be reached), SDM_TIMEOUT (no
**     answer in time), SDM_UNAUTHORIZED (who we are, or what we may do), SDM_UNSUPPORTED (the cluster is too old), SDM_IO (anything else
**     that it refuses; its words are in the message). They are not named again below.
**   - A client and all that came from it belong to one thread at a time. librdkafka's threads call nothing here but the choice of a partition.
**   - After a fork nothing of it works in the child, not even freeing: the threads are the parent's. The caller sees to it.
*/
#ifndef SDM_KAFKA_CLIENT_H
#define SDM_KAFKA_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct sdk_client sdk_client;

typedef struct sdk_setting {              /* of librdkafka, or a config of a topic */
  const char *name, *value;
} sdk_setting;

enum { SDK_TIMEOUT_MS = 30000, SDK_TIMEOUT_MS_MIN = 100, SDK_TIMEOUT_MS_MAX = 3600000 };

/* Makes a client for the brokers "host:port,host:port"; connects to nothing yet. `timeout_ms` bounds what is asked of the cluster, and how long
** a record may wait to be acknowledged. SDM_MISUSE: a setting that librdkafka does not know or take, or that is not the caller's to choose. */
int sdk_client_new(const char *servers, const sdk_setting *settings, size_t count, int64_t timeout_ms, sdk_client **out);

/* Whether a broker answers. SDM_UNAVAILABLE at once when none of those named is to be reached; *final then: asking on is no use. */
int sdk_client_probe(sdk_client *c, int timeout_ms, bool *final);

void sdk_client_idle(sdk_client *c, int ms);           /* waits so long at most, before something is tried again */

int64_t sdk_client_timeout_ms(const sdk_client *c);

/* How many there are, as far as is known. */
int sdk_client_brokers(const sdk_client *c);

/* Whether a topic or partition that is said to be missing, which was asked for since then, may be known to another broker: each hears of what was made,
** grew or was deleted in its own time. */
bool sdk_client_settles(const sdk_client *c, int code, int64_t since_ms);

/* Stops producers and what is idle; records that wait are given up. What came from the client keeps its own part alive. */
void sdk_client_close(sdk_client *c);

#endif
