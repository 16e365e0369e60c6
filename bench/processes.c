/* Several processes on one store: durable appends that share a flush, and the way of a record to who waits for it in another process.
**     processes [DIR]
**
** Durable rate: records per second that `sync` appends reach, by one writer and by 32 (4 processes of 8 threads), in turns, the median of three.
** Wake-up: from before an append to after the wait for it in another process, there and back, halved.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "floors.h"
#include "sediment.h"

enum { PROCESSES = 4, THREADS = 8, ROUNDS = 3, SECONDS = 2, PINGS = 5000, WARM_UP = 200 };

static char root[300];

typedef struct shared {                    /* by all processes */
  atomic_int ready;
  atomic_bool go, stop;
  atomic_llong appended;
} shared;

static shared *all;

static void check(int rc) {
  if (rc >= 0) return;
  fprintf(stderr, "bench: %s\n", sdm_errmsg());
  exit(1);
}

static sdm_store *open_store(void) {
  sdm_store *s;
  check(sdm_store_open(root, &(sdm_store_options){.create = true, .wall_clock = true}, sdm_wall_ms(), &s));
  return s;
}

static sdm_topic *open_topic(sdm_store *s, const char *name) {
  sdm_topic *t;
  check(sdm_topic_open(s, name, &(sdm_settings){0}, sdm_wall_ms(), &t));
  return t;
}

static int64_t append(sdm_topic *t, unsigned flags) {
  char value[100] = "v";
  int64_t offset;
  int32_t partition;
  sdm_record r = {.timestamp = sdm_wall_ms(), .key = "key", .key_size = 3, .value = value, .value_size = sizeof value};
  check(sdm_topic_append(t, &r, 0, flags, r.timestamp, &offset, &partition));
  return offset;
}

/* ---- durable appends ---- */

static void *write_durably(void *store) {
  sdm_topic *t = open_topic(store, "durable");       /* a topic's handle is one thread's */
  long long n = 0;
  atomic_fetch_add(&all->ready, 1);
  while (!atomic_load(&all->go)) {}
  for (; !atomic_load(&all->stop); n++) append(t, SDM_SYNC);
  atomic_fetch_add(&all->appended, n);
  sdm_topic_release(t);
  return NULL;
}

static void write_in_child(int threads) {
  pthread_t running[THREADS];
  sdm_store *s = open_store();
  for (int i = 0; i < threads; i++) pthread_create(&running[i], NULL, write_durably, s);
  for (int i = 0; i < threads; i++) pthread_join(running[i], NULL);
  check(sdm_store_close(s, sdm_wall_ms()));
  exit(0);
}

static double durable_rate(int processes, int threads) {
  memset(all, 0, sizeof *all);
  for (int i = 0; i < processes; i++) {
    if (fork() == 0) write_in_child(threads);
  }
  while (atomic_load(&all->ready) < processes * threads) usleep(1000);
  double t = bench_now();
  atomic_store(&all->go, true);
  usleep(SECONDS * 1000000);
  atomic_store(&all->stop, true);
  t = bench_now() - t;
  while (wait(NULL) > 0) {}
  return (double)atomic_load(&all->appended) / t;
}

static int ascending(const void *a, const void *b) { return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b); }

static void show_durable_rates(void) {
  double one[ROUNDS], many[ROUNDS];
  for (int i = 0; i < ROUNDS; i++) {
    one[i] = durable_rate(1, 1);
    many[i] = durable_rate(PROCESSES, THREADS);
  }
  qsort(one, ROUNDS, sizeof *one, ascending);
  qsort(many, ROUNDS, sizeof *many, ascending);
  double a = one[ROUNDS / 2], b = many[ROUNDS / 2];
  printf("durable appends: %.0f/s by one writer, %.0f/s by %d in %d processes: %.2f times as many\n", a, b, PROCESSES * THREADS, PROCESSES, b / a);
}

/* ---- waking ---- */

static void answer(void) {
  sdm_log *l;
  sdm_store *s = open_store();
  sdm_topic *to = open_topic(s, "ping"), *from = open_topic(s, "pong");
  check(sdm_topic_log(to, 0, sdm_wall_ms(), &l));
  for (int64_t i = 0; i < PINGS; i++) {
    check(sdm_log_wait(l, i, -1));
    append(from, 0);
  }
  sdm_topic_release(to);
  sdm_topic_release(from);
  check(sdm_store_close(s, sdm_wall_ms()));
  exit(0);
}

static void show_wake_up(void) {
  static double took[PINGS];
  sdm_log *l;
  sdm_store *s = open_store();
  sdm_topic *to = open_topic(s, "ping"), *from = open_topic(s, "pong");
  check(sdm_store_close(s, sdm_wall_ms()));          /* the topics are there; no handle crosses the fork */
  sdm_topic_release(to);
  sdm_topic_release(from);
  if (fork() == 0) answer();
  s = open_store();
  to = open_topic(s, "ping");
  from = open_topic(s, "pong");
  check(sdm_topic_log(from, 0, sdm_wall_ms(), &l));
  for (int64_t i = 0; i < PINGS; i++) {
    double t = bench_now();
    append(to, 0);
    check(sdm_log_wait(l, i, -1));
    took[i] = (bench_now() - t) / 2;
  }
  qsort(took + WARM_UP, PINGS - WARM_UP, sizeof *took, ascending);
  const double *sorted = took + WARM_UP;
  int n = PINGS - WARM_UP;
  printf("waking in another process: %.0f us median, %.0f us at 99%%, %.0f us at most\n", sorted[n / 2] * 1e6, sorted[n * 99 / 100] * 1e6, sorted[n - 1] * 1e6);
  sdm_topic_release(to);
  sdm_topic_release(from);
  check(sdm_store_close(s, sdm_wall_ms()));
  while (wait(NULL) > 0) {}
}

int main(int argc, char **argv) {
  const char *dir = argc > 1 ? argv[1] : "build/bench/data";
  char command[400];
  snprintf(root, sizeof root, "%s/processes", dir);
  snprintf(command, sizeof command, "rm -rf '%s' && mkdir -p '%s'", root, dir);
  if (system(command) != 0) bench_die(command);
  all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) bench_die("mmap");
  setvbuf(stdout, NULL, _IONBF, 0);
  show_durable_rates();
  show_wake_up();
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command) == 0 ? 0 : 1;
}
