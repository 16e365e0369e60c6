/* Snapshots of state tables: their bytes, hostile ones too, and what a failure, a death or a loss of power leaves of one that is being written. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "golden.h"
#include "sim/disk.h"
#include "store/snapshot.h"
#include "store/snapshot_file.h"
#include "store/store.h"
#include "test.h"

#define T0 1700000000000

/* ---- a store with the topic t ---- */

typedef struct opened {
  sdm_store *store;
  sdm_topic *topic;
  sdm_log *log;
} opened;

static bool open_store(sim_disk *d, const sdm_settings *config, opened *out) {
  *out = (opened){0};
  return CHECK_INT(sdm_store_open_on(sim_fs(d), SIM_ROOT, &(sdm_store_options){.create = true}, T0, &out->store), 0) &&
         CHECK_INT(sdm_topic_open(out->store, "t", config, T0, &out->topic), 0) && CHECK_INT(sdm_topic_log(out->topic, 0, T0, &out->log), 0);
}

static void die(opened *o) {
  sdm_topic_release(o->topic);
  sdm_store_unref(o->store);
}

static void put(opened *o, const char *value) {
  int64_t offset;
  int32_t where;
  sdm_record r = {.timestamp = T0, .key = "k", .key_size = 1, .value = value, .value_size = (int32_t)strlen(value)};
  CHECK_INT(sdm_topic_append(o->topic, &r, 0, 0, T0, &offset, &where), 0);
}

/* ---- a snapshot of one key, k ---- */

static int add(sdm_snapshot_writer *w, const char *value) {
  sdm_buf entry = SDM_BUF_INIT;
  int rc = sdm_snapshot_entry_begin(&entry, 0, "k", 1);
  if (rc == 0) rc = sdm_saved_put_string(&entry, value, strlen(value));
  if (rc == 0) rc = sdm_snapshot_add(w, entry.data, entry.size);
  sdm_buf_free(&entry);
  return rc;
}

static int save(opened *o, int64_t position, const char *value) {
  sdm_snapshot_writer *w = NULL;
  sdm_snapshot_place place = {position, position, 0};
  int64_t bytes;
  int rc = sdm_snapshot_begin(o->topic, "", &(sdm_snapshot_head){.schema = "s", .schema_size = 1, .partitions = 1, .count = 1}, &place, &w);
  if (rc == 0) rc = add(w, value);
  if (rc == 0) rc = sdm_snapshot_commit(w, o->topic, T0, &bytes);
  sdm_snapshot_writer_free(w);
  return rc;
}

/* Its position, and whether k has that value; -1: it cannot be read. */
static int64_t saved_position(opened *o, const char *value) {
  sdm_snapshot *s;
  sdm_snapshot_entry e;
  uint64_t slot;
  int32_t size = 0;
  if (sdm_snapshot_open(o->topic, "", &s) < 0) return -1;
  int64_t position = sdm_snapshot_place_at(sdm_snapshot_head_of(s), 0).position;
  if (CHECK_INT(sdm_snapshot_find(s, "k", 1, &e, &slot), 1) && value) {
    const uint8_t *p = sdm_get_varint(e.value + 1, e.at + e.size, &size);
    CHECK_INT(size, (int)strlen(value));
    CHECK(memcmp(p, value, (size_t)size) == 0);
  }
  sdm_snapshot_free(s);
  return position;
}

TEST(what_was_written_is_read) {
  opened o;
  sim_disk *d = sim_new();
  if (!open_store(d, &(sdm_settings){0}, &o)) return;
  CHECK_INT(saved_position(&o, NULL), -1);
  put(&o, "one");
  CHECK_INT(save(&o, 1, "one"), 0);
  CHECK_INT(saved_position(&o, "one"), 1);
  CHECK_INT(save(&o, 2, "two"), 0);
  CHECK_INT(saved_position(&o, "two"), 2);
  die(&o);
  sim_free(d);
}

TEST(an_entry_has_the_bytes_that_the_documentation_has) {
  uint8_t golden[GOLDEN_MAX];
  size_t size = test_unhex(golden, GOLDEN_D);
  sdm_snapshot_entry e;
  sdm_buf b = SDM_BUF_INIT;
  sdm_snapshot_entry_begin(&b, 0, "k", 1);
  sdm_saved_put(&b, SDM_SAVED_TABLE);
  sdm_saved_put_string(&b, "a", 1);
  sdm_saved_put_whole(&b, 24);
  sdm_saved_put(&b, SDM_SAVED_END);
  sdm_saved_put_string(&b, "x", 1);
  sdm_saved_put_double(&b, 0.5);
  sdm_saved_put(&b, SDM_SAVED_END);
  CHECK_INT((int64_t)b.size, (int64_t)size);
  CHECK(memcmp(b.data, golden, size) == 0);
  CHECK(sdm_snapshot_entry_decode(golden, golden + size, &e) && e.size == size);
  sdm_buf_free(&b);
}

/* ---- hostile bytes: a checksum is no defence against who can write it ---- */

static void put_entry(sdm_buf *out, int i) {
  char key[8];
  sdm_snapshot_entry_begin(out, i % 2, key, snprintf(key, sizeof key, "key%d", i));
  sdm_saved_put(out, SDM_SAVED_TABLE);
  sdm_saved_put_whole(out, i * 1000);
  sdm_saved_put(out, SDM_SAVED_TRUE);
  sdm_saved_put(out, SDM_SAVED_END);
  sdm_saved_put_double(out, 0.5);
  sdm_saved_put(out, SDM_SAVED_TABLE);
  sdm_saved_put(out, SDM_SAVED_END);
  sdm_saved_put(out, SDM_SAVED_END);
  sdm_saved_put_string(out, "name", 4);
  sdm_saved_put(out, SDM_SAVED_FALSE);
  sdm_saved_put(out, SDM_SAVED_END);
}

static void put_file(const opened *o, const uint8_t *bytes, size_t size) {
  char *path = sdm_snapshot_path(o->topic, "", "");
  CHECK_INT(sdm_fs_replace(o->store->env.fs, SIM_ROOT, strrchr(path, '/') + 1, bytes, size), 0);
  sdm_free(path);
}

/* With the right checksum. */
static void put_summed(const opened *o, uint8_t *bytes, size_t size) {
  uint8_t sums[8 * 8];
  size_t n = 0;
  for (size_t at = 0; at < size - 8; at += SDM_SNAPSHOT_BLOCK, n += 8) {
    sdm_put64(sums + n, sdm_hash64(bytes + at, size - 8 - at < SDM_SNAPSHOT_BLOCK ? size - 8 - at : SDM_SNAPSHOT_BLOCK));
  }
  sdm_put64(bytes + size - 8, sdm_hash64(sums, n));
  put_file(o, bytes, size);
}

/* What can be opened can be gone through, and every key that it has is found, or it is told to be damaged. The sanitizer sees what is read behind an end. */
static bool use(opened *o) {
  sdm_snapshot *s;
  sdm_snapshot_entry e, found;
  uint64_t cursor = 0, count = 0, slot, its_slot = 0;
  int rc = sdm_snapshot_open(o->topic, "", &s);
  if (rc < 0) {
    CHECK(rc == SDM_CORRUPT || rc == SDM_UNSUPPORTED);
    return false;
  }
  uint64_t left = sdm_snapshot_left(s);
  while ((rc = sdm_snapshot_next(s, &cursor, &e, &slot)) == 1) {
    char key[64];
    size_t size = (size_t)e.key_size < sizeof key ? (size_t)e.key_size : 0;
    memcpy(key, e.key, size);
    count++;
    rc = sdm_snapshot_find(s, key, size, &found, &its_slot);
    if (rc < 0) break;
    if (size > 0) CHECK_INT(rc, 1);
    sdm_snapshot_drop(s, slot);
    sdm_snapshot_drop(s, slot);
  }
  CHECK(rc == 0 || rc == SDM_CORRUPT);
  CHECK(count <= left);                    /* an entry may have swallowed another */
  sdm_snapshot_free(s);
  return rc == 0;
}

/* The file of the snapshot that the topic has. */
static char *saved_bytes(const opened *o, size_t *size) {
  char *path = sdm_snapshot_path(o->topic, "", ""), *bytes = NULL;
  CHECK_INT(sdm_fs_read_all(o->store->env.fs, path, 100000, &bytes, size), 0);
  sdm_free(path);
  return bytes;
}

static int save_three(opened *o) {
  sdm_snapshot_writer *w = NULL;
  int64_t bytes;
  sdm_snapshot_place places[] = {{5, 5, 0}, {-1, -1, -1}};
  int rc = sdm_snapshot_begin(o->topic, "", &(sdm_snapshot_head){.schema = "schema", .schema_size = 6, .partitions = 2, .count = 3}, places, &w);
  for (int i = 0; rc == 0 && i < 3; i++) {
    sdm_buf entry = SDM_BUF_INIT;
    put_entry(&entry, i);
    rc = sdm_snapshot_add(w, entry.data, entry.size);
    sdm_buf_free(&entry);
  }
  if (rc == 0) rc = sdm_snapshot_commit(w, o->topic, T0, &bytes);
  sdm_snapshot_writer_free(w);
  return rc;
}

TEST(no_byte_that_is_wrong_is_followed) {
  opened o;
  sim_disk *d = sim_new();
  size_t size = 0;
  int accepted = 0;
  if (!open_store(d, &(sdm_settings){0}, &o)) return;
  CHECK_INT(save_three(&o), 0);
  CHECK(use(&o));
  uint8_t *b = (uint8_t *)saved_bytes(&o, &size);
  for (size_t at = 0; at < size - 8; at++) {
    static const uint8_t by[] = {1, 2, 4, 8, 16, 32, 64, 128, 255, 3, 7};
    uint8_t before = b[at];
    for (size_t i = 0; i < sizeof by; i++) {
      b[at] = before ^ by[i];
      put_summed(&o, b, size);
      accepted += use(&o);
    }
    b[at] = before;
  }
  CHECK(accepted > 100);                   /* other numbers and texts are as good as these */
  for (size_t cut = size - 1; cut >= 8; cut--) {
    put_summed(&o, b, cut);
    CHECK(!use(&o));
  }
  sdm_free(b);
  die(&o);
  sim_free(d);
}

/* Entries of all sizes around those of blocks and of pieces that are read ahead. */
TEST(entries_are_as_long_as_they_like) {
  static const int sizes[] = {0, 400, 4080, 4096, 4100, 100000, 262144, 300000, 3, 70000};
  enum { COUNT = sizeof sizes / sizeof *sizes };
  opened o;
  sim_disk *d = sim_new();
  sdm_snapshot_writer *w = NULL;
  sdm_snapshot *s;
  sdm_snapshot_entry e;
  sdm_snapshot_place place = {0, 0, 0};
  uint64_t cursor = 0, slot;
  int64_t bytes;
  char *value = sdm_calloc(1, 300000);
  if (!open_store(d, &(sdm_settings){0}, &o)) return;
  CHECK_INT(sdm_snapshot_begin(o.topic, "", &(sdm_snapshot_head){.schema = "", .partitions = 1, .count = COUNT}, &place, &w), 0);
  for (int i = 0; i < COUNT; i++) {
    sdm_buf entry = SDM_BUF_INIT;
    CHECK_INT(sdm_snapshot_entry_begin(&entry, 0, &"0123456789"[i], 1), 0);
    CHECK_INT(sdm_saved_put_string(&entry, value, (size_t)sizes[i]), 0);
    CHECK_INT(sdm_snapshot_add(w, entry.data, entry.size), 0);
    sdm_buf_free(&entry);
  }
  CHECK_INT(sdm_snapshot_commit(w, o.topic, T0, &bytes), 0);
  sdm_snapshot_writer_free(w);
  CHECK_INT(sdm_snapshot_open(o.topic, "", &s), 0);
  for (int i = COUNT; i-- > 0;) {
    CHECK_INT(sdm_snapshot_find(s, &"0123456789"[i], 1, &e, &slot), 1);
    CHECK((int)e.size >= sizes[i] && (int)e.size < sizes[i] + 20);
  }
  for (int i = 0; i < COUNT; i++) {
    CHECK_INT(sdm_snapshot_next(s, &cursor, &e, &slot), 1);
    CHECK_INT(*e.key, "0123456789"[i]);
  }
  CHECK_INT(sdm_snapshot_next(s, &cursor, &e, &slot), 0);
  sdm_snapshot_free(s);
  sdm_free(value);
  die(&o);
  sim_free(d);
}

/* The head is looked at as the snapshot opens, and the block that it is in with it: so the key that is asked for lies far behind. */
static int save_far(opened *o, char *far) {
  sdm_snapshot_writer *w = NULL;
  sdm_snapshot_place place = {0, 0, 0};
  int64_t bytes;
  int rc = sdm_snapshot_begin(o->topic, "", &(sdm_snapshot_head){.schema = "", .partitions = 1, .count = 2}, &place, &w);
  for (int i = 0; rc == 0 && i < 2; i++) {
    sdm_buf entry = SDM_BUF_INIT;
    rc = sdm_snapshot_entry_begin(&entry, 0, i ? "far" : "near", i ? 3 : 4);
    if (rc == 0) rc = sdm_saved_put_string(&entry, far, 10000);
    if (rc == 0) rc = sdm_snapshot_add(w, entry.data, entry.size);
    sdm_buf_free(&entry);
  }
  if (rc == 0) rc = sdm_snapshot_commit(w, o->topic, T0, &bytes);
  sdm_snapshot_writer_free(w);
  return rc;
}

TEST(what_becomes_of_the_file_is_noticed) {
  opened o;
  sim_disk *d = sim_new();
  sdm_snapshot *s;
  sdm_snapshot_entry e;
  sdm_file *f;
  uint64_t slot;
  char far[10000] = {0};
  if (!open_store(d, &(sdm_settings){0}, &o)) return;
  char *path = sdm_snapshot_path(o.topic, "", "");
  for (int i = 0; i < 3; i++) {
    CHECK_INT(save_far(&o, far), 0);
    CHECK_INT(sdm_snapshot_open(o.topic, "", &s), 0);
    CHECK_INT(sim_fs(d)->open(sim_fs(d), path, SDM_OPEN_WRITE, &f), 0);
    if (i == 0) CHECK_INT(sim_fs(d)->write(f, "!", 1, 15000), 0);
    if (i == 1) CHECK_INT(sim_fs(d)->truncate(f, 15000), 0);
    if (i == 2) CHECK_INT(sim_fs(d)->unlink(sim_fs(d), path), 0);
    sim_fs(d)->close(f);
    CHECK_INT(sdm_snapshot_find(s, "far", 3, &e, &slot), i == 2 ? 1 : SDM_CORRUPT);
    if (i < 2) CHECK(strstr(sdm_errmsg(), "was damaged at position") != NULL);
    sdm_snapshot_free(s);
  }
  sdm_free(path);
  die(&o);
  sim_free(d);
}

TEST(a_value_may_be_so_deep_and_no_deeper) {
  for (int depth = SDM_SAVED_DEPTH - 1; depth <= SDM_SAVED_DEPTH + 1; depth++) {
    sdm_snapshot_entry e;
    sdm_buf b = SDM_BUF_INIT;
    sdm_snapshot_entry_begin(&b, 0, "k", 1);
    for (int i = 0; i < depth; i++) sdm_saved_put(&b, SDM_SAVED_TABLE);
    for (int i = 0; i < 2 * depth; i++) sdm_saved_put(&b, SDM_SAVED_END);
    CHECK_INT(sdm_snapshot_entry_decode(b.data, b.data + b.size, &e), depth <= SDM_SAVED_DEPTH);
    sdm_buf_free(&b);
  }
}

TEST(nan_is_no_key_of_a_table) {
  sdm_snapshot_entry e;
  sdm_buf b = SDM_BUF_INIT;
  sdm_snapshot_entry_begin(&b, 0, "k", 1);
  sdm_saved_put(&b, SDM_SAVED_TABLE);
  sdm_saved_put(&b, SDM_SAVED_END);
  sdm_saved_put_double(&b, (double)NAN);
  sdm_saved_put(&b, SDM_SAVED_TRUE);
  sdm_saved_put(&b, SDM_SAVED_END);
  CHECK(!sdm_snapshot_entry_decode(b.data, b.data + b.size, &e));
  sdm_buf_free(&b);
}

/* ---- crashes ---- */

enum { SEEDS = 4 };                        /* disks that a loss of power may leave, of each kind, at each instant */

typedef struct crashes {
  sim_disk *disk;
  uint64_t mark;
  int old, fresh;
} crashes;

/* The old one or the new one, with which the log agrees. */
static void check_crash(crashes *c, sim_disk *d) {
  opened o;
  sdm_reader *r;
  sdm_record record;
  int64_t end = -1;
  if (!open_store(d, NULL, &o)) return;
  int64_t position = saved_position(&o, NULL);
  c->old += position == 1;
  c->fresh += position == 3;
  CHECK(position == 1 || position == 3);
  CHECK_INT(saved_position(&o, position == 1 ? "one" : "three"), position);
  CHECK_INT(sdm_log_latest(o.log, &end), 0);
  CHECK(end >= position);
  if (CHECK_INT(sdm_reader_open(o.log, position - 1, SDM_TO_END, 0, &r), 0)) {
    CHECK_INT(sdm_reader_next(r, &record), 1);
    CHECK_INT(record.offset, position - 1);          /* what the snapshot tells of was not lost */
    sdm_reader_close(r);
  }
  die(&o);
  sim_free(d);
}

static void crash(crashes *c) {
  check_crash(c, sim_death(c->disk));
  for (uint64_t i = 0; i < SIM_HONEST * SEEDS; i++) check_crash(c, sim_power_loss(c->disk, (sim_profile)(i % SIM_HONEST), c->mark + i));
}

static int crash_before_call(void *context, sim_call call, const char *path, size_t *partial) {
  crashes *c = context;
  (void)call, (void)path, (void)partial;
  if (sim_changed(c->disk, &c->mark)) crash(c);
  return 0;
}

TEST(a_crash_leaves_the_old_one_or_the_new_one_and_none_ahead_of_the_log) {
  crashes c = {.disk = sim_new()};
  opened o;
  if (!open_store(c.disk, &(sdm_settings){0}, &o)) return;
  put(&o, "one");
  CHECK_INT(save(&o, 1, "one"), 0);
  put(&o, "two");
  put(&o, "three");                        /* acknowledged, and not on the disk */
  sim_set_hook(c.disk, crash_before_call, &c);
  CHECK_INT(save(&o, 3, "three"), 0);
  sim_set_hook(c.disk, NULL, NULL);
  CHECK(c.old > 50 && c.fresh > 0);
  c.old = 0;
  crash(&c);
  CHECK_INT(c.old, 0);                     /* it is durable on return */
  die(&o);
  sim_free(c.disk);
}

/* ---- failures ---- */

typedef struct failing {
  int countdown, code;
} failing;

static int fail_call(void *context, sim_call call, const char *path, size_t *partial) {
  failing *f = context;
  (void)path, (void)partial;
  if (call == SIM_UNLINK || f->countdown < 0 || f->countdown-- > 0) return 0;
  return sdm_fail(f->code, "injected");
}

static bool is_unfinished_there(sim_disk *d) {
  sdm_names names = {0};
  bool found = false;
  CHECK_INT(sim_fs(d)->list(sim_fs(d), SIM_ROOT, &names), 0);
  for (size_t i = 0; i < names.count; i++) found = found || strstr(names.items[i], ".tmp");
  sdm_names_clear(&names);
  return found;
}

/* Fails the n-th call; false once there is none. */
static bool fail_at(int n, int code) {
  opened o;
  sim_disk *d = sim_new();
  failing f = {n, code};
  if (!open_store(d, &(sdm_settings){0}, &o)) return false;
  put(&o, "one");
  CHECK_INT(save(&o, 1, "one"), 0);
  put(&o, "two");
  sim_set_hook(d, fail_call, &f);
  int rc = save(&o, 2, "two");
  sim_set_hook(d, NULL, NULL);
  bool failed = f.countdown < 0;
  if (rc < 0) CHECK_INT(rc, code);
  else CHECK_INT(saved_position(&o, "two"), 2);
  int64_t position = saved_position(&o, NULL);
  CHECK(position == 1 || position == 2);
  CHECK(!is_unfinished_there(d));
  die(&o);
  sim_free(d);
  return failed;
}

static void fail_everywhere(int code) {
  int n = 0;
  while (n < 200 && fail_at(n, code)) n++;
  CHECK(n > 5 && n < 200);
}

TEST(a_failing_disk_leaves_the_old_one) { fail_everywhere(SDM_IO); }
TEST(a_full_disk_leaves_the_old_one) { fail_everywhere(SDM_DISK_FULL); }

/* ---- memory ---- */

typedef struct memory {
  int countdown;
} memory;

static void *allocate(void *context, void *old, size_t size) {
  memory *m = context;
  if (size == 0) {
    free(old);
    return NULL;
  }
  if (m->countdown >= 0 && m->countdown-- == 0) return NULL;
  return realloc(old, size);
}

TEST(short_memory_is_told) {
  opened o;
  memory m = {-1};
  sdm_set_allocator(allocate, &m);
  sim_disk *d = sim_new();
  int n = 0;
  bool failed = true;
  if (!open_store(d, &(sdm_settings){0}, &o)) return;
  for (; failed && n < 500; n++) {
    sdm_snapshot *s = NULL;
    m.countdown = n;
    int rc = save(&o, 1, "one");
    if (rc == 0) rc = sdm_snapshot_open(o.topic, "", &s);
    failed = m.countdown < 0;
    m.countdown = -1;
    if (rc < 0) CHECK_INT(rc, SDM_NO_MEMORY);
    sdm_snapshot_free(s);
  }
  CHECK(n > 5 && n < 500);
  die(&o);
  sim_free(d);
  sdm_set_allocator(NULL, NULL);
}
