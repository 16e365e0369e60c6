/* Life of a partition's log, and what it remembers of its topic. */
#include "log/log.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh.h"
#include "log/bare.h"
#include "log/recover.h"
#include "log/state.h"
#include "log/transactions.h"

sdm_log *sdm_log_ref(sdm_log *l) {
  atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
  return l;
}

void sdm_log_unref(sdm_log *l) {
  if (!l || atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) != 1) return;
  sdm_log_cold(l);
  for (size_t i = 0; i < l->count; i++) sdm_segment_unref(l->segments[i]);
  sdm_free(l->segments);
  sdm_segment_unref(l->active);
  sdm_transactions_unref(l->transactions);
  sdm_control_unmap(l->fs, l->control_file, l->control);
  sdm_mutex_destroy(&l->lock);
  sdm_mutex_destroy(&l->sync_lock);
  sdm_free(l->dir);
  sdm_free(l);
}

sdm_log *sdm_log_new(sdm_fs *fs, const char *dir, const char *topic, int32_t partition) {
  sdm_log *l = sdm_calloc(1, sizeof *l);
  char *copy = sdm_strdup(dir);
  if (!l || !copy) {
    sdm_free(l);
    sdm_free(copy);
    return NULL;
  }
  atomic_init(&l->refs, 1);
  l->fs = fs;
  l->dir = copy;
  l->partition = partition;
  l->fork_count = sdm_fork_count();
  snprintf(l->topic, sizeof l->topic, "%s", topic);
  sdm_mutex_init(&l->lock);
  sdm_mutex_init(&l->sync_lock);
  return l;
}

int sdm_log_in_place(const sdm_log *l) {
  sdm_file_info there;
  char *path = sdm_format("%s/%s", l->dir, SDM_CONTROL_NAME);
  int rc = path ? l->fs->path_info(l->fs, path, &there) : sdm_no_memory();
  sdm_free(path);
  return rc == 0 ? there.inode == l->control_inode : rc == SDM_NOT_FOUND ? 0 : rc;
}

/* Since the page was mapped the folder may have gone, and another topic's have come in its place. */
static int check_place(sdm_log *l) {
  sdm_file_info mapped;
  int rc = l->fs->info(l->control_file, &mapped);
  if (rc < 0) return rc;
  l->control_inode = mapped.inode;
  rc = sdm_log_in_place(l);
  return rc == 0 ? sdm_log_topic_deleted(l) : rc < 0 ? rc : 0;
}

/* Each process that has a partition open holds a byte of the store's lock file. Those of a topic lie together, and take the kernel one entry. */
static int64_t byte_of(const sdm_log *l) {
  enum { FIRST = 1024, PARTITION_BITS = 20 };
  uint64_t topic = sdm_hash64(l->topic, strlen(l->topic)) >> 32;
  return FIRST + (int64_t)(topic << PARTITION_BITS | ((uint64_t)l->partition & ((1 << PARTITION_BITS) - 1)));
}

/* The page is not of this incarnation. Somebody has the partition open all the same: then it was removed, or written to, under him, and what it told only he
** knows. But to a new partition nobody has appended, nor to one that is as it was imported: what he has open is one of that name that was there before. */
static int check_nobody_has_it(sdm_log *l) {
  sdm_state_file state;
  sdm_file *f = l->env->lock_file;
  int rc = l->fs->lock(f, byte_of(l), SDM_LOCK_EXCLUSIVE, false);
  if (rc != SDM_LOCKED) return rc;
  if ((rc = sdm_log_state_read(l->fs, l->dir, &state)) < 0) return rc;
  if (!state.damaged && (state.sequence == 0 || (state.clean && state.sequence == 1))) return 0;
  return sdm_fail(SDM_LOCKED, "%s/" SDM_CONTROL_NAME " was removed or damaged while another process has the partition open; close the store there first", l->dir);
}

/* Before the page is relied on, or made anew. */
static int claim(sdm_log *l, bool current) {
  if (!l->env->lock_file) return 0;
  int rc = current ? 0 : check_nobody_has_it(l);
  return rc == 0 ? l->fs->lock(l->env->lock_file, byte_of(l), SDM_LOCK_SHARED, true) : rc;
}

/* Under the lock of the control file only one process at a time looks whether the page is of this incarnation, and makes it so. Who deletes the topic
** takes this lock before it renames the folder: a recovery never works on another's files.
*/
static int take_over(sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  sdm_env *env = l->env;
  int rc = l->fs->lock(l->control_file, 0, SDM_LOCK_EXCLUSIVE, true);
  if (rc < 0) return rc;
  rc = check_place(l);
  bool current = sdm_control_valid(l->control, env->boot_id) && atomic_load(&l->control->incarnation) == env->incarnation;
  if (rc == 0) rc = claim(l, current);
  if (rc == 0 && !current) rc = sdm_recover(l, cfg, now);
  l->opened = rc == 0;
  l->fs->lock(l->control_file, 0, SDM_LOCK_NONE, false);
  return rc;
}

static int open_writable(sdm_log *l, const sdm_log_config *cfg, int64_t now) {
  int rc = sdm_control_map(l->fs, l->dir, true, &l->control_file, &l->control);
  if (rc == SDM_NOT_FOUND) rc = sdm_log_topic_deleted(l);      /* the folder was there a moment ago */
  if (rc == 0) rc = take_over(l, cfg, now);
  if (rc < 0) return rc;
  l->fs->close(l->control_file);           /* the mapping stays */
  l->control_file = NULL;
  if ((rc = sdm_log_lock(l)) < 0) return rc;
  l->generation = UINT64_MAX;
  rc = sdm_log_sync_locked(l);
  sdm_log_unlock(l);
  return rc;
}

int sdm_log_open(sdm_env *env, const char *topic, int32_t partition, const sdm_log_config *cfg, int64_t now, sdm_log **out) {
  char *dir = sdm_format("%s/%s-%d", env->root, topic, partition);
  sdm_log *l = dir ? sdm_log_new(env->fs, dir, topic, partition) : NULL;
  sdm_free(dir);
  if (!l) return sdm_no_memory();
  l->env = env;
  l->config = *cfg;
  l->writable = env->writable;
  int rc = env->writable ? open_writable(l, cfg, now) : sdm_bare_open(l);
  if (rc < 0) {
    sdm_log_unref(l);
    return sdm_fail_within(rc, "partition %s-%d: ", topic, partition);
  }
  *out = l;
  return 0;
}

void sdm_log_set_config(sdm_log *l, const sdm_log_config *cfg) {
  sdm_mutex_lock(&l->lock);
  l->config = *cfg;
  sdm_mutex_unlock(&l->lock);
}

void sdm_log_get_config(sdm_log *l, sdm_log_config *out) {
  sdm_mutex_lock(&l->lock);
  *out = l->config;
  sdm_mutex_unlock(&l->lock);
}
