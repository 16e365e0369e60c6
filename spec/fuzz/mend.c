#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/xxh.h"
#include "format/batch.h"
#include "format/state_file.h"
#include "fuzz/fuzz.h"
#include "log/control.h"

/* A length that leaves the file is made that of the rest, so that there is always a batch. */
void fuzz_mend_batches(uint8_t *p, size_t size) {
  while (size >= SDM_BATCH_HEADER) {
    uint32_t length = sdm_get32(p + 8);
    if (length < SDM_BATCH_HEADER - SDM_BATCH_PREFIX || length > size - SDM_BATCH_PREFIX) length = (uint32_t)(size - SDM_BATCH_PREFIX);
    sdm_put32(p + 8, length);
    p[16] = 2;
    sdm_put32(p + 17, sdm_crc32c(0, p + 21, length + SDM_BATCH_PREFIX - 21));
    p += length + SDM_BATCH_PREFIX;
    size -= length + SDM_BATCH_PREFIX;
  }
}

static void mend_state(sdm_buf *b) {
  enum { CHECKSUM = 96 };
  for (size_t at = 0; at + CHECKSUM + 8 <= b->size && at < SDM_STATE_BYTES; at += SDM_STATE_SLOT) {
    memcpy(b->data + at, "SDMSTATE", 8);
    sdm_put32(b->data + at + 8, 1);
    sdm_put64(b->data + at + CHECKSUM, sdm_hash64(b->data + at, CHECKSUM));
  }
}

static void mend_digest(sdm_buf *b) {
  enum { HEAD = 40, ENTRY = 8, SUM = 8 };
  if (b->size < HEAD + SUM) return;
  b->size -= (b->size - HEAD - SUM) % ENTRY;
  memcpy(b->data, "SDMDIGST", 8);
  sdm_put32(b->data + 8, 1);
  sdm_put32(b->data + 12, (uint32_t)((b->size - HEAD - SUM) / ENTRY));
  sdm_put64(b->data + b->size - SUM, sdm_hash64(b->data, b->size - SUM));
}

/* sediment.topics and sediment.swap end with a line of their checksum: it is made anew. */
static void mend_text(sdm_buf *b) {
  static const char word[] = "checksum ";
  for (size_t at = 0; at + sizeof word - 1 <= b->size; at++) {
    if (memcmp(b->data + at, word, sizeof word - 1) == 0) b->size = at;
  }
  if (b->size > 0 && b->data[b->size - 1] != '\n' && sdm_buf_append(b, "\n", 1) < 0) abort();
  if (sdm_buf_printf(b, "checksum %016" PRIx64 "\n", sdm_hash64(b->data, b->size)) < 0) abort();
}

static void mend_snapshot(sdm_buf *b) {
  if (b->size < 10) return;
  sdm_put16(b->data, 1);
  sdm_put32(b->data + 2, sdm_crc32c(0, b->data + 6, b->size - 6));
}

/* Both pages begin in the same way. The boot is that of a new simulated disk. */
static void mend_page(sdm_buf *b, const char magic[8], uint32_t bytes) {
  const uint32_t version = 1;
  const uint8_t boot[SDM_BOOT_ID] = {1};
  if (b->size < 16 + SDM_BOOT_ID) return;
  memcpy(b->data, magic, 8);
  memcpy(b->data + 8, &version, 4);
  memcpy(b->data + 12, &bytes, 4);
  memcpy(b->data + 16, boot, SDM_BOOT_ID);
}

void fuzz_mend(fuzz_kind kind, sdm_buf *b) {
  switch (kind) {
    case FUZZ_LOG: case FUZZ_LOG_CLEANED: case FUZZ_LOG_SWAP: case FUZZ_LOG_DELETED: fuzz_mend_batches(b->data, b->size); break;
    case FUZZ_STATE: mend_state(b); break;
    case FUZZ_DIGEST: case FUZZ_DIGEST_SWAP: mend_digest(b); break;
    case FUZZ_TOPICS: case FUZZ_SWAP: mend_text(b); break;
    case FUZZ_SNAPSHOT: mend_snapshot(b); break;
    case FUZZ_CONTROL: mend_page(b, "SDMCTRL", SDM_CONTROL_BYTES); break;
    case FUZZ_ROOT_CONTROL: mend_page(b, "SDMSTORE", 4096); break;
    default: break;
  }
}
