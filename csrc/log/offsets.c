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

static int64_t offset_in(const sdm_checkpoint *c, const char *topic, int32_t partition) {
  const sdm_checkpoint_entry *e = sdm_checkpoint_find(c, topic, partition);
  return e ? e->offset : -1;
}

int sdm_offsets_read(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition, int64_t *out) {
  sdm_checkpoint c;
  int rc = load(fs, root, name, &c);
  if (rc < 0) return rc;
  *out = offset_in(&c, topic, partition);
  sdm_checkpoint_free(&c);
  return 0;
}

int64_t sdm_offsets_get(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition) {
  int64_t offset;
  return sdm_offsets_read(fs, root, name, topic, partition, &offset) < 0 ? -1 : offset;
}

/* ---- what is remembered ---- */

static const char *const names[] = {SDM_LOG_START_CHECKPOINT, SDM_RECOVERY_CHECKPOINT, SDM_CLEANER_CHECKPOINT};
enum { NAMES = sizeof names / sizeof *names };

typedef struct sdm_offsets_memory {
  bool known[NAMES];
  sdm_checkpoint files[NAMES];
} sdm_offsets_memory;

/* Without memory for it they are read each time. */
void sdm_offsets_remember(sdm_env *env) { env->offsets = sdm_calloc(1, sizeof *env->offsets); }

void sdm_offsets_forget(sdm_env *env) {
  for (int i = 0; env->offsets && i < NAMES; i++) sdm_checkpoint_free(&env->offsets->files[i]);
  sdm_free(env->offsets);
  env->offsets = NULL;
}

static int index_of(const char *name) {
  int i = 0;
  while (strcmp(names[i], name) != 0) i++;
  return i;
}

int sdm_offsets_find(sdm_env *env, const char *name, const char *topic, int32_t partition, int64_t *out) {
  sdm_offsets_memory *m = env->offsets;
  if (!m) return sdm_offsets_read(env->fs, env->root, name, topic, partition, out);
  int i = index_of(name), rc = m->known[i] ? 0 : load(env->fs, env->root, name, &m->files[i]);
  m->known[i] = rc == 0;
  if (rc == 0) *out = offset_in(&m->files[i], topic, partition);
  return rc;
}

int64_t sdm_offsets_hint(sdm_env *env, const char *name, const char *topic, int32_t partition) {
  int64_t offset;
  return sdm_offsets_find(env, name, topic, partition, &offset) < 0 ? -1 : offset;
}

/* After a change: it is what the file holds, or may hold (rc). Takes *c. */
static void note(sdm_env *env, const char *name, sdm_checkpoint *c, int rc) {
  sdm_offsets_memory *m = env->offsets;
  int i = m ? index_of(name) : 0;
  if (m) sdm_checkpoint_free(&m->files[i]);
  if (m) m->known[i] = rc == 0;
  if (m && rc == 0) m->files[i] = *c;
  else sdm_checkpoint_free(c);
}

/* ---- changing ---- */

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
  note(env, name, &c, rc);
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
