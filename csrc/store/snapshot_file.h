/* Names of the files of snapshots, private to this layer. */
#ifndef SDM_STORE_SNAPSHOT_FILE_H
#define SDM_STORE_SNAPSHOT_FILE_H

#include "store/topic.h"

/* Paths begin with the root; NULL: memory is short. The suffix is "", or that of the file that is to become it. */
char *sdm_snapshot_path(const sdm_topic *t, const char *name, const char *suffix);

/* Removes what there is of a topic's; under the topics lock. */
int sdm_snapshots_remove(sdm_store *s, const sdm_uuid *topic_id);

/* Removes what there is of topics that are not listed, and what was not finished; while nobody else has the store open. */
void sdm_snapshots_drop_unlisted(sdm_store *s);

#endif
