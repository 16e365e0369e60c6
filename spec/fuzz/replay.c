/* The main of a target without libFuzzer: runs it on the files and folders of files that are named.
**
**   replay-TARGET PATH...       closes with "N passed, N failed"; an input that crashes or hangs ends the program, under its name and without that line
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "os/fs.h"

enum { SECONDS_MAX = 20, BYTES_MAX = 1 << 20 };

static int passed, failed;

static void replay(const char *path) {
  char *bytes;
  size_t size;
  if (sdm_fs_read_all(sdm_fs_posix(), path, BYTES_MAX, &bytes, &size) < 0) {
    printf("%s\n", sdm_errmsg());
    failed++;
    return;
  }
  uint8_t *exact = malloc(size ? size : 1);            /* so that a read behind the end is seen */
  if (!exact) abort();
  memcpy(exact, bytes, size);
  sdm_free(bytes);
  printf("%s\n", path);
  fflush(stdout);
  alarm(SECONDS_MAX);
  LLVMFuzzerTestOneInput(exact, size);
  alarm(0);
  free(exact);
  passed++;
}

static void replay_any(const char *path) {
  sdm_file_info info;
  sdm_names names = {0};
  sdm_fs *fs = sdm_fs_posix();
  if (fs->path_info(fs, path, &info) < 0) return;      /* a target without findings has no folder for them */
  if (!info.directory) {
    replay(path);
    return;
  }
  if (fs->list(fs, path, &names) < 0) abort();
  for (size_t i = 0; i < names.count; i++) {
    char *inside = sdm_format("%s/%s", path, names.items[i]);
    if (!inside) abort();
    replay(inside);
    sdm_free(inside);
  }
  sdm_names_clear(&names);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) replay_any(argv[i]);
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0 || passed == 0;
}
