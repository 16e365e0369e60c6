#include "store/roster.h"

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"

enum { AT_MAGIC = 0, AT_TOKEN = 8, AT_SIZE = 16, AT_HASH = 24, HEADER = 32, MOST = 64 << 20, NO_SLOT = -1, LOCK_BYTE = 0 };

static const char MAGIC[8] = "SDMGROUP";

struct sdm_roster {
  sdm_store *store;                        /* a reference */
  sdm_roster *next;                        /* of the store, guarded by store->lock */
  char *path;
  sdm_file *file;                          /* NULL after a fork */
  int slot;
};

static int64_t byte_of(int slot) { return 1 + slot; }

/* ---- opening ---- */

static int open_file(sdm_roster *r) {
  sdm_fs *fs = r->store->env.fs;
  r->slot = NO_SLOT;
  return fs->open(fs, r->path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &r->file);
}

static void let_go(sdm_roster *r) {
  if (r->file) r->store->env.fs->close(r->file);
  r->file = NULL;
  r->slot = NO_SLOT;
}

void sdm_rosters_let_go(sdm_store *s) {
  for (sdm_roster *r = s->rosters; r; r = r->next) let_go(r);
}

static void enlist(sdm_roster *r) {
  sdm_mutex_lock(&r->store->lock);
  r->next = r->store->rosters;
  r->store->rosters = r;
  sdm_mutex_unlock(&r->store->lock);
}

static void strike_off(sdm_roster *r) {
  sdm_mutex_lock(&r->store->lock);
  sdm_roster **at = &r->store->rosters;
  while (*at && *at != r) at = &(*at)->next;
  if (*at) *at = r->next;
  sdm_mutex_unlock(&r->store->lock);
}

int sdm_roster_open(sdm_store *s, const void *group, size_t size, sdm_roster **out) {
  int rc = sdm_store_check_writable(s);
  if (rc < 0) return rc;
  struct sdm_hash128 h = sdm_hash128(group, size);
  sdm_roster *r = sdm_calloc(1, sizeof *r);
  if (!r) return sdm_no_memory();
  r->store = sdm_store_ref(s);
  r->path = sdm_format("%s/" SDM_GROUP_PREFIX "%016llx%016llx", s->env.root, (unsigned long long)h.hi, (unsigned long long)h.lo);
  rc = r->path ? open_file(r) : sdm_no_memory();
  enlist(r);
  if (rc == 0) *out = r;
  else sdm_roster_close(r);
  return rc;
}

void sdm_roster_close(sdm_roster *r) {
  if (!r) return;
  bool forked = r->store->fork_count != sdm_fork_count();   /* then the list may have been left locked */
  if (!forked) strike_off(r);
  let_go(r);
  sdm_free(r->path);
  if (!forked) sdm_store_unref(r->store);
  sdm_free(r);
}

/* The file may have been out of reach when it was to be opened anew. */
static int check(sdm_roster *r) {
  int rc = sdm_store_check(r->store);
  return rc == 0 && !r->file ? open_file(r) : rc;
}

/* ---- the lock ---- */

static int lock_byte(const sdm_roster *r, int64_t byte, sdm_lock_mode mode, bool wait) { return r->file->fs->lock(r->file, byte, mode, wait); }

/* Whether the file is the one of its name still: 1, 0. */
static int is_current(const sdm_roster *r) {
  sdm_file_info mine, named;
  int rc = r->file->fs->info(r->file, &mine);
  if (rc == 0) rc = r->file->fs->path_info(r->file->fs, r->path, &named);
  if (rc == SDM_NOT_FOUND) return 0;
  return rc < 0 ? rc : mine.device == named.device && mine.inode == named.inode;
}

int sdm_roster_lock(sdm_roster *r) {
  int rc = check(r);
  while (rc == 0 && (rc = lock_byte(r, LOCK_BYTE, SDM_LOCK_EXCLUSIVE, true)) == 0 && (rc = is_current(r)) == 0) {
    let_go(r);
    rc = open_file(r);
  }
  return rc < 0 ? rc : 0;
}

void sdm_roster_unlock(sdm_roster *r) {
  if (r->file) lock_byte(r, LOCK_BYTE, SDM_LOCK_NONE, false);
}

/* ---- the text ---- */

/* A file that was removed has none: who has it open is to look at the one in its place. */
int sdm_roster_token(sdm_roster *r, uint64_t *token) {
  uint8_t head[AT_SIZE];
  size_t got = 0;
  sdm_file_info info = {.links = 1};
  int rc = check(r);
  if (rc == 0) rc = r->file->fs->info(r->file, &info);
  if (rc == 0 && info.links > 0) rc = r->file->fs->read(r->file, head, sizeof head, 0, &got);
  if (rc < 0) return rc;
  *token = got == sizeof head && memcmp(head, MAGIC, sizeof MAGIC) == 0 ? sdm_get64(head + AT_TOKEN) : 0;
  return 0;
}

/* The hash covers all but itself. */
static uint64_t hash_of(const uint8_t *head, const void *text, size_t size) {
  return sdm_hash64(text, size) ^ sdm_hash64(head, AT_HASH);
}

int sdm_roster_read(sdm_roster *r, sdm_buf *text, uint64_t *token) {
  uint8_t head[HEADER];
  size_t got = 0, size;
  int rc = check(r);
  text->size = 0;
  *token = 0;
  if (rc == 0) rc = r->file->fs->read(r->file, head, sizeof head, 0, &got);
  if (rc < 0 || got < sizeof head || memcmp(head, MAGIC, sizeof MAGIC) != 0) return rc;
  size = (size_t)sdm_get64(head + AT_SIZE);
  if (size > MOST) return 0;
  if ((rc = sdm_buf_reserve(text, size)) < 0) return rc;
  rc = r->file->fs->read(r->file, text->data, size, HEADER, &got);
  if (rc < 0 || got != size || hash_of(head, text->data, size) != sdm_get64(head + AT_HASH)) return rc;
  text->size = size;
  *token = sdm_get64(head + AT_TOKEN);
  return 0;
}

static int new_token(uint64_t *token) {
  int rc = 0;
  do rc = sdm_random(token, sizeof *token);
  while (rc == 0 && *token == 0);
  return rc;
}

int sdm_roster_write(sdm_roster *r, const void *text, size_t size, uint64_t *token) {
  sdm_buf all = {0};
  int rc = check(r);
  if (rc == 0 && size > MOST) rc = sdm_fail(SDM_TOO_LARGE, "%s would be larger than %d bytes", r->path, MOST);
  if (rc == 0) rc = new_token(token);
  if (rc < 0) return rc;
  if ((rc = sdm_buf_reserve(&all, HEADER + size)) < 0) return rc;
  uint8_t *head = all.data;
  memcpy(head, MAGIC, sizeof MAGIC);
  sdm_put64(head + AT_TOKEN, *token);
  sdm_put64(head + AT_SIZE, size);
  sdm_put64(head + AT_HASH, hash_of(head, text, size));
  memcpy(head + HEADER, text, size);
  rc = r->file->fs->write(r->file, head, HEADER + size, 0);
  if (rc == 0) rc = r->file->fs->truncate(r->file, (int64_t)(HEADER + size));
  sdm_buf_free(&all);
  return rc;
}

/* ---- who lives ---- */

int sdm_roster_claim(sdm_roster *r, int slot) {
  int rc = sdm_roster_release(r);
  if (rc == 0) rc = lock_byte(r, byte_of(slot), SDM_LOCK_EXCLUSIVE, false);
  if (rc == SDM_LOCKED) return 0;
  if (rc < 0) return rc;
  r->slot = slot;
  return 1;
}

int sdm_roster_release(sdm_roster *r) {
  int rc = check(r);
  if (rc == 0 && r->slot != NO_SLOT) rc = lock_byte(r, byte_of(r->slot), SDM_LOCK_NONE, false);
  if (rc == 0) r->slot = NO_SLOT;
  return rc;
}

/* Its own slot it must not try: it would let go of it. */
int sdm_roster_is_alive(sdm_roster *r, int slot) {
  int rc = check(r);
  if (rc < 0) return rc;
  if (slot == r->slot) return 1;
  rc = lock_byte(r, byte_of(slot), SDM_LOCK_SHARED, false);
  if (rc == SDM_LOCKED) return 1;
  return rc < 0 ? rc : lock_byte(r, byte_of(slot), SDM_LOCK_NONE, false);
}

int sdm_roster_remove(sdm_roster *r) {
  int rc = check(r);
  return rc == 0 ? r->file->fs->unlink(r->file->fs, r->path) : rc;
}
