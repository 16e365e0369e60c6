/* The allocator seam. Invariant: nothing here asks for 0 bytes unless it frees, so that NULL always means "memory is short". */
#include "base/mem.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static void *allocate_libc(void *context, void *old, size_t size) {
  (void)context;
  if (size == 0) {
    free(old);
    return NULL;
  }
  return realloc(old, size);
}

static sdm_alloc_fn *allocate = allocate_libc;
static void *allocate_context;

void sdm_set_allocator(sdm_alloc_fn *fn, void *context) {
  allocate = fn ? fn : allocate_libc;
  allocate_context = fn ? context : NULL;
}

void *sdm_realloc(void *old, size_t size) {
  return allocate(allocate_context, old, size ? size : 1);
}

void *sdm_malloc(size_t size) {
  return sdm_realloc(NULL, size);
}

void *sdm_calloc(size_t count, size_t size) {
  size_t total;
  if (__builtin_mul_overflow(count, size, &total)) return NULL;
  void *p = sdm_malloc(total);
  if (p) memset(p, 0, total);
  return p;
}

void *sdm_grown(void *items, size_t count, size_t *capacity, size_t each) {
  enum { FIRST = 8 };
  size_t bytes, more = FIRST;
  if (count < *capacity) return items;
  if (*capacity && __builtin_mul_overflow(*capacity, 2, &more)) return NULL;
  if (__builtin_mul_overflow(more, each, &bytes)) return NULL;
  void *grown = sdm_realloc(items, bytes);
  if (grown) *capacity = more;
  return grown;
}

void sdm_free(void *p) {
  if (p) allocate(allocate_context, p, 0);
}

char *sdm_strdup(const char *s) {
  size_t size = strlen(s) + 1;
  char *copy = sdm_malloc(size);
  return copy ? memcpy(copy, s, size) : NULL;
}

char *sdm_format(const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  char *text = n < 0 ? NULL : sdm_malloc((size_t)n + 1);
  if (text) vsnprintf(text, (size_t)n + 1, format, again);
  va_end(again);
  va_end(args);
  return text;
}

int sdm_no_memory(void) {
  return sdm_fail(SDM_NO_MEMORY, "out of memory");
}
