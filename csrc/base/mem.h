/* The allocator seam: all memory of the library comes from here, so that a test can make any allocation fail.
**
** Allocation functions return NULL when memory is short; the caller answers with sdm_no_memory(). None of them sets a message itself.
*/
#ifndef SDM_BASE_MEM_H
#define SDM_BASE_MEM_H

#include <stddef.h>

typedef void *sdm_alloc_fn(void *context, void *old, size_t size);   /* realloc's contract; size 0 frees and returns NULL */

/* Replaces the allocator; NULL brings back the C library's. Only before anything was allocated, or by tests between two runs. */
void sdm_set_allocator(sdm_alloc_fn *fn, void *context);

void *sdm_malloc(size_t size);
void *sdm_calloc(size_t count, size_t size);    /* zeroed; NULL when count * size overflows */
void *sdm_realloc(void *old, size_t size);      /* old stays valid on failure */

/* `items`, made to hold at least one more than `count` of `each` bytes; *capacity follows. NULL: memory is short, and items stays as it is. */
void *sdm_grown(void *items, size_t count, size_t *capacity, size_t each);

void sdm_free(void *p);                         /* NULL is fine */
char *sdm_strdup(const char *s);
char *sdm_format(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* a fresh string, NULL when memory is short */

int sdm_no_memory(void);                        /* sets the message, returns SDM_NO_MEMORY */

#endif
