/* A topic handle, private to this layer. */
#ifndef SDM_STORE_TOPIC_H
#define SDM_STORE_TOPIC_H

#include "store/store.h"

struct sdm_topic {
  sdm_store *store;
  sdm_topic_entry entry;                   /* as of `generation` */
  sdm_log_config config;                   /* effective */
  uint64_t generation;                     /* of the topics file */
  sdm_log **logs;                          /* references, NULL where not opened yet; entry.partitions of them */
  int32_t log_count;
  uint32_t round_robin;
  sdm_buf scratch;
};

/* Before each operation: closed, forked, deleted; configs that others changed are taken over. */
int sdm_topic_check(sdm_topic *t);

/* A new topic's entry, which nothing lists yet; under the topics lock. */
int sdm_topic_entry_make(sdm_store *s, const char *name, const sdm_settings *config, sdm_topic_entry *out);

#endif
