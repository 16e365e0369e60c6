/* Snapshots that are written: to a file beside the old one, which takes its place at the end.
**
** That file belongs to who holds the lock on it, and still has its name: so two that write the same snapshot never mix, and one that was killed is in nobody's way.
*/
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "store/snapshot.h"
#include "store/snapshot_file.h"

enum { BUFFER = 1 << 20 };

struct sdm_snapshot_writer {
  XXH3_state_t hash;                       /* first: it wants to be aligned, and pages are */
  sdm_fs *fs;
  sdm_file *file;                          /* NULL: it is not ours yet */
  char *path, *fresh;                      /* fresh: NULL once it has the place of the old one */
  int64_t written;
  uint64_t promised, added;                /* keys */
  size_t used;                             /* of the buffer */
  uint8_t buffer[BUFFER];
};

/* ---- bytes ---- */

static int flush(sdm_snapshot_writer *w) {
  XXH3_64bits_update(&w->hash, w->buffer, w->used);
  int rc = w->fs->write(w->file, w->buffer, w->used, w->written);
  w->written += (int64_t)w->used;
  w->used = 0;
  return rc;
}

static int put(sdm_snapshot_writer *w, const uint8_t *bytes, size_t size) {
  while (size > 0) {
    if (w->used == BUFFER) {
      int rc = flush(w);
      if (rc < 0) return rc;
    }
    size_t n = size < BUFFER - w->used ? size : BUFFER - w->used;
    memcpy(w->buffer + w->used, bytes, n);
    w->used += n;
    bytes += n;
    size -= n;
  }
  return 0;
}

/* ---- the file ---- */

/* Whether the file that we have locked is still the one of that name, which whoever had the lock before may have put in its place. 1, 0, or a failure. */
static int is_ours(sdm_snapshot_writer *w, sdm_file *f) {
  sdm_file_info locked, named;
  int rc = w->fs->info(f, &locked);
  if (rc == 0) rc = w->fs->path_info(w->fs, w->fresh, &named);
  if (rc < 0) return rc == SDM_NOT_FOUND ? 0 : rc;
  return locked.inode == named.inode && locked.device == named.device;
}

static int take_file(sdm_snapshot_writer *w) {
  sdm_file *f;
  int rc = w->fs->open(w->fs, w->fresh, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &f);
  if (rc < 0) return rc;
  rc = w->fs->lock(f, 0, SDM_LOCK_EXCLUSIVE, false);
  if (rc == 0) rc = is_ours(w, f);
  if (rc == 0 || rc == SDM_LOCKED) rc = sdm_fail(SDM_BUSY, "%s is just being written, by another table", w->path);
  if (rc == 1) rc = w->fs->truncate(f, 0);
  if (rc == 0) w->file = f;
  else w->fs->close(f);
  return rc;
}

static int put_head(sdm_snapshot_writer *w, const sdm_topic *t, const sdm_snapshot_head *head, const sdm_snapshot_place *places) {
  sdm_buf bytes = SDM_BUF_INIT;
  sdm_snapshot_head h = *head;
  h.topic_id = t->entry.id;
  int rc = sdm_snapshot_head_encode(&h, places, &bytes);
  if (rc == 0) rc = put(w, bytes.data, bytes.size);
  sdm_buf_free(&bytes);
  return rc;
}

int sdm_snapshot_begin(sdm_topic *t, const char *name, const sdm_snapshot_head *head, const sdm_snapshot_place *places, sdm_snapshot_writer **out) {
  int rc = sdm_topic_check(t);
  if (rc == 0) rc = sdm_store_check_writable(t->store);
  if (rc < 0) return rc;
  sdm_snapshot_writer *w = sdm_pages_alloc(sizeof *w);
  if (!w) return sdm_no_memory();
  w->fs = t->store->env.fs;
  w->promised = head->count;
  w->path = sdm_snapshot_path(t, name, "");
  w->fresh = sdm_snapshot_path(t, name, ".tmp");
  XXH3_64bits_reset(&w->hash);
  rc = w->path && w->fresh ? take_file(w) : sdm_no_memory();
  if (rc == 0) rc = put_head(w, t, head, places);
  if (rc == 0) *out = w;
  else sdm_snapshot_writer_free(w);
  return rc;
}

void sdm_snapshot_writer_free(sdm_snapshot_writer *w) {
  if (!w) return;
  if (w->file && w->fresh) w->fs->unlink(w->fs, w->fresh);
  if (w->file) w->fs->close(w->file);
  sdm_free(w->path);
  sdm_free(w->fresh);
  sdm_pages_free(w, sizeof *w);
}

/* ---- entries ---- */

int sdm_snapshot_add(sdm_snapshot_writer *w, const void *entry, size_t size) {
  w->added++;
  return put(w, entry, size);
}

int sdm_snapshot_add_rest(sdm_snapshot_writer *w, const sdm_snapshot *s) {
  sdm_snapshot_entry e;
  size_t cursor = 0;
  int rc = 0;
  while (rc == 0 && sdm_snapshot_next(s, &cursor, &e)) rc = sdm_snapshot_add(w, e.at, e.size);
  return rc;
}

/* ---- the end ---- */

static int finish_file(sdm_snapshot_writer *w) {
  uint8_t checksum[SDM_SNAPSHOT_CHECKSUM];
  if (w->added != w->promised) return sdm_fail(SDM_MISUSE, "a snapshot of %llu keys was given %llu", (unsigned long long)w->promised, (unsigned long long)w->added);
  int rc = flush(w);
  sdm_put64(checksum, XXH3_64bits_digest(&w->hash));
  if (rc == 0) rc = w->fs->write(w->file, checksum, sizeof checksum, w->written);
  w->written += (int64_t)sizeof checksum;
  return rc == 0 ? w->fs->sync(w->file) : rc;
}

/* What the table has read is made durable: the log ends behind it then, whatever is lost. */
static int flush_topic(sdm_topic *t, int64_t now) {
  int32_t count = sdm_topic_partitions(t);
  int rc = count < 0 ? count : 0;
  for (int32_t p = 0; rc >= 0 && p < count; p++) {
    sdm_log *log;
    int64_t durable;
    rc = sdm_topic_log(t, p, now, &log);
    if (rc >= 0) rc = sdm_log_flush(log, now, &durable);
  }
  return rc < 0 ? rc : 0;
}

/* No topic is deleted meanwhile: who deletes it finds the file, or we find it deleted. */
static int put_in_place(sdm_snapshot_writer *w, sdm_topic *t) {
  int rc = sdm_store_topics_hold(t->store);
  if (rc < 0) return rc;
  rc = sdm_store_still_lists(t->store, t->entry.name, &t->entry.id);
  if (rc == 0) rc = sdm_store_topic_deleted(t->entry.name);
  if (rc == 1) rc = w->fs->rename(w->fs, w->fresh, w->path);
  sdm_store_topics_release(t->store);
  if (rc < 0) return rc;
  sdm_free(w->fresh);
  w->fresh = NULL;
  return w->fs->sync_dir(w->fs, t->store->env.root, NULL);
}

int sdm_snapshot_commit(sdm_snapshot_writer *w, sdm_topic *t, int64_t now, int64_t *bytes) {
  int rc = flush_topic(t, now);
  if (rc == 0) rc = finish_file(w);
  if (rc == 0) rc = put_in_place(w, t);
  if (rc == 0) *bytes = w->written;
  return rc;
}
