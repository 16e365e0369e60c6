/* A topic is made, or given more partitions, on a disk or in a memory that fails, or by a process that dies, at each of its steps: afterwards all is as it was, or
** as it was to be; the partitions that there were are open, and the same call works. The faulty process has the store to itself.
*/
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "faults.h"
#include "test.h"

enum { NOW = 1700000000, PARTITIONS = 3, CALLS_MAX = 2000 };

static char root[256], target[300];

static void remove_target(void) {
  const char *folder = getenv("TMPDIR");
  char line[700];
  if (!*root) {
    snprintf(root, sizeof root, "%s/sediment-creation.XXXXXX", folder ? folder : "/tmp");
    if (!CHECK(mkdtemp(root))) exit(1);
    snprintf(target, sizeof target, "%s/store", root);
  }
  snprintf(line, sizeof line, "rm -rf '%s'", target);
  CHECK_INT(system(line), 0);
}

static sdm_store *open_store(void) {
  sdm_store *s = NULL;
  CHECK_INT(sdm_store_open(target, &(sdm_store_options){.create = true}, NOW, &s), 0);
  return s;
}

static int define(sdm_store *s, int partitions) {
  sdm_topic *t = NULL;
  sdm_setting item = {"partitions", {.type = SDM_VALUE_INT, .integer = partitions}};
  int rc = sdm_topic_open(s, "t", &(sdm_settings){&item, 1}, NOW, &t);
  if (rc == 0) sdm_topic_release(t);
  return rc;
}

static int alter(sdm_store *s, int partitions) {
  sdm_topic *t = NULL;
  sdm_setting item = {"partitions", {.type = SDM_VALUE_INT, .integer = partitions}};
  int rc = sdm_topic_open(s, "t", NULL, NOW, &t);
  if (rc == 0) rc = sdm_topic_alter(t, &(sdm_settings){&item, 1}, NULL, 0, NOW);
  sdm_topic_release(t);
  return rc;
}

static void append(sdm_store *s) {
  sdm_topic *t;
  int64_t offset;
  int32_t where;
  sdm_record r = {.key = "k", .key_size = 1, .value = "v", .value_size = 1, .timestamp = NOW};
  CHECK_INT(sdm_topic_open(s, "t", NULL, NOW, &t), 0);
  CHECK_INT(sdm_topic_append(t, &r, 0, 0, NOW, &offset, &where), 0);
  CHECK_INT(offset, 0);
  sdm_topic_release(t);
}

/* How many partitions the topic has, each of which has what it should; 0: there is no topic. */
static int partitions_of(sdm_store *s, bool grown) {
  sdm_topic *t;
  sdm_log *l;
  int rc = sdm_topic_open(s, "t", NULL, NOW, &t);
  if (rc == SDM_UNKNOWN_TOPIC) return 0;
  if (!CHECK_INT(rc, 0)) return -1;
  int count = sdm_topic_partitions(t);
  for (int p = 0; p < count; p++) {
    int64_t end = -1;
    if (CHECK_INT(sdm_topic_log(t, p, NOW, &l), 0)) CHECK_INT(sdm_log_latest(l, &end), 0);
    CHECK_INT(end, grown && p == 0);
  }
  sdm_topic_release(t);
  return count;
}

/* No folder but the partitions', no mark in them. */
static void check_folders(void) {
  char line[700];
  snprintf(line, sizeof line, "test \"$(cd '%s' && echo *-[0-9]* */sediment.deleted)\" = 't-0 t-1 t-2 */sediment.deleted'", target);
  CHECK_INT(system(line), 0);
}

/* A new topic, or one partition with a record that becomes three. */
typedef struct way {
  bool grown;
  int (*call)(sdm_store *s, int partitions);
} way;

static sdm_store *begin(const way *w) {
  remove_target();
  sdm_store *s = open_store();
  if (!w->grown) return s;
  CHECK_INT(define(s, 1), 0);
  append(s);
  return s;
}

static void finish(const way *w, sdm_store *s, int there) {
  sdm_maintain_report report;
  CHECK_INT(partitions_of(s, w->grown), there);
  CHECK_INT(define(s, PARTITIONS), 0);
  CHECK_INT(partitions_of(s, w->grown), PARTITIONS);
  CHECK_INT(sdm_store_maintain(s, NOW, &report), 0);
  CHECK_INT(report.failed, 0);
  CHECK_INT(sdm_store_close(s, NOW), 0);
  CHECK_INT(sdm_store_close(open_store(), NOW), 0);
  check_folders();
}

static bool fail_at(const way *w, int n, int code) {
  sdm_store *s = begin(w);
  faults_use(s, code, n);
  int rc = w->call(s, PARTITIONS);
  bool reached = faults_end(s);
  if (rc != 0) CHECK_INT(rc, code);
  if (!reached) CHECK_INT(rc, 0);
  finish(w, s, rc == 0 ? PARTITIONS : w->grown);
  return reached;
}

static void fail_everywhere(const way *w, int code) {
  int n = 0;
  while (n < CALLS_MAX && fail_at(w, n, code)) n++;
  CHECK(n > 30 && n < CALLS_MAX);
}

static bool has_died(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == FAULT_DIED;
}

/* In a process of its own. */
static bool die_in_call(const way *w, int n) {
  CHECK_INT(sdm_store_close(begin(w), NOW), 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sdm_store *s = open_store();
    faults_use(s, 0, n);
    w->call(s, PARTITIONS);
    _exit(0);
  }
  return has_died(child);
}

static bool die_in_opening(int n) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sdm_store *s;
    _exit(sdm_store_open_on(faults_fs(0, n), target, &(sdm_store_options){.create = true}, NOW, &s) != 0);
  }
  return has_died(child);
}

static bool die_at(const way *w, int n, int *whole) {
  bool died = die_in_call(w, n);
  sdm_store *s = open_store();
  int there = partitions_of(s, w->grown);
  CHECK(there == w->grown || there == PARTITIONS);
  *whole += there == PARTITIONS;
  finish(w, s, there);
  return died;
}

/* What a death left is removed by the next to open, who dies, too, at each of his steps. Only the states in which a partition has its name are looked at, for
** the others are many. */
static int die_twice_at(const way *w, int n) {
  char mark[400];
  int m = 0;
  snprintf(mark, sizeof mark, "%s/t-0/sediment.deleted", target);
  for (; m < CALLS_MAX && die_in_call(w, n) && access(mark, F_OK) == 0 && die_in_opening(m); m++) {
    sdm_store *s = open_store();
    finish(w, s, partitions_of(s, w->grown));
  }
  return m;
}

static void die_twice(const way *w) {
  enum { EACH = 30 };
  int deaths = 0;
  for (int n = 0; n < 8 * EACH; n += EACH) deaths += die_twice_at(w, n);
  CHECK(deaths > 30);
}

static void die_everywhere(const way *w) {
  int n = 0, whole = 0;
  while (n < CALLS_MAX && die_at(w, n, &whole)) n++;
  CHECK(n > 30 && n < CALLS_MAX);
  CHECK(whole > 0 && whole < n);
}

static void be_short_everywhere(const way *w) {
  int n = 0, rc = SDM_NO_MEMORY;
  for (; n < CALLS_MAX && rc != 0; n++) {
    sdm_store *s = begin(w);
    int left = n;
    sdm_set_allocator(test_short_memory, &left);
    rc = w->call(s, PARTITIONS);
    sdm_set_allocator(NULL, NULL);
    if (rc != 0) CHECK_INT(rc, SDM_NO_MEMORY);
    finish(w, s, rc == 0 ? PARTITIONS : w->grown);
  }
  CHECK(n > 30 && n < CALLS_MAX);
}

static const way made = {false, define}, grown = {true, define}, altered = {true, alter};

TEST(a_failing_disk_leaves_no_topic) { fail_everywhere(&made, SDM_IO); }
TEST(a_failing_disk_leaves_the_partitions_that_were) { fail_everywhere(&grown, SDM_IO); }
TEST(a_full_disk_leaves_no_topic) { fail_everywhere(&made, SDM_DISK_FULL); }
TEST(a_full_disk_leaves_the_partitions_that_were) { fail_everywhere(&altered, SDM_DISK_FULL); }
TEST(a_death_leaves_all_or_no_topic) { die_everywhere(&made); }
TEST(a_death_leaves_all_or_the_partitions_that_were) { die_everywhere(&grown); }
TEST(two_deaths_in_a_row_leave_all_or_no_topic) { die_twice(&made); }
TEST(short_memory_leaves_no_topic) { be_short_everywhere(&made); }
TEST(short_memory_leaves_the_partitions_that_were) { be_short_everywhere(&altered); }

__attribute__((destructor)) static void end(void) {
  char line[300];
  snprintf(line, sizeof line, "rm -rf '%s'", root);
  if (*root && system(line) != 0) perror(root);
}
