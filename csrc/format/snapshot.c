#include "format/snapshot.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

enum { MAGIC_SIZE = 8, VERSION = 1, FIXED = SDM_SNAPSHOT_FIXED, PLACE = 24 };
static const char MAGIC[MAGIC_SIZE] = "SDMTABLE";
static const int64_t EXACT = (int64_t)1 << 53;                     /* up to here a double has every whole number */

/* ---- the head ---- */

int sdm_snapshot_head_encode(const sdm_snapshot_head *h, const sdm_snapshot_place *places, sdm_buf *out) {
  uint8_t fixed[FIXED], place[PLACE];
  memcpy(fixed, MAGIC, MAGIC_SIZE);
  sdm_put32(fixed + 8, VERSION);
  memcpy(fixed + 12, h->topic_id.bytes, sizeof h->topic_id.bytes);
  sdm_put32(fixed + 28, h->partitions);
  sdm_put64(fixed + 32, h->count);
  sdm_put32(fixed + 40, h->schema_size);
  int rc = sdm_buf_append(out, fixed, sizeof fixed);
  if (rc == 0) rc = sdm_buf_append(out, h->schema, h->schema_size);
  for (uint32_t p = 0; rc == 0 && p < h->partitions; p++) {
    sdm_put64(place, (uint64_t)places[p].position);
    sdm_put64(place + 8, (uint64_t)places[p].checked);
    sdm_put64(place + 16, (uint64_t)places[p].start);
    rc = sdm_buf_append(out, place, sizeof place);
  }
  return rc;
}

int sdm_snapshot_head_peek(const uint8_t *bytes, size_t size, uint64_t *head_size, uint64_t *count) {
  if (size < FIXED || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0) return sdm_fail(SDM_CORRUPT, "it is no snapshot of a table");
  if (sdm_get32(bytes + 8) != VERSION) return sdm_fail(SDM_UNSUPPORTED, "it has version %u, and not %d", sdm_get32(bytes + 8), VERSION);
  *head_size = FIXED + (uint64_t)sdm_get32(bytes + 40) + (uint64_t)sdm_get32(bytes + 28) * PLACE;
  *count = sdm_get64(bytes + 32);
  return 0;
}

int sdm_snapshot_head_decode(const uint8_t *bytes, size_t size, sdm_snapshot_head *out) {
  uint64_t whole;
  int rc = sdm_snapshot_head_peek(bytes, size, &whole, &out->count);
  if (rc < 0) return rc;
  if (whole > size) return sdm_fail(SDM_CORRUPT, "it is cut");
  memcpy(out->topic_id.bytes, bytes + 12, sizeof out->topic_id.bytes);
  out->partitions = sdm_get32(bytes + 28);
  out->schema_size = sdm_get32(bytes + 40);
  out->schema = (const char *)bytes + FIXED;
  out->places = bytes + FIXED + out->schema_size;
  out->size = (size_t)whole;
  return 0;
}

sdm_snapshot_place sdm_snapshot_place_at(const sdm_snapshot_head *h, uint32_t partition) {
  const uint8_t *p = h->places + (size_t)partition * PLACE;
  return (sdm_snapshot_place){(int64_t)sdm_get64(p), (int64_t)sdm_get64(p + 8), (int64_t)sdm_get64(p + 16)};
}

/* ---- values ---- */

static int put_varlong(sdm_buf *out, int64_t v) {
  uint8_t bytes[SDM_VARLONG_MAX];
  return sdm_buf_append(out, bytes, (size_t)(sdm_put_varlong(bytes, v) - bytes));
}

int sdm_saved_put(sdm_buf *out, sdm_saved_type type) { return sdm_buf_append(out, &(uint8_t){(uint8_t)type}, 1); }

int sdm_saved_put_whole(sdm_buf *out, int64_t v) {
  int rc = sdm_saved_put(out, SDM_SAVED_WHOLE);
  return rc == 0 ? put_varlong(out, v) : rc;
}

int sdm_saved_put_double(sdm_buf *out, double v) {
  uint64_t bits;
  uint8_t bytes[9] = {SDM_SAVED_DOUBLE};
  memcpy(&bits, &v, sizeof bits);
  sdm_put64(bytes + 1, bits);
  return sdm_buf_append(out, bytes, sizeof bytes);
}

double sdm_saved_get_double(const uint8_t *p) {
  double v;
  uint64_t bits = sdm_get64(p);
  memcpy(&v, &bits, sizeof v);
  return v;
}

int sdm_saved_put_string(sdm_buf *out, const void *bytes, size_t size) {
  int rc = sdm_saved_put(out, SDM_SAVED_STRING);
  if (rc == 0) rc = put_varlong(out, (int64_t)size);
  return rc == 0 ? sdm_buf_append(out, bytes, size) : rc;
}

/* Each walks over one thing and gives the byte behind it, NULL when it is none. */

static const uint8_t *skip_bytes(const uint8_t *p, const uint8_t *end, int32_t *size) {
  p = sdm_get_varint(p, end, size);
  return p && *size >= 0 && end - p >= *size ? p + *size : NULL;
}

static const uint8_t *skip_whole(const uint8_t *p, const uint8_t *end, bool *wide) {
  int64_t v = 0;
  p = sdm_get_varlong(p, end, &v);
  if (v > EXACT || v < -EXACT) *wide = true;
  return p;
}

static const uint8_t *skip_value(const uint8_t *p, const uint8_t *end, int depth, bool *wide);

/* What can be the key of a Lua table that is saved. */
static const uint8_t *skip_key(const uint8_t *p, const uint8_t *end, bool *wide) {
  const uint8_t *behind = *p < SDM_SAVED_TABLE ? skip_value(p, end, 0, wide) : NULL;
  return behind && *p == SDM_SAVED_DOUBLE && isnan(sdm_saved_get_double(p + 1)) ? NULL : behind;
}

static const uint8_t *skip_table(const uint8_t *p, const uint8_t *end, int depth, bool *wide) {
  if (depth == 0) return NULL;
  while (p && p < end && *p != SDM_SAVED_END) p = skip_value(p, end, depth - 1, wide);
  if (!p || p++ == end) return NULL;
  while (p && p < end && *p != SDM_SAVED_END) {
    p = skip_key(p, end, wide);
    if (p) p = skip_value(p, end, depth - 1, wide);
  }
  return p && p < end ? p + 1 : NULL;
}

static const uint8_t *skip_value(const uint8_t *p, const uint8_t *end, int depth, bool *wide) {
  int32_t size;
  if (p == end) return NULL;
  switch (*p++) {
    case SDM_SAVED_FALSE: case SDM_SAVED_TRUE: return p;
    case SDM_SAVED_WHOLE: return skip_whole(p, end, wide);
    case SDM_SAVED_DOUBLE: return end - p >= 8 ? p + 8 : NULL;
    case SDM_SAVED_STRING: return skip_bytes(p, end, &size);
    case SDM_SAVED_TABLE: return skip_table(p, end, depth, wide);
    default: return NULL;
  }
}

/* ---- entries ---- */

int sdm_snapshot_entry_begin(sdm_buf *out, int32_t partition, const void *key, int32_t key_size) {
  int rc = put_varlong(out, partition);
  if (rc == 0) rc = put_varlong(out, key_size);
  return rc == 0 ? sdm_buf_append(out, key, (size_t)key_size) : rc;
}

bool sdm_snapshot_entry_decode(const uint8_t *p, const uint8_t *end, sdm_snapshot_entry *out) {
  out->at = p;
  out->wide = false;
  p = sdm_get_varint(p, end, &out->partition);
  out->value = p && out->partition >= 0 ? skip_bytes(p, end, &out->key_size) : NULL;
  if (!out->value) return false;
  out->key = out->value - out->key_size;
  p = skip_value(out->value, end, SDM_SAVED_DEPTH, &out->wide);
  out->size = p ? (size_t)(p - out->at) : 0;
  return p != NULL;
}
