#include "floors.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/xxh.h"

enum { HEADER = 61, BLOCK = 1 << 20, READ = 64 * 1024, PER = 1000 };

/* ---- Kafka's bytes ---- */

static uint8_t *put_varint(uint8_t *p, int64_t v) {
  uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
  for (; z >= 128; z >>= 7) *p++ = (uint8_t)(z | 128);
  *p++ = (uint8_t)z;
  return p;
}

static int varint_size(int64_t v) {
  uint8_t bytes[10];
  return (int)(put_varint(bytes, v) - bytes);
}

static const uint8_t *get_varint(const uint8_t *p, int64_t *out) {
  uint64_t z = *p++;
  if (z >= 128) {
    z &= 127;
    for (int shift = 7;; shift += 7) {
      uint64_t b = *p++;
      z |= (b & 127) << shift;
      if (b < 128) break;
    }
  }
  *out = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
  return p;
}

static void put_be(uint8_t *p, uint64_t v, int bytes) {
  for (int i = bytes; i-- > 0; v >>= 8) p[i] = (uint8_t)v;
}

static uint32_t get_be32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }

static uint8_t *put_record(uint8_t *p, int64_t delta, const char *key, const char *value, uint32_t value_size) {
  int64_t body = 1 + 2 * varint_size(delta) + 1 + KEY_BYTES + varint_size(value_size) + (int64_t)value_size + 1;
  p = put_varint(p, body);
  *p++ = 0;
  p = put_varint(p, delta);
  p = put_varint(p, delta);
  p = put_varint(p, KEY_BYTES);
  memcpy(p, key, KEY_BYTES);
  p = put_varint(p + KEY_BYTES, value_size);
  memcpy(p, value, value_size);
  p += value_size;
  *p++ = 0;
  return p;
}

static void put_header(uint8_t *b, size_t total, uint64_t base, uint32_t count) {
  memset(b, 0, HEADER);
  put_be(b, base, 8);
  put_be(b + 8, total - 12, 4);
  b[16] = 2;
  put_be(b + 23, count - 1, 4);
  put_be(b + 27, 1700000000000u, 8);
  put_be(b + 35, 1700000000000u, 8);
  memset(b + 43, 0xff, 14);
  put_be(b + 57, count, 4);
  put_be(b + 17, sdm_crc32c(0, b + 21, total - 21), 4);
}

/* ---- files ---- */

static int create(const char *dir, const char *name, char *path, size_t size) {
  snprintf(path, size, "%s/%s", dir, name);
  int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0644);
  if (fd < 0) bench_die(path);
  return fd;
}

static void write_all(int fd, const void *bytes, size_t size) {
  if (write(fd, bytes, size) != (ssize_t)size) bench_die("write");
}

static void *must(void *p) {
  if (!p) bench_die("memory");
  return p;
}

/* ---- floors ---- */

double floor_write1(const char *dir, uint32_t count) {
  char path[512], record[180] = {0};
  int fd = create(dir, "write1.tmp", path, sizeof path);
  double t = bench_now();
  for (uint32_t i = 0; i < count; i++) {
    memcpy(record, &i, 4);
    write_all(fd, record, sizeof record);
  }
  t = bench_now() - t;
  close(fd);
  unlink(path);
  return t;
}

static size_t encode_batch(uint8_t *b, const workload *w, uint32_t from, uint32_t count) {
  uint8_t *p = b + HEADER;
  for (uint32_t j = 0; j < count; j++) p = put_record(p, j, workload_key(w, from + j), workload_value(w, from + j), w->value_bytes);
  put_header(b, (size_t)(p - b), from, count);
  return (size_t)(p - b);
}

double floor_encode(const char *dir, const workload *w, uint32_t per) {
  char path[512];
  int fd = create(dir, "encode.tmp", path, sizeof path);
  uint8_t *b = must(malloc((size_t)per * (w->value_bytes + 64) + HEADER));
  double t = bench_now();
  for (uint32_t i = 0; i < w->count; i += per) write_all(fd, b, encode_batch(b, w, i, w->count - i < per ? w->count - i : per));
  t = bench_now() - t;
  free(b);
  close(fd);
  unlink(path);
  return t;
}

int64_t floor_make_log(const char *dir, const workload *w, int live_only, char *path, size_t path_size) {
  char name[64];
  struct stat st;
  snprintf(name, sizeof name, "%s%s.log", w->name, live_only ? ".live" : "");
  snprintf(path, path_size, "%s/%s", dir, name);
  if (stat(path, &st) == 0) return st.st_size;
  int fd = create(dir, name, path, path_size);
  uint8_t *b = must(malloc((size_t)PER * (w->value_bytes + 64) + HEADER)), *p = b + HEADER;
  uint32_t count = 0, base = 0;
  for (uint32_t i = 0; i < w->count; i++) {
    if (live_only && w->last[w->order[i]] != i) continue;
    if (count == 0) base = i;
    p = put_record(p, i - base, workload_key(w, i), workload_value(w, i), w->value_bytes);
    if (++count < PER && i + 1 < w->count) continue;
    put_header(b, (size_t)(p - b), base, count);
    write_all(fd, b, (size_t)(p - b));
    p = b + HEADER;
    count = 0;
  }
  free(b);
  if (fsync(fd) < 0 || fstat(fd, &st) < 0) bench_die(path);
  close(fd);
  return st.st_size;
}

static const uint8_t *walk_batch(const uint8_t *p, floor_visit *f, void *context) {
  uint32_t count = get_be32(p + 57);
  const uint8_t *q = p + HEADER;
  for (uint32_t j = 0; j < count; j++) {
    int64_t length, skip, size;
    q = get_varint(q, &length);
    const uint8_t *end = q + length, *key;
    q = get_varint(q + 1, &skip);
    q = get_varint(q, &skip);
    q = get_varint(q, &size);
    key = q;
    q = get_varint(q + size, &size);
    f(context, key, q, (uint32_t)size);
    q = end;
  }
  return q;
}

void floor_walk(const char *path, int check, floor_visit *f, void *context) {
  int fd = open(path, O_RDONLY);
  size_t have = 0;
  uint8_t *b = must(malloc(READ + 2 * BLOCK));
  if (fd < 0) bench_die(path);
  for (;;) {
    ssize_t n = read(fd, b + have, READ);
    if (n <= 0) break;
    have += (size_t)n;
    const uint8_t *p = b, *end = b + have;
    while (p + HEADER <= end) {
      size_t total = get_be32(p + 8) + 12u;
      if (p + total > end) break;
      if (check && get_be32(p + 17) != sdm_crc32c(0, p + 21, total - 21)) bench_die("crc");
      walk_batch(p, f, context);
      p += total;
    }
    have = (size_t)(end - p);
    memmove(b, p, have);
  }
  free(b);
  close(fd);
}

static void add_up(void *context, const uint8_t *key, const uint8_t *value, uint32_t value_size) {
  *(uint64_t *)context += (uint64_t)key[0] + value[value_size - 1];
}

double floor_decode(const char *dir, const workload *w) {
  char path[512];
  volatile uint64_t sink;
  uint64_t sum = 0;
  floor_make_log(dir, w, 0, path, sizeof path);
  double t = bench_now();
  floor_walk(path, 1, add_up, &sum);
  t = bench_now() - t;
  sink = sum;
  (void)sink;
  return t;
}

/* ---- the ideal cleaner: a map on huge pages, keys hashed and fetched 32 ahead, survivors written in big blocks ---- */

enum { GROUP = 32 };

typedef struct slot { uint64_t lo, hi, number; } slot;
typedef struct waiting { struct sdm_hash128 h; uint64_t number; const uint8_t *key, *value; uint32_t value_size; } waiting;

typedef struct cleaner {
  slot *slots;
  uint64_t capacity, number;
  int second, fd;
  waiting group[GROUP];
  int grouped;
  uint8_t *out, *batch, *p;
  uint64_t base;
  uint32_t count, kept;
} cleaner;

static uint64_t home(const cleaner *c, struct sdm_hash128 h) { return (uint64_t)(((unsigned __int128)h.lo * c->capacity) >> 64); }

static slot *find(cleaner *c, struct sdm_hash128 h) {
  for (uint64_t i = home(c, h);;) {
    slot *s = &c->slots[i];
    if (!s->number || (s->lo == h.lo && s->hi == h.hi)) return s;
    if (++i == c->capacity) i = 0;
  }
}

static void end_batch(cleaner *c) {
  if (!c->count) return;
  put_header(c->batch, (size_t)(c->p - c->batch), c->base, c->count);
  c->batch = c->p;
  c->count = 0;
  if (c->batch - c->out < BLOCK) return;
  write_all(c->fd, c->out, (size_t)(c->batch - c->out));
  c->batch = c->out;
}

static void keep(cleaner *c, const waiting *r) {
  c->kept++;
  if (!c->count) {
    c->base = r->number;
    c->p = c->batch + HEADER;
  }
  c->p = put_record(c->p, (int64_t)(r->number - c->base), (const char *)r->key, (const char *)r->value, r->value_size);
  if (++c->count == PER) end_batch(c);
}

static void settle(cleaner *c) {
  for (int i = 0; i < c->grouped; i++) {
    waiting *r = &c->group[i];
    slot *s = find(c, r->h);
    if (!c->second) *s = (slot){r->h.lo, r->h.hi, r->number};
    else if (s->number == r->number) keep(c, r);
  }
  c->grouped = 0;
}

static void take(void *context, const uint8_t *key, const uint8_t *value, uint32_t value_size) {
  cleaner *c = context;
  waiting *r = &c->group[c->grouped];
  *r = (waiting){sdm_hash128(key, KEY_BYTES), ++c->number, key, value, value_size};
  __builtin_prefetch(&c->slots[home(c, r->h)], 1);
  if (++c->grouped == GROUP || c->number % PER == 0) settle(c);      /* before the batch leaves the buffer */
}

double floor_clean(const char *dir, const workload *w) {
  char path[512], out[512];
  cleaner c = {.capacity = (uint64_t)((double)w->keys / 0.75)};
  floor_make_log(dir, w, 0, path, sizeof path);
  c.fd = create(dir, "clean.tmp", out, sizeof out);
  double t = bench_now();
  size_t bytes = c.capacity * sizeof(slot);
  c.slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (c.slots == MAP_FAILED) bench_die("map");
  madvise(c.slots, bytes, MADV_HUGEPAGE);
  c.out = c.batch = must(malloc(BLOCK + (size_t)PER * (w->value_bytes + 64) + HEADER));
  floor_walk(path, 1, take, &c);
  settle(&c);
  c.second = 1;
  c.number = 0;
  floor_walk(path, 0, take, &c);
  settle(&c);
  end_batch(&c);
  if (c.batch != c.out) write_all(c.fd, c.out, (size_t)(c.batch - c.out));
  t = bench_now() - t;
  if (c.kept != w->live) bench_die("the ideal cleaner lost records");
  munmap(c.slots, bytes);
  free(c.out);
  close(c.fd);
  unlink(out);
  return t;
}
