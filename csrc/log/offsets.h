/* Kafka's checkpoint files in the root of a store: one offset a partition. Read and replaced whole, under a lock that all processes share. */
#ifndef SDM_LOG_OFFSETS_H
#define SDM_LOG_OFFSETS_H

#include "format/checkpoint.h"
#include "log/log.h"

#define SDM_LOG_START_CHECKPOINT "log-start-offset-checkpoint"
#define SDM_RECOVERY_CHECKPOINT "recovery-point-offset-checkpoint"
#define SDM_CLEANER_CHECKPOINT "cleaner-offset-checkpoint"

/* The offset that file `name` in folder `root` has for a partition, or -1: not listed, no file, or a file that cannot be understood (these
** files are hints that must not keep a store from opening). */
int sdm_offsets_read(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition, int64_t *out);

/* The same where -1 costs time only: also for a file that cannot be read now. */
int64_t sdm_offsets_get(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition);

/* Of the store's own root. Who opens thousands of partitions, and knows that meanwhile nobody else has the store and no other thread of his works on it, has each file
** read once, and what is set and removed in between noted: between these two calls. */
void sdm_offsets_remember(sdm_env *env);
void sdm_offsets_forget(sdm_env *env);
int sdm_offsets_find(sdm_env *env, const char *name, const char *topic, int32_t partition, int64_t *out);
int64_t sdm_offsets_hint(sdm_env *env, const char *name, const char *topic, int32_t partition);       /* as sdm_offsets_get */

/* Sets it; durable on return. */
int sdm_offsets_set(sdm_env *env, const char *name, const char *topic, int32_t partition, int64_t offset);

/* Several at once: merges the entries into the file. */
int sdm_offsets_merge(sdm_env *env, const char *name, const sdm_checkpoint *entries);

/* Takes out all partitions of a topic that has so many. */
int sdm_offsets_remove(sdm_env *env, const char *name, const char *topic, int32_t partitions);

#endif
