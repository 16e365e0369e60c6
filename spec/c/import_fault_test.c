/* An import whose disk or memory fails, or whose process dies, at each of its steps: afterwards the partition is there, whole, or there is no sign of it,
** and the same import works.
*/
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "log/reader.h"
#include "faults.h"
#include "test.h"

enum { RECORDS = 30, NOW = 1700000000 };

static char root[256], source[300], target[300];

static void remove_target(void) {
  char line[1200];
  snprintf(line, sizeof line, "rm -rf '%s'", target);
  CHECK_INT(system(line), 0);
}

static sdm_store *open_store(const char *path) {
  sdm_store *s = NULL;
  CHECK_INT(sdm_store_open(path, &(sdm_store_options){.create = true}, NOW, &s), 0);
  return s;
}

static void append(sdm_topic *t, int i) {
  char key[16];
  int64_t offset;
  int32_t where;
  sdm_record r = {.key = key, .key_size = snprintf(key, sizeof key, "%d", i), .value_size = -1, .timestamp = NOW};
  CHECK_INT(sdm_topic_append(t, &r, 0, 0, NOW, &offset, &where), 0);
  CHECK_INT(offset, i);
}

/* Three segments of a store that is closed; made once. */
static void make_source(void) {
  if (*root) return;
  sdm_topic *t;
  sdm_log *l;
  int64_t base;
  const char *folder = getenv("TMPDIR");
  snprintf(root, sizeof root, "%s/sediment-import.XXXXXX", folder ? folder : "/tmp");
  if (!CHECK(mkdtemp(root))) exit(1);
  snprintf(source, sizeof source, "%s/source", root);
  snprintf(target, sizeof target, "%s/target", root);
  sdm_store *s = open_store(source);
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){0}, NOW, &t), 0);
  CHECK_INT(sdm_topic_log(t, 0, NOW, &l), 0);
  for (int i = 0; i < RECORDS; i++) {
    append(t, i);
    if (i % 10 == 9 && i + 1 < RECORDS) CHECK_INT(sdm_log_roll(l, NOW, &base), 0);
  }
  sdm_topic_release(t);
  CHECK_INT(sdm_store_close(s, NOW), 0);
  strcat(source, "/t-0");
}

static int import(sdm_store *s) {
  sdm_import_report report = {0};
  int rc = sdm_store_import(s, "t", source, &(sdm_import_options){.abort_open = true}, NOW, &report);
  if (rc == 0) CHECK_INT(report.log_end, RECORDS);
  return rc;
}

/* 1: the topic has the partition, whole. 0: it has none, or an empty one. */
static int state(sdm_store *s) {
  sdm_topic *t;
  sdm_log *l;
  sdm_reader *r;
  sdm_record record;
  int64_t end = -1;
  int n = 0;
  int rc = sdm_topic_open(s, "t", NULL, NOW, &t);
  if (rc == SDM_UNKNOWN_TOPIC) return 0;
  if (!CHECK_INT(rc, 0)) return -1;
  CHECK_INT(sdm_topic_log(t, 0, NOW, &l), 0);
  CHECK_INT(sdm_log_latest(l, &end), 0);
  if (end > 0 && CHECK_INT(sdm_reader_open(l, 0, SDM_TO_END, 0, &r), 0)) {
    while (sdm_reader_next(r, &record) == 1) CHECK_INT(record.offset, n++);
    CHECK_INT(n, RECORDS);
    sdm_reader_close(r);
  }
  sdm_topic_release(t);
  return end > 0;
}

static void make_empty_topic(sdm_store *s) {
  sdm_topic *t;
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){0}, NOW, &t), 0);
  sdm_topic_release(t);
}

/* No folder but the partition's, no mark in it. */
static void check_folders(void) {
  char line[1200];
  snprintf(line, sizeof line, "test \"$(cd '%s' && echo *-[0-9]* */sediment.deleted)\" = 't-0 */sediment.deleted'", target);
  CHECK_INT(system(line), 0);
}

static void finish_with(sdm_store *s, int there) {
  sdm_maintain_report report;
  CHECK_INT(state(s), there);
  if (!there) CHECK_INT(import(s), 0);
  CHECK_INT(sdm_store_maintain(s, NOW, &report), 0);
  CHECK_INT(state(s), 1);
  CHECK_INT(sdm_store_close(s, NOW), 0);
}

static void finish(sdm_store *s, int there) {
  finish_with(s, there);
  check_folders();
}

/* Fails the n-th call; false once there is no n-th call. */
static bool fail_at(int n, int code, bool empty) {
  remove_target();
  sdm_store *s = open_store(target);
  if (empty) make_empty_topic(s);
  faults_use(s, code, n);
  int rc = import(s);
  bool reached = faults_end(s);
  if (reached && rc != 0) CHECK_INT(rc, code);
  if (!reached) CHECK_INT(rc, 0);
  finish(s, rc == 0);
  return reached;
}

static void fail_everywhere(int code, bool empty) {
  int n = 0;
  make_source();
  while (n < 2000 && fail_at(n, code, empty)) n++;
  CHECK(n > 50 && n < 2000);
}

TEST(a_failing_disk_leaves_no_sign) { fail_everywhere(SDM_IO, false); }
TEST(a_full_disk_leaves_the_empty_partition) { fail_everywhere(SDM_DISK_FULL, true); }

static bool die_at(int n, bool empty, int *whole) {
  remove_target();
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sdm_store *s = open_store(target);
    if (empty) make_empty_topic(s);
    faults_use(s, 0, n);
    import(s);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  sdm_store *s = open_store(target);
  int there = state(s);
  *whole += there;
  finish(s, there);
  return WIFEXITED(status) && WEXITSTATUS(status) == FAULT_DIED;
}

static void die_everywhere(bool empty) {
  int n = 0, whole = 0;
  make_source();
  while (n < 2000 && die_at(n, empty, &whole)) n++;
  CHECK(n > 50 && n < 2000);
  CHECK(whole > 0 && whole < n);
}

TEST(a_death_leaves_the_whole_or_no_sign) { die_everywhere(false); }
TEST(a_death_leaves_the_whole_or_the_empty_partition) { die_everywhere(true); }

/* ---- beside others, who have the empty partition open ---- */

static int64_t latest(sdm_topic *t) {
  sdm_log *l;
  int64_t end = -1;
  if (CHECK_INT(sdm_topic_log(t, 0, NOW, &l), 0)) CHECK_INT(sdm_log_latest(l, &end), 0);
  return end;
}

static bool die_beside_at(int n, int *whole) {
  sdm_store *s, *reading = NULL;
  sdm_topic *t, *read = NULL;
  remove_target();
  s = open_store(target);
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){0}, NOW, &t), 0);
  CHECK_INT(sdm_store_open(target, &(sdm_store_options){.readonly = true}, NOW, &reading), 0);
  CHECK_INT(sdm_topic_open(reading, "t", NULL, NOW, &read), 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sdm_store *own = open_store(target);
    faults_use(own, 0, n);
    import(own);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  int64_t end = latest(t), read_end = latest(read);        /* who may write makes a folder anew that is missing */
  CHECK(end == 0 || end == RECORDS);
  CHECK_INT(read_end, end);
  *whole += end > 0;
  sdm_topic_release(read);
  CHECK_INT(sdm_store_close(reading, NOW), 0);
  sdm_topic_release(t);
  finish_with(s, end > 0);
  CHECK_INT(sdm_store_close(open_store(target), NOW), 0);        /* a mark that was made last may have the machine's time: it goes when it is due, or now */
  check_folders();
  return WIFEXITED(status) && WEXITSTATUS(status) == FAULT_DIED;
}

TEST(a_death_leaves_the_others_the_whole_or_the_empty_partition) {
  int n = 0, whole = 0;
  make_source();
  while (n < 2000 && die_beside_at(n, &whole)) n++;
  CHECK(n > 50 && n < 2000);
  CHECK(whole > 0 && whole < n);
}

TEST(short_memory_leaves_no_sign) {
  int n = 0, rc = SDM_NO_MEMORY;
  make_source();
  for (; n < 3000 && rc != 0; n++) {
    remove_target();
    sdm_store *s = open_store(target);
    int left = n;
    sdm_set_allocator(test_short_memory, &left);
    rc = import(s);
    sdm_set_allocator(NULL, NULL);
    if (rc != 0) CHECK_INT(rc, SDM_NO_MEMORY);
    finish(s, rc == 0);
  }
  CHECK(n > 50 && n < 3000);
}

__attribute__((destructor)) static void end(void) {
  char line[300];
  snprintf(line, sizeof line, "rm -rf '%s'", root);
  if (*root && system(line) != 0) perror(root);
}
