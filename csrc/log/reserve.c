#include "log/reserve.h"

#include "base/mem.h"

enum { RESERVE_BYTES = 131072 };

static int open_reserve(sdm_env *env, sdm_file **out) {
  char *path = sdm_format("%s/%s", env->root, SDM_RESERVE_NAME);
  int rc = path ? env->fs->open(env->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, out) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

bool sdm_reserve_keep(sdm_env *env) {
  sdm_file *f;
  if (open_reserve(env, &f) < 0) return false;
  bool kept = env->fs->allocate(f, RESERVE_BYTES) == 0;
  if (!kept) env->fs->truncate(f, 0);
  env->fs->close(f);
  atomic_store(&env->reserve_used, !kept);
  return kept;
}

bool sdm_reserve_give_up(sdm_env *env) {
  sdm_file *f;
  if (open_reserve(env, &f) < 0) return false;
  int rc = env->fs->truncate(f, 0);
  env->fs->close(f);
  atomic_store(&env->reserve_used, true);
  return rc == 0;
}

int sdm_reserve_replace(sdm_env *env, const char *dir, const char *name, const void *bytes, size_t size) {
  int rc = sdm_fs_replace(env->fs, dir, name, bytes, size);
  if (rc == SDM_DISK_FULL && sdm_reserve_give_up(env)) rc = sdm_fs_replace(env->fs, dir, name, bytes, size);
  return rc;
}

bool sdm_reserve_is_used(const sdm_env *env) { return atomic_load_explicit(&env->reserve_used, memory_order_relaxed); }
