/* The digest of a segment: encoded, decoded, every flip of its own bytes refused. */
#include "format/digest.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "test.h"

static int64_t build(sdm_digest_builder *x, size_t batches) {
  int64_t position = 0;
  *x = (sdm_digest_builder){.next_offset = 100};
  for (size_t i = 0; i < batches; i++) {
    sdm_batch b = {.base_offset = 100 + 3 * (int64_t)i, .size = 100 + (int32_t)(i * 37 % 5000), .last_offset_delta = 1};
    CHECK_INT(sdm_digest_add(x, &b, position), 0);
    position += b.size;
  }
  return position;
}

TEST(an_entry_for_each_stretch_of_the_file) {
  for (size_t n = 0; n < 60; n += 7) {
    sdm_digest_builder x;
    sdm_buf bytes = SDM_BUF_INIT;
    sdm_digest *d = sdm_calloc(1, sizeof *d);
    int64_t size = build(&x, n);
    CHECK_INT(sdm_digest_encode(&x, 77, &bytes), 0);
    CHECK_INT(sdm_digest_decode(d, bytes.data, bytes.size), 0);
    CHECK_INT(d->size, size);
    CHECK_INT(d->next_offset, n ? 100 + 3 * (int64_t)n - 1 : 100);
    CHECK(d->inode == 77);
    for (size_t i = 0; i < d->count; i++) CHECK_INT(d->entries[i].position / SDM_DIGEST_CHUNK, i);
    CHECK(!sdm_digest_set_inode(bytes.data, bytes.size, 77));
    CHECK(sdm_digest_set_inode(bytes.data, bytes.size, 78));
    sdm_digest_free(d);
    d = sdm_calloc(1, sizeof *d);
    CHECK_INT(sdm_digest_decode(d, bytes.data, bytes.size), 0);
    CHECK(d->inode == 78);
    sdm_digest_free(d);
    sdm_digest_builder_free(&x);
    sdm_buf_free(&bytes);
  }
}

TEST(every_flip_and_every_cut_is_refused) {
  sdm_digest_builder x;
  sdm_buf bytes = SDM_BUF_INIT;
  sdm_digest d;
  build(&x, 20);
  CHECK_INT(sdm_digest_encode(&x, 1, &bytes), 0);
  for (size_t bit = 0; bit < 8 * bytes.size; bit++) {
    bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    CHECK_INT(sdm_digest_decode(&d, bytes.data, bytes.size), SDM_CORRUPT);
    bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
  for (size_t n = 0; n < bytes.size; n++) CHECK_INT(sdm_digest_decode(&d, bytes.data, n), SDM_CORRUPT);
  sdm_digest_builder_free(&x);
  sdm_buf_free(&bytes);
}

TEST(another_offset_or_size_is_another_hash) {
  uint64_t hash = sdm_digest_chain(0, 5, 100);
  for (int bit = 0; bit < 64; bit++) CHECK((uint32_t)sdm_digest_chain(0, (int64_t)(5 ^ (uint64_t)1 << bit), 100) != (uint32_t)hash);
  for (int bit = 0; bit < 31; bit++) CHECK((uint32_t)sdm_digest_chain(0, 5, 100 ^ 1 << bit) != (uint32_t)hash);
}

