/* leader-epoch-checkpoint: which leader epoch begins at which offset (docs/format.md 3). No I/O. */
#ifndef SDM_FORMAT_EPOCHS_H
#define SDM_FORMAT_EPOCHS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SDM_EPOCHS_NAME "leader-epoch-checkpoint"
enum { SDM_EPOCHS_MAX = 16 << 20 };      /* bytes; a file of more is not believed */

typedef struct sdm_epoch {
  int32_t epoch;
  int64_t start_offset;
} sdm_epoch;

typedef struct sdm_epochs {              /* both numbers ascend */
  sdm_epoch *entries;
  size_t count, capacity;
} sdm_epochs;                            /* zero-initialised is empty */

/* Notes that a batch of that epoch begins at `offset`; one that is not above the last epoch tells nothing new. 0 or SDM_NO_MEMORY. */
int sdm_epochs_add(sdm_epochs *e, int32_t epoch, int64_t offset);

/* Reads a whole text that a NUL follows; an empty one is no entries. SDM_CORRUPT when it is malformed in any way, or does not ascend. */
int sdm_epochs_decode(sdm_epochs *e, const char *text, size_t size);
int sdm_epochs_encode(const sdm_epochs *e, sdm_buf *out);
void sdm_epochs_free(sdm_epochs *e);

#endif
