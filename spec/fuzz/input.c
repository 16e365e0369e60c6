#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "log/control.h"

/* What a name is: `name` alone, or a base offset in 20 digits and `name`. */
static const struct { const char *name; bool based, root; } kinds[FUZZ_KINDS] = {
  [FUZZ_LOG] = {".log", true, false}, [FUZZ_INDEX] = {".index", true, false}, [FUZZ_TIMEINDEX] = {".timeindex", true, false},
  [FUZZ_TXNINDEX] = {".txnindex", true, false}, [FUZZ_SNAPSHOT] = {".snapshot", true, false}, [FUZZ_DIGEST] = {".digest", true, false},
  [FUZZ_EPOCHS] = {"leader-epoch-checkpoint", false, false}, [FUZZ_METADATA] = {"partition.metadata", false, false},
  [FUZZ_STATE] = {"sediment.state", false, false}, [FUZZ_CONTROL] = {"sediment.control", false, false}, [FUZZ_SWAP] = {"sediment.swap", false, false},
  [FUZZ_LOG_CLEANED] = {".log.cleaned", true, false}, [FUZZ_LOG_SWAP] = {".log.swap", true, false}, [FUZZ_INDEX_SWAP] = {".index.swap", true, false},
  [FUZZ_TIMEINDEX_SWAP] = {".timeindex.swap", true, false}, [FUZZ_DIGEST_SWAP] = {".digest.swap", true, false},
  [FUZZ_TXNINDEX_SWAP] = {".txnindex.swap", true, false}, [FUZZ_LOG_DELETED] = {".log.deleted", true, false},
  [FUZZ_DELETED_MARK] = {"sediment.deleted", false, false}, [FUZZ_TOPICS] = {"sediment.topics", false, true},
  [FUZZ_ROOT_CONTROL] = {"sediment.control", false, true}, [FUZZ_LOG_START] = {"log-start-offset-checkpoint", false, true},
  [FUZZ_RECOVERY_POINT] = {"recovery-point-offset-checkpoint", false, true}, [FUZZ_CLEANER_POINT] = {"cleaner-offset-checkpoint", false, true},
  [FUZZ_CLEAN_SHUTDOWN] = {".kafka_cleanshutdown", false, true},
};

enum { STAGE_AT = 4096 };                 /* in a control page */

_Noreturn void fuzz_broken(const char *file, int line, const char *text) {
  fprintf(stderr, "%s:%d: not so: %s (last message: %s)\n", file, line, text, sdm_errmsg());
  abort();
}

/* In the place of the product's (--wrap): there is no other process that would change what is waited for. */
bool __wrap_sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms);
bool __wrap_sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms) {
  (void)word, (void)seen, (void)timeout_ms;
  return true;
}

bool fuzz_next_file(const uint8_t **p, const uint8_t *end, fuzz_file *out) {
  if (end - *p < FUZZ_FILE_HEAD) return false;
  const uint8_t *h = *p;
  size_t size = (size_t)h[9] << 16 | (size_t)h[10] << 8 | h[11], left = (size_t)(end - h) - FUZZ_FILE_HEAD;
  *out = (fuzz_file){(fuzz_kind)((h[0] & 31) % FUZZ_KINDS), h[0] >> 5 & 3, h[0] >> 7, (int64_t)(sdm_get64(h + 1) & INT64_MAX), h + FUZZ_FILE_HEAD,
                     size < left ? size : left};
  *p = out->bytes + out->size;
  return true;
}

void fuzz_pack_file(sdm_buf *out, const fuzz_file *f) {
  uint8_t h[FUZZ_FILE_HEAD] = {(uint8_t)((unsigned)f->kind | f->folder << 5 | (unsigned)f->mend << 7)};
  sdm_put64(h + 1, (uint64_t)f->base);
  h[9] = (uint8_t)(f->size >> 16), h[10] = (uint8_t)(f->size >> 8), h[11] = (uint8_t)f->size;
  if (sdm_buf_append(out, h, sizeof h) < 0 || sdm_buf_append(out, f->bytes, f->size) < 0) abort();
}

bool fuzz_name_of(const char *name, fuzz_kind *kind, int64_t *base) {
  bool based = strspn(name, "0123456789") == 20;
  *base = based ? strtoll(name, NULL, 10) : 0;
  for (int k = 0; k < FUZZ_KINDS; k++) {
    if (kinds[k].based != based || strcmp(name + (based ? 20 : 0), kinds[k].name) != 0) continue;
    *kind = (fuzz_kind)k;
    return true;
  }
  return false;
}

void fuzz_pack_page(sdm_buf *out, const uint8_t *page, size_t size) {
  size_t staged = size;
  while (staged > STAGE_AT && page[staged - 1] == 0) staged--;
  if (sdm_buf_append(out, page, sizeof(sdm_control)) < 0) abort();
  if (staged > STAGE_AT && sdm_buf_append(out, page + STAGE_AT, staged - STAGE_AT) < 0) abort();
}

static void unfold_page(sdm_buf *b) {
  static const uint8_t zeros[SDM_CONTROL_BYTES];
  size_t head = sizeof(sdm_control), staged = b->size > head ? b->size - head : 0;
  if (staged > SDM_STAGE_BYTES) staged = SDM_STAGE_BYTES;
  sdm_buf page = SDM_BUF_INIT;
  if (sdm_buf_append(&page, zeros, sizeof zeros) < 0) abort();
  memcpy(page.data, b->data, b->size < head ? b->size : head);
  if (staged) memcpy(page.data + STAGE_AT, b->data + head, staged);
  sdm_buf_free(b);
  *b = page;
}

void fuzz_write(sim_disk *d, const char *path, const void *bytes, size_t size) {
  sdm_fs *fs = sim_fs(d);
  sdm_file *f;
  if (fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f) < 0) abort();
  if (size && fs->write(f, bytes, size, 0) < 0) abort();
  fs->close(f);
}

void fuzz_place(sim_disk *d, const char *root, const char *dir, const fuzz_file *f) {
  char path[200], base[24] = "";
  sdm_buf copy = SDM_BUF_INIT;
  if (kinds[f->kind].based) snprintf(base, sizeof base, "%020lld", (long long)f->base);
  snprintf(path, sizeof path, "%s/%s%s", kinds[f->kind].root ? root : dir, base, kinds[f->kind].name);
  if (sdm_buf_reserve(&copy, f->size + 1) < 0 || sdm_buf_append(&copy, f->bytes, f->size) < 0) abort();
  if (f->mend) fuzz_mend(f->kind, &copy);
  if (f->kind == FUZZ_CONTROL) unfold_page(&copy);
  fuzz_write(d, path, copy.data, copy.size);
  sdm_buf_free(&copy);
}
