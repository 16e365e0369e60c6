/* A whole store under threads: its background thread at its shortest intervals beside threads that append, read, compact, retain, alter, delete and make
** topics anew. What must hold: nothing acknowledged is lost, offsets are dense and ascend, no call fails but for reasons that the others gave.
** Runs under TSan as well.
*/
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "sediment.h"

enum { APPENDS = 20000, WRITERS = 3 };

typedef struct world {
  char root[256];
  sdm_store *store;
  atomic_bool stop;
  atomic_int bad;                          /* calls that failed and should not have */
  _Atomic int64_t acknowledged;
} world;

static void remove_root(const world *w) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", w->root);
  CHECK_INT(system(command), 0);
}

static void note(world *w, int rc, int allowed) {
  if (rc >= 0 || rc == allowed) return;
  atomic_fetch_add(&w->bad, 1);
  printf("unexpected failure: %s: %s\n", sdm_code_name(rc), sdm_errmsg());
}

static sdm_setting text(const char *name, const char *value) { return (sdm_setting){name, {.type = SDM_VALUE_STRING, .string = value}}; }
static sdm_setting number(const char *name, int64_t value) { return (sdm_setting){name, {.type = SDM_VALUE_INT, .integer = value}}; }

static void open_world(world *w, const char *name) {
  const char *tmp = getenv("TMPDIR");
  sdm_setting options[] = {number("log.retention.check.interval.ms", 1), number("log.initial.task.delay.ms", 0), number("log.cleaner.backoff.ms", 1),
                           number("linger.ms", 20)};
  sdm_store_options o = {.create = true, .background = true, .wall_clock = true, .options = {options, sizeof options / sizeof *options}};
  memset((void *)w, 0, sizeof *w);
  snprintf(w->root, sizeof w->root, "%s/store-thread-%s-%d", tmp ? tmp : "/tmp", name, (int)getpid());
  remove_root(w);
  CHECK_INT(sdm_store_open(w->root, &o, sdm_wall_ms(), &w->store), 0);
}

static sdm_topic *open_topic(world *w, const char *name) {
  sdm_setting configs[] = {text("cleanup.policy", "compact"), number("segment.bytes", 4096), number("min.cleanable.dirty.ratio", 0),
                           number("file.delete.delay.ms", 0), number("delete.retention.ms", 0)};
  sdm_settings config = {configs, sizeof configs / sizeof *configs};
  sdm_topic *t = NULL;
  note(w, sdm_topic_open(w->store, name, &config, sdm_wall_ms(), &t), SDM_OK);
  return t;
}

/* Each writer has keys of its own, so that the last value of each is known; every seventh is a batch. */
static void *write_keys(void *argument) {
  world *w = argument;
  static atomic_int writers;
  int me = atomic_fetch_add(&writers, 1) % WRITERS;
  sdm_topic *t = open_topic(w, "shared");
  for (int i = 0; t && i < APPENDS; i++) {
    char key[32], value[32];
    int64_t first, last;
    int32_t where;
    sdm_record r = {.timestamp = sdm_wall_ms(), .key = key, .value = value};
    r.key_size = snprintf(key, sizeof key, "w%d-%d", me, i % 10);
    r.value_size = snprintf(value, sizeof value, "%d", i);
    int rc = i % 7 ? sdm_topic_append(t, &r, 0, 0, sdm_wall_ms(), &first, &where)
                   : sdm_topic_append_batch(t, &r, 1, 0, SDM_CODEC_NONE, 0, sdm_wall_ms(), &first, &last, &where);
    note(w, rc, SDM_OK);
    if (rc == 0) atomic_fetch_add(&w->acknowledged, 1);
  }
  sdm_topic_release(t);
  return NULL;
}

static void *read_all(void *argument) {
  world *w = argument;
  sdm_topic *t = open_topic(w, "shared");
  while (t && !atomic_load(&w->stop)) {
    sdm_log *l;
    sdm_reader *r;
    sdm_record record;
    int64_t before = -1, at;
    int rc = sdm_topic_log(t, 0, sdm_wall_ms(), &l);
    if (rc == 0) rc = sdm_reader_open(l, 0, SDM_TO_END, 0, &r);
    note(w, rc, SDM_OK);
    if (rc < 0) break;
    while ((rc = sdm_reader_next(r, &record)) == 1) {
      if (record.offset <= before) note(w, sdm_fail(SDM_CORRUPT, "offset %lld after %lld", (long long)record.offset, (long long)before), SDM_OK);
      before = record.offset;
    }
    note(w, rc, SDM_OK);
    at = sdm_reader_position(r);
    if (at < before) note(w, sdm_fail(SDM_CORRUPT, "position behind the last record"), SDM_OK);
    sdm_reader_close(r);
  }
  sdm_topic_release(t);
  return NULL;
}

static void *meddle(void *argument) {
  world *w = argument;
  sdm_topic *t = open_topic(w, "shared");
  for (int i = 0; t && !atomic_load(&w->stop); i++) {
    sdm_compact_report compacted;
    sdm_retain_report retained;
    sdm_maintain_report maintained;
    sdm_log *l;
    sdm_log_stats stats;
    sdm_segment_info *segments;
    size_t count;
    int64_t base;
    sdm_setting change = number("segment.bytes", 2048 + i % 3 * 1024);
    note(w, sdm_topic_alter(t, &(sdm_settings){&change, 1}, NULL, 0, sdm_wall_ms()), SDM_OK);
    note(w, sdm_topic_compact(t, i % 2 == 0, sdm_wall_ms(), &compacted), SDM_OK);
    note(w, sdm_topic_retain(t, sdm_wall_ms(), &retained), SDM_OK);
    note(w, sdm_store_maintain(w->store, sdm_wall_ms(), &maintained), SDM_OK);
    note(w, sdm_topic_log(t, 0, sdm_wall_ms(), &l), SDM_OK);
    note(w, sdm_log_roll(l, sdm_wall_ms(), &base), SDM_OK);
    note(w, sdm_log_get_stats(l, sdm_wall_ms(), &stats), SDM_OK);
    note(w, sdm_log_segments(l, &segments, &count), SDM_OK);
    sdm_segments_free(segments);
  }
  sdm_topic_release(t);
  return NULL;
}

static void *come_and_go(void *argument) {
  world *w = argument;
  while (!atomic_load(&w->stop)) {
    int64_t offset = -1;
    int32_t where;
    sdm_record r = {.timestamp = sdm_wall_ms(), .key = "k", .key_size = 1, .value = "v", .value_size = 1};
    sdm_topic *t = open_topic(w, "fleeting");
    if (!t) break;
    note(w, sdm_topic_append(t, &r, 0, 0, sdm_wall_ms(), &offset, &where), SDM_OK);
    if (offset != 0) note(w, sdm_fail(SDM_CORRUPT, "a new topic begins at offset %lld", (long long)offset), SDM_OK);
    sdm_topic_release(t);
    note(w, sdm_store_delete_topic(w->store, "fleeting", false, sdm_wall_ms()), SDM_OK);
  }
  return NULL;
}

/* The last value of each key is the last that its writer wrote. */
static void check_last_values(world *w) {
  sdm_topic *t = open_topic(w, "shared");
  sdm_log *l;
  sdm_reader *r;
  sdm_record record;
  int found[WRITERS][10], rc;
  int64_t end;
  memset(found, -1, sizeof found);
  if (!CHECK(t)) return;
  CHECK_INT(sdm_topic_log(t, 0, sdm_wall_ms(), &l), 0);
  CHECK_INT(sdm_log_latest(l, &end), 0);
  CHECK_INT(end, atomic_load(&w->acknowledged));
  CHECK_INT(sdm_reader_open(l, 0, SDM_TO_END, 0, &r), 0);
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    char value[32] = "";
    memcpy(value, record.value, (size_t)record.value_size);
    const char *key = record.key;
    found[key[1] - '0'][key[3] - '0'] = atoi(value);
  }
  CHECK_INT(rc, 0);
  for (int i = 0; i < WRITERS; i++) {
    for (int k = 0; k < 10; k++) CHECK_INT(found[i][k], APPENDS - 10 + k);
  }
  sdm_reader_close(r);
  sdm_topic_release(t);
}

TEST(threads_beside_the_background) {
  world w;
  pthread_t writers[WRITERS], others[3];
  void *(*const work[3])(void *) = {read_all, meddle, come_and_go};
  open_world(&w, "all");
  sdm_topic_release(open_topic(&w, "shared"));
  for (int i = 0; i < 3; i++) pthread_create(&others[i], NULL, work[i], &w);
  for (int i = 0; i < WRITERS; i++) pthread_create(&writers[i], NULL, write_keys, &w);
  for (int i = 0; i < WRITERS; i++) pthread_join(writers[i], NULL);
  atomic_store(&w.stop, true);
  for (int i = 0; i < 3; i++) pthread_join(others[i], NULL);
  check_last_values(&w);
  CHECK_INT(atomic_load(&w.bad), 0);
  CHECK_INT(sdm_store_close(w.store, sdm_wall_ms()), 0);
  sdm_store_options again = {.create = false, .wall_clock = true};
  CHECK_INT(sdm_store_open(w.root, &again, sdm_wall_ms(), &w.store), 0);
  check_last_values(&w);
  CHECK_INT(sdm_store_close(w.store, sdm_wall_ms()), 0);
  remove_root(&w);
}

TEST(handles_of_one_process_share_a_store) {
  world w;
  sdm_store *second;
  sdm_store_options o = {.wall_clock = true};
  open_world(&w, "shared");
  CHECK_INT(sdm_store_open(w.root, &o, sdm_wall_ms(), &second), 0);
  CHECK(second == w.store);
  CHECK_INT(sdm_store_close(second, sdm_wall_ms()), 0);
  sdm_topic *t = open_topic(&w, "still");
  CHECK(t);
  CHECK_INT(sdm_store_close(w.store, sdm_wall_ms()), 0);
  CHECK_INT(sdm_topic_partitions(t), SDM_CLOSED);
  sdm_topic_release(t);
  remove_root(&w);
}
