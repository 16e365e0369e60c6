/* A store's folder, opened for writing: what can be recovered is read, appended to, compacted, kept up, and closed; then it opens once more and has not
** lost its end. A topics file and the marks of its partitions are there unless the input has its own.
*/
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fuzz/use.h"
#include "store/topics_file.h"

#define NOW 1700000000000
enum { PARTITIONS = 2 };

static const char *const folders[FUZZ_FOLDERS] = {SIM_ROOT "/a-0", SIM_ROOT "/a-1", SIM_ROOT "/b-0", SIM_ROOT "/a-0.00000000000000000000000000000001-delete"};
static const sdm_uuid ids[2] = {{{1, 2, 3}}, {{4, 5, 6}}};

static void write_topics(sim_disk *d) {
  sdm_setting items[] = {{"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}}, {"segment.bytes", {.type = SDM_VALUE_INT, .integer = 1024}},
                         {"index.interval.bytes", {.type = SDM_VALUE_INT, .integer = 200}}};
  sdm_topics_file f = {0};
  sdm_topic_entry a = {.name = "a", .id = ids[0], .partitions = PARTITIONS}, b = {.name = "b", .id = ids[1], .partitions = 1};
  sdm_buf text = SDM_BUF_INIT;
  MUST(sdm_config_apply(&a.config, &(sdm_settings){items, 3}, NULL) == 0);
  MUST(sdm_topics_add(&f, &a) == 0 && sdm_topics_add(&f, &b) == 0 && sdm_topics_encode(&f, &text) >= 0);
  fuzz_write(d, SIM_ROOT "/sediment.topics", text.data, text.size);
  sdm_topics_free(&f);
  sdm_buf_free(&text);
}

static void begin(sim_disk *d) {
  sdm_fs *fs = sim_fs(d);
  MUST(fs->make_dir(fs, SIM_ROOT) == 0);
  for (int i = 0; i < FUZZ_FOLDERS; i++) {
    sdm_buf text = SDM_BUF_INIT;
    fuzz_file metadata = {.kind = FUZZ_METADATA};
    MUST(fs->make_dir(fs, folders[i]) == 0 && sdm_metadata_encode(&text, &ids[i == 2]) >= 0);
    metadata.bytes = text.data;
    metadata.size = text.size;
    fuzz_place(d, SIM_ROOT, folders[i], &metadata);
    sdm_buf_free(&text);
  }
  write_topics(d);
}

/* Many thousands of partitions are legal, and only slow. */
static bool too_many(sim_disk *d) {
  sdm_topics_file f = {0};
  char *text;
  size_t size;
  int64_t count = 0;
  if (sdm_fs_read_all(sim_fs(d), SIM_ROOT "/sediment.topics", 1 << 20, &text, &size) < 0) abort();
  if (sdm_topics_decode(&f, text, size) == 0) {
    for (size_t i = 0; i < f.count; i++) count += f.entries[i]->partitions;
  }
  sdm_topics_free(&f);
  sdm_free(text);
  return count > FUZZ_LOGS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *p = data;
  fuzz_file f;
  sdm_store *s;
  sim_disk *d = sim_new();
  begin(d);
  for (int i = 0; i < FUZZ_FILES_MAX && fuzz_next_file(&p, data + size, &f); i++) fuzz_place(d, SIM_ROOT, folders[f.folder], &f);
  if (!too_many(d) && fuzz_open_store(d, SIM_ROOT, NOW, &s) == 0) fuzz_use_store(d, SIM_ROOT, s, NOW);
  sim_free(d);
  return 0;
}
