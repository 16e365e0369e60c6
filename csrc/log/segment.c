#include "log/segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "format/digest.h"
#include "log/copy.h"

static const char *const EXTENSIONS[SDM_FILE_KINDS] = {"log", "index", "timeindex", "txnindex", "digest"};

char *sdm_segment_path(const char *dir, int64_t base_offset, sdm_file_kind kind, const char *suffix) {
  return sdm_format("%s/%020lld.%s%s", dir, (long long)base_offset, EXTENSIONS[kind], suffix);
}

int sdm_segment_name_decode(const char *name, int64_t *base_offset, sdm_file_kind *kind, const char **suffix) {
  uint64_t base = 0;
  for (int i = 0; i < 20; i++) {
    if (name[i] < '0' || name[i] > '9' || base > (uint64_t)INT64_MAX / 10) return -1;
    base = base * 10 + (uint64_t)(name[i] - '0');
  }
  if (name[20] != '.' || base > (uint64_t)(INT64_MAX - INT32_MAX)) return -1;     /* the offsets of a segment must fit */
  for (int k = 0; k < SDM_FILE_KINDS; k++) {
    size_t n = strlen(EXTENSIONS[k]);
    const char *rest = name + 21 + n;
    if (strncmp(name + 21, EXTENSIONS[k], n) != 0 || (*rest != 0 && *rest != '.')) continue;
    *base_offset = (int64_t)base;
    *kind = (sdm_file_kind)k;
    *suffix = rest;
    return 0;
  }
  return -1;
}

static sdm_segment *new_segment(sdm_fs *fs, const char *dir, int64_t base_offset, bool writable) {
  sdm_segment *s = sdm_calloc(1, sizeof *s);
  char *copy = sdm_strdup(dir);
  if (!s || !copy) {
    sdm_free(s);
    sdm_free(copy);
    return NULL;
  }
  atomic_init(&s->refs, 1);
  s->fs = fs;
  s->dir = copy;
  s->base_offset = base_offset;
  s->writable = writable;
  s->suffix = "";
  s->max_timestamp = s->first_timestamp = s->records = s->last_tombstone = s->horizon = SDM_UNKNOWN;
  sdm_mutex_init(&s->lock);
  return s;
}

static int open_named(sdm_fs *fs, const char *dir, int64_t base_offset, const char *suffix, bool writable, sdm_segment **out) {
  char *path = sdm_segment_path(dir, base_offset, SDM_FILE_LOG, suffix);
  sdm_file_info info;
  int rc = path ? fs->path_info(fs, path, &info) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  sdm_segment *s = new_segment(fs, dir, base_offset, writable);
  if (!s) return sdm_no_memory();
  s->suffix = suffix;
  s->size = info.size;
  s->modified_ms = info.modified_ms;
  s->inode = info.inode;
  *out = s;
  return 0;
}

int sdm_segment_open(sdm_fs *fs, const char *dir, int64_t base_offset, bool writable, sdm_segment **out) {
  return open_named(fs, dir, base_offset, "", writable, out);
}

int sdm_segment_open_suffixed(sdm_fs *fs, const char *dir, int64_t base_offset, const char *suffix, sdm_segment **out) {
  return open_named(fs, dir, base_offset, suffix, false, out);
}

int sdm_segment_open_as(sdm_fs *fs, const char *dir, int64_t base_offset, const char *log_path, sdm_segment **out) {
  sdm_file_info info;
  sdm_segment *s = new_segment(fs, dir, base_offset, false);
  if (!s) return sdm_no_memory();
  int rc = fs->open(fs, log_path, SDM_OPEN_READ, &s->files[SDM_FILE_LOG]);
  if (rc == 0) rc = fs->info(s->files[SDM_FILE_LOG], &info);
  if (rc < 0) {
    sdm_segment_unref(s);
    return rc;
  }
  s->size = info.size;
  s->modified_ms = info.modified_ms;
  s->inode = info.inode;
  *out = s;
  return 0;
}

static int create_file(sdm_segment *s, sdm_file_kind kind) {
  char *path = sdm_segment_path(s->dir, s->base_offset, kind, "");
  int rc = path ? s->fs->open(s->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &s->files[kind]) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

int sdm_segment_create(sdm_fs *fs, const char *dir, int64_t base_offset, int64_t now_ms, sdm_segment **out) {
  sdm_file_info info;
  sdm_segment *s = new_segment(fs, dir, base_offset, true);
  if (!s) return sdm_no_memory();
  int rc = sdm_segment_unlink(fs, dir, base_offset, "");
  for (int k = SDM_FILE_TIMEINDEX; rc == 0 && k >= 0; k--) rc = create_file(s, (sdm_file_kind)k);
  if (rc == 0) rc = fs->set_modified(s->files[SDM_FILE_LOG], now_ms);
  if (rc == 0) rc = fs->info(s->files[SDM_FILE_LOG], &info);
  if (rc < 0) {
    sdm_segment_unref(s);
    sdm_segment_unlink(fs, dir, base_offset, "");      /* an empty .log that nobody counts on would stand in the way of readers later */
    return rc;
  }
  s->inode = info.inode;
  s->modified_ms = now_ms;
  s->max_timestamp = s->last_tombstone = -1;
  s->records = 0;
  *out = s;
  return 0;
}

sdm_segment *sdm_segment_ref(sdm_segment *s) {
  atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
  return s;
}

static void close_files(sdm_segment *s) {
  for (int k = 0; k < SDM_FILE_KINDS; k++) {
    if (s->files[k]) s->fs->close(s->files[k]);
    s->files[k] = NULL;
  }
  sdm_digest_free(s->digest);
  s->digest = NULL;
  s->digest_asked = false;
}

void sdm_segment_close_files(sdm_segment *s) {
  sdm_mutex_lock(&s->lock);
  close_files(s);
  sdm_mutex_unlock(&s->lock);
}

/* When only the list of segments will be left to hold a segment (the active one is held by two), its files are closed: so a log of many segments
** needs few descriptors. Who takes a reference from the list meanwhile gets at the files under s->lock only, and so before or after.
*/
void sdm_segment_rest(sdm_segment *s) {
  if (!atomic_load_explicit(&s->listed, memory_order_acquire) || atomic_load_explicit(&s->refs, memory_order_relaxed) != 2) return;
  sdm_mutex_lock(&s->lock);
  if (atomic_load_explicit(&s->refs, memory_order_acquire) == 2) close_files(s);
  sdm_mutex_unlock(&s->lock);
}

void sdm_segment_unref(sdm_segment *s) {
  if (!s) return;
  sdm_segment_rest(s);
  if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
  close_files(s);
  sdm_mutex_destroy(&s->lock);
  sdm_free(s->dir);
  sdm_free(s);
}

static int open_file(sdm_segment *s, sdm_file_kind kind) {
  char *path = sdm_segment_path(s->dir, s->base_offset, kind, s->suffix);
  if (!path) return sdm_no_memory();
  int rc = s->fs->open(s->fs, path, s->writable ? SDM_OPEN_WRITE : SDM_OPEN_READ, &s->files[kind]);
  sdm_free(path);
  return rc;
}

static int replaced(const sdm_segment *s) { return sdm_fail(SDM_NOT_FOUND, "the segment at offset %lld was replaced meanwhile", (long long)s->base_offset); }

int sdm_segment_check_name(const sdm_segment *s, const char *path) {
  sdm_file_info info;
  int rc = s->fs->path_info(s->fs, path, &info);
  return rc < 0 || info.inode == s->inode ? rc : replaced(s);
}

/* Another process may have renamed or replaced the files since the segment was listed. What opens under the name must be the same .log. */
static int check_same_file(sdm_segment *s) {
  sdm_file_info info;
  sdm_file *f = s->files[SDM_FILE_LOG];
  int rc = s->fs->info(f, &info);
  if (rc == 0 && info.inode == s->inode) return 0;
  s->fs->close(f);
  s->files[SDM_FILE_LOG] = NULL;
  return rc < 0 ? rc : replaced(s);
}

int sdm_segment_file(sdm_segment *s, sdm_file_kind kind, sdm_file **out) {
  int rc = 0;
  sdm_mutex_lock(&s->lock);
  if (!s->files[kind]) {
    rc = open_file(s, kind);
    if (rc == 0 && kind == SDM_FILE_LOG) rc = check_same_file(s);
  }
  if (rc == 0) *out = s->files[kind];
  sdm_mutex_unlock(&s->lock);
  return rc;
}

static int each_file(sdm_fs *fs, const char *dir, int64_t base_offset, const char *from, const char *to) {
  int rc = 0;
  for (int k = 0; k < SDM_FILE_KINDS && rc == 0; k++) {
    char *old = sdm_segment_path(dir, base_offset, (sdm_file_kind)k, from);
    char *new = to ? sdm_segment_path(dir, base_offset, (sdm_file_kind)k, to) : NULL;
    if (!old || (to && !new)) rc = sdm_no_memory();
    else rc = to ? fs->rename(fs, old, new) : fs->unlink(fs, old);
    if (rc == SDM_NOT_FOUND) rc = 0;
    sdm_free(old);
    sdm_free(new);
  }
  return rc;
}

int sdm_segment_rename(sdm_fs *fs, const char *dir, int64_t base_offset, const char *from, const char *to) {
  return each_file(fs, dir, base_offset, from, to);
}

int sdm_segment_unlink(sdm_fs *fs, const char *dir, int64_t base_offset, const char *suffix) {
  return each_file(fs, dir, base_offset, suffix, NULL);
}

/* ---- lookups: a binary search that reads single entries from the file until what is left fits a small buffer ---- */

enum { LOOKUP_ENTRIES = 64 };

/* Key of entry i: the offset, or the timestamp. */
static int read_key(sdm_file *f, size_t entry_size, int64_t base_offset, int64_t i, uint8_t *entry, int64_t *key) {
  size_t got;
  int rc = f->fs->read(f, entry, entry_size, i * (int64_t)entry_size, &got);
  if (rc < 0 || got < entry_size) return rc < 0 ? rc : sdm_fail(SDM_CORRUPT, "%s is cut off", f->path);
  if (entry_size == SDM_INDEX_ENTRY) *key = base_offset + (int32_t)sdm_get32(entry);
  else *key = (int64_t)sdm_get64(entry);
  return 0;
}

int64_t sdm_segment_file_size(sdm_segment *s, sdm_file_kind kind) {
  sdm_file_info info;
  char *path = sdm_segment_path(s->dir, s->base_offset, kind, s->suffix);
  int64_t size = path && s->fs->path_info(s->fs, path, &info) == 0 ? info.size : 0;
  sdm_free(path);
  return size;
}

/* Finds the last entry with key <= target; 1 and the entry, 0 when there is none. */
static int floor_entry(sdm_file *f, size_t entry_size, int64_t base_offset, int64_t target, uint8_t *entry) {
  sdm_file_info info;
  int rc = f->fs->info(f, &info);
  if (rc < 0) return rc;
  int64_t low = 0, high = info.size / (int64_t)entry_size, key = 0;  /* the answer is below high; entries below low are <= target */
  while (high - low > LOOKUP_ENTRIES) {
    int64_t middle = low + (high - low) / 2;
    if ((rc = read_key(f, entry_size, base_offset, middle, entry, &key)) < 0) return rc;
    if (key <= target) low = middle;
    else high = middle;
  }
  uint8_t block[LOOKUP_ENTRIES * SDM_TIMEINDEX_ENTRY];
  size_t got, count = (size_t)(high - low);
  if ((rc = f->fs->read(f, block, count * entry_size, low * (int64_t)entry_size, &got)) < 0) return rc;
  count = got / entry_size;
  ptrdiff_t i = entry_size == SDM_INDEX_ENTRY ? sdm_index_floor(block, count, base_offset, target) : sdm_timeindex_floor(block, count, target);
  if (i < 0) return 0;
  memcpy(entry, block + (size_t)i * entry_size, entry_size);
  return 1;
}

bool sdm_segment_can_hold(const sdm_segment *s, const sdm_batch *b) {
  return b->base_offset >= s->base_offset && sdm_batch_last_offset(b) - s->base_offset <= INT32_MAX;
}

bool sdm_segment_places(const sdm_segment *s, const sdm_batch *b, int64_t expected, bool dense) {
  return (dense ? b->base_offset == expected : b->base_offset >= expected) && sdm_segment_can_hold(s, b);
}

/* Not the file that may be open already: of a segment that was replaced meanwhile that is another's. */
static bool last_entry(sdm_segment *s, sdm_file_kind kind, size_t entry_size, uint8_t *entry) {
  sdm_file *f;
  char *path = sdm_segment_path(s->dir, s->base_offset, kind, s->suffix);
  int rc = path ? s->fs->open(s->fs, path, SDM_OPEN_READ, &f) : SDM_NO_MEMORY;
  sdm_free(path);
  if (rc < 0) return false;
  rc = floor_entry(f, entry_size, s->base_offset, INT64_MAX, entry);
  s->fs->close(f);
  return rc == 1;
}

void sdm_segment_told(sdm_segment *s, sdm_told *out) {
  uint8_t entry[SDM_TIMEINDEX_ENTRY];
  *out = (sdm_told){.batch = {.offset = -1, .position = -1}, .latest = {.offset = -1, .timestamp = -1}};
  if (last_entry(s, SDM_FILE_INDEX, SDM_INDEX_ENTRY, entry)) sdm_index_decode(entry, s->base_offset, &out->batch);
  if (last_entry(s, SDM_FILE_TIMEINDEX, SDM_TIMEINDEX_ENTRY, entry)) sdm_timeindex_decode(entry, s->base_offset, &out->latest);
}

bool sdm_told_more(const sdm_told *t, int64_t position, int64_t next_offset, int64_t max_timestamp) {
  if (t->batch.position >= position && t->batch.position > 0 && t->batch.offset >= next_offset) return true;
  return t->latest.offset >= next_offset && t->latest.timestamp > max_timestamp;
}

bool sdm_segment_lookup(sdm_segment *s, int64_t offset, int64_t limit, sdm_index_entry *out) {
  sdm_file *f;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  if (sdm_segment_file(s, SDM_FILE_INDEX, &f) < 0) return false;
  if (floor_entry(f, SDM_INDEX_ENTRY, s->base_offset, offset, bytes) != 1) return false;
  sdm_index_decode(bytes, s->base_offset, out);
  return out->position >= 0 && out->position < limit;
}

bool sdm_segment_lookup_time(sdm_segment *s, int64_t timestamp, sdm_timeindex_entry *out) {
  sdm_file *f;
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  if (sdm_segment_file(s, SDM_FILE_TIMEINDEX, &f) < 0) return false;
  if (floor_entry(f, SDM_TIMEINDEX_ENTRY, s->base_offset, timestamp, bytes) != 1) return false;
  sdm_timeindex_decode(bytes, s->base_offset, out);
  return out->offset >= s->base_offset;
}

static int replace_by_copy(sdm_segment *s, const char *path) {
  sdm_file_info info;
  char *copy = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_LOG, ".tmp");
  int rc = copy ? sdm_copy_file(s->fs, path, copy) : sdm_no_memory();
  if (rc == 0) rc = sdm_sync_file(s->fs, copy);
  if (rc == 0) rc = s->fs->path_info(s->fs, copy, &info);
  if (rc == 0) rc = s->fs->rename(s->fs, copy, path);
  if (rc == 0) rc = s->fs->sync_dir(s->fs, s->dir, NULL);
  if (rc == 0) s->inode = info.inode;
  sdm_free(copy);
  return rc;
}

int sdm_segment_unshare(sdm_segment *s) {
  sdm_file_info info;
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_LOG, s->suffix);
  int rc = path ? s->fs->path_info(s->fs, path, &info) : sdm_no_memory();
  if (rc == 0 && info.links > 1) {
    sdm_segment_close_files(s);
    rc = replace_by_copy(s, path);
  }
  sdm_free(path);
  return rc;
}

int sdm_segment_write_anew(sdm_segment *s) {
  enum { BLOCK = 1 << 20 };
  sdm_file *f;
  size_t got = 0;
  uint8_t *block = sdm_malloc(BLOCK);
  int rc = block ? sdm_segment_file(s, SDM_FILE_LOG, &f) : sdm_no_memory();
  for (int64_t at = 0; rc == 0 && at < s->size; at += (int64_t)got) {
    int64_t left = s->size - at;
    rc = s->fs->read(f, block, left < BLOCK ? (size_t)left : BLOCK, at, &got);
    if (rc == 0 && got == 0) rc = sdm_fail(SDM_IO, "%s ends before its size", f->path);
    if (rc == 0) rc = s->fs->write(f, block, got, at);
  }
  if (rc == 0) rc = s->fs->sync(f);
  sdm_free(block);
  return rc;
}
