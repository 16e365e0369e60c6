/* Records: the hot path of every append, read, rebuild and cleaning.
**
** Reading and writing each have a fast way for the usual record (varints of one or two bytes, no headers) and a slow one for all. The fast
** reader never judges: whatever is not plainly right goes to the slow one, which finds the reason. So only the slow one has to be believed
** about hostile bytes, and the fast one only about never taking what that would refuse.
*/
#include "format/batch.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Timestamp deltas wrap, on both ways, as Kafka's do: a horizon of 2^63-1 must not make a batch unreadable. */
static inline int64_t add_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t sub_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* ---- reading ---- */

void sdm_record_iter_init(sdm_record_iter *it, const sdm_batch *b, const uint8_t *records, size_t size) {
  it->batch = *b;
  it->p = records;
  it->end = b->count > 0 ? records + size : records;   /* an emptied batch's payload is not looked at */
  it->left = b->count;
  it->last_offset = b->base_offset - 1;
}

__attribute__((cold, noinline)) static int refuse(const sdm_record_iter *it, const char *why) {
  return sdm_fail(SDM_CORRUPT, "batch at offset %lld: record %d of %d, after offset %lld: %s", (long long)it->batch.base_offset,
                  it->batch.count - it->left + 1, it->batch.count, (long long)it->last_offset, why);
}

/* A length-prefixed run of bytes, -1 meaning none. NULL: malformed. */
static const uint8_t *get_bytes(const uint8_t *p, const uint8_t *end, const void **bytes, int32_t *size) {
  p = sdm_get_varint(p, end, size);
  if (!p || *size < -1) return NULL;
  *bytes = *size < 0 ? NULL : p;
  if (*size <= 0) return p;
  return *size <= end - p ? p + *size : NULL;
}

const uint8_t *sdm_header_decode(const uint8_t *p, const uint8_t *end, sdm_header *out) {
  const void *name, *value;
  int32_t name_size, value_size;
  p = get_bytes(p, end, &name, &name_size);
  if (!p || name_size < 0) return NULL;
  p = get_bytes(p, end, &value, &value_size);
  if (!p) return NULL;
  *out = (sdm_header){ .name = name, .value = value, .name_size = name_size, .value_size = value_size };
  return p;
}

static bool headers_ok(const uint8_t *p, const uint8_t *end, int32_t count) {
  sdm_header header;
  if (count < 0 || count > end - p) return false;
  for (; count > 0; count--) {
    p = sdm_header_decode(p, end, &header);
    if (!p) return false;
  }
  return p == end;
}

static void deliver(sdm_record_iter *it, const uint8_t *end, int32_t offset_delta, int64_t timestamp_delta, sdm_record *out) {
  const sdm_batch *b = &it->batch;
  out->offset = b->base_offset + offset_delta;
  out->timestamp = b->attributes & SDM_ATTR_APPEND_TIME ? b->max_timestamp : add_wrapping(b->base_timestamp, timestamp_delta);
  it->last_offset = out->offset;
  it->p = end;
  it->left--;
}

static int next_slow(sdm_record_iter *it, sdm_record *out) {
  sdm_record r;
  int32_t length, offset_delta;
  int64_t timestamp_delta;
  const uint8_t *p = sdm_get_varint(it->p, it->end, &length);
  if (!p) return refuse(it, "missing");
  if (length < 1 || length > it->end - p) return refuse(it, "its length leaves the batch");
  const uint8_t *end = p + length;
  p = sdm_get_varlong(p + 1, end, &timestamp_delta);   /* after the attributes, which mean nothing yet */
  if (p) p = sdm_get_varint(p, end, &offset_delta);
  if (!p) return refuse(it, "cut off in its deltas");
  if (offset_delta < 0 || offset_delta > it->batch.last_offset_delta) return refuse(it, "its offset is outside the batch");
  if (it->batch.base_offset + offset_delta <= it->last_offset) return refuse(it, "its offset does not ascend");
  p = get_bytes(p, end, &r.key, &r.key_size);
  if (!p) return refuse(it, "its key leaves the record");
  p = get_bytes(p, end, &r.value, &r.value_size);
  if (!p) return refuse(it, "its value leaves the record");
  p = sdm_get_varint(p, end, &r.header_count);
  if (p && r.header_count > SDM_HEADERS_MAX) return refuse(it, "it has more than 100000 headers");
  if (!p || !headers_ok(p, end, r.header_count)) return refuse(it, "its headers do not add up to its length");
  if (it->left == 1 && end != it->end) return refuse(it, "bytes are left over after it");
  r.headers = p;
  r.headers_size = (int32_t)(end - p);
  *out = r;
  deliver(it, end, offset_delta, timestamp_delta, out);
  return 1;
}

/* Takes a varint of one or two bytes, still zigzagged; else leaves for the slow way. Two bytes at p must be readable. */
#define TAKE_SHORT(z)                                        \
  do {                                                       \
    uint32_t low_ = p[0];                                    \
    if (LIKELY(low_ < 128)) {                                \
      p++;                                                   \
    } else {                                                 \
      if (UNLIKELY(p[1] > 127)) return next_slow(it, out);   \
      low_ = (low_ & 127) | (uint32_t)p[1] << 7;             \
      p += 2;                                                \
    }                                                        \
    (z) = low_;                                              \
  } while (0)

/* What may be read before a length is checked: length, attributes, timestamp, offset and key size; a value size and a header count. */
enum { HEAD_MAX = 2 + 1 + SDM_VARLONG_MAX + 2 + 2, MIDDLE_MAX = 3 };

int sdm_record_next(sdm_record_iter *it, sdm_record *out) {
  const uint8_t *p = it->p, *limit = it->end;
  if (it->left == 0) return 0;
  if (UNLIKELY(limit - p < HEAD_MAX + MIDDLE_MAX)) return next_slow(it, out);
  uint32_t length, offset_delta, key, value;
  int64_t timestamp_delta;
  TAKE_SHORT(length);
  if (UNLIKELY((ptrdiff_t)(length >> 1) > limit - p)) return next_slow(it, out);
  const uint8_t *end = p + (length >> 1);
  p++;
  if (LIKELY(p[0] < 128)) {
    timestamp_delta = sdm_unzigzag(*p++);
  } else if (p[1] < 128) {
    timestamp_delta = sdm_unzigzag((p[0] & 127) | (uint64_t)p[1] << 7);
    p += 2;
  } else {
    p = sdm_get_varlong_slow(p, limit, &timestamp_delta);
    if (!p) return next_slow(it, out);
  }
  TAKE_SHORT(offset_delta);
  TAKE_SHORT(key);
  /* Odd zigzags are negative: -1 (1) means none for key and value; all others are the slow way's. */
  uint32_t odd = (length | offset_delta) & 1;
  uint32_t key_size = key == 1 ? 0 : key >> 1;
  odd |= (key & 1) & (key != 1);
  if (UNLIKELY(odd || limit - p - MIDDLE_MAX < (ptrdiff_t)key_size)) return next_slow(it, out);
  const uint8_t *key_at = p;
  p += key_size;
  TAKE_SHORT(value);
  uint32_t value_size = value == 1 ? 0 : value >> 1;
  odd = (value & 1) & (value != 1);
  if (UNLIKELY(odd || end - p - 1 != (ptrdiff_t)value_size || end[-1] != 0)) return next_slow(it, out);
  int32_t delta = (int32_t)(offset_delta >> 1);
  if (UNLIKELY(delta > it->batch.last_offset_delta || it->batch.base_offset + delta <= it->last_offset)) return next_slow(it, out);
  if (UNLIKELY(it->left == 1 && end != limit)) return next_slow(it, out);
  *out = (sdm_record){
    .key = key == 1 ? NULL : key_at,
    .value = value == 1 ? NULL : p,
    .headers = end,
    .key_size = key == 1 ? -1 : (int32_t)key_size,
    .value_size = value == 1 ? -1 : (int32_t)value_size,
  };
  deliver(it, end, delta, timestamp_delta, out);
  return 1;
}

/* ---- writing ---- */

typedef struct shape {
  uint64_t timestamp, offset, key, value;   /* zigzagged */
  size_t bytes;                             /* of key, value and headers */
  size_t body;                              /* what the length field says */
} shape;

enum { SHORT = 1 << 14 };                   /* zigzags below it take one or two bytes */

static inline bool shape_is_short(const shape *s, const sdm_record *r) {
  return (s->timestamp | s->offset | s->key | s->value) < SHORT && r->header_count == 0 && s->body < SHORT / 2;
}

static inline shape measure(const sdm_record *r, int64_t base_offset, int64_t base_timestamp) {
  int64_t timestamp = sub_wrapping(r->timestamp, base_timestamp), offset = sub_wrapping(r->offset, base_offset);
  shape s = {
    .timestamp = sdm_zigzag(timestamp),
    .offset = sdm_zigzag(offset),
    .key = sdm_zigzag(r->key_size),
    .value = sdm_zigzag(r->value_size),
    .bytes = (size_t)(r->key_size < 0 ? 0 : r->key_size) + (size_t)(r->value_size < 0 ? 0 : r->value_size) + (size_t)r->headers_size,
  };
  if (LIKELY((s.timestamp | s.offset | s.key | s.value) < SHORT && r->header_count == 0)) {
    s.body = 6 + (size_t)((s.timestamp > 127) + (s.offset > 127) + (s.key > 127) + (s.value > 127)) + s.bytes;
  } else {
    s.body = 1 + sdm_varlong_size(timestamp) + sdm_varlong_size(offset) + sdm_varlong_size(r->key_size) +
             sdm_varlong_size(r->value_size) + sdm_varlong_size(r->header_count) + s.bytes;
  }
  return s;
}

size_t sdm_record_size(const sdm_record *r, int64_t base_offset, int64_t base_timestamp) {
  shape s = measure(r, base_offset, base_timestamp);
  return (s.body < SHORT / 2 ? 1 + (s.body > 63) : sdm_varlong_size((int64_t)s.body)) + s.body;
}

/* Keys and small values are copied in line; the two halves of a copy may overlap. */
static inline uint8_t *put_bytes(uint8_t *p, const void *bytes, size_t n) {
  const uint8_t *from = bytes;
  if (n > 32) {
    memcpy(p, from, n);
  } else if (n >= 16) {
    memcpy(p, from, 16);
    memcpy(p + n - 16, from + n - 16, 16);
  } else if (n >= 8) {
    memcpy(p, from, 8);
    memcpy(p + n - 8, from + n - 8, 8);
  } else if (n >= 4) {
    memcpy(p, from, 4);
    memcpy(p + n - 4, from + n - 4, 4);
  } else {
    for (size_t i = 0; i < n; i++) p[i] = from[i];
  }
  return p + n;
}

/* Writes two bytes and keeps one or two: something always follows a varint of a record. */
static inline uint8_t *put_short(uint8_t *p, uint64_t z) {
  uint16_t v = (uint16_t)(z < 128 ? z : (z & 127) | 128 | z >> 7 << 8);
  memcpy(p, &v, 2);
  return p + 1 + (z > 127);
}

static uint8_t *encode_slow(uint8_t *p, const sdm_record *r, const shape *s) {
  p = sdm_put_varlong(p, (int64_t)s->body);
  *p++ = 0;
  p = sdm_put_varlong(p, sdm_unzigzag(s->timestamp));
  p = sdm_put_varlong(p, sdm_unzigzag(s->offset));
  p = sdm_put_varlong(p, r->key_size);
  if (r->key_size > 0) p = put_bytes(p, r->key, (size_t)r->key_size);
  p = sdm_put_varlong(p, r->value_size);
  if (r->value_size > 0) p = put_bytes(p, r->value, (size_t)r->value_size);
  p = sdm_put_varlong(p, r->header_count);
  if (r->headers_size > 0) p = put_bytes(p, r->headers, (size_t)r->headers_size);
  return p;
}

uint8_t *sdm_record_encode(uint8_t *p, const sdm_record *r, int64_t base_offset, int64_t base_timestamp) {
  shape s = measure(r, base_offset, base_timestamp);
  if (UNLIKELY(!shape_is_short(&s, r))) return encode_slow(p, r, &s);
  p = put_short(p, s.body << 1);
  *p++ = 0;
  p = put_short(p, s.timestamp);
  p = put_short(p, s.offset);
  p = put_short(p, s.key);
  if (r->key_size > 0) p = put_bytes(p, r->key, (size_t)r->key_size);
  p = put_short(p, s.value);
  if (r->value_size > 0) p = put_bytes(p, r->value, (size_t)r->value_size);
  *p++ = 0;
  return p;
}

int sdm_header_encode(sdm_buf *out, const sdm_header *h) {
  size_t name_size = (size_t)h->name_size, value_size = h->value_size < 0 ? 0 : (size_t)h->value_size;
  int rc = sdm_buf_reserve(out, 2 * SDM_VARINT_MAX + name_size + value_size);
  if (rc < 0) return rc;
  uint8_t *p = sdm_put_varlong(out->data + out->size, h->name_size);
  if (name_size > 0) p = put_bytes(p, h->name, name_size);
  p = sdm_put_varlong(p, h->value_size);
  if (value_size > 0) p = put_bytes(p, h->value, value_size);
  out->size = (size_t)(p - out->data);
  return 0;
}
