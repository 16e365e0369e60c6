/* What processes that died have left in memory and beside a partition: its control page with the stage, sediment.state, the store's page. The rest of the
** store is sound. Files as in the target store; those of other kinds are left out.
*/
#include <stdlib.h>

#include "fuzz/use.h"

#define NOW 1700000000000

/* A store that nobody closed: sealed batches, two segments, a stage. */
static sim_disk *make_store(void) {
  sim_disk *d = sim_new();
  sdm_store *s;
  sdm_topic *t;
  sdm_log *l;
  int64_t offset;
  int32_t where;
  sdm_settings none = {0};
  MUST(fuzz_open_store(d, SIM_ROOT, NOW - 1000, &s) == 0 && sdm_topic_open(s, "a", &none, NOW - 1000, &t) == 0);
  MUST(sdm_topic_log(t, 0, NOW - 1000, &l) == 0);
  for (int i = 0; i < 12; i++) {
    sdm_record r = {.key = "k", .key_size = 1, .value = "value", .value_size = 5, .timestamp = NOW - 900 + i};
    MUST(sdm_topic_append(t, &r, 0, i % 5 == 4 ? SDM_SYNC : 0, NOW - 900 + i, &offset, &where) == 0);
    if (i == 6) MUST(sdm_log_roll(l, NOW - 800, &offset) == 0);
  }
  sdm_topic_release(t);
  sdm_store_unref(s);
  return d;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static sim_disk *sound;
  const uint8_t *p = data;
  fuzz_file f;
  sdm_store *s;
  if (!sound) sound = make_store();
  sim_disk *d = sim_death(sound);
  for (int i = 0; i < FUZZ_FILES_MAX && fuzz_next_file(&p, data + size, &f); i++) {
    if (f.kind == FUZZ_CONTROL || f.kind == FUZZ_STATE || f.kind == FUZZ_ROOT_CONTROL) fuzz_place(d, SIM_ROOT, SIM_ROOT "/a-0", &f);
  }
  if (fuzz_open_store(d, SIM_ROOT, NOW, &s) == 0) fuzz_use_store(d, SIM_ROOT, s, NOW);
  sim_free(d);
  return 0;
}
