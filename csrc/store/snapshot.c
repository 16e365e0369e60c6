/* Snapshots that are read. Nothing in the file is believed before its checksum was right; and since whoever can write it can make that right, too, a place that the
** index or an entry leads to is looked at with care all the same.
*/
#include "store/snapshot.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "store/snapshot_file.h"

enum { BLOCK = SDM_SNAPSHOT_BLOCK, PIECE = 64 * BLOCK, AHEAD_ONE = 512 };

static const uint64_t DROPPED = (uint64_t)1 << 63;                 /* in a slot: no position is so large */

struct sdm_snapshot {
  sdm_file *file;
  sdm_snapshot_head head;
  uint8_t *head_bytes;                     /* that it points into */
  uint64_t entries_end, summed;            /* positions: of the index; of the checksum */
  uint64_t *slots, capacity;               /* as in the file, but for DROPPED */
  uint64_t *blocks, block_count;           /* hash of each, in big-endian */
  uint64_t left;
  bool wide;
  sdm_buf window;                          /* whole blocks of the file, checked, from the position window_at on */
  uint64_t window_at;
};

/* ---- looking at the file ---- */

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Makes the window hold the blocks of [from, to). */
static int look_at(sdm_snapshot *s, uint64_t from, uint64_t to) {
  uint64_t at = from / BLOCK * BLOCK, end = least((to + BLOCK - 1) / BLOCK * BLOCK, s->summed);
  size_t size = (size_t)(end - at), got;
  s->window.size = 0;
  int rc = sdm_buf_reserve(&s->window, size);
  if (rc == 0) rc = s->file->fs->read(s->file, s->window.data, size, (int64_t)at, &got);
  if (rc < 0) return rc;
  for (uint64_t p = at; p < end; p += BLOCK) {
    uint64_t hash = sdm_hash64(s->window.data + (p - at), (size_t)least(BLOCK, end - p));
    if (got == size && __builtin_bswap64(hash) == s->blocks[p / BLOCK]) continue;
    return sdm_fail(SDM_CORRUPT, "%s was damaged at position %llu since it was opened; open the table anew", s->file->path, (unsigned long long)p);
  }
  s->window.size = size;
  s->window_at = at;
  return 0;
}

static int no_entry(const sdm_snapshot *s, uint64_t position) {
  return sdm_fail(SDM_CORRUPT, "%s: the checksum is right, and there is no entry at position %llu", s->file->path, (unsigned long long)position);
}

/* How much of what is at the position the window has. */
static uint64_t in_window(const sdm_snapshot *s, uint64_t position) {
  uint64_t end = least(s->window_at + s->window.size, s->entries_end);
  return position >= s->window_at && position < end ? end - position : 0;
}

/* `ahead` is how much of the file is to be looked at when it must be. The longer an entry, the more. */
static int entry_at(sdm_snapshot *s, uint64_t position, uint64_t ahead, sdm_snapshot_entry *e) {
  if (position < s->head.size || position >= s->entries_end) return no_entry(s, position);
  for (;;) {
    uint64_t have = in_window(s, position);
    const uint8_t *p = have > 0 ? s->window.data + (position - s->window_at) : NULL;
    if (p && sdm_snapshot_entry_decode(p, p + have, e)) break;
    if (have == s->entries_end - position) return no_entry(s, position);
    int rc = look_at(s, position, least(s->entries_end, position + (2 * have > ahead ? 2 * have : ahead)));
    if (rc < 0) return rc;
  }
  return (uint32_t)e->partition < s->head.partitions ? 0 : no_entry(s, position);
}

/* ---- opening ---- */

/* Takes the part of the piece that belongs to the index. */
static void take_slots(sdm_snapshot *s, const uint8_t *piece, uint64_t at, uint64_t size) {
  uint64_t end = s->entries_end + s->capacity * sizeof *s->slots, from = at > s->entries_end ? at : s->entries_end, to = least(at + size, end);
  if (from < to) memcpy((uint8_t *)s->slots + (from - s->entries_end), piece + (from - at), (size_t)(to - from));
}

/* Reads all of the file, piece by piece. */
static int scan(sdm_snapshot *s, uint8_t *piece) {
  for (uint64_t at = 0; at < s->summed; at += PIECE) {
    size_t size = (size_t)least(PIECE, s->summed - at), got;
    int rc = s->file->fs->read(s->file, piece, size, (int64_t)at, &got);
    if (rc < 0) return rc;
    if (got < size) return sdm_fail(SDM_CORRUPT, "it is cut");
    for (size_t p = 0; p < size; p += BLOCK) {
      s->blocks[(at + p) / BLOCK] = __builtin_bswap64(sdm_hash64(piece + p, (size_t)least(BLOCK, size - p)));
    }
    take_slots(s, piece, at, size);
  }
  return 0;
}

static int check_sum(sdm_snapshot *s) {
  uint8_t tail[SDM_SNAPSHOT_TAIL] = {0};
  size_t got;
  int rc = s->file->fs->read(s->file, tail, sizeof tail, (int64_t)s->summed - 8, &got);
  if (rc < 0) return rc;
  if (sdm_get64(tail + 8) != sdm_hash64(s->blocks, s->block_count * sizeof *s->blocks)) return sdm_fail(SDM_CORRUPT, "its checksum is wrong");
  s->wide = sdm_get64(tail) != 0;
  return 0;
}

/* Where its parts are, by a head that is not believed yet. */
static int measure(sdm_snapshot *s, uint64_t size) {
  uint8_t fixed[SDM_SNAPSHOT_FIXED];
  uint64_t head_size = 0, count = 0;
  size_t got;
  int rc = s->file->fs->read(s->file, fixed, sizeof fixed, 0, &got);
  if (rc == 0) rc = sdm_snapshot_head_peek(fixed, got, &head_size, &count);
  if (rc < 0) return rc;
  s->capacity = count < size ? sdm_snapshot_slots(count) : size;
  if (head_size + SDM_SNAPSHOT_TAIL > size || s->capacity > (size - head_size - SDM_SNAPSHOT_TAIL) / sizeof *s->slots) return sdm_fail(SDM_CORRUPT, "it is cut");
  s->summed = size - 8;
  s->entries_end = size - SDM_SNAPSHOT_TAIL - s->capacity * sizeof *s->slots;
  s->block_count = (s->summed + BLOCK - 1) / BLOCK;
  s->head.size = (size_t)head_size;
  s->left = count;
  return 0;
}

/* As many slots as there are keys lead somewhere, and none is marked. */
static int check_slots(const sdm_snapshot *s) {
  uint64_t taken = 0, marks = 0;
  for (uint64_t i = 0; i < s->capacity; i++) {
    taken += s->slots[i] != 0;
    marks |= s->slots[i];
  }
  if (taken == s->left && !(__builtin_bswap64(marks) & DROPPED)) return 0;
  return sdm_fail(SDM_CORRUPT, "its checksum is right, and its index is not");
}

static int check_all(sdm_snapshot *s) {
  s->slots = sdm_pages_alloc(s->capacity * sizeof *s->slots);
  s->blocks = sdm_malloc(s->block_count * sizeof *s->blocks);
  uint8_t *piece = sdm_malloc(PIECE);
  int rc = s->slots && s->blocks && piece ? scan(s, piece) : sdm_no_memory();
  sdm_free(piece);
  if (rc == 0) rc = check_sum(s);
  return rc == 0 ? check_slots(s) : rc;
}

static int take_head(sdm_snapshot *s, const sdm_uuid *topic_id) {
  size_t size = s->head.size;
  int rc = look_at(s, 0, size);
  if (rc < 0) return rc;
  if (!(s->head_bytes = sdm_malloc(size))) return sdm_no_memory();
  memcpy(s->head_bytes, s->window.data, size);
  rc = sdm_snapshot_head_decode(s->head_bytes, size, &s->head);
  if (rc == 0 && (s->head.size != size || s->head.count != s->left)) rc = sdm_fail(SDM_CORRUPT, "it has been changed as it was read");
  if (rc == 0 && memcmp(&s->head.topic_id, topic_id, sizeof *topic_id) != 0) rc = sdm_fail(SDM_CORRUPT, "it is of another topic");
  return rc;
}

static int open_file(sdm_fs *fs, const char *path, sdm_snapshot *s, const sdm_uuid *topic_id) {
  sdm_file_info info;
  int rc = fs->open(fs, path, SDM_OPEN_READ, &s->file);
  if (rc == 0) rc = fs->info(s->file, &info);
  if (rc == 0) rc = measure(s, (uint64_t)info.size);
  if (rc == 0) rc = check_all(s);
  return rc == 0 ? take_head(s, topic_id) : rc;
}

int sdm_snapshot_open(sdm_topic *t, const char *name, sdm_snapshot **out) {
  int rc = sdm_topic_check(t);
  if (rc < 0) return rc;
  char *path = sdm_snapshot_path(t, name, "");
  sdm_snapshot *s = sdm_calloc(1, sizeof *s);
  rc = path && s ? open_file(t->store->env.fs, path, s, &t->entry.id) : sdm_no_memory();
  if (rc == 0) *out = s;
  else sdm_snapshot_free(s);
  if (rc < 0 && rc != SDM_NO_MEMORY) rc = sdm_fail_within(rc, "%s: ", path);
  sdm_free(path);
  return rc;
}

void sdm_snapshot_free(sdm_snapshot *s) {
  if (!s) return;
  if (s->file) s->file->fs->close(s->file);
  if (s->slots) sdm_pages_free(s->slots, s->capacity * sizeof *s->slots);
  sdm_free(s->blocks);
  sdm_free(s->head_bytes);
  sdm_buf_free(&s->window);
  sdm_free(s);
}

/* ---- asking ---- */

const sdm_snapshot_head *sdm_snapshot_head_of(const sdm_snapshot *s) { return &s->head; }
bool sdm_snapshot_is_wide(const sdm_snapshot *s) { return s->wide; }
uint64_t sdm_snapshot_left(const sdm_snapshot *s) { return s->left; }

static uint64_t slot_at(const sdm_snapshot *s, uint64_t i) { return __builtin_bswap64(s->slots[i]); }
static uint64_t behind(const sdm_snapshot *s, uint64_t i) { return i + 1 == s->capacity ? 0 : i + 1; }

int sdm_snapshot_find(sdm_snapshot *s, const void *key, size_t size, sdm_snapshot_entry *out, uint64_t *slot) {
  uint64_t hash = sdm_hash64(key, size), i = sdm_snapshot_home(hash, s->capacity);
  for (uint64_t n = 0; n < s->capacity && slot_at(s, i) != 0; n++, i = behind(s, i)) {
    if (((slot_at(s, i) ^ hash) & 0xffff) != 0 || slot_at(s, i) & DROPPED) continue;
    int rc = entry_at(s, slot_at(s, i) >> 16, AHEAD_ONE, out);
    if (rc < 0) return rc;
    if ((size_t)out->key_size != size || memcmp(out->key, key, size) != 0) continue;
    *slot = i;
    return 1;
  }
  return 0;
}

/* The slot that leads to the entry, as each has one; or SDM_CORRUPT. */
static int slot_of(const sdm_snapshot *s, uint64_t position, const sdm_snapshot_entry *e, uint64_t *slot) {
  uint64_t hash = sdm_hash64(e->key, (size_t)e->key_size), i = sdm_snapshot_home(hash, s->capacity);
  for (uint64_t n = 0; n < s->capacity && slot_at(s, i) != 0; n++, i = behind(s, i)) {
    *slot = i;
    if ((slot_at(s, i) & ~DROPPED) == sdm_snapshot_slot(position, hash)) return 0;
  }
  return sdm_fail(SDM_CORRUPT, "%s: the checksum is right, and the entry at position %llu is not in the index", s->file->path, (unsigned long long)position);
}

int sdm_snapshot_next(sdm_snapshot *s, uint64_t *cursor, sdm_snapshot_entry *out, uint64_t *slot) {
  uint64_t at = *cursor ? *cursor : s->head.size;
  while (at < s->entries_end) {
    int rc = entry_at(s, at, PIECE, out);
    if (rc == 0) rc = slot_of(s, at, out, slot);
    if (rc < 0) return rc;
    at += out->size;
    *cursor = at;
    if (!(slot_at(s, *slot) & DROPPED)) return 1;
  }
  return 0;
}

void sdm_snapshot_drop(sdm_snapshot *s, uint64_t slot) {
  if (slot >= s->capacity || slot_at(s, slot) & DROPPED) return;
  s->slots[slot] |= __builtin_bswap64(DROPPED);
  if (s->left > 0) s->left--;
}
