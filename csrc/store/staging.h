/* A folder that an import fills before it becomes a partition's. Until then it bears the name and the mark of a deleted partition's folder, due at once,
** so that it goes when its maker dies; the lock on the mark says that he lives. It keeps the mark when it gets its name: without a topic that lists the
** partition it is nobody's still, and goes at the next opening, or when somebody wants the name.
*/
#ifndef SDM_STORE_STAGING_H
#define SDM_STORE_STAGING_H

#include "store/store.h"

typedef struct sdm_staging {
  char *dir, *mark_path;
  sdm_file *mark;                        /* open, and locked */
  bool moved;                            /* it is a partition's now */
} sdm_staging;

int sdm_staging_begin(sdm_store *s, const char *topic, int32_t partition, int64_t now, sdm_staging *out);

/* Removes the folder unless it has moved, and frees what was held. Returns rc, with its message. */
int sdm_staging_end(sdm_store *s, sdm_staging *g, int rc);

/* What follows: under the topics lock. The folder gets the partition's name, which must be free; durable on return. */
int sdm_staging_place(sdm_store *s, sdm_staging *g, const char *topic, const sdm_uuid *id, int32_t partition);
int sdm_staging_take_back(sdm_store *s, sdm_staging *g, const char *topic, int32_t partition, int rc);     /* the way back; returns rc */

/* The folder takes the place of a listed partition's that never had a record and is open in this incarnation. SDM_EXISTS: it has had one. Who has the
** old one open finds SDM_GONE_REPLACED. */
int sdm_staging_replace(sdm_store *s, sdm_staging *g, const char *topic, const sdm_uuid *id, int32_t partition, int64_t now);

/* The partition is listed. */
void sdm_staging_done(sdm_store *s, sdm_staging *g, const char *topic, int32_t partition);

#endif
