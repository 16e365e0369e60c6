#include "format/state_file.h"

#include <string.h>

#include "base/bytes.h"
#include "base/xxh.h"

enum { MAGIC_SIZE = 8, VERSION = 1, BODY = 96, CHECKSUM = 96, USED = 104 };
static const char MAGIC[MAGIC_SIZE] = "SDMSTATE";

void sdm_state_encode(const sdm_state_file *s, uint8_t slot[SDM_STATE_SLOT]) {
  memset(slot, 0, SDM_STATE_SLOT);
  memcpy(slot, MAGIC, MAGIC_SIZE);
  sdm_put32(slot + 8, VERSION);
  sdm_put32(slot + 12, s->clean ? 1 : 0);
  sdm_put64(slot + 16, s->sequence);
  sdm_put64(slot + 24, (uint64_t)s->reserved_end);
  sdm_put64(slot + 32, (uint64_t)s->purge_floor);
  sdm_put64(slot + 40, (uint64_t)s->end);
  sdm_put64(slot + 48, (uint64_t)s->position);
  sdm_put64(slot + 56, (uint64_t)s->cleaned_end);
  sdm_put64(slot + 64, (uint64_t)s->first_append_ms);
  sdm_put64(slot + 72, (uint64_t)s->jitter_ms);
  sdm_put64(slot + 80, (uint64_t)s->log_start);
  sdm_put64(slot + 88, (uint64_t)s->foreign_end);
  sdm_put64(slot + CHECKSUM, sdm_hash64(slot, BODY));
}

static bool decode_slot(const uint8_t *p, sdm_state_file *out) {
  if (memcmp(p, MAGIC, MAGIC_SIZE) != 0 || sdm_get32(p + 8) != VERSION || sdm_get64(p + CHECKSUM) != sdm_hash64(p, BODY)) return false;
  out->clean = sdm_get32(p + 12) == 1;
  out->sequence = sdm_get64(p + 16);
  out->reserved_end = (int64_t)sdm_get64(p + 24);
  out->purge_floor = (int64_t)sdm_get64(p + 32);
  out->end = (int64_t)sdm_get64(p + 40);
  out->position = (int64_t)sdm_get64(p + 48);
  out->cleaned_end = (int64_t)sdm_get64(p + 56);
  out->first_append_ms = (int64_t)sdm_get64(p + 64);
  out->jitter_ms = (int64_t)sdm_get64(p + 72);
  out->log_start = (int64_t)sdm_get64(p + 80);
  out->foreign_end = (int64_t)sdm_get64(p + 88);
  return true;
}

static bool is_used(const uint8_t *p, size_t size) {
  for (size_t i = 0; i < size; i++) {
    if (p[i] != 0) return true;
  }
  return false;
}

bool sdm_state_decode(const uint8_t *bytes, size_t size, sdm_state_file *out) {
  sdm_state_file s = {0};
  *out = (sdm_state_file){.purge_floor = -1, .end = -1, .position = -1, .cleaned_end = INT64_MAX, .first_append_ms = -1, .foreign_end = INT64_MAX};
  bool damaged = size > 0 && size < SDM_STATE_BYTES;
  for (size_t at = 0; at < size && at < SDM_STATE_BYTES; at += SDM_STATE_SLOT) {
    size_t have = size - at < USED ? size - at : USED;
    bool valid = have == USED && decode_slot(bytes + at, &s);
    if (valid && s.sequence > out->sequence) *out = s;
    damaged = damaged || (!valid && is_used(bytes + at, have));
  }
  out->damaged = damaged;
  return size == 0 || out->sequence > 0;
}
