/* What those share who make, rename and remove the folders of partitions. The rest of folders.c is in store.h. */
#ifndef SDM_STORE_FOLDERS_H
#define SDM_STORE_FOLDERS_H

#include "store/store.h"

#define SDM_DELETED_MARK "sediment.deleted"      /* its file time says when the folder may go, its text how long after its deletion that is; who is
                                                    filling the folder holds a lock on it */

char *sdm_folder_path(sdm_store *s, const char *topic, int32_t partition);                               /* fresh strings; NULL: memory is short */
char *sdm_folder_deleted_path(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition);
int sdm_folder_write_metadata(sdm_store *s, const char *dir, const sdm_uuid *id);
int sdm_folder_write_small_files(sdm_store *s, const char *dir, const sdm_uuid *id);                      /* those that a broker's folder has; the metadata last */
int sdm_folder_mark(sdm_store *s, const char *dir, int64_t now, int64_t delay_ms);                        /* it may go at now + delay_ms */
int sdm_folder_unmark(sdm_store *s, const char *dir);
int sdm_folder_remove(sdm_store *s, const char *dir, const char *mark);                                  /* with all files in it, the mark last */

#endif
