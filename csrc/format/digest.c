#include "format/digest.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/xxh.h"

enum { MAGIC_SIZE = 8, VERSION = 1, HEAD = 40, ENTRY = 8, SUM = 8 };
static const char MAGIC[MAGIC_SIZE] = "SDMDIGST";

uint64_t sdm_digest_chain(uint64_t hash, int64_t base_offset, int32_t size) {
  uint8_t bytes[20];
  sdm_put64(bytes, hash);
  sdm_put64(bytes + 8, (uint64_t)base_offset);
  sdm_put32(bytes + 16, (uint32_t)size);
  return sdm_hash64(bytes, sizeof bytes);
}

static int begin_entry(sdm_digest_builder *x, int64_t position) {
  int rc = sdm_buf_reserve(&x->entries, ENTRY);
  if (rc < 0) return rc;
  sdm_put32(x->entries.data + x->entries.size, (uint32_t)position);
  x->entries.size += ENTRY;
  x->hash = 0;
  x->position = position;
  return 0;
}

int sdm_digest_add(sdm_digest_builder *x, const sdm_batch *b, int64_t position) {
  bool first = x->entries.size == 0;
  int rc = first || position / SDM_DIGEST_CHUNK != x->position / SDM_DIGEST_CHUNK ? begin_entry(x, position) : 0;
  if (rc < 0) return rc;
  x->hash = sdm_digest_chain(x->hash, b->base_offset, b->size);
  sdm_put32(x->entries.data + x->entries.size - 4, (uint32_t)x->hash);
  x->size = position + b->size;
  x->next_offset = sdm_batch_last_offset(b) + 1;
  return 0;
}

int sdm_digest_encode(const sdm_digest_builder *x, uint64_t inode, sdm_buf *out) {
  size_t start = out->size;
  int rc = sdm_buf_reserve(out, HEAD + x->entries.size + SUM);
  if (rc < 0) return rc;
  uint8_t *p = out->data + start;
  memcpy(p, MAGIC, MAGIC_SIZE);
  sdm_put32(p + 8, VERSION);
  sdm_put32(p + 12, (uint32_t)(x->entries.size / ENTRY));
  sdm_put64(p + 16, (uint64_t)x->size);
  sdm_put64(p + 24, (uint64_t)x->next_offset);
  sdm_put64(p + 32, inode);
  if (x->entries.size) memcpy(p + HEAD, x->entries.data, x->entries.size);
  sdm_put64(p + HEAD + x->entries.size, sdm_hash64(p, HEAD + x->entries.size));
  out->size += HEAD + x->entries.size + SUM;
  return 0;
}

void sdm_digest_builder_free(sdm_digest_builder *x) {
  sdm_buf_free(&x->entries);
  *x = (sdm_digest_builder){0};
}

static bool sound(const uint8_t *p, size_t size) {
  if (size < HEAD + SUM || (size - HEAD - SUM) % ENTRY != 0 || memcmp(p, MAGIC, MAGIC_SIZE) != 0 || sdm_get32(p + 8) != VERSION) return false;
  return sdm_get32(p + 12) == (size - HEAD - SUM) / ENTRY && sdm_get64(p + size - SUM) == sdm_hash64(p, size - SUM);
}

int sdm_digest_decode(sdm_digest *out, const uint8_t *p, size_t size) {
  if (!sound(p, size)) return sdm_fail(SDM_CORRUPT, "no digest of a segment, or a damaged one");
  *out = (sdm_digest){.size = (int64_t)sdm_get64(p + 16), .next_offset = (int64_t)sdm_get64(p + 24), .inode = sdm_get64(p + 32), .count = sdm_get32(p + 12)};
  out->entries = sdm_malloc((out->count + 1) * sizeof *out->entries);
  if (!out->entries) return sdm_no_memory();
  for (size_t i = 0; i < out->count; i++) {
    out->entries[i] = (sdm_digest_entry){sdm_get32(p + HEAD + ENTRY * i), sdm_get32(p + HEAD + ENTRY * i + 4)};
  }
  return 0;
}

bool sdm_digest_set_inode(uint8_t *p, size_t size, uint64_t inode) {
  if (sdm_get64(p + 32) == inode) return false;
  sdm_put64(p + 32, inode);
  sdm_put64(p + size - SUM, sdm_hash64(p, size - SUM));
  return true;
}

void sdm_digest_free(sdm_digest *d) {
  if (d) sdm_free(d->entries);
  sdm_free(d);
}
