#define TEST_HELPER
#include "log_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/xxh.h"
#include "log/retired.h"
#include "log/swap.h"
#include "test.h"

struct fixture_faults fixture_faults;

/* ---- a disk with faults ---- */

static bool faulty(const sdm_file *f) {
  return (!fixture_faults.only || strstr(f->path, fixture_faults.only)) && fixture_faults.skip-- <= 0;
}

static int fault_write(sdm_file *f, const void *bytes, size_t size, int64_t position) {
  if (!fixture_faults.write_code || !faulty(f)) return sdm_fs_posix()->write(f, bytes, size, position);
  size_t some = (int64_t)size <= fixture_faults.write_limit ? size - (size > 0) : (size_t)fixture_faults.write_limit;
  if (some) sdm_fs_posix()->write(f, bytes, some, position);
  return sdm_fail(fixture_faults.write_code, "write %s: injected", f->path);
}

static int fault_sync(sdm_file *f) {
  if (!fixture_faults.sync_code || !faulty(f)) return 0;       /* no test here loses power for real: syncing would only take time */
  return sdm_fail(fixture_faults.sync_code, "sync %s: injected", f->path);
}

static int fault_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  (void)fs, (void)path, (void)lost;
  for (int i = 0; i < fixture_faults.yields; i++) sched_yield();
  return 0;
}

/* ---- life ---- */

void fixture_defaults(sdm_log_config *cfg) {
  *cfg = (sdm_log_config){
    .cleanup_policy = SDM_POLICY_DELETE, .segment_bytes = 1 << 30, .segment_ms = 604800000, .segment_index_bytes = 10485760,
    .index_interval_bytes = 4096, .retention_bytes = -1, .retention_ms = 604800000, .file_delete_delay_ms = 60000,
    .delete_retention_ms = 86400000, .max_compaction_lag_ms = INT64_MAX, .min_cleanable_dirty_ratio = 0.5, .max_message_bytes = 1048588,
    .timestamp_before_max_ms = INT64_MAX, .timestamp_after_max_ms = 3600000, .compression_type = SDM_COMPRESSION_PRODUCER,
    .flush_messages = INT64_MAX, .flush_ms = INT64_MAX,
  };
}

/* What a store writes into its own control page, for those who only read. */
static void write_root_page(fixture *f) {
  struct { char magic[8]; uint32_t version, size; uint8_t boot_id[SDM_BOOT_ID]; uint64_t incarnation; } head = {SDM_STORE_PAGE_MAGIC, 1, 4096, {0}, f->env.incarnation};
  char path[512];
  sdm_file *file;
  memcpy(head.boot_id, f->env.boot_id, SDM_BOOT_ID);
  snprintf(path, sizeof path, "%s/%s", f->env.root, SDM_CONTROL_NAME);
  if (!CHECK_INT(f->env.fs->open(f->env.fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &file), 0)) return;
  CHECK_INT(sdm_fs_posix()->write(file, &head, sizeof head, 0), 0);
  f->env.fs->close(file);
}

void fixture_begin(fixture *f) {
  const char *tmp = getenv("TMPDIR");
  *f = (fixture){.now = FIXTURE_T0};
  memset(&fixture_faults, 0, sizeof fixture_faults);
  snprintf(f->root, sizeof f->root, "%s/log.XXXXXX", tmp ? tmp : "/tmp");
  if (!CHECK(mkdtemp(f->root) != NULL)) abort();
  snprintf(f->dir, sizeof f->dir, "%s/" FIXTURE_TOPIC "-0", f->root);
  f->fs = *sdm_fs_posix();
  f->fs.write = fault_write;
  f->fs.sync = fault_sync;
  f->fs.sync_dir = fault_sync_dir;
  CHECK_INT(f->fs.make_dir(&f->fs, f->dir), 0);
  f->checkpoint_lock = mmap(NULL, sizeof *f->checkpoint_lock, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (f->checkpoint_lock == MAP_FAILED || sdm_shared_mutex_init(f->checkpoint_lock) < 0) abort();
  f->env = (sdm_env){
    .fs = &f->fs, .root = f->root, .writable = true, .boot_id = {1}, .incarnation = 1, .checkpoint_lock = f->checkpoint_lock,
    .linger_ms = INT64_MAX, .batch_size = SDM_STAGE_BYTES,
  };
  fixture_defaults(&f->cfg);
  write_root_page(f);
}

bool fixture_open(fixture *f) {
  char dir[512];
  snprintf(dir, sizeof dir, "%s/%s-0", f->env.root, FIXTURE_TOPIC);
  int rc = f->env.fs->make_dir(f->env.fs, dir);
  if (rc == 0) rc = sdm_log_open(&f->env, FIXTURE_TOPIC, 0, &f->cfg, f->now, &f->log);
  if (rc < 0) printf("open: %s\n", sdm_errmsg());
  return CHECK_INT(rc, 0);
}

void fixture_crash(fixture *f) {
  sdm_log_unref(f->log);
  f->log = NULL;
  f->env.incarnation += 2;                 /* even ones are of unfinished recoveries */
  write_root_page(f);
}

void fixture_power_loss(fixture *f) {
  fixture_crash(f);
  f->env.boot_id[0]++;
}

bool fixture_close(fixture *f) {
  int rc = sdm_log_close_clean(f->log, &f->cfg, f->now);
  if (rc < 0) printf("close: %s\n", sdm_errmsg());
  fixture_crash(f);
  return CHECK_INT(rc, 0);
}

static void remove_folder(const char *dir) {
  sdm_names names = {0};
  sdm_fs *fs = sdm_fs_posix();
  if (fs->list(fs, dir, &names) < 0) return;
  for (size_t i = 0; i < names.count; i++) {
    char *path = sdm_format("%s/%s", dir, names.items[i]);
    sdm_file_info info;
    if (fs->path_info(fs, path, &info) == 0 && info.directory) remove_folder(path);
    else fs->unlink(fs, path);
    sdm_free(path);
  }
  sdm_names_clear(&names);
  fs->remove_dir(fs, dir);
}

void fixture_end(fixture *f) {
  sdm_log_unref(f->log);
  remove_folder(f->root);
  munmap(f->checkpoint_lock, sizeof *f->checkpoint_lock);
  sdm_buf_free(&f->scratch);
  free(f->model);
  memset(&fixture_faults, 0, sizeof fixture_faults);
}

/* ---- records ---- */

void fixture_fill(uint8_t *out, uint32_t seed, int32_t size, int salt) {
  uint32_t x = seed * 2654435761u + (uint32_t)salt * 40503u + 1;
  for (int32_t i = 0; i < size; i++) {
    out[i] = (uint8_t)(x >> 24);
    x = x * 1664525u + 1013904223u;
  }
}

void fixture_note(fixture *f, int64_t offset, uint32_t seed, int32_t key_size, int32_t value_size, int64_t timestamp) {
  if (f->count == f->capacity) {
    f->capacity = f->capacity ? 2 * f->capacity : 64;
    f->model = realloc(f->model, f->capacity * sizeof *f->model);
    if (!f->model) abort();
  }
  f->model[f->count++] = (fixture_record){offset, timestamp, key_size, value_size, seed};
}

void fixture_forget(fixture *f, int64_t offset) {
  while (f->count > 0 && f->model[f->count - 1].offset >= offset) f->count--;
}

static sdm_record make(uint8_t *room, uint32_t seed, int32_t key_size, int32_t value_size, int64_t timestamp) {
  if (key_size > 0) fixture_fill(room, seed, key_size, 0);
  uint8_t *value = room + (key_size > 0 ? key_size : 0);
  if (value_size > 0) fixture_fill(value, seed, value_size, 1);
  return (sdm_record){
    .offset = 987654321987,               /* ignored, says sediment.h */
    .timestamp = timestamp, .key = key_size < 0 ? NULL : room, .value = value_size < 0 ? NULL : value,
    .key_size = key_size, .value_size = value_size,
  };
}

static size_t room_for(int32_t key_size, int32_t value_size) {
  return (size_t)(key_size > 0 ? key_size : 0) + (size_t)(value_size > 0 ? value_size : 0) + 1;
}

int fixture_put(fixture *f, uint32_t seed, int32_t key_size, int32_t value_size, int64_t timestamp) {
  uint8_t *room = malloc(room_for(key_size, value_size));
  sdm_record r = make(room, seed, key_size, value_size, timestamp);
  sdm_append a = {.records = &r, .count = 1, .scratch = &f->scratch};
  int64_t first, last, end = atomic_load(&f->log->control->log_end);
  int rc = sdm_log_append(f->log, &f->cfg, &a, f->now, &first, &last);
  free(room);
  if (rc < 0) return rc;
  CHECK_INT(first, end);
  CHECK_INT(last, end);
  fixture_note(f, first, seed, key_size, value_size, f->cfg.log_append_time ? f->now : timestamp);
  return 0;
}

int fixture_add(fixture *f, uint32_t seed) { return fixture_put(f, seed, 4, 20, f->now); }

int fixture_put_batch(fixture *f, uint32_t seed, size_t count, int32_t value_size, int64_t timestamp) {
  enum { KEY = 5 };
  size_t each = room_for(KEY, value_size);
  uint8_t *room = malloc(count * each + 1);
  sdm_record *records = calloc(count + 1, sizeof *records);
  for (size_t i = 0; i < count; i++) records[i] = make(room + i * each, seed + (uint32_t)i, KEY, value_size, timestamp + (int64_t)i);
  sdm_append a = {.records = records, .count = count, .own_batch = true, .scratch = &f->scratch};
  int64_t first, last, end = atomic_load(&f->log->control->log_end);
  int rc = sdm_log_append(f->log, &f->cfg, &a, f->now, &first, &last);
  free(room);
  free(records);
  if (rc < 0) return rc;
  CHECK_INT(first, end);
  CHECK_INT(last, end + (int64_t)count - 1);
  for (size_t i = 0; i < count; i++) {
    fixture_note(f, first + (int64_t)i, seed + (uint32_t)i, KEY, value_size, f->cfg.log_append_time ? f->now : timestamp + (int64_t)i);
  }
  return 0;
}

static bool bytes_are(const void *bytes, int32_t size, uint32_t seed, int32_t expected, int salt) {
  uint8_t *want = malloc((size_t)(expected > 0 ? expected : 0) + 1);
  fixture_fill(want, seed, expected, salt);
  bool ok = size == expected && (size < 0 ? !bytes : memcmp(bytes, want, (size_t)size) == 0);
  free(want);
  return ok;
}

bool fixture_is(const sdm_record *r, const fixture_record *e) {
  return r->offset == e->offset && r->timestamp == e->timestamp && bytes_are(r->key, r->key_size, e->seed, e->key_size, 0) &&
         bytes_are(r->value, r->value_size, e->seed, e->value_size, 1);
}

bool fixture_check_rest(fixture *f, sdm_reader *r) {
  size_t i = 0;
  sdm_record record;
  int rc;
  while (i < f->count && f->model[i].offset < sdm_reader_position(r)) i++;
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    if (!CHECK(i < f->count)) return false;
    if (!CHECK_INT(record.offset, f->model[i].offset) || !CHECK(fixture_is(&record, &f->model[i]))) return false;
    i++;
  }
  if (rc < 0) printf("read: %s\n", sdm_errmsg());
  return CHECK_INT(rc, 0) && CHECK_INT(i, f->count);
}

bool fixture_check_from(fixture *f, sdm_log *l, int64_t from) {
  sdm_reader *r;
  int rc = sdm_reader_open(l, from, SDM_TO_END, 0, &r);
  if (rc < 0) printf("reader: %s\n", sdm_errmsg());
  if (!CHECK_INT(rc, 0)) return false;
  bool ok = fixture_check_rest(f, r);
  sdm_reader_close(r);
  if (!ok) printf("... reading from %lld\n", (long long)from);
  return ok;
}

bool fixture_check_all(fixture *f) {
  int64_t start, end;
  if (!CHECK_INT(sdm_log_earliest(f->log, &start), 0) || !CHECK_INT(sdm_log_latest(f->log, &end), 0)) return false;
  if (!fixture_check_from(f, f->log, start) || !fixture_check_from(f, f->log, end)) return false;
  for (size_t i = 0; i < f->count; i++) {
    if (f->model[i].offset >= start && !fixture_check_from(f, f->log, f->model[i].offset)) return false;
  }
  return true;
}

/* ---- retention, cleaning ---- */

void fixture_retire(fixture *f, int64_t base) {
  sdm_segment **segments;
  size_t count;
  CHECK_INT(sdm_log_set_start(f->log, base), 0);
  CHECK_INT(sdm_log_lock(f->log), 0);
  CHECK_INT(sdm_log_sync_locked(f->log), 0);
  CHECK_INT(sdm_log_segment_refs(f->log, base, &segments, &count), 0);
  for (size_t i = 0; i < count; i++) CHECK_INT(sdm_retire(f->log, segments[i], f->now), 0);
  CHECK_INT(sdm_log_edit_segments(f->log, 0, base, NULL), 0);
  sdm_log_unlock(f->log);
  sdm_segments_unref(segments, count);
}

/* A cleaning that drops nothing: the segments of [from, to) in one. */
void fixture_swap(fixture *f, int64_t from, int64_t to) {
  sdm_segment **segments;
  size_t count, size;
  char name[64];
  sdm_buf all = SDM_BUF_INIT;
  CHECK_INT(sdm_log_segment_refs(f->log, to, &segments, &count), 0);
  for (size_t i = 0; i < count; i++) {
    if (segments[i]->base_offset < from) continue;
    snprintf(name, sizeof name, "%020lld.log", (long long)segments[i]->base_offset);
    uint8_t *bytes = fixture_read(f, name, &size);
    sdm_buf_append(&all, bytes, size);
    sdm_free(bytes);
  }
  sdm_segments_unref(segments, count);
  static const char *const kinds[] = {"log", "index", "timeindex"};
  for (int k = 0; k < 3; k++) {
    snprintf(name, sizeof name, "%020lld.%s.cleaned", (long long)from, kinds[k]);
    fixture_write(f, name, k ? (const void *)"" : all.data, k ? 0 : all.size, -1);
  }
  sdm_buf_free(&all);
  CHECK_INT(sdm_log_lock(f->log), 0);
  CHECK_INT(sdm_swap_locked(f->log, from, to, f->now), 0);
  sdm_log_unlock(f->log);
}

int64_t fixture_base(fixture *f, size_t i) {
  sdm_segment **segments;
  size_t count;
  CHECK_INT(sdm_log_segment_refs(f->log, INT64_MAX, &segments, &count), 0);
  int64_t base = segments[i < count ? i : count - 1]->base_offset;
  sdm_segments_unref(segments, count);
  return base;
}

/* ---- files ---- */

static char *path_of(const fixture *f, const char *name) {
  char *path = sdm_format("%s/%s", f->dir, name);
  if (!path) abort();
  return path;
}

uint8_t *fixture_read(const fixture *f, const char *name, size_t *size) {
  char *path = path_of(f, name), *bytes = NULL;
  *size = 0;
  if (sdm_fs_read_all(sdm_fs_posix(), path, 1 << 30, &bytes, size) < 0) bytes = NULL;
  sdm_free(path);
  return (uint8_t *)bytes;
}

void fixture_write(const fixture *f, const char *name, const void *bytes, size_t size, int64_t position) {
  char *path = path_of(f, name);
  int fd = open(path, O_WRONLY | O_CREAT | (position < 0 ? O_TRUNC : 0), 0666);
  CHECK_INT(pwrite(fd, bytes, size, position < 0 ? 0 : (off_t)position), size);
  close(fd);
  sdm_free(path);
}

int64_t fixture_size(const fixture *f, const char *name) {
  char *path = path_of(f, name);
  sdm_file_info info;
  int rc = sdm_fs_posix()->path_info(sdm_fs_posix(), path, &info);
  sdm_free(path);
  return rc < 0 ? -1 : info.size;
}

void fixture_remove(const fixture *f, const char *name) {
  char *path = path_of(f, name);
  CHECK_INT(unlink(path), 0);
  sdm_free(path);
}

void fixture_rename(const fixture *f, const char *from, const char *to) {
  char *a = path_of(f, from), *b = path_of(f, to);
  CHECK_INT(rename(a, b), 0);
  sdm_free(a);
  sdm_free(b);
}

void fixture_truncate(const fixture *f, const char *name, int64_t size) {
  char *path = path_of(f, name);
  CHECK_INT(truncate(path, (off_t)size), 0);
  sdm_free(path);
}

static bool ends_with(const char *s, const char *suffix) {
  size_t a = strlen(s), b = strlen(suffix);
  return a >= b && strcmp(s + a - b, suffix) == 0;
}

char *fixture_names(const fixture *f, const char *suffix) {
  sdm_names names = {0};
  sdm_buf text = SDM_BUF_INIT;
  sdm_fs_posix()->list(sdm_fs_posix(), f->dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    if (ends_with(names.items[i], suffix)) sdm_buf_printf(&text, "%s%s", text.size ? " " : "", names.items[i]);
  }
  sdm_names_clear(&names);
  sdm_buf_append(&text, "", 1);
  return (char *)text.data;
}

uint64_t fixture_digest(const fixture *f) {
  sdm_names names = {0};
  uint64_t digest = 0;
  sdm_fs_posix()->list(sdm_fs_posix(), f->dir, &names);
  for (size_t i = 0; i < names.count; i++) {
    size_t size;
    if (strncmp(names.items[i], "sediment.", 9) == 0) continue;
    uint8_t *bytes = fixture_read(f, names.items[i], &size);
    digest = digest * 31 + sdm_hash64(names.items[i], strlen(names.items[i]));
    digest = digest * 31 + sdm_hash64(bytes, size);
    sdm_free(bytes);
  }
  sdm_names_clear(&names);
  return digest;
}

/* ---- what the files say ---- */

size_t fixture_batches(const fixture *f, const char *name, fixture_batch *out, size_t room) {
  size_t size, n = 0;
  uint8_t *bytes = fixture_read(f, name, &size);
  for (size_t at = 0; bytes && at < size;) {
    sdm_batch b;
    if (!CHECK_INT(sdm_batch_decode(bytes + at, size - at, &b), 0) || !CHECK((size_t)b.size <= size - at)) break;
    CHECK(sdm_batch_crc_ok(bytes + at, &b));
    if (n < room) out[n] = (fixture_batch){(int64_t)at, b};
    n++;
    at += (size_t)b.size;
  }
  sdm_free(bytes);
  return n;
}

typedef struct expected_indexes {
  uint8_t index[1 << 16], timeindex[1 << 16];
  size_t index_size, timeindex_size;
  int64_t newest, newest_offset, last_time;
} expected_indexes;

static void expect_time(expected_indexes *x, int64_t base) {
  if (x->newest <= x->last_time) return;
  sdm_timeindex_entry t = {x->newest, x->newest_offset};
  sdm_timeindex_encode(x->timeindex + x->timeindex_size, &t, base);
  x->timeindex_size += SDM_TIMEINDEX_ENTRY;
  x->last_time = x->newest;
}

bool fixture_check_indexes(const fixture *f, int64_t base, int64_t interval, bool final) {
  static fixture_batch batches[4096];
  static expected_indexes x;
  char name[64];
  size_t size;
  int64_t since = 0;
  snprintf(name, sizeof name, "%020lld.log", (long long)base);
  size_t n = fixture_batches(f, name, batches, 4096);
  x = (expected_indexes){.newest = -1, .last_time = -1};
  for (size_t i = 0; i < n && i < 4096; i++) {
    const sdm_batch *b = &batches[i].b;
    if (b->max_timestamp > x.newest) {
      x.newest = b->max_timestamp;
      x.newest_offset = sdm_batch_last_offset(b);
    }
    if (since > interval) {
      sdm_index_entry e = {sdm_batch_last_offset(b), batches[i].position};
      sdm_index_encode(x.index + x.index_size, &e, base);
      x.index_size += SDM_INDEX_ENTRY;
      expect_time(&x, base);
      since = 0;
    }
    since += b->size;
  }
  if (final) expect_time(&x, base);
  snprintf(name, sizeof name, "%020lld.index", (long long)base);
  uint8_t *bytes = fixture_read(f, name, &size);
  bool ok = CHECK_BYTES(bytes, size, x.index, x.index_size);
  sdm_free(bytes);
  snprintf(name, sizeof name, "%020lld.timeindex", (long long)base);
  bytes = fixture_read(f, name, &size);
  ok = CHECK_BYTES(bytes, size, x.timeindex, x.timeindex_size) && ok;
  sdm_free(bytes);
  return ok;
}

static const sdm_batch *batch_ending_at(const fixture_batch *batches, size_t n, int64_t last_offset, int64_t *position) {
  for (size_t i = 0; i < n; i++) {
    if (sdm_batch_last_offset(&batches[i].b) != last_offset) continue;
    *position = batches[i].position;
    return &batches[i].b;
  }
  return NULL;
}

bool fixture_check_entries(const fixture *f, int64_t base) {
  static fixture_batch batches[4096];
  char name[64];
  size_t size;
  int64_t position, before = -1;
  bool ok = true;
  snprintf(name, sizeof name, "%020lld.log", (long long)base);
  size_t n = fixture_batches(f, name, batches, 4096);
  snprintf(name, sizeof name, "%020lld.index", (long long)base);
  uint8_t *bytes = fixture_read(f, name, &size);
  for (size_t at = 0; at < size; at += SDM_INDEX_ENTRY) {
    sdm_index_entry e;
    sdm_index_decode(bytes + at, base, &e);
    ok = CHECK(batch_ending_at(batches, n, e.offset, &position)) && CHECK_INT(e.position, position) && CHECK(e.offset > before) && ok;
    before = e.offset;
  }
  sdm_free(bytes);
  snprintf(name, sizeof name, "%020lld.timeindex", (long long)base);
  bytes = fixture_read(f, name, &size);
  before = -1;
  for (size_t at = 0; at < size; at += SDM_TIMEINDEX_ENTRY) {
    sdm_timeindex_entry t;
    sdm_timeindex_decode(bytes + at, base, &t);
    const sdm_batch *b = batch_ending_at(batches, n, t.offset, &position);
    ok = CHECK(b) && CHECK_INT(b->max_timestamp, t.timestamp) && CHECK(t.timestamp > before) && ok;
    before = t.timestamp;
  }
  sdm_free(bytes);
  return ok;
}
