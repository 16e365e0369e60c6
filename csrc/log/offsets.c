#include "log/offsets.h"

#include "base/mem.h"

enum { LIMIT = 64 << 20 };

/* An unreadable file reads as empty. */
static void load(sdm_fs *fs, const char *root, const char *name, sdm_checkpoint *out) {
  char *path = sdm_format("%s/%s", root, name), *text = NULL;
  size_t size;
  *out = (sdm_checkpoint){0};
  if (path && sdm_fs_read_all(fs, path, LIMIT, &text, &size) == 0 && sdm_checkpoint_decode(out, text, size) < 0) sdm_checkpoint_free(out);
  sdm_free(text);
  sdm_free(path);
}

int64_t sdm_offsets_get(sdm_fs *fs, const char *root, const char *name, const char *topic, int32_t partition) {
  sdm_checkpoint c;
  load(fs, root, name, &c);
  const sdm_checkpoint_entry *e = sdm_checkpoint_find(&c, topic, partition);
  int64_t offset = e ? e->offset : -1;
  sdm_checkpoint_free(&c);
  return offset;
}

static int apply(sdm_checkpoint *c, const sdm_checkpoint_entry *e) {
  if (e->offset >= 0) return sdm_checkpoint_set(c, e->topic, e->partition, e->offset);
  sdm_checkpoint_remove(c, e->topic, e->partition);
  return 0;
}

int sdm_offsets_merge(sdm_env *env, const char *name, const sdm_checkpoint *entries) {
  sdm_checkpoint c;
  sdm_buf text = SDM_BUF_INIT;
  bool died;
  int rc = sdm_shared_mutex_lock(env->checkpoint_lock, &died);     /* the file is replaced whole: a dead owner left nothing half-done */
  if (rc < 0) return rc;
  load(env->fs, env->root, name, &c);
  for (size_t i = 0; rc == 0 && i < entries->count; i++) rc = apply(&c, &entries->entries[i]);
  if (rc == 0) rc = sdm_checkpoint_encode(&c, &text);
  if (rc == 0) rc = sdm_fs_replace(env->fs, env->root, name, text.data, text.size);
  sdm_shared_mutex_unlock(env->checkpoint_lock);
  sdm_checkpoint_free(&c);
  sdm_buf_free(&text);
  return rc;
}

int sdm_offsets_set(sdm_env *env, const char *name, const char *topic, int32_t partition, int64_t offset) {
  sdm_checkpoint one = {0};
  int rc = sdm_checkpoint_set(&one, topic, partition, offset);
  if (rc == 0) rc = sdm_offsets_merge(env, name, &one);
  sdm_checkpoint_free(&one);
  return rc;
}
