/* Making a folder into a copy of the store. First there is a mark in it, last the topics file; where the mark is and that file is not, the folder is nobody's
** store. In between everything is made durable.
*/
#include <string.h>

#include "base/mem.h"
#include "log/backup.h"
#include "log/offsets.h"
#include "os/host.h"
#include "store/store.h"

#define BACKUP_MARK "sediment.backup"      /* who is filling the folder holds a lock on it */

typedef struct backup {
  sdm_store *store;
  sdm_fs *fs;
  char *to;
  int64_t now;
  bool made;                               /* the folder was missing */
  sdm_file *mark;
  sdm_topics_file topics;                  /* those that are copied */
  sdm_checkpoint starts, cleaned, recovery;
} backup;

/* ---- the folder ---- */

int sdm_backup_check_ended(sdm_fs *fs, const char *dir) {
  sdm_file_info info;
  char *mark = sdm_format("%s/%s", dir, BACKUP_MARK), *topics = sdm_format("%s/%s", dir, SDM_TOPICS_NAME);
  int rc = mark && topics ? fs->path_info(fs, mark, &info) : sdm_no_memory();
  if (rc == 0 && (rc = fs->path_info(fs, topics, &info)) == SDM_NOT_FOUND) {
    rc = sdm_fail(SDM_CORRUPT, "%s is of a backup that was not finished, and no store; remove it", dir);
  } else if (rc == SDM_NOT_FOUND) {
    rc = 0;
  }
  sdm_free(mark);
  sdm_free(topics);
  return rc;
}

/* 1: it is there, a folder with nothing in it. 0: it is missing. */
static int look_at_target(backup *b) {
  sdm_file_info info;
  sdm_names names = {0};
  int rc = b->fs->path_info(b->fs, b->to, &info);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;
  if (!info.directory) return sdm_fail(SDM_EXISTS, "%s is there, and no folder", b->to);
  if ((rc = sdm_backup_check_ended(b->fs, b->to)) < 0) return rc == SDM_CORRUPT ? SDM_EXISTS : rc;
  rc = b->fs->list(b->fs, b->to, &names);
  if (rc == 0) rc = names.count == 0 ? 1 : sdm_fail(SDM_EXISTS, "%s is not empty; a backup needs a folder of its own", b->to);
  sdm_names_clear(&names);
  return rc;
}

static int open_mark(backup *b) {
  char *path = sdm_format("%s/%s", b->to, BACKUP_MARK);
  int rc = path ? b->fs->open(b->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &b->mark) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = b->fs->lock(b->mark, 0, SDM_LOCK_EXCLUSIVE, false);
  if (rc == 0) return 0;
  b->fs->close(b->mark);
  b->mark = NULL;
  return rc == SDM_LOCKED ? sdm_fail(SDM_EXISTS, "%s is just being filled by another backup", b->to) : rc;
}

static bool lies_in(const char *path, const char *root) {
  size_t size = strlen(root);
  return strncmp(path, root, size) == 0 && (path[size] == 0 || path[size] == '/');
}

/* Another folder in a store would keep a broker from starting on it, and it would be copied into itself: asked of the folder itself, or of the one that
** it will be in. */
static int check_outside(const backup *b) {
  const char *root = b->store->env.root;
  char *parent = sdm_strdup(b->to), *in = sdm_real_path(b->to), *real = sdm_real_path(root);
  if (parent) parent[strrchr(parent, '/') > parent ? strrchr(parent, '/') - parent : 1] = 0;
  if (parent && !in) in = sdm_real_path(parent);
  bool inside = lies_in(b->to, root) || (in && real && lies_in(in, real));
  sdm_free(parent);
  sdm_free(in);
  sdm_free(real);
  return inside ? sdm_fail(SDM_MISUSE, "%s lies in the store %s; a backup needs a folder outside", b->to, root) : 0;
}

/* Since the folder was looked at, and before the mark was in it, it may have become a store, or another backup that is done by now. From here on nobody
** opens it. */
static int check_alone(backup *b) {
  sdm_names names = {0};
  int rc = b->fs->list(b->fs, b->to, &names);
  bool others = names.count != 1 || strcmp(names.items[0], BACKUP_MARK) != 0;
  if (rc == 0 && others) rc = sdm_fail(SDM_EXISTS, "%s is not empty any more; a backup needs a folder of its own", b->to);
  sdm_names_clear(&names);
  return rc;
}

/* The folder is somebody's: nothing in it is touched but the mark. */
static void drop_mark(backup *b) {
  sdm_failure why = {0};
  sdm_failure_note(&why, SDM_EXISTS);
  b->fs->unlink(b->fs, b->mark->path);
  b->fs->close(b->mark);
  b->mark = NULL;
  sdm_failure_tell(&why);
}

static int begin(backup *b) {
  int rc = check_outside(b);
  if (rc == 0 && (rc = look_at_target(b)) == 0) {
    b->made = true;
    rc = b->fs->make_dir(b->fs, b->to);
    if (rc == SDM_NOT_FOUND) rc = sdm_fail(rc, "%s cannot be made, for the folder that it would be in is missing; make that first", b->to);
  }
  if (rc >= 0) rc = open_mark(b);
  if (rc == 0 && (rc = check_alone(b)) < 0) drop_mark(b);
  if (rc == 0) rc = b->fs->sync(b->mark);
  return rc == 0 ? b->fs->sync_dir(b->fs, b->to, NULL) : rc;
}

/* ---- the way back ---- */

static void remove_files(sdm_fs *fs, const char *dir, const char *but) {
  sdm_names names = {0};
  fs->list(fs, dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    char *path = but && strcmp(names.items[i], but) == 0 ? NULL : sdm_format("%s/%s", dir, names.items[i]);
    if (path) fs->unlink(fs, path);
    sdm_free(path);
  }
  sdm_names_clear(&names);
}

static void remove_partition(backup *b, const char *topic, int32_t partition) {
  char *dir = sdm_format("%s/%s-%d", b->to, topic, partition);
  if (dir) {
    remove_files(b->fs, dir, NULL);
    b->fs->remove_dir(b->fs, dir);
  }
  sdm_free(dir);
}

/* 0: it is no store, for good; else it is a whole one, and stays. */
static int take_back_topics(backup *b) {
  char *path = sdm_format("%s/%s", b->to, SDM_TOPICS_NAME);
  int rc = path ? b->fs->unlink(b->fs, path) : sdm_no_memory();
  if (rc == 0) rc = b->fs->sync_dir(b->fs, b->to, NULL);
  sdm_free(path);
  return rc;
}

/* All that is in it was made here. The mark goes when the rest is gone for good. */
static void abandon(backup *b) {
  sdm_names names = {0};
  char topic[SDM_TOPIC_NAME_MAX + 1];
  int32_t partition;
  if (take_back_topics(b) < 0) return;
  b->fs->list(b->fs, b->to, &names);
  for (size_t i = 0; i < names.count; i++) {
    if (sdm_partition_name_decode(names.items[i], topic, &partition) == 0) remove_partition(b, topic, partition);
  }
  sdm_names_clear(&names);
  remove_files(b->fs, b->to, BACKUP_MARK);
  if (b->fs->sync_dir(b->fs, b->to, NULL) < 0) return;
  remove_files(b->fs, b->to, NULL);
  if (b->made) b->fs->remove_dir(b->fs, b->to);
}

/* ---- partitions ---- */

static int note(backup *b, const char *topic, int32_t partition, const sdm_backed_up *of) {
  int rc = sdm_checkpoint_set(&b->starts, topic, partition, of->log_start);
  if (rc == 0) rc = sdm_checkpoint_set(&b->recovery, topic, partition, of->log_end);
  return rc == 0 && of->clean_offset >= 0 ? sdm_checkpoint_set(&b->cleaned, topic, partition, of->clean_offset) : rc;
}

static int fill(backup *b, const sdm_topic_entry *topic, int32_t partition, const char *dir) {
  sdm_backed_up done;
  sdm_log *l;
  int rc = sdm_store_log(b->store, topic, partition, b->now, &l);
  if (rc == 0) rc = b->fs->make_dir(b->fs, dir);
  else return rc;
  if (rc == 0) rc = sdm_backup_log(l, dir, b->now, &done);
  sdm_log_unref(l);
  if (rc == 0) rc = sdm_folder_check_id(b->fs, dir, &topic->id);
  if (rc == SDM_EXISTS) rc = sdm_fail(SDM_UNKNOWN_TOPIC, "topic '%s' was deleted meanwhile", topic->name);
  return rc == 0 ? note(b, topic->name, partition, &done) : rc;
}

/* A partition that was never opened has no folder: it gets one when it is. Who may write makes it now. */
static int take_partition(backup *b, const sdm_topic_entry *topic, int32_t partition) {
  int rc = b->store->env.writable ? 1 : sdm_folder_look(b->store, topic->name, &topic->id, partition);
  if (rc <= 0) return rc;
  char *dir = sdm_format("%s/%s-%d", b->to, topic->name, partition);
  rc = dir ? fill(b, topic, partition, dir) : sdm_no_memory();
  sdm_free(dir);
  return rc;
}

static void forget(backup *b, const sdm_topic_entry *topic) {
  for (int32_t p = 0; p < topic->partitions; p++) remove_partition(b, topic->name, p);
  sdm_checkpoint_remove(&b->starts, topic->name, 0, topic->partitions);
  sdm_checkpoint_remove(&b->recovery, topic->name, 0, topic->partitions);
  sdm_checkpoint_remove(&b->cleaned, topic->name, 0, topic->partitions);
}

/* One that is deleted meanwhile is as if it had been before. */
static int take_topic(backup *b, const sdm_topic_entry *topic) {
  int rc = 0;
  for (int32_t p = 0; rc == 0 && p < topic->partitions; p++) rc = take_partition(b, topic, p);
  if (rc == SDM_UNKNOWN_TOPIC) {
    forget(b, topic);
    return 0;
  }
  return rc == 0 ? sdm_topics_add(&b->topics, topic) : rc;
}

static int take_topics(backup *b) {
  sdm_topic_entry *topics = NULL;
  size_t count = 0;
  int rc = sdm_store_refresh(b->store);
  if (rc == 0) rc = sdm_store_copy_topics(b->store, &topics, &count);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    if (topics[i].state == SDM_TOPIC_LIVE) rc = take_topic(b, &topics[i]);
  }
  sdm_free(topics);
  return rc;
}

/* ---- the store's files ---- */

static int write_checkpoint(backup *b, const char *name, const sdm_checkpoint *c) {
  sdm_buf text = SDM_BUF_INIT;
  int rc = sdm_checkpoint_encode(c, &text);
  if (rc == 0) rc = sdm_fs_replace(b->fs, b->to, name, text.data, text.size);
  sdm_buf_free(&text);
  return rc;
}

static int write_topics(backup *b) {
  sdm_buf text = SDM_BUF_INIT;
  int rc = sdm_topics_encode(&b->topics, &text);
  if (rc == 0) rc = sdm_fs_replace(b->fs, b->to, SDM_TOPICS_NAME, text.data, text.size);
  sdm_buf_free(&text);
  return rc;
}

static int copy_policy(backup *b, const char *file) {
  char *path = sdm_format("%s/%s", b->store->env.root, file), *bytes = NULL;
  size_t size = 0;
  int rc = path ? sdm_fs_read_all(b->fs, path, 2 * SDM_POLICY_TEXT_MAX, &bytes, &size) : sdm_no_memory();
  if (rc == 0) rc = sdm_fs_replace(b->fs, b->to, file, bytes, size);
  else if (rc == SDM_NOT_FOUND) rc = 0;    /* it was removed meanwhile, so no topic has it */
  sdm_free(bytes);
  sdm_free(path);
  return rc;
}

/* As they are: a damaged one stays damaged. */
static int copy_policies(backup *b) {
  sdm_names names = {0};
  int rc = b->fs->list(b->fs, b->store->env.root, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (sdm_policy_name_in(names.items[i])) rc = copy_policy(b, names.items[i]);
  }
  sdm_names_clear(&names);
  return rc;
}

/* From the topics file on it is a store; the mark says nothing any more, and may stay. */
static int finish(backup *b) {
  int rc = write_checkpoint(b, SDM_LOG_START_CHECKPOINT, &b->starts);
  if (rc == 0) rc = write_checkpoint(b, SDM_RECOVERY_CHECKPOINT, &b->recovery);
  if (rc == 0) rc = write_checkpoint(b, SDM_CLEANER_CHECKPOINT, &b->cleaned);
  if (rc == 0) rc = copy_policies(b);
  if (rc == 0) rc = b->fs->sync_dir(b->fs, b->to, NULL);
  if (rc == 0) rc = sdm_fs_sync_parent(b->fs, b->to);
  if (rc == 0) rc = write_topics(b);
  if (rc == 0 && b->fs->unlink(b->fs, b->mark->path) == 0) b->fs->sync_dir(b->fs, b->to, NULL);
  return rc;
}

/* ---- the whole ---- */

static int run(backup *b) {
  int rc = b->to ? begin(b) : sdm_no_memory();
  if (rc == 0) rc = take_topics(b);
  if (rc == 0) rc = finish(b);
  if (rc == 0 || !b->mark) return rc;
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  abandon(b);
  return sdm_failure_tell(&why);
}

int sdm_store_backup(sdm_store *s, const char *path, int64_t now) {
  int rc = sdm_store_check(s);
  if (rc < 0) return rc;
  sdm_store_saw(s, now);
  backup b = {.store = s, .fs = s->env.fs, .to = sdm_absolute_path(path), .now = now};
  rc = run(&b);
  if (b.mark) b.fs->close(b.mark);
  sdm_topics_free(&b.topics);
  sdm_checkpoint_free(&b.starts);
  sdm_checkpoint_free(&b.cleaned);
  sdm_checkpoint_free(&b.recovery);
  sdm_free(b.to);
  return rc;
}
