/* A store's folder, opened for writing: what can be recovered is read, appended to, compacted, kept up, and closed; then it opens once more and has not
** lost its end. A topics file and the marks of its partitions are there unless the input has its own.
*/
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "store/store.h"

#define NOW 1700000000000
enum { LOGS_MAX = 6, PARTITIONS = 2 };

static const char *const folders[FUZZ_FOLDERS] = {SIM_ROOT "/a-0", SIM_ROOT "/a-1", SIM_ROOT "/b-0", SIM_ROOT "/a-0.00000000000000000000000000000001-delete"};
static const sdm_uuid ids[2] = {{{1, 2, 3}}, {{4, 5, 6}}};

typedef struct ends { int64_t of[LOGS_MAX]; int count; } ends;

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
    fuzz_place(d, folders[i], &metadata);
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
  return count > LOGS_MAX;
}

static int open_store(sim_disk *d, int64_t now, sdm_store **out) {
  sdm_setting items[] = {{"log.cleaner.dedupe.buffer.size", {.type = SDM_VALUE_INT, .integer = 1 << 20}}};
  sdm_store_options o = {.create = true, .options = {items, 1}};
  return sdm_store_open_on(sim_fs(d), SIM_ROOT, &o, now, out);
}

/* What was just appended is there, unless damage before it in the same segment is in the way. */
static void check_there(sdm_log *l, int64_t offset, const char *value) {
  sdm_reader *r;
  sdm_record got;
  if (sdm_reader_open(l, offset, SDM_TO_END, SDM_READ_UNCOMMITTED, &r) < 0) return;
  int rc = sdm_reader_next(r, &got);
  MUST(rc != 0);
  if (rc == 1) MUST(got.offset == offset && got.value_size == (int32_t)strlen(value) && memcmp(got.value, value, strlen(value)) == 0);
  sdm_reader_close(r);
}

static void append(sdm_topic *t, sdm_log *l, int32_t partition, int64_t now) {
  sdm_record records[] = {{.key = "k", .key_size = 1, .value = "one", .value_size = 3, .timestamp = now},
                          {.key = "j", .key_size = 1, .value_size = -1, .timestamp = now},
                          {.key = "k", .key_size = 1, .value = "two", .value_size = 3, .timestamp = now}};
  int64_t before, after, offset, first, last;
  int32_t where;
  MUST(sdm_log_latest(l, &before) == 0);
  if (sdm_topic_append(t, &records[0], partition, 0, now, &offset, &where) == 0) {
    MUST(offset >= before && where == partition);
    check_there(l, offset, "one");
  }
  if (sdm_topic_append_batch(t, records, 3, partition, SDM_CODEC_ZSTD, 0, now, &first, &last) == 0) {
    MUST(last == first + 2 && sdm_log_latest(l, &after) == 0 && after == last + 1);
    check_there(l, last, "two");
  }
}

static void work(sdm_topic *t, int32_t partition, int64_t now, ends *e) {
  sdm_log *l;
  int64_t ignored;
  if (e->count == LOGS_MAX) return;
  e->of[e->count] = -1;
  if (sdm_topic_log(t, partition, now, &l) == 0) {
    fuzz_ask_log(l, now);
    append(t, l, partition, now);
    (void)sdm_log_flush(l, now, &ignored);
    (void)sdm_log_roll(l, now, &ignored);
    fuzz_ask_log(l, now);
    MUST(sdm_log_latest(l, &e->of[e->count]) == 0);
  }
  e->count++;
}

/* `again`: the end that each log had is still what it has; else works on it. */
static void each_log(sdm_store *s, int64_t now, ends *e, bool again) {
  char **names;
  size_t count;
  int seen = 0;
  if (sdm_store_topics(s, &names, &count) < 0) return;
  for (size_t i = 0; i < count; i++) {
    sdm_topic *t;
    sdm_log *l;
    sdm_compact_report compacted;
    sdm_retain_report retained;
    if (sdm_topic_open(s, names[i], NULL, now, &t) < 0) continue;
    for (int32_t p = 0, n = sdm_topic_partitions(t); p < n && seen < LOGS_MAX; p++, seen++) {
      int64_t end;
      if (!again) work(t, p, now, e);
      else if (e->of[seen] >= 0 && sdm_topic_log(t, p, now, &l) == 0 && sdm_log_latest(l, &end) == 0) MUST(end >= e->of[seen]);
    }
    (void)sdm_topic_compact(t, true, now, &compacted);
    (void)sdm_topic_retain(t, now, &retained);
    for (int32_t p = 0, n = sdm_topic_partitions(t); !again && p < n && p < LOGS_MAX; p++) {
      if (sdm_topic_log(t, p, now, &l) == 0) fuzz_ask_log(l, now);
    }
    sdm_topic_release(t);
  }
  sdm_names_free(names);
}

static void use(sim_disk *d) {
  sdm_store *s;
  ends e = {.count = 0};
  sdm_maintain_report report;
  if (open_store(d, NOW, &s) < 0) return;
  each_log(s, NOW, &e, false);
  (void)sdm_store_maintain(s, NOW + 1000, &report);
  if (sdm_store_close_on(s, NOW + 2000) < 0 || open_store(d, NOW + 3000, &s) < 0) return;
  each_log(s, NOW + 3000, &e, true);
  sdm_store_unref(s);                      /* as if the process had died */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *p = data;
  fuzz_file f;
  sim_disk *d = sim_new();
  begin(d);
  for (int i = 0; i < FUZZ_FILES_MAX && fuzz_next_file(&p, data + size, &f); i++) fuzz_place(d, folders[f.folder], &f);
  if (!too_many(d)) use(d);
  sim_free(d);
  return 0;
}
