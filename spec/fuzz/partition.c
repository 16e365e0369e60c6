/* A bare partition directory, as from a broker that one knows nothing of: opened and asked everything. Files in the root are the checkpoints beside it. */
#include "fuzz/fuzz.h"
#include "log/bare.h"

#define DIR SIM_ROOT "/t-0"
#define NOW 1700000000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *p = data;
  fuzz_file f;
  sim_disk *d = sim_new();
  MUST(sim_fs(d)->make_dir(sim_fs(d), SIM_ROOT) == 0 && sim_fs(d)->make_dir(sim_fs(d), DIR) == 0);
  for (int i = 0; i < FUZZ_FILES_MAX && fuzz_next_file(&p, data + size, &f); i++) {
    /* A page of this very boot is memory that a process shares with its like, no file of a stranger. */
    if (f.kind == FUZZ_CONTROL || f.kind == FUZZ_ROOT_CONTROL) continue;
    fuzz_place(d, SIM_ROOT, DIR, &f);
  }
  sdm_log *l;
  if (sdm_bare_open_on(sim_fs(d), DIR, &l) == 0) {
    fuzz_ask_log(l, NOW);
    sdm_log_release(l);
  }
  sim_free(d);
  return 0;
}
