#include "format/policy_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/xxh.h"

#define HEAD "-- sediment-policy 1 "
enum { HEAD_SIZE = sizeof HEAD - 1, DIGITS = 16, LINE = HEAD_SIZE + DIGITS + 1 };

int sdm_policy_name_check(const char *name) {
  static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  size_t n = strlen(name);
  if (n > 0 && n <= SDM_POLICY_NAME_MAX && strspn(name, legal) == n) return 0;
  return sdm_fail(SDM_MISUSE, "policy script '%.80s': its name is 1 to %d of the characters a-z A-Z 0-9 _ -", name, SDM_POLICY_NAME_MAX);
}

char *sdm_policy_path(const char *root, const char *name) { return sdm_format("%s/" SDM_POLICY_PREFIX "%s", root, name); }

const char *sdm_policy_name_in(const char *file) {
  size_t n = sizeof SDM_POLICY_PREFIX - 1;
  const char *name = strncmp(file, SDM_POLICY_PREFIX, n) == 0 ? file + n : NULL;
  return name && sdm_policy_name_check(name) == 0 ? name : NULL;
}

static void first_line(const char *text, size_t size, char out[LINE + 1]) {
  snprintf(out, LINE + 1, HEAD "%016" PRIx64 "\n", sdm_hash64(text, size));
}

int sdm_policy_encode(const char *text, size_t size, sdm_buf *out) {
  char line[LINE + 1];
  first_line(text, size, line);
  int rc = sdm_buf_append(out, line, LINE);
  return rc < 0 ? rc : sdm_buf_append(out, text, size);
}

int sdm_policy_decode(const char *bytes, size_t size, const char **text, size_t *text_size) {
  char line[LINE + 1];
  if (size < LINE || memcmp(bytes, HEAD, HEAD_SIZE) != 0) return sdm_fail(SDM_CORRUPT, "it does not begin as a policy script does; put it there with store:policy");
  first_line(bytes + LINE, size - LINE, line);
  if (memcmp(bytes, line, LINE) != 0) return sdm_fail(SDM_CORRUPT, "its checksum does not match; put the script there anew, with store:policy");
  *text = bytes + LINE;
  *text_size = size - LINE;
  return 0;
}
