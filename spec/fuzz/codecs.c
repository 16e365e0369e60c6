/* Each codec by itself. The first byte says which, and what is done: the rest is decompressed as it is, or compressed and decompressed again, or that with
** bytes of the compressed form changed, as the last ones of the input say.
*/
#include <stdlib.h>
#include <string.h>

#include "format/codec.h"
#include "fuzz/fuzz.h"

enum { AS_IS, WHOLE, CHANGED, WAYS };
enum { LIMIT = 1 << 20, CHANGE = 3, CHANGES = 4 };

/* From an exact copy, so that a read behind the end is seen. */
static int decompress(sdm_codec c, const uint8_t *in, size_t size, sdm_buf *out) {
  uint8_t *exact = malloc(size ? size : 1);
  if (!exact) abort();
  if (size) memcpy(exact, in, size);
  int rc = sdm_codec_decompress(c, exact, size, LIMIT, out);
  MUST(out->size <= (rc < 0 ? 2 * LIMIT : LIMIT));          /* what was too much may have come in part */
  MUST(rc == 0 || (rc == SDM_CORRUPT && strstr(sdm_errmsg(), sdm_codec_name(c))));
  free(exact);
  return rc;
}

static void change(sdm_buf *b, const uint8_t *how) {
  for (int i = 0; i < CHANGES && b->size > 0; i++, how += CHANGE) b->data[((size_t)how[0] << 8 | how[1]) % b->size] ^= how[2];
}

static void there_and_back(sdm_codec c, const uint8_t *p, size_t size, const uint8_t *how) {
  sdm_buf packed = SDM_BUF_INIT, out = SDM_BUF_INIT;
  if (sdm_codec_compress(c, sdm_codec_default_level(c), p, size, &packed) < 0) abort();
  if (how) change(&packed, how);
  int rc = decompress(c, packed.data, packed.size, &out);
  if (!how) MUST(rc == 0 && out.size == size && (size == 0 || memcmp(out.data, p, size) == 0));
  sdm_buf_free(&packed);
  sdm_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sdm_buf out = SDM_BUF_INIT;
  if (size < 1 + CHANGE * CHANGES) return 0;
  sdm_codec c = (sdm_codec)(SDM_CODEC_GZIP + data[0] % 4);
  int way = data[0] / 4 % WAYS;
  if (!sdm_codec_available(c)) return 0;
  data++, size--;
  if (way == AS_IS) (void)decompress(c, data, size, &out);
  else if (way == WHOLE) there_and_back(c, data, size, NULL);
  else there_and_back(c, data, size - CHANGE * CHANGES, data + size - CHANGE * CHANGES);
  sdm_buf_free(&out);
  return 0;
}
