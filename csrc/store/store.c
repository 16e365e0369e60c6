/* Opening, sharing and closing a store. */
#include "store/store.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "log/offsets.h"
#include "log/reserve.h"
#include "store/roster.h"
#include "store/snapshot_file.h"

static sdm_mutex registry_lock = SDM_MUTEX_INIT;
static sdm_store *registry;

static void let_go(sdm_fs *fs, sdm_file **f) {
  if (*f) fs->close(*f);
  *f = NULL;
}

/* In the child of a fork: the locks belong to the files' open descriptions, which the child shares. It lets go of them, so that what its parent held
** is free when the parent is gone. The parent's threads, and with them whoever held the registry's lock, are not here.
*/
static void let_go_of_locks(void) {
  sdm_mutex_init(&registry_lock);
  sdm_log_warm_none();
  for (sdm_store *s = registry; s; s = s->next) {
    let_go(s->env.fs, &s->lock_file);
    let_go(s->env.fs, &s->broker_lock_file);
    sdm_rosters_let_go(s);
  }
}

static const char MAGIC[8] = SDM_STORE_PAGE_MAGIC;
enum { VERSION = 2, CONTROL_BYTES = 4096 };
_Static_assert(sizeof(sdm_store_control) <= CONTROL_BYTES, "one page");

/* ---- may we? ---- */

int sdm_store_check(const sdm_store *s) {
  if (s->fork_count != sdm_fork_count()) return sdm_fail(SDM_FORKED, "this store was opened before fork; open it anew in the child");
  return atomic_load_explicit(&s->closed, memory_order_relaxed) ? sdm_fail(SDM_CLOSED, "the store is closed") : 0;
}

int sdm_store_check_writable(const sdm_store *s) {
  int rc = sdm_store_check(s);
  return rc == 0 && !s->env.writable ? sdm_fail(SDM_READONLY, "the store %s was opened read-only", s->env.root) : rc;
}

bool sdm_store_readonly(const sdm_store *s) { return !s->env.writable; }

int sdm_store_option(sdm_store *s, const char *name, int64_t *out) {
  sdm_mutex_lock(&s->lock);
  int rc = sdm_options_get(&s->options, name, out);
  sdm_mutex_unlock(&s->lock);
  return rc;
}

void sdm_store_saw(sdm_store *s, int64_t now) { atomic_store_explicit(&s->last_now, now, memory_order_relaxed); }

/* ---- memory ---- */

sdm_store *sdm_store_ref(sdm_store *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

/* Everything that keeps others out goes with the last reference, or earlier by close. */
static void release_files(sdm_store *s) {
  sdm_fs *fs = s->env.fs;
  if (s->control) fs->unmap(fs, s->control, CONTROL_BYTES);
  if (s->control_file) fs->close(s->control_file);
  let_go(fs, &s->lock_file);
  let_go(fs, &s->broker_lock_file);
  s->control = NULL;
  s->control_file = NULL;
  s->env.checkpoint_lock = NULL;
}

void sdm_store_unref(sdm_store *s) {
  if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < s->log_count; i++) sdm_log_unref(s->logs[i].log);
  sdm_free(s->logs);
  sdm_topics_free(&s->topics);
  release_files(s);
  sdm_mutex_destroy(&s->lock);
  sdm_throttle_destroy(&s->throttle);
  sdm_free(s->env.root);
  sdm_free(s);
}

static sdm_store *new_store(sdm_fs *fs, const char *path, bool writable) {
  sdm_store *s = sdm_calloc(1, sizeof *s);
  char *root = sdm_absolute_path(path);
  if (!s || !root) {
    sdm_free(s);
    sdm_free(root);
    return NULL;
  }
  atomic_init(&s->refs, 1);
  s->handles = 1;
  s->env.fs = fs;
  s->env.root = root;
  s->env.writable = writable;
  s->fork_count = sdm_fork_count();
  s->topics_generation = UINT64_MAX;
  sdm_options_default(&s->options);
  sdm_mutex_init(&s->lock);
  sdm_throttle_init(&s->throttle);
  return s;
}

/* ---- joining the others ---- */

static int open_file(sdm_store *s, const char *name, sdm_file **out) {
  char *path = sdm_format("%s/%s", s->env.root, name);
  int rc = path ? s->env.fs->open(s->env.fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, out) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int map_control(sdm_store *s) {
  sdm_fs *fs = s->env.fs;
  void *map;
  int rc = open_file(s, SDM_STORE_CONTROL_NAME, &s->control_file);
  if (rc == 0) rc = fs->allocate(s->control_file, CONTROL_BYTES);        /* also when it is long enough: it may have come back with holes */
  if (rc == 0) rc = fs->map(s->control_file, CONTROL_BYTES, true, &map);
  if (rc < 0) return rc;
  s->control = map;
  s->env.checkpoint_lock = &s->control->checkpoint_lock;
  return 0;
}

static bool control_valid(const sdm_store *s) {
  const sdm_store_control *c = s->control;
  return memcmp(c->magic, MAGIC, sizeof MAGIC) == 0 && c->version == VERSION && c->size == CONTROL_BYTES &&
         memcmp(c->boot_id, s->env.boot_id, SDM_BOOT_ID) == 0;
}

/* A new incarnation. Its number is drawn, so that no control page of an older one passes for one of it. */
static int begin_incarnation(sdm_store *s) {
  sdm_store_control *c = s->control;
  uint64_t incarnation;
  int rc = sdm_random(&incarnation, sizeof incarnation);
  if (rc < 0) return rc;
  memset((void *)c, 0, sizeof *c);
  rc = sdm_shared_mutex_init(&c->checkpoint_lock);
  if (rc == 0) rc = sdm_shared_mutex_init(&c->topics_lock);
  if (rc < 0) return rc;
  c->version = VERSION;
  c->size = CONTROL_BYTES;
  memcpy(c->boot_id, s->env.boot_id, SDM_BOOT_ID);
  c->incarnation = incarnation | 1;
  atomic_store(&c->topics_generation, 1);
  memcpy(c->magic, MAGIC, sizeof MAGIC);
  return 0;
}

/* Kafka's mark of an orderly end is true only while nobody has the store open. */
static int remove_clean_mark(sdm_store *s) {
  char *path = sdm_format("%s/%s", s->env.root, SDM_CLEAN_SHUTDOWN_NAME);
  int rc = path ? s->env.fs->unlink(s->env.fs, path) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

static int join_locked(sdm_store *s, bool *alone) {
  sdm_fs *fs = s->env.fs;
  int rc = fs->lock(s->lock_file, SDM_BYTE_ALIVE, SDM_LOCK_EXCLUSIVE, false);
  *alone = rc == 0;
  if (rc < 0 && rc != SDM_LOCKED) return rc;
  rc = map_control(s);
  if (rc == 0 && *alone) rc = begin_incarnation(s);
  if (rc == 0 && *alone) rc = remove_clean_mark(s);
  if (rc == 0 && !*alone && !control_valid(s)) {
    rc = sdm_fail(SDM_LOCKED, "%s is in use by a process with another version of Sediment, or its %s was replaced; close it there first", s->env.root, SDM_STORE_CONTROL_NAME);
  }
  if (rc == 0) rc = fs->lock(s->lock_file, SDM_BYTE_ALIVE, SDM_LOCK_SHARED, true);
  if (rc == 0) s->env.incarnation = s->control->incarnation;
  return rc;
}

/* What only the first process of an incarnation does, before anybody else gets in: end what the last one began. What cannot go now keeps nobody from opening: upkeep
** tries it again. */
static int put_right(sdm_store *s, int64_t now) {
  int64_t folders = 0;
  sdm_store_finish_deletions(s, now);
  sdm_folders_unlink(s, INT64_MAX, &folders);
  sdm_folders_drop_unlisted(s);
  sdm_snapshots_drop_unlisted(s);
  sdm_offsets_remember(&s->env);
  int rc = sdm_store_open_all(s, now, NULL, NULL);
  sdm_offsets_forget(&s->env);
  return rc;
}

/* Kafka's own lock on a log directory: a broker that runs there has it, and none starts while the store is open. */
static int lock_out_brokers(sdm_store *s) {
  int rc = open_file(s, ".lock", &s->broker_lock_file);
  if (rc == 0) rc = s->env.fs->lock(s->broker_lock_file, 0, SDM_LOCK_NONE, false);         /* tells of file systems without locks */
  if (rc < 0) return rc;
  rc = s->env.fs->lock(s->broker_lock_file, 0, SDM_LOCK_SHARED, false);
  return rc == SDM_LOCKED ? sdm_fail(rc, "%s is the log directory of a Kafka broker that is running; stop it first", s->env.root) : rc;
}

/* Until there are topics nobody can know whether the store's own name is on the disk: who made the folder may have died. */
static int save_name(sdm_store *s) {
  sdm_file_info info;
  char *topics = sdm_format("%s/%s", s->env.root, SDM_TOPICS_NAME);
  int rc = topics ? s->env.fs->path_info(s->env.fs, topics, &info) : sdm_no_memory();
  sdm_free(topics);
  return rc == SDM_NOT_FOUND ? sdm_fs_sync_parent(s->env.fs, s->env.root) : rc;
}

/* Opening goes one process at a time until the partitions are put right, if that is to do. */
static int join(sdm_store *s, int64_t now) {
  sdm_fs *fs = s->env.fs;
  bool alone = false;
  int rc = lock_out_brokers(s);
  if (rc == 0) rc = open_file(s, SDM_LOCK_NAME, &s->lock_file);
  if (rc == 0) s->env.lock_file = s->lock_file;
  if (rc == 0) rc = fs->boot_id(fs, s->env.boot_id);
  if (rc == 0) rc = fs->lock(s->lock_file, SDM_BYTE_GATE, SDM_LOCK_EXCLUSIVE, true);
  if (rc < 0) return rc;
  rc = join_locked(s, &alone);
  if (rc == 0) rc = save_name(s);
  if (rc == 0) rc = sdm_store_refresh(s);
  if (rc == 0 && alone) rc = put_right(s, now);
  if (rc == 0) sdm_reserve_keep(&s->env);
  fs->lock(s->lock_file, SDM_BYTE_GATE, SDM_LOCK_NONE, false);
  return rc;
}

/* What is given on top of what there is, if they go together; else nothing is changed. */
static int merge_settings(sdm_config_set *defaults, sdm_options *options, const sdm_store_options *o) {
  sdm_config_set merged = *defaults;
  sdm_options chosen = *options;
  sdm_log_config effective;
  int rc = sdm_options_apply(&chosen, &o->options);
  if (rc == 0) rc = sdm_config_apply(&merged, &o->defaults, NULL);
  if (rc == 0) rc = sdm_config_effective(&(sdm_config_set){0}, &merged, &effective);
  if (rc < 0) return rc;
  *defaults = merged;
  *options = chosen;
  return 0;
}

static int take_settings(sdm_store *s, const sdm_store_options *o) {
  int rc = merge_settings(&s->defaults, &s->options, o);
  if (rc < 0) return rc;
  s->env.linger_ms = s->options.linger_ms;
  s->env.batch_size = s->options.batch_size;
  return 0;
}

/* 1, 0, or why it cannot be told. */
static int has_file(sdm_fs *fs, const char *path, const char *name) {
  sdm_file_info info;
  char *file = sdm_format("%s/%s", path, name);
  int rc = file ? fs->path_info(fs, file, &info) : sdm_no_memory();
  sdm_free(file);
  return rc == 0 ? 1 : rc == SDM_NOT_FOUND ? 0 : rc;
}

static int check_store(sdm_fs *fs, const char *path) {
  int rc = has_file(fs, path, SDM_LOCK_NAME);
  if (rc == 0) rc = has_file(fs, path, SDM_TOPICS_NAME);
  return rc == 0 ? sdm_fail(SDM_NOT_FOUND, "%s is a folder, but no store: it has no %s", path, SDM_LOCK_NAME) : rc < 0 ? rc : 0;
}

static int find_root(sdm_fs *fs, const char *path, bool create, sdm_file_info *info) {
  int rc = fs->path_info(fs, path, info);
  if (rc == SDM_NOT_FOUND && !create) return sdm_fail(SDM_NOT_FOUND, "there is no store %s, and it is not to be created", path);
  if (rc == SDM_NOT_FOUND) {
    rc = fs->make_dir(fs, path);
    if (rc == SDM_NOT_FOUND) return sdm_fail(SDM_NOT_FOUND, "%s cannot be made, for the folder that it would be in is missing; make that first", path);
    if (rc == 0) rc = fs->path_info(fs, path, info);
  }
  if (rc == 0 && !info->directory) rc = sdm_fail(SDM_IO, "%s is not a directory", path);
  if (rc == 0) rc = sdm_backup_check_ended(fs, path);
  return rc == 0 && !create ? check_store(fs, path) : rc;
}

static int open_fresh(sdm_fs *fs, const char *path, const sdm_store_options *o, const sdm_file_info *info, int64_t now, sdm_store **out) {
  sdm_store *s = new_store(fs, path, !o->readonly);
  if (!s) return sdm_no_memory();
  s->device = info->device;
  s->inode = info->inode;
  sdm_store_saw(s, now);
  s->wall_clock = o->wall_clock;
  int rc = take_settings(s, o);
  if (rc == 0) rc = o->readonly ? fs->boot_id(fs, s->env.boot_id) : join(s, now);
  if (rc == 0 && o->readonly) rc = sdm_store_refresh(s);
  if (rc == 0 && o->background && !o->readonly) rc = sdm_background_start(s);
  if (rc < 0) {
    sdm_store_unref(s);
    return rc;
  }
  *out = s;
  return 0;
}

/* The store of this process that is open already. What is given anew (defaults, options, a background thread) holds for all from now on. */
static int share(sdm_store *s, const sdm_store_options *o) {
  sdm_mutex_lock(&s->lock);
  int rc = take_settings(s, o);
  if (rc == 0 && o->defaults.count) s->topics_generation = UINT64_MAX;
  sdm_mutex_unlock(&s->lock);
  if (rc == 0 && o->background && !o->readonly && !s->background) rc = sdm_background_start(s);
  if (rc < 0) return rc;
  s->handles++;
  sdm_store_ref(s);
  return 0;
}

static sdm_store *find_open(const sdm_file_info *info, bool readonly) {
  for (sdm_store *s = registry; s; s = s->next) {
    if (s->device == info->device && s->inode == info->inode && s->env.writable == !readonly && s->fork_count == sdm_fork_count()) return s;
  }
  return NULL;
}

/* Before anything is made on disk. */
static int check_settings(const sdm_store_options *o) {
  sdm_config_set defaults = {0};
  sdm_options options;
  sdm_options_default(&options);
  return merge_settings(&defaults, &options, o);
}

int sdm_store_open_on(sdm_fs *fs, const char *path, const sdm_store_options *o, int64_t now, sdm_store **out) {
  sdm_file_info info;
  int rc = check_settings(o);
  if (rc == 0) rc = find_root(fs, path, o->create && !o->readonly, &info);
  return rc == 0 ? open_fresh(fs, path, o, &info, now, out) : rc;
}

int sdm_store_open(const char *path, const sdm_store_options *o, int64_t now, sdm_store **out) {
  sdm_file_info info;
  sdm_store *s = NULL;
  int rc = check_settings(o);
  if (rc < 0) return rc;
  sdm_after_fork(let_go_of_locks);
  sdm_mutex_lock(&registry_lock);
  if (!o->readonly) sdm_survive_file_size_limit();
  rc = find_root(sdm_fs_posix(), path, o->create && !o->readonly, &info);
  if (rc == 0 && (s = find_open(&info, o->readonly))) {
    rc = share(s, o);
  } else if (rc == 0 && (rc = open_fresh(sdm_fs_posix(), path, o, &info, now, &s)) == 0) {
    s->next = registry;
    registry = s;
  }
  sdm_mutex_unlock(&registry_lock);
  if (rc == 0) *out = s;
  return rc;
}

/* ---- closing ---- */

static void unregister(sdm_store *s) {
  for (sdm_store **p = &registry; *p; p = &(*p)->next) {
    if (*p != s) continue;
    *p = s->next;
    return;
  }
}

/* On a full disk what is staged still gets into its file, in the room of the reserve. */
static int close_log(sdm_store *s, sdm_log *l, int64_t now) {
  sdm_log_config cfg;
  sdm_log_get_config(l, &cfg);
  int rc = sdm_log_close_clean(l, &cfg, now);
  return rc == SDM_DISK_FULL && sdm_reserve_give_up(&s->env) ? sdm_log_close_clean(l, &cfg, now) : rc;
}

static int close_logs(sdm_store *s, int64_t now) {
  sdm_log **logs;
  size_t count;
  sdm_failure first = {0};
  int rc = sdm_store_log_refs(s, &logs, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; i < count; i++) {
    if (sdm_log_check(logs[i]) == 0) sdm_failure_note(&first, sdm_log_explain(logs[i], close_log(s, logs[i], now)));
  }
  sdm_failure_note(&first, sdm_store_checkpoint(s));
  for (size_t i = 0; i < count; i++) atomic_store(&logs[i]->closed, true);
  sdm_logs_unref(logs, count);
  return sdm_failure_tell(&first);
}

/* The last process to leave, everything being in its file, leaves Kafka's mark, so that a broker need not recover. Not beside partitions that are none
** of ours: nobody knows how their broker ended.
*/
static void leave_clean_mark(sdm_store *s) {
  static const char text[] = "{\"version\":0,\"brokerEpoch\":-1}";
  sdm_fs *fs = s->env.fs;
  if (fs->lock(s->lock_file, SDM_BYTE_GATE, SDM_LOCK_EXCLUSIVE, false) < 0) return;
  if (fs->lock(s->lock_file, SDM_BYTE_ALIVE, SDM_LOCK_EXCLUSIVE, false) < 0) return;
  s->control->incarnation = 0;             /* the pages say nothing more: all is in the files, which others may change from now on */
  if (sdm_folders_check_all_listed(s) < 0) return;
  sdm_fs_replace(fs, s->env.root, SDM_CLEAN_SHUTDOWN_NAME, text, sizeof text - 1);
}

/* Handles of a closed store may live on for long, until Lua collects them: they keep no file open. One that a reader holds closes with it. */
static void close_files(sdm_log *l) {
  atomic_store(&l->closed, true);
  if (l->writable) sdm_log_wake(&l->control->news, &l->control->awaited);       /* threads that wait for records */
  sdm_mutex_lock(&l->lock);
  for (size_t i = 0; i < l->count; i++) {
    sdm_segment *segment = l->segments[i];
    if (atomic_load(&segment->refs) == (segment == l->active ? 2 : 1)) sdm_segment_close_files(segment);
  }
  sdm_mutex_unlock(&l->lock);
}

static int close_last(sdm_store *s, int64_t now) {
  int rc = 0;
  if (s->fork_count != sdm_fork_count()) return 0;         /* threads and locks are the parent's; it goes on */
  sdm_background_stop(s);
  sdm_flusher_stop(s->flusher);
  s->flusher = NULL;
  if (s->env.writable) {
    rc = close_logs(s, now);
    if (rc == 0) leave_clean_mark(s);
  }
  atomic_store(&s->closed, true);
  sdm_mutex_lock(&s->lock);
  for (size_t i = 0; i < s->log_count; i++) close_files(s->logs[i].log);
  sdm_mutex_unlock(&s->lock);
  sdm_fs *fs = s->env.fs;
  if (s->control_file) fs->close(s->control_file);      /* the mapping stays */
  let_go(fs, &s->lock_file);               /* and all its locks */
  let_go(fs, &s->broker_lock_file);
  s->control_file = NULL;
  return rc;
}

int sdm_store_close(sdm_store *s, int64_t now) {
  int rc = 0;
  sdm_mutex_lock(&registry_lock);
  if (--s->handles == 0) {
    unregister(s);
    rc = close_last(s, now);
  }
  sdm_mutex_unlock(&registry_lock);
  sdm_store_unref(s);
  return rc;
}

int sdm_store_close_on(sdm_store *s, int64_t now) {
  int rc = close_last(s, now);
  sdm_store_unref(s);
  return rc;
}
