#include "log/producer_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "log/transactions.h"

enum { VERSION = 1, AT_CRC = 2, AT_COUNT = 6, HEADER = 10, ENTRY = 46 };

static void encode_producer(uint8_t *p, const sdm_producer *of) {
  bool data = of->last_data >= 0;
  sdm_put64(p, (uint64_t)of->id);
  sdm_put16(p + 8, (uint16_t)of->epoch);
  sdm_put32(p + 10, data ? (uint32_t)of->last_sequence : UINT32_MAX);
  sdm_put64(p + 14, (uint64_t)of->last_data);
  sdm_put32(p + 22, data ? (uint32_t)of->last_delta : 0);
  sdm_put64(p + 26, (uint64_t)of->last_timestamp);
  sdm_put32(p + 34, (uint32_t)of->coordinator_epoch);
  sdm_put64(p + 38, (uint64_t)of->first_open);
}

static int encode(const sdm_producers *p, sdm_buf *out) {
  int rc = sdm_buf_reserve(out, HEADER + p->count * ENTRY);
  if (rc < 0) return rc;
  sdm_put16(out->data, VERSION);
  sdm_put32(out->data + AT_COUNT, (uint32_t)p->count);
  out->size = HEADER;
  for (size_t i = 0; i < p->capacity; i++) {
    if (!p->slots[i].used) continue;
    encode_producer(out->data + out->size, &p->slots[i]);
    out->size += ENTRY;
  }
  sdm_put32(out->data + AT_CRC, sdm_crc32c(0, out->data + AT_COUNT, out->size - AT_COUNT));
  return 0;
}

bool sdm_snapshot_name_decode(const char *name, int64_t *offset) {
  if (strspn(name, "0123456789") != 20 || strcmp(name + 20, ".snapshot") != 0) return false;
  *offset = strtoll(name, NULL, 10);
  return true;
}

int sdm_broker_end(sdm_fs *fs, const char *dir, int64_t *end) {
  sdm_names names = {0};
  int64_t offset;
  *end = -1;
  int rc = fs->list(fs, dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    if (sdm_snapshot_name_decode(names.items[i], &offset) && offset > *end) *end = offset;
  }
  sdm_names_clear(&names);
  return rc;
}

/* Those in [from, to). */
static int drop(sdm_log *l, int64_t from, int64_t to) {
  sdm_names names = {0};
  int64_t offset;
  int rc = l->fs->list(l->fs, l->dir, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (!sdm_snapshot_name_decode(names.items[i], &offset) || offset < from || offset >= to) continue;
    char *path = sdm_format("%s/%s", l->dir, names.items[i]);
    rc = path ? l->fs->unlink(l->fs, path) : sdm_no_memory();
    sdm_free(path);
  }
  sdm_names_clear(&names);
  return rc;
}

static int write(sdm_log *l, const sdm_producers *p, int64_t end) {
  sdm_file_info info;
  sdm_buf bytes = SDM_BUF_INIT;
  char *name = sdm_format("%020lld.snapshot", (long long)end), *path = name ? sdm_format("%s/%s", l->dir, name) : NULL;
  int rc = path ? l->fs->path_info(l->fs, path, &info) : sdm_no_memory();
  if (rc == SDM_NOT_FOUND) {               /* else nothing was appended since it was written, perhaps by the broker, who knows more */
    rc = encode(p, &bytes);
    if (rc == 0) rc = sdm_fs_replace(l->fs, l->dir, name, bytes.data, bytes.size);
  }
  sdm_buf_free(&bytes);
  sdm_free(path);
  sdm_free(name);
  return rc;
}

int sdm_producer_snapshot_write(sdm_log *l, int64_t end) {
  sdm_transactions *t;
  int rc = sdm_transactions_get(l, &t);
  if (rc == 0 && t && t->producers.count > 0) {
    int64_t foreign = atomic_load(&l->control->foreign_end);      /* INT64_MAX where it is not known: then all may be a broker's */
    rc = write(l, &t->producers, end);
    if (rc == 0 && foreign < end) rc = drop(l, foreign + 1, end);
  }
  sdm_transactions_unref(t);
  return rc;
}

int sdm_producer_snapshots_drop_locked(sdm_log *l) {
  int64_t end = atomic_load(&l->control->foreign_end);
  return end > 0 ? drop(l, 0, end) : 0;
}
