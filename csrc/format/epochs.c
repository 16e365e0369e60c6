#include "format/epochs.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

int sdm_epochs_add(sdm_epochs *e, int32_t epoch, int64_t offset) {
  if (epoch < 0 || (e->count > 0 && epoch <= e->entries[e->count - 1].epoch)) return 0;
  sdm_epoch *entries = sdm_grown(e->entries, e->count, &e->capacity, sizeof *entries);
  if (!entries) return sdm_no_memory();
  e->entries = entries;
  e->entries[e->count++] = (sdm_epoch){epoch, offset};
  return 0;
}

/* A number up to `max` and the one character that must follow it (or the end of the text). */
static bool take(const char **p, int64_t max, char after, int64_t *out) {
  int64_t value = 0;
  const char *digits = *p;
  for (; **p >= '0' && **p <= '9'; (*p)++) {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, **p - '0', &value)) return false;
  }
  *out = value;
  if (*p == digits || value > max) return false;
  if (**p == '\r' && after == '\n') (*p)++;
  if (**p == after) (*p)++;
  else if (**p != 0 || after != '\n') return false;
  return true;
}

static int decode(sdm_epochs *e, const char *p) {
  int64_t version, count, epoch, offset, before = -1;
  if (!take(&p, 0, '\n', &version) || !take(&p, INT32_MAX, '\n', &count)) return sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME " has no version 0 and number of entries");
  while (*p) {
    size_t n = e->count;
    if (!take(&p, INT32_MAX, ' ', &epoch) || !take(&p, INT64_MAX, '\n', &offset)) return sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME ", entry %zu: not two numbers", n + 1);
    if (offset < before) return sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME ", entry %zu: the offset is below the one before", n + 1);
    before = offset;
    int rc = sdm_epochs_add(e, (int32_t)epoch, offset);
    if (rc < 0) return rc;
    if (e->count == n) return sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME ", entry %zu: the epoch is not above the one before", n + 1);
  }
  return (uint64_t)count == e->count ? 0 : sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME " says %lld entries and has %zu", (long long)count, e->count);
}

int sdm_epochs_decode(sdm_epochs *e, const char *text, size_t size) {
  sdm_epochs fresh = {0};
  if (strlen(text) != size) return sdm_fail(SDM_CORRUPT, SDM_EPOCHS_NAME " has a NUL in it");
  int rc = size > 0 ? decode(&fresh, text) : 0;
  if (rc < 0) {
    sdm_epochs_free(&fresh);
    return rc;
  }
  sdm_epochs_free(e);
  *e = fresh;
  return 0;
}

int sdm_epochs_encode(const sdm_epochs *e, sdm_buf *out) {
  int rc = sdm_buf_printf(out, "0\n%zu\n", e->count);
  for (size_t i = 0; rc == 0 && i < e->count; i++) rc = sdm_buf_printf(out, "%d %lld\n", e->entries[i].epoch, (long long)e->entries[i].start_offset);
  return rc;
}

void sdm_epochs_free(sdm_epochs *e) {
  sdm_free(e->entries);
  *e = (sdm_epochs){0};
}
