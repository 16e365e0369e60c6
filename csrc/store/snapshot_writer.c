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

enum { BLOCK = SDM_SNAPSHOT_BLOCK, BUFFER = 64 * BLOCK };

struct sdm_snapshot_writer {
  sdm_fs *fs;
  sdm_file *file;                          /* NULL: it is not ours yet */
  char *path, *fresh;                      /* fresh: NULL once it has the place of the old one */
  uint64_t position;                       /* of what comes next */
  uint64_t promised, added;                /* keys */
  uint64_t *slots, capacity;               /* the index, as it will be in the file */
  sdm_buf sums;                            /* hash of each block that was written, in big-endian */
  bool wide;
  uint8_t *buffer;                         /* what is not written yet: from the last whole BUFFER on */
};

/* ---- bytes ---- */

static size_t used(const sdm_snapshot_writer *w) { return (size_t)(w->position % BUFFER); }

/* Writes the first `size` bytes of the buffer, which begin at that position; a block that is not whole is the last one. */
static int write_out(sdm_snapshot_writer *w, uint64_t at, size_t size) {
  int rc = 0;
  uint8_t sum[8];
  for (size_t p = 0; rc == 0 && p < size; p += BLOCK) {
    sdm_put64(sum, sdm_hash64(w->buffer + p, size - p < BLOCK ? size - p : BLOCK));
    rc = sdm_buf_append(&w->sums, sum, sizeof sum);
  }
  return rc == 0 ? w->fs->write(w->file, w->buffer, size, (int64_t)at) : rc;
}

static int put(sdm_snapshot_writer *w, const void *from, size_t size) {
  const uint8_t *bytes = from;
  while (size > 0) {
    size_t room = BUFFER - used(w), n = size < room ? size : room;
    memcpy(w->buffer + used(w), bytes, n);
    w->position += n;
    bytes += n;
    size -= n;
    int rc = used(w) == 0 ? write_out(w, w->position - BUFFER, BUFFER) : 0;
    if (rc < 0) return rc;
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
  if (rc == 1) w->file = f;
  else w->fs->close(f);
  return rc == 1 ? w->fs->truncate(f, 0) : rc;
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

static int make_room(sdm_snapshot_writer *w) {
  w->capacity = sdm_snapshot_slots(w->promised);
  w->slots = sdm_pages_alloc(w->capacity * sizeof *w->slots);
  w->buffer = sdm_malloc(BUFFER);
  return w->path && w->fresh && w->slots && w->buffer ? 0 : sdm_no_memory();
}

int sdm_snapshot_begin(sdm_topic *t, const char *name, const sdm_snapshot_head *head, const sdm_snapshot_place *places, sdm_snapshot_writer **out) {
  int rc = sdm_topic_check(t);
  if (rc == 0) rc = sdm_store_check_writable(t->store);
  if (rc < 0) return rc;
  sdm_snapshot_writer *w = sdm_calloc(1, sizeof *w);
  if (!w) return sdm_no_memory();
  w->fs = t->store->env.fs;
  w->promised = head->count;
  w->path = sdm_snapshot_path(t, name, "");
  w->fresh = sdm_snapshot_path(t, name, ".tmp");
  rc = make_room(w);
  if (rc == 0) rc = take_file(w);
  if (rc == 0) rc = put_head(w, t, head, places);
  if (rc == 0) *out = w;
  else sdm_snapshot_writer_free(w);
  return rc;
}

void sdm_snapshot_writer_free(sdm_snapshot_writer *w) {
  if (!w) return;
  if (w->file && w->fresh) w->fs->unlink(w->fs, w->fresh);
  if (w->file) w->fs->close(w->file);
  if (w->slots) sdm_pages_free(w->slots, w->capacity * sizeof *w->slots);
  sdm_buf_free(&w->sums);
  sdm_free(w->buffer);
  sdm_free(w->path);
  sdm_free(w->fresh);
  sdm_free(w);
}

/* ---- entries ---- */

static void index_entry(sdm_snapshot_writer *w, const sdm_snapshot_entry *e) {
  uint64_t hash = sdm_hash64(e->key, (size_t)e->key_size), i = sdm_snapshot_home(hash, w->capacity);
  while (w->slots[i] != 0) i = i + 1 == w->capacity ? 0 : i + 1;
  w->slots[i] = __builtin_bswap64(sdm_snapshot_slot(w->position, hash));
}

static int miscounted(const sdm_snapshot_writer *w) {
  return sdm_fail(SDM_MISUSE, "a snapshot of %llu keys was given %llu", (unsigned long long)w->promised, (unsigned long long)w->added);
}

int sdm_snapshot_add(sdm_snapshot_writer *w, const void *entry, size_t size) {
  sdm_snapshot_entry e;
  if (++w->added > w->promised) return miscounted(w);
  if (!sdm_snapshot_entry_decode(entry, (const uint8_t *)entry + size, &e)) return sdm_fail(SDM_MISUSE, "no entry of a snapshot");
  index_entry(w, &e);
  w->wide = w->wide || e.wide;
  return put(w, entry, size);
}

int sdm_snapshot_add_rest(sdm_snapshot_writer *w, sdm_snapshot *s) {
  sdm_snapshot_entry e;
  uint64_t cursor = 0, slot;
  int rc;
  while ((rc = sdm_snapshot_next(s, &cursor, &e, &slot)) == 1) {
    if ((rc = sdm_snapshot_add(w, e.at, e.size)) < 0) break;
  }
  return rc;
}

/* ---- the end ---- */

static int finish_file(sdm_snapshot_writer *w) {
  uint8_t word[8];
  if (w->added != w->promised) return miscounted(w);
  int rc = put(w, w->slots, w->capacity * sizeof *w->slots);
  sdm_put64(word, w->wide ? 1 : 0);
  if (rc == 0) rc = put(w, word, sizeof word);
  if (rc == 0) rc = write_out(w, w->position - used(w), used(w));
  sdm_put64(word, sdm_hash64(w->sums.data, w->sums.size));
  if (rc == 0) rc = w->fs->write(w->file, word, sizeof word, (int64_t)w->position);
  w->position += sizeof word;
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
  if (rc == 0) *bytes = (int64_t)w->position;
  return rc;
}
