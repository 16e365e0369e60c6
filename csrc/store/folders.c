/* The folders of partitions: made with Kafka's small files in them, renamed when the topic is deleted, unlinked later. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "format/epochs.h"
#include "log/offsets.h"
#include "log/reserve.h"
#include "os/host.h"
#include "store/folders.h"

#define METADATA "partition.metadata"

static const char *const checkpoints[] = {SDM_LOG_START_CHECKPOINT, SDM_RECOVERY_CHECKPOINT, SDM_CLEANER_CHECKPOINT};
enum { CHECKPOINTS = sizeof checkpoints / sizeof *checkpoints };

char *sdm_folder_path(sdm_store *s, const char *topic, int32_t partition) { return sdm_format("%s/%s-%d", s->env.root, topic, partition); }

/* What Sediment or a broker puts into a partition's folder. Anything else is somebody's, who may have linked the folder to one of his own. */
static bool is_partitions(const char *name) {
  static const char *const starts[] = {"sediment.", METADATA, SDM_EPOCHS_NAME};
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    if (strncmp(name, starts[i], strlen(starts[i])) == 0) return true;
  }
  return strspn(name, "0123456789") == 20 && name[20] == '.';
}

/* 1: it is none of ours, or a folder, and stays. */
static int remove_file(sdm_fs *fs, const char *path, const char *name) {
  sdm_file_info info;
  if (!is_partitions(name)) return 1;
  int rc = fs->path_info(fs, path, &info);
  if (rc == SDM_NOT_FOUND) return fs->unlink(fs, path);        /* a dangling link */
  return rc < 0 ? rc : info.directory ? 1 : fs->unlink(fs, path);
}

static int remove_files(sdm_fs *fs, const char *dir, const sdm_names *names) {
  sdm_failure stays = {0};
  int rc = 0;
  for (size_t i = 0; rc >= 0 && i < names->count; i++) {
    if (strcmp(names->items[i], SDM_DELETED_MARK) == 0) continue;
    char *path = sdm_format("%s/%s", dir, names->items[i]);
    rc = path ? remove_file(fs, path, names->items[i]) : sdm_no_memory();
    if (rc == 1) sdm_failure_note(&stays, sdm_fail(SDM_EXISTS, "%s is none of a partition's files and stays where it is, and so does the folder", path));
    sdm_free(path);
  }
  return rc < 0 ? rc : sdm_failure_tell(&stays);
}

/* *gone: where it is then, for good. */
static int put_aside(sdm_store *s, const char *dir, char **gone) {
  char topic[SDM_TOPIC_NAME_MAX + 1];
  int32_t partition;
  sdm_uuid drawn;
  bool named = sdm_partition_name_decode(strrchr(dir, '/') + 1, topic, &partition) == 0;
  int rc = named ? sdm_random(drawn.bytes, sizeof drawn.bytes) : 0;
  if (rc < 0) return rc;
  *gone = named ? sdm_folder_deleted_path(s, topic, &drawn, partition) : sdm_strdup(dir);
  if (!*gone) return sdm_no_memory();
  if (named) rc = s->env.fs->rename(s->env.fs, dir, *gone);
  return named && rc == 0 ? s->env.fs->sync_dir(s->env.fs, s->env.root, NULL) : rc;
}

/* Who dies here leaves an empty folder without a mark: under a partition's name it would pass for somebody's, under a deleted one's it goes (remove_if_empty). */
static int remove_emptied(sdm_store *s, const char *dir) {
  sdm_fs *fs = s->env.fs;
  char *gone = NULL, *mark = NULL;
  int rc = put_aside(s, dir, &gone);
  if (rc == 0) rc = (mark = sdm_format("%s/%s", gone, SDM_DELETED_MARK)) ? fs->unlink(fs, mark) : sdm_no_memory();
  if (rc == 0) rc = fs->remove_dir(fs, gone);
  sdm_free(gone);
  sdm_free(mark);
  return rc;
}

/* The mark goes last: a folder without it is not looked at again, as one that has something in it that stays. That is told once. */
int sdm_folder_remove(sdm_store *s, const char *dir, const char *mark) {
  sdm_names names = {0};
  sdm_fs *fs = s->env.fs;
  int rc = fs->list(fs, dir, &names);
  if (rc == 0) rc = remove_files(fs, dir, &names);
  sdm_names_clear(&names);
  if (rc < 0 && rc != SDM_EXISTS) return rc;
  sdm_failure stays = {0};
  sdm_failure_note(&stays, rc);
  if (stays.code == 0) return remove_emptied(s, dir);
  rc = fs->unlink(fs, mark);
  return rc < 0 ? rc : sdm_failure_tell(&stays);
}

/* A folder that has a partition's name and the mark of a deleted one is of an import that died before its topic listed it: it is nobody's. SDM_NOT_FOUND: this
** is none. */
static int find_unlisted(sdm_store *s, const char *dir, bool clear) {
  sdm_file_info info;
  char *mark = sdm_format("%s/%s", dir, SDM_DELETED_MARK);
  int rc = mark ? s->env.fs->path_info(s->env.fs, mark, &info) : sdm_no_memory();
  if (rc == 0 && clear) rc = sdm_folder_remove(s, dir, mark);
  sdm_free(mark);
  return rc;
}

int sdm_folder_check_free(sdm_store *s, const char *topic, int32_t from, int32_t to, bool clear) {
  int rc = 0;
  for (int32_t p = from; rc == 0 && p < to; p++) {
    sdm_file_info info;
    char *path = sdm_folder_path(s, topic, p);
    rc = path ? s->env.fs->path_info(s->env.fs, path, &info) : sdm_no_memory();
    if (rc == 0 && (rc = find_unlisted(s, path, clear)) == SDM_NOT_FOUND) rc = sdm_fail(SDM_EXISTS, "%s is there and belongs to no topic of this store; move it away, or give the topic another name", path);
    else if (rc == SDM_NOT_FOUND) rc = 0;
    sdm_free(path);
  }
  return rc;
}

static bool is_ours(sdm_store *s, const char *name) {
  char topic[SDM_TOPIC_NAME_MAX + 1];
  int32_t partition;
  sdm_file_info info;
  if (sdm_partition_name_decode(name, topic, &partition) < 0) return false;
  char *path = sdm_format("%s/%s/%s", s->env.root, name, SDM_CONTROL_NAME);
  bool there = path && s->env.fs->path_info(s->env.fs, path, &info) == 0;
  sdm_free(path);
  return there;
}

int sdm_folders_check_none(sdm_store *s) {
  sdm_names names = {0};
  int rc = s->env.fs->list(s->env.fs, s->env.root, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (!is_ours(s, names.items[i])) continue;
    rc = sdm_fail(SDM_CORRUPT, "%s is missing, but %s is a partition of a store; restore it from a backup, or move the partitions away", SDM_TOPICS_NAME, names.items[i]);
  }
  sdm_names_clear(&names);
  return rc;
}

int sdm_folder_write_metadata(sdm_store *s, const char *dir, const sdm_uuid *id) {
  sdm_buf text = SDM_BUF_INIT;
  int rc = sdm_metadata_encode(&text, id);
  if (rc == 0) rc = sdm_reserve_replace(&s->env, dir, METADATA, text.data, text.size);
  sdm_buf_free(&text);
  return rc;
}

int sdm_folder_write_small_files(sdm_store *s, const char *dir, const sdm_uuid *id) {
  sdm_buf text = SDM_BUF_INIT;
  int rc = sdm_epochs_encode(&(sdm_epochs){.entries = &(sdm_epoch){0, 0}, .count = 1}, &text);
  if (rc == 0) rc = sdm_reserve_replace(&s->env, dir, SDM_EPOCHS_NAME, text.data, text.size);
  sdm_buf_free(&text);
  return rc == 0 ? sdm_folder_write_metadata(s, dir, id) : rc;
}

static int check_id(const char *path, const char *text, size_t size, const sdm_uuid *id) {
  sdm_uuid found;
  char ours[SDM_UUID_TEXT + 1], theirs[SDM_UUID_TEXT + 1];
  int rc = sdm_metadata_decode(&found, text, size);
  sdm_uuid_encode(id, ours);
  if (rc < 0) return sdm_fail_within(rc, "%s is damaged; its two lines should be \"version: 0\" and \"topic_id: %s\": ", path, ours);
  if (memcmp(&found, id, sizeof found) == 0) return 0;
  sdm_uuid_encode(&found, theirs);
  return sdm_fail(SDM_EXISTS, "%s has the topic id %s, and %s says %s; if a broker has served the folder, put that id back into the file, else move the folder "
                  "away: it is another topic's", path, theirs, SDM_TOPICS_NAME, ours);
}

/* A mark in the folder of a partition that is listed is what an import left that died as it was done. */
int sdm_folder_unmark(sdm_store *s, const char *dir) {
  char *mark = sdm_format("%s/%s", dir, SDM_DELETED_MARK);
  int rc = mark ? s->env.fs->unlink(s->env.fs, mark) : sdm_no_memory();
  sdm_free(mark);
  return rc;
}

static bool is_stray(const char *name, const char *topic, int32_t partition) {
  char start[SDM_TOPIC_NAME_MAX + 16];
  int n = snprintf(start, sizeof start, "%s-%d.", topic, partition);
  size_t size = strlen(name), end = sizeof "-stray" - 1;
  return strncmp(name, start, (size_t)n) == 0 && size > end && strcmp(name + size - end, "-stray") == 0;
}

/* A listed partition whose folder is missing gets it anew when it is opened. One that had records is not to begin with offset 0 again. */
static int check_never_made(sdm_store *s, const char *topic, int32_t partition) {
  sdm_names names = {0};
  bool had = false;
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < CHECKPOINTS; i++) {
    int64_t offset = -1;
    rc = sdm_offsets_find(&s->env, checkpoints[i], topic, partition, &offset);
    had = had || offset > 0;
  }
  if (rc == 0) rc = s->env.fs->list(s->env.fs, s->env.root, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (!is_stray(names.items[i], topic, partition)) continue;
    rc = sdm_fail(SDM_NOT_FOUND, "%s/%s-%d is missing: a Kafka broker that did not know the topic has renamed it to %s; rename it back", s->env.root, topic,
                  partition, names.items[i]);
  }
  sdm_names_clear(&names);
  if (rc < 0 || !had) return rc;
  return sdm_fail(SDM_NOT_FOUND, "%s/%s-%d is missing, and has had records; put it back, or delete the topic", s->env.root, topic, partition);
}

/* The folder with its metadata counts as made, also for who finds it after this has failed: its name is durable before. */
static int make_folder(sdm_store *s, const char *dir, const char *topic, const sdm_uuid *id, int32_t partition) {
  sdm_file_info info;
  int rc = s->env.fs->path_info(s->env.fs, dir, &info);
  if (rc == SDM_NOT_FOUND && (rc = check_never_made(s, topic, partition)) == 0) rc = s->env.fs->make_dir(s->env.fs, dir);
  if (rc == 0) rc = s->env.fs->sync_dir(s->env.fs, s->env.root, NULL);
  return rc == 0 ? sdm_folder_write_small_files(s, dir, id) : rc;
}

static int ensure(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition) {
  sdm_fs *fs = s->env.fs;
  char *dir = sdm_folder_path(s, topic, partition), *path = dir ? sdm_format("%s/%s", dir, METADATA) : NULL, *text = NULL;
  size_t size;
  int rc = path ? sdm_fs_read_all(fs, path, 4096, &text, &size) : sdm_no_memory();
  if (rc == 0) {
    rc = check_id(path, text, size, id);
    if (rc == 0 && s->env.writable) rc = sdm_folder_unmark(s, dir);
  } else if (rc == SDM_NOT_FOUND && s->env.writable) {
    rc = make_folder(s, dir, topic, id, partition);
  }
  sdm_free(text);
  sdm_free(path);
  sdm_free(dir);
  return rc;
}

int sdm_folder_check_id(sdm_fs *fs, const char *dir, const sdm_uuid *id) {
  char *path = sdm_format("%s/%s", dir, METADATA), *text = NULL;
  size_t size;
  int rc = path ? sdm_fs_read_all(fs, path, 4096, &text, &size) : sdm_no_memory();
  if (rc == 0) rc = check_id(path, text, size, id);
  sdm_free(text);
  sdm_free(path);
  return rc;
}

/* Who only reads holds no lock: what he found wrong may be of a topic that was just deleted, or made anew. */
static int explain_unlocked(sdm_store *s, const char *topic, const sdm_uuid *id, int rc) {
  sdm_failure why = {0};
  if (rc != SDM_EXISTS && rc != SDM_NOT_FOUND) return rc;
  sdm_failure_note(&why, rc);
  if ((rc = sdm_store_still_lists(s, topic, id)) < 0) return rc;
  return rc == 1 ? sdm_failure_tell(&why) : sdm_store_topic_deleted(topic);
}

int sdm_folder_look(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition) {
  char *dir = sdm_folder_path(s, topic, partition);
  sdm_file_info info;
  int rc = dir ? s->env.fs->path_info(s->env.fs, dir, &info) : sdm_no_memory();
  if (rc == SDM_NOT_FOUND) {
    rc = check_never_made(s, topic, partition);
  } else if (rc == 0) {
    rc = sdm_folder_check_id(s->env.fs, dir, id);
    if (rc == 0 || rc == SDM_NOT_FOUND) rc = 1;          /* one that is just being made has no metadata yet */
  }
  sdm_free(dir);
  return explain_unlocked(s, topic, id, rc);
}

/* Under the topics lock, so that no folder is made for a topic that was deleted a moment ago, and none by two at once. */
int sdm_folder_ensure(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition) {
  if (!s->env.writable) return explain_unlocked(s, topic, id, ensure(s, topic, id, partition));
  int rc = sdm_store_topics_lock(s);
  if (rc < 0) return rc;
  rc = sdm_topics_find_this(&s->topics, topic, id) ? ensure(s, topic, id, partition) : sdm_store_topic_deleted(topic);
  sdm_store_topics_unlock(s);
  return rc;
}

/* ---- deletion ---- */

/* Kafka's name for a deleted partition's folder; a long topic name is cut so that the whole fits a file name. */
char *sdm_folder_deleted_path(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition) {
  enum { NAME_MAX_BYTES = 255, REST = 32 + 1 + 11 + 1 + 7 };
  char hex[33];
  for (int i = 0; i < 16; i++) {
    static const char digits[] = "0123456789abcdef";
    hex[2 * i] = digits[id->bytes[i] >> 4];
    hex[2 * i + 1] = digits[id->bytes[i] & 15];
  }
  hex[32] = 0;
  return sdm_format("%s/%.*s-%d.%s-delete", s->env.root, NAME_MAX_BYTES - REST, topic, partition, hex);
}

/* The text is for the case that the clock is set back. On a full disk there is none. */
int sdm_folder_mark(sdm_store *s, const char *dir, int64_t now, int64_t delay_ms) {
  char text[24], *path = sdm_format("%s/%s", dir, SDM_DELETED_MARK);
  sdm_fs *fs = s->env.fs;
  sdm_file *f;
  int rc = path ? fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = fs->write(f, text, (size_t)snprintf(text, sizeof text, "%" PRId64 "\n", delay_ms), 0);
  if (rc == 0 || rc == SDM_DISK_FULL) rc = fs->set_modified(f, sdm_add_sat(now, delay_ms));
  fs->close(f);
  return rc;
}

/* Renames the folder while nobody is at work in it, and leaves word on its control page for all who have it open: whoever comes to the locks later
** finds that the topic is gone, before it touches a file by a name that may by then be another topic's.
*/
static int rename_held(sdm_store *s, sdm_control *c, const char *dir, const char *gone) {
  bool died;
  atomic_store(&c->deleted, SDM_GONE_DELETED);            /* a cleaning that is under way gives up at its next batch */
  sdm_log_wake(&c->news, &c->awaited);
  int rc = sdm_shared_mutex_lock(&c->maintenance, &died);
  if (rc < 0) return rc;
  if ((rc = sdm_shared_mutex_lock(&c->lock, &died)) == 0) {
    rc = s->env.fs->rename(s->env.fs, dir, gone);
    sdm_shared_mutex_unlock(&c->lock);
  }
  sdm_shared_mutex_unlock(&c->maintenance);
  return rc;
}

/* The page is made when it is missing: under the lock of its file nobody is just putting the folder's files right (take_over in log.c). */
static int rename_folder(sdm_store *s, const char *dir, const char *gone) {
  sdm_fs *fs = s->env.fs;
  sdm_file *f;
  sdm_control *c;
  if (sdm_control_map(fs, dir, true, &f, &c) < 0) return fs->rename(fs, dir, gone);
  int rc = fs->lock(f, 0, SDM_LOCK_EXCLUSIVE, true);
  bool shared = sdm_control_valid(c, s->env.boot_id) && atomic_load(&c->incarnation) == s->env.incarnation;
  if (rc == 0) rc = shared ? rename_held(s, c, dir, gone) : fs->rename(fs, dir, gone);
  sdm_control_unmap(fs, f, c);             /* and the lock is gone */
  return rc;
}

int sdm_folder_delete(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition, int64_t now, int64_t delay_ms) {
  char *dir = sdm_folder_path(s, topic, partition), *gone = sdm_folder_deleted_path(s, topic, id, partition);
  sdm_file_info info;
  int rc = dir && gone ? s->env.fs->path_info(s->env.fs, dir, &info) : sdm_no_memory();
  if (rc == 0) {
    rc = sdm_folder_mark(s, dir, now, delay_ms);
    if (rc == 0) rc = rename_folder(s, dir, gone);
  } else if (rc == SDM_NOT_FOUND) {
    rc = 0;
  }
  sdm_free(dir);
  sdm_free(gone);
  return rc;
}

int sdm_folders_forget_offsets(sdm_store *s, const char *topic, int32_t partitions) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < CHECKPOINTS; i++) rc = sdm_offsets_remove(&s->env, checkpoints[i], topic, partitions);
  return rc;
}

/* Nobody else is making, or removing, one meanwhile; and who is just importing into it holds its mark's lock. 1: it is gone. */
static int remove_held(sdm_store *s, const char *dir, const char *mark) {
  sdm_file *f;
  int rc = sdm_store_topics_hold(s);
  if (rc < 0) return rc;
  if ((rc = s->env.fs->open(s->env.fs, mark, SDM_OPEN_WRITE, &f)) == 0) {
    rc = s->env.fs->lock(f, 0, SDM_LOCK_EXCLUSIVE, false);
    if (rc == 0 && (rc = sdm_folder_remove(s, dir, mark)) == 0) rc = 1;
    s->env.fs->close(f);
  }
  sdm_store_topics_release(s);
  return rc == SDM_LOCKED ? 0 : rc;
}

/* Somebody died between making or emptying the folder and its mark. */
static int remove_if_empty(sdm_store *s, const char *dir) {
  sdm_names names = {0};
  int rc = s->env.fs->list(s->env.fs, dir, &names);
  bool empty = rc == 0 && names.count == 0;
  sdm_names_clear(&names);
  if (!empty || (rc = sdm_store_topics_hold(s)) < 0) return rc;
  s->env.fs->remove_dir(s->env.fs, dir);   /* unless it has just been given its mark */
  sdm_store_topics_release(s);
  return 0;
}

/* Without a text, as an import's that died, it is the store's. */
static int read_delay(sdm_store *s, const char *mark, int64_t *out) {
  char *text = NULL, *end;
  size_t size;
  int rc = sdm_fs_read_all(s->env.fs, mark, 24, &text, &size);
  if (rc < 0 && rc != SDM_CORRUPT) return rc;
  *out = text ? strtoll(text, &end, 10) : -1;
  if (!text || end == text || strcmp(end, "\n") != 0 || *out < 0) *out = sdm_config_file_delete_delay_ms(&(sdm_config_set){0}, &s->defaults);
  sdm_free(text);
  return 0;
}

/* One that is to wait for longer than its delay was deleted under a clock that ran ahead and was set right: its wait begins now. */
static int wait_no_longer(sdm_store *s, const char *mark, int64_t due, int64_t now) {
  sdm_file *f;
  int64_t delay_ms;
  int rc = read_delay(s, mark, &delay_ms);
  if (rc < 0 || due <= sdm_add_sat(now, delay_ms)) return rc;
  if ((rc = s->env.fs->open(s->env.fs, mark, SDM_OPEN_WRITE, &f)) < 0) return rc;
  rc = s->env.fs->set_modified(f, sdm_add_sat(now, delay_ms));
  s->env.fs->close(f);
  return rc;
}

static int remove_if_due(sdm_store *s, const char *name, int64_t now, int64_t *count) {
  sdm_file_info info;
  char *dir = sdm_format("%s/%s", s->env.root, name), *mark = sdm_format("%s/%s/%s", s->env.root, name, SDM_DELETED_MARK);
  int rc = dir && mark ? s->env.fs->path_info(s->env.fs, mark, &info) : sdm_no_memory();
  if (rc == 0 && info.modified_ms > now) rc = wait_no_longer(s, mark, info.modified_ms, now);
  else if (rc == 0 && (rc = remove_held(s, dir, mark)) > 0) {
    (*count)++;
    rc = 0;
  }
  if (rc == SDM_NOT_FOUND) rc = remove_if_empty(s, dir);       /* without our mark what is in it is not ours to remove */
  sdm_free(dir);
  sdm_free(mark);
  return rc == SDM_NOT_FOUND ? 0 : rc;
}

int sdm_folders_unlink(sdm_store *s, int64_t now, int64_t *count) {
  sdm_names names = {0};
  static const char suffix[] = "-delete";
  sdm_failure first = {0};
  sdm_failure_note(&first, s->env.fs->list(s->env.fs, s->env.root, &names));
  for (size_t i = 0; i < names.count; i++) {
    size_t n = strlen(names.items[i]), m = sizeof suffix - 1;
    if (n > m && strcmp(names.items[i] + n - m, suffix) == 0) sdm_failure_note(&first, remove_if_due(s, names.items[i], now, count));
  }
  sdm_names_clear(&names);
  return sdm_failure_tell(&first);
}

static bool is_listed(const sdm_store *s, const char *topic, int32_t partition) {
  const sdm_topic_entry *e = sdm_topics_find(&s->topics, topic);
  return e && partition < e->partitions;
}

/* Calls f for each folder with a partition's name that no topic lists, until it fails. */
static int each_unlisted(sdm_store *s, int (*f)(sdm_store *s, const char *dir)) {
  sdm_names names = {0};
  int rc = s->env.fs->list(s->env.fs, s->env.root, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    char topic[SDM_TOPIC_NAME_MAX + 1];
    int32_t partition;
    if (sdm_partition_name_decode(names.items[i], topic, &partition) < 0 || is_listed(s, topic, partition)) continue;
    char *dir = sdm_format("%s/%s", s->env.root, names.items[i]);
    rc = dir ? f(s, dir) : sdm_no_memory();
    sdm_free(dir);
  }
  sdm_names_clear(&names);
  return rc;
}

/* One that cannot go does not keep the others. */
static int drop_unlisted(sdm_store *s, const char *dir) {
  find_unlisted(s, dir, true);
  return 0;
}

int sdm_folders_drop_unlisted(sdm_store *s) { return each_unlisted(s, drop_unlisted); }

static int refuse(sdm_store *s, const char *dir) {
  (void)s;
  return sdm_fail(SDM_EXISTS, "%s is of no topic of this store", dir);
}

int sdm_folders_check_all_listed(sdm_store *s) { return each_unlisted(s, refuse); }
