#include "workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POOL = 1 << 20 };
static const uint64_t SEED = 0x10C5D0C5u;

static uint64_t mix(uint64_t z) {
  z += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

static void fill_keys(workload *w) {
  static const char hex[] = "0123456789abcdef";
  for (uint32_t k = 0; k < w->keys; k++) {
    uint64_t h = mix(k ^ SEED);
    for (int j = 0; j < KEY_BYTES; j++) w->key_text[(size_t)k * KEY_BYTES + (size_t)j] = hex[(h >> (j * 4)) & 15];
    w->last[k] = UINT32_MAX;
  }
}

static void fill_pool(workload *w) {
  static const char text[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint64_t s = SEED;
  for (uint32_t i = 0; i < POOL; i++) {
    s = mix(s);
    w->pool[i] = text[s & 63];
  }
}

static void draw_order(workload *w) {
  for (uint32_t i = 0; i < w->count; i++) {
    uint32_t k = (uint32_t)((mix(i + (SEED << 20)) >> 32) * w->keys >> 32);
    w->order[i] = k;
    if (w->last[k] == UINT32_MAX) w->live++;
    w->last[k] = i;
  }
}

int workload_make(workload *w, const char *name) {
  static const workload known[] = {
    {.name = "W1", .count = 1000000, .keys = 100000, .value_bytes = 100},
    {.name = "W2", .count = 200000, .keys = 100000, .value_bytes = 1024},
    {.name = "W3", .count = 5000000, .keys = 1000000, .value_bytes = 100},
  };
  memset(w, 0, sizeof *w);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(known[i].name, name) == 0) *w = known[i];
  }
  if (!w->name) return -1;
  w->order = malloc((size_t)w->count * sizeof *w->order);
  w->last = malloc((size_t)w->keys * sizeof *w->last);
  w->key_text = malloc((size_t)w->keys * KEY_BYTES);
  w->pool = malloc(POOL);
  if (!w->order || !w->last || !w->key_text || !w->pool) return -1;
  fill_keys(w);
  fill_pool(w);
  draw_order(w);
  return 0;
}

void workload_free(workload *w) {
  free(w->order);
  free(w->last);
  free(w->key_text);
  free(w->pool);
}

const char *workload_key(const workload *w, uint32_t i) { return w->key_text + (size_t)w->order[i] * KEY_BYTES; }
const char *workload_value(const workload *w, uint32_t i) { return w->pool + mix(i ^ (SEED << 8)) % (POOL - w->value_bytes); }

double bench_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, ascending);
  return values[count / 2];
}

void bench_die(const char *what) {
  fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
  exit(1);
}
