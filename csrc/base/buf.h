/* A growable run of bytes. Invariant: size <= capacity; data is NULL iff capacity is 0. Zero-initialised is empty and valid. */
#ifndef SDM_BASE_BUF_H
#define SDM_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

typedef struct sdm_buf {
  uint8_t *data;
  size_t size;
  size_t capacity;
} sdm_buf;

#define SDM_BUF_INIT { 0, 0, 0 }

int sdm_buf_reserve(sdm_buf *b, size_t extra);               /* room for `extra` bytes more; grows by doubling; 0 or SDM_NO_MEMORY */
int sdm_buf_append(sdm_buf *b, const void *bytes, size_t n);
int sdm_buf_printf(sdm_buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));   /* without the final NUL */
void sdm_buf_free(sdm_buf *b);                               /* leaves it empty and valid */

static inline void sdm_buf_clear(sdm_buf *b) { b->size = 0; }

#endif
