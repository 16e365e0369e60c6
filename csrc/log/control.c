#include "log/control.h"

#include <string.h>

#include "base/mem.h"

static const char MAGIC[8] = "SDMCTRL";
enum { VERSION = 4 };

_Static_assert(sizeof(sdm_control) <= 4096, "the control page is one page");

int sdm_control_map(sdm_fs *fs, const char *dir, bool writable, sdm_file **file, sdm_control **out) {
  char *path = sdm_format("%s/%s", dir, SDM_CONTROL_NAME);
  if (!path) return sdm_no_memory();
  sdm_file *f = NULL;
  sdm_file_info info;
  void *map;
  int rc = fs->open(fs, path, writable ? SDM_OPEN_WRITE | SDM_OPEN_CREATE : SDM_OPEN_READ, &f);
  sdm_free(path);
  if (rc < 0) return rc;
  rc = fs->info(f, &info);
  if (rc == 0 && writable) rc = fs->allocate(f, SDM_CONTROL_BYTES);      /* also when it is long enough: it may have come back with holes */
  else if (rc == 0 && info.size < SDM_CONTROL_BYTES) rc = sdm_fail(SDM_NOT_FOUND, "%s is too short", f->path);
  if (rc == 0) rc = fs->map(f, SDM_CONTROL_BYTES, writable, &map);
  if (rc < 0) {
    fs->close(f);
    return rc;
  }
  *file = f;
  *out = map;
  return 0;
}

void sdm_control_unmap(sdm_fs *fs, sdm_file *file, sdm_control *c) {
  if (c) fs->unmap(fs, c, SDM_CONTROL_BYTES);
  if (file) fs->close(file);
}

uint64_t sdm_root_incarnation(sdm_fs *fs, const char *root, const uint8_t boot_id[SDM_BOOT_ID]) {
  struct { char magic[8]; uint32_t version, size; uint8_t boot_id[SDM_BOOT_ID]; uint64_t incarnation; } head;
  char *path = sdm_format("%s/%s", root, SDM_CONTROL_NAME);
  sdm_file *f;
  size_t got = 0;
  int rc = path ? fs->open(fs, path, SDM_OPEN_READ, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return 0;
  rc = fs->read(f, &head, sizeof head, 0, &got);
  fs->close(f);
  bool ours = rc == 0 && got == sizeof head && memcmp(head.magic, SDM_STORE_PAGE_MAGIC, 8) == 0 && memcmp(head.boot_id, boot_id, SDM_BOOT_ID) == 0;
  return ours ? head.incarnation : 0;
}

bool sdm_control_valid(const sdm_control *c, const uint8_t boot_id[SDM_BOOT_ID]) {
  return memcmp(c->magic, MAGIC, sizeof MAGIC) == 0 && c->version == VERSION && c->size == SDM_CONTROL_BYTES &&
         memcmp(c->boot_id, boot_id, SDM_BOOT_ID) == 0;
}

int sdm_control_renew(sdm_control *c) {
  int rc = sdm_shared_mutex_init(&c->lock);
  if (rc == 0) rc = sdm_shared_mutex_init(&c->maintenance);
  if (rc == 0) rc = sdm_shared_mutex_init(&c->syncing);
  c->reserve_step = 0;
  atomic_store(&c->keyless_dropped, 0);
  atomic_store(&c->failed, 0);
  atomic_store(&c->uncleanable, 0);
  atomic_store(&c->retention_failed, 0);
  atomic_store(&c->clean_failures, 0);
  atomic_store(&c->cleaned_ms, -1);
  atomic_store(&c->awaited, 0);
  atomic_store(&c->sync_awaited, 0);
  atomic_store(&c->deleted, SDM_GONE_NOT);
  atomic_store(&c->unfinished, 0);
  return rc;
}

int sdm_control_reset(sdm_control *c, const uint8_t boot_id[SDM_BOOT_ID]) {
  memset(c, 0, sizeof *c);
  int rc = sdm_control_renew(c);
  if (rc < 0) return rc;
  c->version = VERSION;
  c->size = SDM_CONTROL_BYTES;
  memcpy(c->boot_id, boot_id, SDM_BOOT_ID);
  memcpy(c->magic, MAGIC, sizeof MAGIC);
  return 0;
}

void sdm_control_prepare(sdm_control *c, sdm_end *next) {
  memcpy(next, sdm_control_end(c), sizeof *next);
  atomic_store_explicit(&next->staged_count, 0, memory_order_relaxed);
  atomic_store_explicit(&next->staged_bytes, 0, memory_order_relaxed);
  next->staged_crc = 0;
  next->staged_append_time = 0;
  next->staged_timestamp = next->staged_max_timestamp = next->staged_tombstone = next->staged_since_ms = -1;
}

/* The fence: who reads the slot of an older commit must see that it is over before he sees its slot or its stage change. */
void sdm_control_publish(sdm_control *c, const sdm_end *next) {
  uint64_t commit = atomic_load_explicit(&c->commit, memory_order_relaxed);
  memcpy(&c->slots[(commit + 1) & 1], next, sizeof *next);
  atomic_store_explicit(&c->commit, commit + 1, memory_order_release);
  atomic_thread_fence(memory_order_release);   /* who reads the old slot or the stage while they are written anew must see that it moved */
  atomic_thread_fence(memory_order_seq_cst);
  atomic_store_explicit(&c->log_end, sdm_end_offset(next), memory_order_release);
}

typedef uint64_t unaligned_u64 __attribute__((aligned(1), may_alias));

__attribute__((no_sanitize("thread"))) static void copy_racy(void *to, const void *from, size_t size) {
  const volatile uint8_t *p = from;       /* checked by `commit` afterwards: a torn copy is thrown away */
  uint8_t *q = to;
  for (; size >= 8; size -= 8, p += 8, q += 8) {
    uint64_t v = *(const volatile unaligned_u64 *)(const volatile void *)p;
    memcpy(q, &v, 8);
  }
  while (size--) *q++ = *p++;
}

uint64_t sdm_control_read(sdm_control *c, sdm_end *out) {
  for (;;) {
    uint64_t commit = atomic_load_explicit(&c->commit, memory_order_acquire);
    const sdm_end *slot = &c->slots[commit & 1];
    uint32_t count = atomic_load_explicit(&slot->staged_count, memory_order_acquire);
    copy_racy(out, slot, sizeof *out);
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&c->commit, memory_order_relaxed) != commit) continue;
    atomic_store_explicit(&out->staged_count, count, memory_order_relaxed);
    return commit;
  }
}

bool sdm_control_read_stage(sdm_control *c, uint64_t commit, uint32_t have, uint8_t *out, uint32_t *bytes) {
  const sdm_end *slot = &c->slots[commit & 1];
  uint32_t size = atomic_load_explicit(&slot->staged_bytes, memory_order_acquire);
  if (size > SDM_STAGE_BYTES - SDM_BATCH_HEADER) size = SDM_STAGE_BYTES - SDM_BATCH_HEADER;
  if (size > have) copy_racy(out + have, sdm_control_stage(c) + SDM_BATCH_HEADER + have, size - have);
  atomic_thread_fence(memory_order_acquire);
  *bytes = size;
  return atomic_load_explicit(&c->commit, memory_order_relaxed) == commit;
}
