/* Partitions are made before the list of topics names them: their folders, with all that an opening needs, so that what is listed can be opened. Until they
** are listed they bear a deleted folder's mark and are nobody's: what somebody leaves who dies goes at the next opening, or when somebody wants the name.
** All under the topics lock and store->lock.
*/
#ifndef SDM_STORE_NEW_PARTITIONS_H
#define SDM_STORE_NEW_PARTITIONS_H

#include "store/store.h"

typedef struct sdm_new_partitions {
  sdm_log **logs;                        /* open */
  int32_t count;
} sdm_new_partitions;                    /* zero-initialised: none */

/* Those of the topic from `first` to before `end`, durable on return; SDM_EXISTS when something has a name of theirs. A failure leaves none. */
int sdm_new_partitions_make(sdm_store *s, const sdm_topic_entry *topic, int32_t first, int32_t end, int64_t now, sdm_new_partitions *out);

void sdm_new_partitions_listed(sdm_store *s, const sdm_uuid *topic_id, sdm_new_partitions *n);
int sdm_new_partitions_undo(sdm_store *s, sdm_new_partitions *n, int rc);      /* returns rc, with its message */

#endif
