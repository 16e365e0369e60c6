#include "fuzz/use.h"

#include <string.h>

typedef struct ends { int64_t of[FUZZ_LOGS_MAX]; int count; } ends;

int fuzz_open_store(sim_disk *d, const char *root, int64_t now, sdm_store **out) {
  sdm_setting items[] = {{"log.cleaner.dedupe.buffer.size", {.type = SDM_VALUE_INT, .integer = 1 << 20}}};
  sdm_store_options o = {.create = true, .options = {items, 1}};
  return sdm_store_open_on(sim_fs(d), root, &o, now, out);
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
  if (sdm_topic_append_batch(t, records, 3, partition, SDM_CODEC_ZSTD, 0, now, &first, &last, &where) == 0) {
    MUST(where == partition && last == first + 2 && sdm_log_latest(l, &after) == 0 && after == last + 1);
    check_there(l, last, "two");
  }
}

static void work(sdm_topic *t, int32_t partition, int64_t now, ends *e) {
  sdm_log *l;
  int64_t ignored;
  if (e->count == FUZZ_LOGS_MAX) return;
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
    for (int32_t p = 0, n = sdm_topic_partitions(t); p < n && seen < FUZZ_LOGS_MAX; p++, seen++) {
      int64_t end;
      if (!again) work(t, p, now, e);
      else if (e->of[seen] >= 0 && sdm_topic_log(t, p, now, &l) == 0 && sdm_log_latest(l, &end) == 0) MUST(end >= e->of[seen]);
    }
    (void)sdm_topic_compact(t, true, now, &compacted);
    (void)sdm_topic_retain(t, now, &retained);
    for (int32_t p = 0, n = sdm_topic_partitions(t); !again && p < n && p < FUZZ_LOGS_MAX; p++) {
      if (sdm_topic_log(t, p, now, &l) == 0) fuzz_ask_log(l, now);
    }
    sdm_topic_release(t);
  }
  sdm_names_free(names);
}

static void verify(sdm_store *s) {
  sdm_verify_report *r;
  if (sdm_store_verify(s, NULL, &r) == 0) sdm_verify_report_free(r);
}

void fuzz_use_store(sim_disk *d, const char *root, sdm_store *s, int64_t now) {
  ends e = {.count = 0};
  sdm_maintain_report report;
  verify(s);
  each_log(s, now, &e, false);
  (void)sdm_store_maintain(s, now + 1000, &report);
  if (sdm_store_close_on(s, now + 2000) < 0 || fuzz_open_store(d, root, now + 3000, &s) < 0) return;
  each_log(s, now + 3000, &e, true);
  sdm_store_unref(s);                      /* as if the process had died */
}
