#include "store/staging.h"

#include "base/mem.h"
#include "os/host.h"
#include "store/folders.h"

int sdm_staging_begin(sdm_store *s, const char *topic, int32_t partition, int64_t now, sdm_staging *out) {
  sdm_fs *fs = s->env.fs;
  sdm_uuid id;
  int rc = sdm_random(id.bytes, sizeof id.bytes);
  *out = (sdm_staging){0};
  if (rc < 0 || (rc = sdm_store_topics_hold(s)) < 0) return rc;
  out->dir = sdm_folder_deleted_path(s, topic, &id, partition);
  out->mark_path = out->dir ? sdm_format("%s/%s", out->dir, SDM_DELETED_MARK) : NULL;
  rc = out->mark_path ? fs->make_dir(fs, out->dir) : sdm_no_memory();
  if (rc == 0) rc = fs->open(fs, out->mark_path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &out->mark);
  if (rc == 0) rc = fs->lock(out->mark, 0, SDM_LOCK_EXCLUSIVE, false);
  if (rc == 0) rc = fs->set_modified(out->mark, now);
  if (rc < 0 && out->mark_path) fs->remove_dir(fs, out->dir);
  sdm_store_topics_release(s);
  return rc;
}

int sdm_staging_end(sdm_store *s, sdm_staging *g, int rc) {
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  if (g->mark && !g->moved) sdm_folder_remove(s, g->dir, g->mark_path);
  if (g->mark) s->env.fs->close(g->mark);
  sdm_free(g->dir);
  sdm_free(g->mark_path);
  *g = (sdm_staging){0};
  return rc < 0 ? sdm_failure_tell(&why) : rc;
}

static int move(sdm_store *s, const char *from, const char *to) {
  int rc = s->env.fs->rename(s->env.fs, from, to);
  return rc == 0 ? s->env.fs->sync_dir(s->env.fs, s->env.root, NULL) : rc;
}

int sdm_staging_place(sdm_store *s, sdm_staging *g, const char *topic, const sdm_uuid *id, int32_t partition) {
  char *dir = sdm_folder_path(s, topic, partition);
  int rc = dir ? sdm_folder_write_metadata(s, g->dir, id) : sdm_no_memory();
  if (rc == 0) rc = move(s, g->dir, dir);
  sdm_free(dir);
  return rc;
}

int sdm_staging_take_back(sdm_store *s, sdm_staging *g, const char *topic, int32_t partition, int rc) {
  sdm_failure why = {0};
  char *dir = sdm_folder_path(s, topic, partition);
  sdm_failure_note(&why, rc);
  if (dir) s->env.fs->rename(s->env.fs, dir, g->dir);
  sdm_free(dir);
  return sdm_failure_tell(&why);
}

void sdm_staging_done(sdm_store *s, sdm_staging *g, const char *topic, int32_t partition) {
  char *dir = sdm_folder_path(s, topic, partition);
  if (dir) sdm_folder_unmark(s, dir);                 /* what stays is taken away when the partition is opened */
  sdm_free(dir);
  g->moved = true;
}

/* Undone when it fails; nobody opens the partition meanwhile, for that takes the topics lock. Should the process die between the two renames, the partition
** is made anew, empty as it was.
*/
static int exchange(sdm_store *s, sdm_staging *g, const char *dir, const char *gone, int64_t now) {
  sdm_fs *fs = s->env.fs;
  sdm_failure why = {0};
  int rc = sdm_folder_mark(s, dir, now, 0);
  if (rc == 0) rc = fs->rename(fs, dir, gone);
  if (rc < 0) return rc;
  rc = fs->rename(fs, g->dir, dir);
  if (rc == 0 && (rc = fs->sync_dir(fs, s->env.root, NULL)) == 0) return 0;
  sdm_failure_note(&why, rc);
  fs->rename(fs, dir, g->dir);
  fs->rename(fs, gone, dir);
  return sdm_failure_tell(&why);
}

/* Under both locks of the empty partition's page, so that no record gets into it any more. */
static int replace_held(sdm_store *s, sdm_control *c, sdm_staging *g, const char *dir, const char *gone, int64_t now) {
  bool died;
  int rc = sdm_shared_mutex_lock(&c->lock, &died);
  if (rc < 0) return rc;
  if (died) atomic_store(&c->unfinished, 1);           /* for the next, should it not be replaced */
  if (atomic_load(&c->log_end) > 0) rc = sdm_fail(SDM_EXISTS, "%s has had records; import into a partition that is new", dir);
  if (rc == 0) {
    atomic_store(&c->deleted, SDM_GONE_REPLACING);
    rc = exchange(s, g, dir, gone, now);
    atomic_store(&c->deleted, rc < 0 ? SDM_GONE_NOT : SDM_GONE_REPLACED);
    if (rc == 0) sdm_log_wake(&c->news, &c->awaited);
  }
  sdm_shared_mutex_unlock(&c->lock);
  return rc;
}

static int replace_mapped(sdm_store *s, sdm_control *c, sdm_staging *g, const char *dir, const char *gone, int64_t now) {
  bool died;
  int rc = sdm_shared_mutex_lock(&c->maintenance, &died);
  if (rc < 0) return rc;
  rc = replace_held(s, c, g, dir, gone, now);
  sdm_shared_mutex_unlock(&c->maintenance);
  return rc;
}

static int replace(sdm_store *s, sdm_staging *g, const char *dir, const char *gone, int64_t now) {
  sdm_fs *fs = s->env.fs;
  sdm_file *f;
  sdm_control *c;
  int rc = sdm_control_map(fs, dir, true, &f, &c);
  if (rc < 0) return rc;
  rc = fs->lock(f, 0, SDM_LOCK_EXCLUSIVE, true);
  bool shared = sdm_control_valid(c, s->env.boot_id) && atomic_load(&c->incarnation) == s->env.incarnation;
  if (rc == 0 && !shared) rc = sdm_fail(SDM_BUSY, "%s is being recovered by another process; try again", dir);
  if (rc == 0) rc = replace_mapped(s, c, g, dir, gone, now);
  sdm_control_unmap(fs, f, c);
  return rc;
}

int sdm_staging_replace(sdm_store *s, sdm_staging *g, const char *topic, const sdm_uuid *id, int32_t partition, int64_t now) {
  sdm_uuid drawn;
  char *dir = sdm_folder_path(s, topic, partition), *gone = NULL;
  int rc = dir ? sdm_random(drawn.bytes, sizeof drawn.bytes) : sdm_no_memory();
  if (rc == 0 && !(gone = sdm_folder_deleted_path(s, topic, &drawn, partition))) rc = sdm_no_memory();
  if (rc == 0) rc = sdm_folder_write_metadata(s, g->dir, id);
  if (rc == 0) rc = replace(s, g, dir, gone, now);
  sdm_free(dir);
  sdm_free(gone);
  return rc;
}
