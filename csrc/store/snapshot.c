/* Snapshots that are read. Invariant: every entry between head and checksum was decoded once, so that decoding it again cannot fail; an entry whose first byte is
** not 0 was dropped.
*/
#include "store/snapshot.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "store/snapshot_file.h"
#include "store/topic.h"

enum { AHEAD = 16 };                       /* entries between the look at a slot and its use: a power of two */

struct sdm_snapshot {
  void *memory;                            /* the slots, and behind them the file */
  size_t allocated;
  uint64_t *slots;                         /* position of an entry << 16 | bits of its key's hash; 0: free. Linear probing */
  size_t capacity;                         /* more than there are entries, so that every probe ends */
  uint8_t *bytes;
  size_t size;                             /* without the checksum */
  sdm_snapshot_head head;
  size_t left;
  bool wide;
};

/* ---- the index ---- */

static size_t home(const sdm_snapshot *s, uint64_t hash) { return (size_t)(((unsigned __int128)hash * s->capacity) >> 64); }

static bool has_key(const sdm_snapshot_entry *e, const void *key, size_t size) {
  return (size_t)e->key_size == size && memcmp(e->key, key, size) == 0;
}

/* The slot that has the key's entry, or the free one where it belongs. */
static uint64_t *slot_of(const sdm_snapshot *s, uint64_t hash, const void *key, size_t size, sdm_snapshot_entry *e) {
  for (size_t i = home(s, hash);; i = i + 1 == s->capacity ? 0 : i + 1) {
    uint64_t *slot = &s->slots[i];
    if (*slot == 0) return slot;
    if (((*slot ^ hash) & 0xffff) != 0) continue;
    if (sdm_snapshot_entry_decode(s->bytes + (*slot >> 16), s->bytes + s->size, e) && has_key(e, key, size)) return slot;
  }
}

typedef struct coming {
  sdm_snapshot_entry entry;
  uint64_t hash;
} coming;

static bool index_entry(sdm_snapshot *s, const coming *c) {
  sdm_snapshot_entry same;
  uint64_t *slot = slot_of(s, c->hash, c->entry.key, (size_t)c->entry.key_size, &same);
  if (*slot != 0) return false;
  *slot = (uint64_t)(c->entry.at - s->bytes) << 16 | (c->hash & 0xffff);
  return true;
}

/* A slot is asked for some entries ahead of its use: each is a miss of the cache. */
static bool index_all(sdm_snapshot *s) {
  coming ring[AHEAD];
  const uint8_t *p = s->bytes + s->head.size, *end = s->bytes + s->size;
  uint64_t seen = 0, done = 0;
  for (; p < end; seen++) {
    if (seen >= AHEAD && !index_entry(s, &ring[done++ % AHEAD])) return false;
    coming *c = &ring[seen % AHEAD];
    if (seen >= s->head.count || *p != 0 || !sdm_snapshot_entry_decode(p, end, &c->entry)) return false;
    if ((uint32_t)c->entry.partition >= s->head.partitions) return false;
    c->hash = sdm_hash64(c->entry.key, (size_t)c->entry.key_size);
    __builtin_prefetch(&s->slots[home(s, c->hash)], 1);
    s->wide = s->wide || c->entry.wide;
    p += c->entry.size;
  }
  while (done < seen) {
    if (!index_entry(s, &ring[done++ % AHEAD])) return false;
  }
  return seen == s->head.count;
}

/* ---- opening ---- */

/* Room for the file and for an index of as many entries as it says that it has, in one: they may lie on the same huge page. */
static int make_room(sdm_snapshot *s, size_t size, uint64_t count) {
  enum { LEAST_ENTRY = 4 };
  if (count > size / LEAST_ENTRY) return sdm_fail(SDM_CORRUPT, "it has no room for %llu keys", (unsigned long long)count);
  s->capacity = (size_t)(count + count / 2 + 1);
  s->allocated = s->capacity * sizeof *s->slots + size;
  s->memory = sdm_pages_alloc(s->allocated);
  if (!s->memory) return sdm_no_memory();
  s->slots = s->memory;
  s->bytes = (uint8_t *)(s->slots + s->capacity);
  return 0;
}

static int check(sdm_snapshot *s, size_t got, const sdm_uuid *topic_id) {
  if (got < SDM_SNAPSHOT_CHECKSUM) return sdm_fail(SDM_CORRUPT, "it is cut");
  s->size = got - SDM_SNAPSHOT_CHECKSUM;
  int rc = sdm_snapshot_head_decode(s->bytes, s->size, &s->head);
  if (rc < 0) return rc;
  if (sdm_get64(s->bytes + s->size) != sdm_hash64(s->bytes, s->size)) return sdm_fail(SDM_CORRUPT, "its checksum is wrong");
  if (memcmp(&s->head.topic_id, topic_id, sizeof *topic_id) != 0) return sdm_fail(SDM_CORRUPT, "it is of another topic");
  s->left = (size_t)s->head.count;
  return s->left < s->capacity && index_all(s) ? 0 : sdm_fail(SDM_CORRUPT, "its checksum is right, and its entries are not");
}

/* The head is looked at first, for the number of keys; nothing in it is believed yet. */
static int read_open(sdm_file *f, sdm_snapshot *s, size_t *got) {
  sdm_file_info info;
  uint64_t count = 0;
  uint8_t head[SDM_SNAPSHOT_FIXED];
  int rc = f->fs->info(f, &info);
  if (rc == 0) rc = f->fs->read(f, head, sizeof head, 0, got);
  if (rc == 0) rc = sdm_snapshot_count_peek(head, *got, &count);
  if (rc == 0) rc = make_room(s, (size_t)info.size, count);
  return rc == 0 ? f->fs->read(f, s->bytes, (size_t)info.size, 0, got) : rc;
}

static int read_file(sdm_fs *fs, const char *path, sdm_snapshot *s, size_t *got) {
  sdm_file *f;
  int rc = fs->open(fs, path, SDM_OPEN_READ, &f);
  if (rc < 0) return rc;
  rc = read_open(f, s, got);
  fs->close(f);
  return rc;
}

int sdm_snapshot_open(sdm_topic *t, const char *name, sdm_snapshot **out) {
  int rc = sdm_topic_check(t);
  if (rc < 0) return rc;
  char *path = sdm_snapshot_path(t, name, "");
  sdm_snapshot *s = sdm_calloc(1, sizeof *s);
  size_t got = 0;
  rc = path && s ? read_file(t->store->env.fs, path, s, &got) : sdm_no_memory();
  if (rc == 0) rc = check(s, got, &t->entry.id);
  if (rc == 0) *out = s;
  else sdm_snapshot_free(s);
  if (rc < 0 && rc != SDM_NO_MEMORY) rc = sdm_fail_within(rc, "%s: ", path);
  sdm_free(path);
  return rc;
}

void sdm_snapshot_free(sdm_snapshot *s) {
  if (!s) return;
  if (s->memory) sdm_pages_free(s->memory, s->allocated);
  sdm_free(s);
}

/* ---- looking ---- */

const sdm_snapshot_head *sdm_snapshot_head_of(const sdm_snapshot *s) { return &s->head; }
bool sdm_snapshot_is_wide(const sdm_snapshot *s) { return s->wide; }
size_t sdm_snapshot_left(const sdm_snapshot *s) { return s->left; }

bool sdm_snapshot_find(const sdm_snapshot *s, const void *key, size_t size, sdm_snapshot_entry *out) {
  return *slot_of(s, sdm_hash64(key, size), key, size, out) != 0 && *out->at == 0;
}

bool sdm_snapshot_next(const sdm_snapshot *s, size_t *cursor, sdm_snapshot_entry *out) {
  size_t at = *cursor ? *cursor : s->head.size;
  while (at < s->size && sdm_snapshot_entry_decode(s->bytes + at, s->bytes + s->size, out)) {
    at += out->size;
    *cursor = at;
    if (*out->at == 0) return true;
  }
  return false;
}

void sdm_snapshot_drop(sdm_snapshot *s, const sdm_snapshot_entry *e) {
  uint8_t *mark = s->bytes + (e->at - s->bytes);
  if (*mark == 0) s->left--;
  *mark = 1;
}
