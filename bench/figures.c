/* The C side of the figures: append_batch, scan and compaction beside their floors, in turns, median of five.
**     figures [W1|W2|W3] [DIR]
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "floors.h"
#include "sediment.h"

enum { ROUNDS = 5, PER = 1000 };
static const int64_t NOW = 1700000000000;

static void check(int rc) {
  if (rc >= 0) return;
  fprintf(stderr, "bench: %s\n", sdm_errmsg());
  exit(1);
}

typedef struct bench {
  workload w;
  char dir[256], root[300];
  sdm_store *store;
  sdm_topic *topic;
  sdm_log *log;
} bench;

static void remove_store(const bench *b) {
  char command[400];
  snprintf(command, sizeof command, "rm -rf '%s'", b->root);
  if (system(command) != 0) bench_die(command);
}

static void open_topic(bench *b) {
  sdm_setting policy = {"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}};
  sdm_settings config = {&policy, 1};
  sdm_store_options o = {.create = true};
  remove_store(b);
  check(sdm_store_open(b->root, &o, NOW, &b->store));
  check(sdm_topic_open(b->store, "w", &config, NOW, &b->topic));
  check(sdm_topic_log(b->topic, 0, NOW, &b->log));
}

static void close_topic(bench *b) {
  sdm_topic_release(b->topic);
  check(sdm_store_close(b->store, NOW));
}

static double append_all(bench *b) {
  sdm_record records[PER];
  int64_t first, last;
  int32_t where;
  double t = bench_now();
  for (uint32_t i = 0; i < b->w.count; i += PER) {
    for (uint32_t j = 0; j < PER; j++) {
      records[j] = (sdm_record){.timestamp = NOW, .key = workload_key(&b->w, i + j), .key_size = KEY_BYTES,
                                .value = workload_value(&b->w, i + j), .value_size = (int32_t)b->w.value_bytes};
    }
    check(sdm_topic_append_batch(b->topic, records, PER, 0, SDM_CODEC_NONE, 0, NOW, &first, &last, &where));
  }
  return bench_now() - t;
}

static double scan_all(bench *b) {
  sdm_reader *r;
  sdm_record record;
  uint64_t n = 0, sum = 0;
  int rc;
  double t = bench_now();
  check(sdm_reader_open(b->log, 0, SDM_TO_END, 0, &r));
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    n++;
    sum += (uint64_t)*(const uint8_t *)record.key + ((const uint8_t *)record.value)[record.value_size - 1];
  }
  check(rc);
  sdm_reader_close(r);
  t = bench_now() - t;
  if (n != b->w.count || sum == 0) bench_die("the scan lost records");
  return t;
}

/* Compaction waits until what it reads is on the disk; for a log that was not written a moment ago that is so. */
static double compact_all(bench *b) {
  sdm_compact_report report;
  int64_t base, durable;
  check(sdm_log_roll(b->log, NOW, &base));
  check(sdm_log_flush(b->log, NOW, &durable));
  double t = bench_now();
  check(sdm_topic_compact(b->topic, true, NOW, &report));
  t = bench_now() - t;
  if (report.records_written != b->w.live) bench_die("compaction lost records");
  return t;
}

static void print(const char *what, const char *unit, double amount, double *ours, double *floor, const char *floor_name, double goal) {
  double a = amount / bench_median(ours, ROUNDS), f = amount / bench_median(floor, ROUNDS);
  printf("%-28s %10.2f %-8s %-12s %10.2f   ratio %.2f (goal %.2f)\n", what, a, unit, floor_name, f, a / f, goal);
}

int main(int argc, char **argv) {
  bench b;
  char log_path[512];
  double ours[3][ROUNDS], floors[3][ROUNDS];
  const char *name = argc > 1 ? argv[1] : "W1";
  snprintf(b.dir, sizeof b.dir, "%s", argc > 2 ? argv[2] : "build/bench/data");
  snprintf(b.root, sizeof b.root, "%s/store", b.dir);
  mkdir(b.dir, 0755);
  if (workload_make(&b.w, name) < 0) bench_die(name);
  int64_t bytes = floor_make_log(b.dir, &b.w, 0, log_path, sizeof log_path);
  for (int i = 0; i < ROUNDS; i++) {
    open_topic(&b);
    floors[0][i] = floor_encode(b.dir, &b.w, PER);
    ours[0][i] = append_all(&b);
    floors[1][i] = floor_decode(b.dir, &b.w);
    ours[1][i] = scan_all(&b);
    floors[2][i] = floor_clean(b.dir, &b.w);
    ours[2][i] = compact_all(&b);
    close_topic(&b);
  }
  remove_store(&b);
  printf("%s in C, median of %d\n", name, ROUNDS);
  print("append_batch(1000)", "M rec/s", b.w.count / 1e6, ours[0], floors[0], "enc1000", 0.3);
  print("scan", "M rec/s", b.w.count / 1e6, ours[1], floors[1], "decode", 0.4);
  print("compaction (durable)", "MB/s in", (double)bytes / 1e6, ours[2], floors[2], "cleaner_fast", 0.4);
  workload_free(&b.w);
  return 0;
}
