/* Facts about the machine and the process. */
#ifndef SDM_OS_HOST_H
#define SDM_OS_HOST_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SDM_BOOT_ID 16

/* Identifies the machine's current boot: shared memory and page cache written under another one are gone. */
int sdm_boot_id(uint8_t id[SDM_BOOT_ID]);

int sdm_random(void *bytes, size_t size);

/* The path with no link, "." or ".." in it; all of it must be there. A fresh string (sdm_free), NULL when it cannot be told. */
char *sdm_real_path(const char *path);

/* The path from the root, without trailing slashes: files are opened by it later, wherever the program has changed its directory to. A fresh string
** (sdm_free); NULL when memory is short or the working directory cannot be told. Links stay as they are. */
char *sdm_absolute_path(const char *path);

/* How many forks lie between the process that loaded the library and this one. Handles remember it: a handle made before a fork must not
** be used after it, since locks and threads stay with the parent. */
extern atomic_uint sdm_forks;
static inline uint32_t sdm_fork_count(void) { return atomic_load_explicit(&sdm_forks, memory_order_relaxed); }

/* Calls fn in every child right after a fork; for the one file that has descriptors to give up. */
void sdm_after_fork(void (*fn)(void));

/* How many descriptors the process may have, as of the first call. */
size_t sdm_descriptors(void);

/* A write past RLIMIT_FSIZE shall fail with EFBIG and not kill the host program: unless it has a handler of its own, SIGXFSZ is ignored. */
void sdm_survive_file_size_limit(void);

/* Memory for big tables: zeroed, on huge pages where the machine has them, outside the allocator. NULL when short. */
void *sdm_pages_alloc(size_t size);
void sdm_pages_free(void *p, size_t size);

#endif
