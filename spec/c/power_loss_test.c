/* Failures of other stores that need a crash at a certain instant, on the simulated disk of spec/sim/disk.h. `make torture` looks for what nobody has
** thought of; here are those that happened.
*/
#include "base/mem.h"
#include "sim/disk.h"
#include "store/store.h"
#include "test.h"

enum { SEEDS = 3 };                        /* disks that a loss of power may leave, of each kind, at each instant */

#define T0 1700000000000
#define DIR SIM_ROOT "/t-0"

/* ---- a store with the topic t ---- */

typedef struct opened {
  sdm_store *store;
  sdm_topic *topic;
  sdm_log *log;
} opened;

static sdm_setting integer(const char *name, int64_t n) { return (sdm_setting){name, {.type = SDM_VALUE_INT, .integer = n}}; }

/* A map with room for one key: each pass cleans as little as it can. */
static bool open_store(sim_disk *d, const sdm_settings *config, int64_t now, opened *out) {
  sdm_setting options[] = {integer("log.cleaner.dedupe.buffer.size", 64)};
  sdm_store_options o = {.create = true, .options = {options, 1}};
  *out = (opened){0};
  return CHECK_INT(sdm_store_open_on(sim_fs(d), SIM_ROOT, &o, now, &out->store), 0) &&
         CHECK_INT(sdm_topic_open(out->store, "t", config, now, &out->topic), 0) && CHECK_INT(sdm_topic_log(out->topic, 0, now, &out->log), 0);
}

static void die(opened *o) {
  sdm_topic_release(o->topic);
  sdm_store_unref(o->store);
}

static void close_store(opened *o, int64_t now) {
  sdm_topic_release(o->topic);
  CHECK_INT(sdm_store_close_on(o->store, now), 0);
}

static void put(opened *o, const char *key, const char *value, int64_t now) {
  sdm_record r = {.timestamp = now, .key = key, .key_size = (int32_t)strlen(key), .value = value, .value_size = value ? (int32_t)strlen(value) : -1};
  int64_t first, last;
  int32_t where;
  CHECK_INT(sdm_topic_append_batch(o->topic, &r, 1, 0, SDM_CODEC_NONE, 0, now, &first, &last, &where), 0);
}

static void roll(opened *o, int64_t now) {
  int64_t base;
  CHECK_INT(sdm_log_roll(o->log, now, &base), 0);
}

static void flush(opened *o, int64_t now) {
  int64_t durable;
  CHECK_INT(sdm_log_flush(o->log, now, &durable), 0);
}

/* The last value of each of the keys a to z; "" for none. */
typedef struct view { char values[26][8]; } view;

static bool read_view(opened *o, view *v) {
  sdm_reader *r;
  sdm_record record;
  int rc;
  memset(v, 0, sizeof *v);
  if (!CHECK_INT(sdm_reader_open(o->log, sdm_log_start(o->log), SDM_TO_END, 0, &r), 0)) return false;
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    snprintf(v->values[*(const char *)record.key - 'a'], sizeof v->values[0], "%.*s", record.value_size > 0 ? record.value_size : 0,
             record.value_size > 0 ? (const char *)record.value : "");
  }
  sdm_reader_close(r);
  return CHECK_INT(rc, 0);
}

/* ---- every disk that a crash may leave ---- */

typedef struct crashes {
  sim_disk *disk;
  uint64_t mark;
  int64_t now;
  void (*check)(sim_disk *d, int64_t now); /* takes the disk over */
  bool at_every_call;                      /* also at those that change nothing: what is mapped may have changed */
  int states;
} crashes;

static int crash_before_call(void *context, sim_call call, const char *path, size_t *partial) {
  crashes *c = context;
  (void)call, (void)path, (void)partial;
  if (!sim_changed(c->disk, &c->mark) && !c->at_every_call) return 0;
  c->check(sim_death(c->disk), c->now);
  for (uint64_t i = 0; i < SIM_HONEST * SEEDS; i++) c->check(sim_power_loss(c->disk, (sim_profile)(i % SIM_HONEST), c->mark + i), c->now);
  c->states += 1 + SIM_HONEST * SEEDS;
  return 0;
}

/* ---- KAFKA-4529, Bitcask 82: what was deleted comes back ---- */

static void check_deleted(sim_disk *d, int64_t now) {
  opened o;
  view v;
  if (open_store(d, NULL, now, &o) && read_view(&o, &v)) {
    CHECK_STR(v.values['k' - 'a'], "");
    for (char key = 'a'; key <= 'e'; key++) CHECK_STR(v.values[key - 'a'], "2");
  }
  die(&o);
  sim_free(d);
}

static void delete_and_clean(bool cleaned_before) {
  sdm_setting items[] = {{"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}}, integer("delete.retention.ms", 0),
                         integer("segment.bytes", 200), integer("index.interval.bytes", 0)};
  crashes c = {.disk = sim_new(), .now = T0, .check = check_deleted};
  sdm_compact_report report;
  opened o;
  if (!open_store(c.disk, &(sdm_settings){items, 4}, T0, &o)) return;
  for (int round = 0; round < 3; round++) {            /* k=1, then k's tombstone, among others; in the first round k is not there */
    if (round > 0) put(&o, "k", round == 1 ? "1" : NULL, T0);
    for (const char *key = "a\0b\0c\0d\0e\0"; *key; key += 2) put(&o, key, round == 0 ? "1" : "2", T0);
    roll(&o, T0);
    if (round == 1 && cleaned_before) CHECK_INT(sdm_topic_compact(o.topic, true, T0, &report), 0);
  }
  flush(&o, T0);
  sim_set_hook(c.disk, crash_before_call, &c);
  for (; c.now < T0 + 3; c.now++) CHECK_INT(sdm_topic_compact(o.topic, true, c.now, &report), 0);
  sim_set_hook(c.disk, NULL, NULL);
  CHECK(c.states > 500);
  check_deleted(sim_death(c.disk), c.now);
  CHECK_INT(report.tombstones_removed, 0);             /* they went before */
  die(&o);
  sim_free(c.disk);
}

TEST(a_tombstone_outlives_the_values_that_it_deletes) { delete_and_clean(false); }
TEST(a_tombstone_outlives_values_in_old_clean_segments) { delete_and_clean(true); }

/* ---- a record that goes for a newer one ---- */

static void check_one_is_there(sim_disk *d, int64_t now) {
  opened o;
  sdm_reader *r;
  sdm_record record;
  int found = 0;
  if (open_store(d, NULL, now, &o) && CHECK_INT(sdm_reader_open(o.log, sdm_log_start(o.log), SDM_TO_END, 0, &r), 0)) {
    while (sdm_reader_next(r, &record) == 1) found += *(const char *)record.key == 'k';      /* what was torn is behind it */
    sdm_reader_close(r);
  }
  CHECK(found > 0);
  die(&o);
  sim_free(d);
}

TEST(a_durable_record_goes_only_for_a_durable_one) {
  sdm_setting items[] = {{"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}}, integer("segment.bytes", 100)};      /* each in a group of its own */
  crashes c = {.disk = sim_new(), .now = T0, .check = check_one_is_there};
  sdm_compact_report report;
  opened o;
  if (!open_store(c.disk, &(sdm_settings){items, 2}, T0, &o)) return;
  put(&o, "k", "1", T0);
  flush(&o, T0);
  roll(&o, T0);
  put(&o, "k", "2", T0);
  roll(&o, T0);
  sim_set_hook(c.disk, crash_before_call, &c);
  for (int pass = 0; pass < 3; pass++) CHECK_INT(sdm_topic_compact(o.topic, true, T0, &report), 0);
  sim_set_hook(c.disk, NULL, NULL);
  check_one_is_there(sim_death(c.disk), T0);
  die(&o);
  sim_free(c.disk);
}

/* ---- KAFKA-3968: the file of a new segment is gone after a loss of power ---- */

static void check_flushed(sim_disk *d, int64_t now) {
  opened o;
  view v;
  if (open_store(d, NULL, now, &o) && read_view(&o, &v)) {
    CHECK_STR(v.values[0], "1");
    CHECK_STR(v.values[1], "2");
  }
  die(&o);
  sim_free(d);
}

TEST(what_was_flushed_into_a_new_segment_stays) {
  crashes c = {.disk = sim_new(), .now = T0, .check = check_flushed};
  opened o;
  if (!open_store(c.disk, &(sdm_settings){0}, T0, &o)) return;
  put(&o, "a", "1", T0);
  roll(&o, T0);
  put(&o, "b", "2", T0);
  flush(&o, T0);
  for (uint64_t seed = 0; seed < 100; seed++) {
    for (int profile = 0; profile < SIM_HONEST; profile++) check_flushed(sim_power_loss(c.disk, (sim_profile)profile, seed), T0);
  }
  sim_set_hook(c.disk, crash_before_call, &c);
  put(&o, "c", "3", T0);
  roll(&o, T0);
  put(&o, "d", "4", T0);
  sim_set_hook(c.disk, NULL, NULL);
  die(&o);
  sim_free(c.disk);
}

/* ---- KAFKA-10471, KAFKA-10101: a crash while the log is loaded, and the next start takes it for closed in order ---- */

static void append_garbage(sim_disk *d) {
  sdm_fs *fs = sim_fs(d);
  sdm_file *f;
  sdm_file_info info;
  uint8_t garbage[150];
  memset(garbage, 0x5a, sizeof garbage);
  if (!CHECK_INT(fs->open(fs, DIR "/00000000000000000000.log", SDM_OPEN_WRITE, &f), 0)) return;
  CHECK_INT(fs->info(f, &info), 0);
  CHECK_INT(fs->write(f, garbage, sizeof garbage, info.size), 0);
  fs->close(f);
}

/* It speaks of nothing that the log has not got. */
static void check_recovery_point(sim_disk *d, int64_t end) {
  char *text = NULL;
  const char *line;
  size_t size;
  long long point = 0;
  if (sdm_fs_read_all(sim_fs(d), SIM_ROOT "/recovery-point-offset-checkpoint", 1 << 16, &text, &size) < 0) return;
  if ((line = strstr(text, "\nt 0 "))) CHECK(sscanf(line, "\nt 0 %lld", &point) == 1);
  CHECK(point <= end);
  sdm_free(text);
}

static void check_tail(sim_disk *d, int64_t now) {
  opened o;
  view v;
  sdm_log_stats stats;
  check_recovery_point(d, 3);
  append_garbage(d);
  if (open_store(d, NULL, now, &o) && read_view(&o, &v) && CHECK_INT(sdm_log_get_stats(o.log, now, &stats), 0)) {
    CHECK_INT(stats.truncated_bytes, 150);
    CHECK_INT(stats.corrupt_batches, 0);
    for (int i = 0; i < 3; i++) CHECK_STR(v.values[i], "1");
    put(&o, "d", "1", now);
    CHECK(read_view(&o, &v));
    CHECK_STR(v.values[3], "1");
  }
  die(&o);
  sim_free(d);
}

TEST(a_crash_while_opening_hides_no_torn_tail) {
  crashes c = {.disk = sim_new(), .now = T0, .check = check_tail, .at_every_call = true};
  opened o;
  if (!open_store(c.disk, &(sdm_settings){0}, T0, &o)) return;
  put(&o, "a", "1", T0);
  put(&o, "b", "1", T0);
  put(&o, "c", "1", T0);
  close_store(&o, T0);
  sim_set_hook(c.disk, crash_before_call, &c);
  if (!open_store(c.disk, NULL, T0, &o)) return;
  sim_set_hook(c.disk, NULL, NULL);
  CHECK(c.states > 100);
  check_tail(sim_death(c.disk), T0);
  die(&o);
  sim_free(c.disk);
}
