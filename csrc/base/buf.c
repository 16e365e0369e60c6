/* Growth of a run of bytes: by doubling, so that n appends cost O(n) copies. A failure leaves the buffer as it was. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

enum { SMALLEST = 64 };

int sdm_buf_reserve(sdm_buf *b, size_t extra) {
  size_t need;
  if (b->capacity - b->size >= extra && b->data) return 0;
  if (__builtin_add_overflow(b->size, extra, &need)) return sdm_no_memory();
  size_t capacity = b->capacity > SIZE_MAX / 2 ? need : b->capacity * 2;
  if (capacity < need) capacity = need;
  if (capacity < SMALLEST) capacity = SMALLEST;
  uint8_t *data = sdm_realloc(b->data, capacity);
  if (!data) return sdm_no_memory();
  b->data = data;
  b->capacity = capacity;
  return 0;
}

int sdm_buf_append(sdm_buf *b, const void *bytes, size_t n) {
  if (n == 0) return 0;
  int rc = sdm_buf_reserve(b, n);
  if (rc < 0) return rc;
  memcpy(b->data + b->size, bytes, n);
  b->size += n;
  return 0;
}

int sdm_buf_printf(sdm_buf *b, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  int rc = n < 0 ? sdm_fail(SDM_MISUSE, "text cannot be formatted: %s", format) : sdm_buf_reserve(b, (size_t)n + 1);
  if (rc == 0) {
    vsnprintf((char *)b->data + b->size, (size_t)n + 1, format, again);
    b->size += (size_t)n;
  }
  va_end(again);
  va_end(args);
  return rc;
}

void sdm_buf_free(sdm_buf *b) {
  sdm_free(b->data);
  *b = (sdm_buf)SDM_BUF_INIT;
}
