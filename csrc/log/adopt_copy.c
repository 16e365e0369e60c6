/* Copying a partition directory, file by file. */
#include <string.h>

#include "base/mem.h"
#include "log/adoption.h"
#include "log/copy.h"
#include "log/producer_snapshot.h"
#include "log/swap.h"

static int make_empty(sdm_fs *fs, const char *path) {
  sdm_file *f;
  int rc = fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  if (rc == 0) fs->close(f);
  return rc;
}

typedef enum how { LEAVE_OUT, COPY, NAME_ONLY } how;

/* Of an unfinished cleaning's output only the names matter: they tell that it is to be forgotten. */
static how how_to_copy(const char *name) {
  int64_t base;
  sdm_file_kind kind;
  const char *suffix;
  if (sdm_snapshot_name_decode(name, &base) || strcmp(name, SDM_SWAP_NAME) == 0) return COPY;
  if (sdm_segment_name_decode(name, &base, &kind, &suffix) < 0 || strcmp(suffix, ".deleted") == 0) return LEAVE_OUT;
  if (strcmp(suffix, ".cleaned") == 0) return NAME_ONLY;
  return kind == SDM_FILE_DIGEST ? LEAVE_OUT : COPY;
}

static int copy_name(sdm_fs *fs, const char *from, const char *to, const char *name) {
  how h = how_to_copy(name);
  if (h == LEAVE_OUT) return 0;
  char *in = sdm_format("%s/%s", from, name), *out = sdm_format("%s/%s", to, name);
  int rc = !in || !out ? sdm_no_memory() : h == COPY ? sdm_copy_file(fs, in, out) : make_empty(fs, out);
  if (rc == SDM_NOT_FOUND) rc = sdm_fail(SDM_BUSY, "%s was there a moment ago: a broker is at work in the directory; try again", in);
  sdm_free(in);
  sdm_free(out);
  return rc;
}

int sdm_adopt_copy(sdm_fs *fs, const char *from, const char *to) {
  sdm_names names = {0};
  int rc = fs->list(fs, from, &names);     /* sorted: of segments that are being appended to the last is copied last */
  for (size_t i = 0; rc == 0 && i < names.count; i++) rc = copy_name(fs, from, to, names.items[i]);
  sdm_names_clear(&names);
  return rc;
}
