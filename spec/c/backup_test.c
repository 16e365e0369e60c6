/* What a backup shares with its store, where only a loss of power, or another file system, brings it out. On the simulated disk of spec/sim/disk.h. */
#include "base/mem.h"
#include "sim/disk.h"
#include "store/store.h"
#include "test.h"

#define T0 1700000000000
#define STORE SIM_ROOT "/store"
#define COPY SIM_ROOT "/copy"
#define SHARED "/t-0/00000000000000000000.log"

typedef struct opened {
  sdm_store *store;
  sdm_topic *topic;
  sdm_log *log;
} opened;

static bool open_at(sim_disk *d, const char *path, opened *out) {
  sdm_store_options o = {.create = true};
  *out = (opened){0};
  return CHECK_INT(sdm_store_open_on(sim_fs(d), path, &o, T0, &out->store), 0) &&
         CHECK_INT(sdm_topic_open(out->store, "t", &(sdm_settings){0}, T0, &out->topic), 0) && CHECK_INT(sdm_topic_log(out->topic, 0, T0, &out->log), 0);
}

static void die(opened *o) {
  sdm_topic_release(o->topic);
  sdm_store_unref(o->store);
}

static void put(opened *o, const char *value) {
  sdm_record r = {.timestamp = T0, .key = "k", .key_size = 1, .value = value, .value_size = (int32_t)strlen(value)};
  int64_t first, last;
  int32_t where;
  CHECK_INT(sdm_topic_append_batch(o->topic, &r, 1, 0, SDM_CODEC_NONE, SDM_SYNC, T0, &first, &last, &where), 0);
}

static void roll(opened *o) {
  int64_t base;
  CHECK_INT(sdm_log_roll(o->log, T0, &base), 0);
}

static uint64_t links(sim_disk *d, const char *path) {
  sdm_file_info info = {0};
  CHECK_INT(sim_fs(d)->path_info(sim_fs(d), path, &info), 0);
  return info.links;
}

static int64_t size_of(sim_disk *d, const char *path) {
  sdm_file_info info = {.size = -1};
  CHECK_INT(sim_fs(d)->path_info(sim_fs(d), path, &info), 0);
  return info.size;
}

/* The store at `path` has so many records, and all is well with it. */
static void check_records(sim_disk *d, const char *path, int64_t count) {
  opened o;
  sdm_verify_report *r = NULL;
  if (!open_at(d, path, &o) || !CHECK_INT(sdm_store_verify(o.store, NULL, &r), 0)) return;
  CHECK_INT(r->records, count);
  for (size_t i = 0; i < r->problem_count; i++) CHECK_STR(r->problems[i].message, "");
  sdm_verify_report_free(r);
  die(&o);
}

/* A closed segment with three records, and an active one that is empty; both copied. */
static bool make_copied(sim_disk *d, opened *o) {
  if (!open_at(d, STORE, o)) return false;
  for (int i = 0; i < 3; i++) put(o, "value");
  roll(o);
  return CHECK_INT(sdm_store_backup(o->store, COPY, T0), 0);
}

/* The roll had reached no disk: the segment that the backup shares is the last one again, and appends go on in it. */
TEST(a_shared_segment_that_is_the_last_again_is_written_to_in_a_copy) {
  sim_disk *d = sim_new();
  opened o;
  if (!make_copied(d, &o)) return;
  CHECK_INT(links(d, STORE SHARED), 2);
  sim_disk *after = sim_power_loss_but(d, 0);
  die(&o);
  int64_t size = size_of(after, COPY SHARED);
  CHECK_INT(links(after, STORE SHARED), 2);
  if (!open_at(after, STORE, &o)) return;
  put(&o, "later");
  CHECK_INT(size_of(after, COPY SHARED), size);
  CHECK_INT(links(after, COPY SHARED), 1);
  die(&o);
  check_records(after, STORE, 4);
  check_records(after, COPY, 3);
  sim_free(after);
  sim_free(d);
}

static void cut_active(sim_disk *d, const char *path) {
  sdm_file *f;
  if (!CHECK_INT(sim_fs(d)->open(sim_fs(d), path, SDM_OPEN_WRITE, &f), 0)) return;
  CHECK_INT(sim_fs(d)->write(f, "torn", 4, size_of(d, path)), 0);
  sim_fs(d)->close(f);
}

/* A loss of power has torn what a shared file ends with: it is cut in one place, and stays in the other. */
TEST(a_shared_segment_is_cut_in_a_copy) {
  sim_disk *d = sim_new();
  opened o;
  if (!make_copied(d, &o)) return;
  put(&o, "in the next one");
  die(&o);
  cut_active(d, STORE SHARED);
  int64_t size = size_of(d, COPY SHARED);
  sim_disk *after = sim_reboot(d);
  CHECK_INT(sim_fs(after)->unlink(sim_fs(after), STORE "/t-0/00000000000000000000.digest"), 0);
  if (!open_at(after, STORE, &o)) return;
  CHECK_INT(size_of(after, STORE SHARED), size - 4);
  CHECK_INT(size_of(after, COPY SHARED), size);
  CHECK_INT(links(after, COPY SHARED), 1);
  die(&o);
  sim_free(after);
  sim_free(d);
}

static int no_link(sdm_fs *fs, const char *from, const char *to) {
  (void)fs;
  return sdm_fail(SDM_UNSUPPORTED, "%s and %s are on two file systems", from, to);
}

/* The digest of a copied segment is that of the copy. */
TEST(where_there_are_no_links_all_is_copied) {
  sim_disk *d = sim_new();
  opened o;
  sim_fs(d)->link = no_link;
  if (!make_copied(d, &o)) return;
  CHECK_INT(links(d, STORE SHARED), 1);
  CHECK_INT(links(d, COPY SHARED), 1);
  check_records(d, COPY, 3);
  int64_t cut = size_of(d, COPY SHARED) / 3;
  sdm_file *f;
  CHECK_INT(sim_fs(d)->open(sim_fs(d), COPY SHARED, SDM_OPEN_WRITE, &f), 0);
  CHECK_INT(sim_fs(d)->truncate(f, cut), 0);
  sim_fs(d)->close(f);
  opened copy;
  sdm_verify_report *r = NULL;
  if (!open_at(d, COPY, &copy) || !CHECK_INT(sdm_store_verify(copy.store, "t", &r), 0)) return;
  CHECK_INT(r->problem_count, 1);
  if (r->problem_count == 1) CHECK_INT(r->problems[0].position, cut);
  sdm_verify_report_free(r);
  die(&copy);
  die(&o);
  sim_free(d);
}

/* Between the look at the empty folder and the mark in it somebody has made a store there. */
static int make_a_store(void *context, sim_call call, const char *path, size_t *partial) {
  sim_disk *d = context;
  opened o;
  (void)partial;
  if (call != SIM_CREATE || strcmp(path, COPY "/sediment.backup") != 0) return 0;
  sim_set_hook(d, NULL, NULL);
  if (open_at(d, COPY, &o)) put(&o, "theirs");
  CHECK_INT(sdm_store_close_on(o.store, T0), 0);
  sdm_topic_release(o.topic);
  return 0;
}

TEST(a_folder_that_has_become_a_store_stays_one) {
  sim_disk *d = sim_new();
  opened o;
  if (!open_at(d, STORE, &o)) return;
  put(&o, "ours");
  put(&o, "ours");
  CHECK_INT(sim_fs(d)->make_dir(sim_fs(d), COPY), 0);
  sim_set_hook(d, make_a_store, d);
  CHECK_INT(sdm_store_backup(o.store, COPY, T0), SDM_EXISTS);
  sim_set_hook(d, NULL, NULL);
  check_records(d, COPY, 1);
  check_records(d, STORE, 2);
  die(&o);
  sim_free(d);
}
