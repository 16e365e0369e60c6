/* A stranger's partition directory, adopted by a store: refused, and then nothing has come of it; or the copy is a partition like any other, that takes
** records, is compacted, and opens again. Files in the root are the checkpoints beside the directory.
*/
#include "fuzz/use.h"

#define FROM SIM_ROOT "/in"
#define DIR FROM "/t-0"
#define STORE SIM_ROOT "/store"
#define NOW 1700000000000

static void place(sim_disk *d, const uint8_t *p, const uint8_t *end) {
  sdm_fs *fs = sim_fs(d);
  fuzz_file f;
  MUST(fs->make_dir(fs, FROM) == 0 && fs->make_dir(fs, DIR) == 0);
  for (int i = 0; i < FUZZ_FILES_MAX && fuzz_next_file(&p, end, &f); i++) fuzz_place(d, FROM, DIR, &f);
}

/* What is refused leaves no topic, and none of its folders. */
static void check_nothing(sdm_store *s, sim_disk *d) {
  sdm_file_info info;
  char **names;
  size_t count;
  MUST(sdm_errmsg()[0] != 0);
  MUST(sdm_store_topics(s, &names, &count) == 0 && count == 0);
  sdm_names_free(names);
  MUST(sim_fs(d)->path_info(sim_fs(d), STORE "/t-0", &info) == SDM_NOT_FOUND);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sim_disk *d = sim_new();
  sdm_store *s;
  sdm_import_report report;
  place(d, data, data + size);
  MUST(fuzz_open_store(d, STORE, NOW, &s) == 0);
  sdm_import_options options = {.abort_open = size % 2 == 1};
  if (sdm_store_import(s, "t", DIR, &options, NOW, &report) == 0) {
    fuzz_use_store(d, STORE, s, NOW);
  } else {
    check_nothing(s, d);
    sdm_store_unref(s);
  }
  sim_free(d);
  return 0;
}
