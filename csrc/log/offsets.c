#include "log/offsets.h"

#include <string.h>

#include "base/mem.h"
#include "log/reserve.h"

enum { LIMIT = 64 << 20 };

/* A missing or malformed file reads as empty; one that cannot be read now is a failure, lest it be replaced by less than it holds. */
static int load(sdm_fs *fs, const char *root, const char *name, sdm_checkpoint *out) {
  char *path = sdm_format("%s/%s", root, name), *text = NULL;
  size_t size;
  *out = (sdm_checkpoint){0};
  int rc = path ? sdm_fs_read_all(fs, path, LIMIT, &text, &size) : sdm_no_memory();
  if (rc == 0 && (rc = sdm_checkpoint_decode(out, text, size)) < 0) sdm_checkpoint_free(out);
  sdm_free(text);
  sdm_free(path);
  return rc == SDM_NOT_FOUND || rc == SDM_CORRUPT ? 0 : rc;
}

int sdm_offsets_read(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition, int64_t *out) {
  sdm_checkpoint c;
  int rc = load(fs, root, name, &c);
  if (rc < 0) return rc;
  const sdm_checkpoint_entry *e = sdm_checkpoint_find(&c, topic, partition);
  *out = e ? e->offset : -1;
  sdm_checkpoint_free(&c);
  return 0;
}

int64_t sdm_offsets_get(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition) {
  int64_t offset;
  return sdm_offsets_read(fs, root, name, topic, partition, &offset) < 0 ? -1 : offset;
}

/* A change of the file, in memory. */
typedef int change(sdm_checkpoint *c, const void *what, bool only_raise);

static int replace(sdm_env *env, const char *name, change *f, const void *what) {
  sdm_checkpoint c;
  sdm_buf text = SDM_BUF_INIT;
  bool died;
  int rc = sdm_shared_mutex_lock(env->checkpoint_lock, &died);     /* the file is replaced whole: a dead owner left nothing half-done */
  if (rc < 0) return rc;
  rc = load(env->fs, env->root, name, &c);
  if (rc == 0) rc = f(&c, what, strcmp(name, SDM_LOG_START_CHECKPOINT) == 0);
  if (rc == 0) rc = sdm_checkpoint_encode(&c, &text);
  if (rc == 0) rc = sdm_reserve_replace(env, env->root, name, text.data, text.size);
  sdm_shared_mutex_unlock(env->checkpoint_lock);
  sdm_checkpoint_free(&c);
  sdm_buf_free(&text);
  return rc;
}

/* Two processes may raise a log's start at once: the lower one must not come last. */
static int set_all(sdm_checkpoint *c, const void *what, bool only_raise) {
  const sdm_checkpoint *entries = what;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < entries->count; i++) {
    const sdm_checkpoint_entry *e = &entries->entries[i], *before = only_raise ? sdm_checkpoint_find(c, e->topic, e->partition) : NULL;
    if (!before || before->offset < e->offset) rc = sdm_checkpoint_set(c, e->topic, e->partition, e->offset);
  }
  return rc;
}

int sdm_offsets_merge(sdm_env *env, const char *name, const sdm_checkpoint *entries) { return replace(env, name, set_all, entries); }

static int remove_topic(sdm_checkpoint *c, const void *what, bool only_raise) {
  const sdm_checkpoint_entry *end = what;
  (void)only_raise;
  sdm_checkpoint_remove(c, end->topic, 0, end->partition);
  return 0;
}

int sdm_offsets_remove(sdm_env *env, const char *name, const char *topic, int32_t partitions) {
  sdm_checkpoint_entry end = {.partition = partitions};
  memcpy(end.topic, topic, strlen(topic) + 1);
  return replace(env, name, remove_topic, &end);
}

int sdm_offsets_set(sdm_env *env, const char *name, const char *topic, int32_t partition, int64_t offset) {
  sdm_checkpoint one = {0};
  int rc = sdm_checkpoint_set(&one, topic, partition, offset);
  if (rc == 0) rc = sdm_offsets_merge(env, name, &one);
  sdm_checkpoint_free(&one);
  return rc;
}
