/* Topics that others delete, at moments and with numbers that specs cannot reach, where another handle stands for another process's; and changes that are
** only checked. */
#include "store/topic.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "test.h"

enum { NOW = 1700000000 };

typedef struct fixture {
  char root[256];
  sdm_store *store;
  sdm_topic *topic;                        /* of the topic "t" */
} fixture;

static sdm_topic *open_topic(sdm_store *s) {
  sdm_topic *t = NULL;
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){0}, NOW, &t), 0);
  return t;
}

static void begin_folder(fixture *f) {
  const char *folder = getenv("TMPDIR");
  snprintf(f->root, sizeof f->root, "%s/sediment-topics.XXXXXX", folder ? folder : "/tmp");
  if (!CHECK(mkdtemp(f->root))) exit(1);
}

static void begin_store(fixture *f, bool background) {
  CHECK_INT(sdm_store_open(f->root, &(sdm_store_options){.create = true, .background = background}, NOW, &f->store), 0);
  f->topic = open_topic(f->store);
}

static void begin(fixture *f) {
  begin_folder(f);
  begin_store(f, false);
}

static void end(fixture *f) {
  char line[300];
  sdm_topic_release(f->topic);
  CHECK_INT(sdm_store_close(f->store, NOW), 0);
  snprintf(line, sizeof line, "rm -rf '%s'", f->root);
  CHECK_INT(system(line), 0);
}

static int64_t retention_ms(sdm_topic *t) {
  CHECK_INT(sdm_topic_check(t), 0);
  return t->config.retention_ms;
}

/* The topic is deleted and made anew just behind the look at it with which the call begins. */
TEST(a_topic_that_was_made_anew_is_not_altered) {
  fixture f;
  begin(&f);
  CHECK_INT(sdm_store_delete_topic(f.store, "t", false, NOW), 0);
  sdm_topic *anew = open_topic(f.store);
  int64_t before = retention_ms(anew);
  f.topic->generation = sdm_store_generation(f.store);
  sdm_setting item = {"retention.ms", {.type = SDM_VALUE_INT, .integer = 1}};
  CHECK_INT(sdm_topic_alter(f.topic, &(sdm_settings){&item, 1}, NULL, 0, NOW), SDM_UNKNOWN_TOPIC);
  CHECK_INT(retention_ms(anew), before);
  sdm_topic_release(anew);
  end(&f);
}

/* ---- by another process ---- */

static void delete_elsewhere(const fixture *f) {
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    sdm_store *s;
    int rc = sdm_store_open(f->root, &(sdm_store_options){0}, NOW, &s);
    if (rc == 0) rc = sdm_store_delete_topic(s, "t", false, NOW);
    if (rc == 0) rc = sdm_store_close(s, NOW);
    _exit(rc != 0);
  }
  waitpid(child, &status, 0);
  CHECK_INT(status, 0);
}

static size_t logs_open(sdm_store *s) {
  sdm_mutex_lock(&s->lock);
  size_t count = s->log_count;
  sdm_mutex_unlock(&s->lock);
  return count;
}

/* Files of the partition that this process has open or mapped. */
static int files_open(const fixture *f) {
  char line[400];
  int count = -1;
  snprintf(line, sizeof line, "{ ls -l /proc/%d/fd; cat /proc/%d/maps; } | grep -c '%s/t-0'", (int)getpid(), (int)getpid(), f->root);
  FILE *pipe = popen(line, "r");
  if (!CHECK(pipe && fscanf(pipe, "%d", &count) == 1)) return -1;
  pclose(pipe);
  return count;
}

TEST(what_another_process_deletes_is_let_go) {
  fixture f;
  char **names;
  size_t count;
  int64_t offset;
  int32_t where;
  begin(&f);
  CHECK_INT(sdm_topic_append(f.topic, &(sdm_record){.key = "k", .key_size = 1, .value_size = -1, .timestamp = NOW}, 0, SDM_SYNC, NOW, &offset, &where), 0);
  CHECK_INT(logs_open(f.store), 1);
  CHECK(files_open(&f) > 1);
  delete_elsewhere(&f);
  CHECK_INT(sdm_store_topics(f.store, &names, &count), 0);
  CHECK_INT(count, 0);
  sdm_names_free(names);
  CHECK_INT(logs_open(f.store), 0);
  sdm_topic_release(f.topic);              /* which may be using it */
  f.topic = NULL;
  CHECK_INT(files_open(&f), 0);
  end(&f);
}

/* The background work is another's: this one's thread follows the topics all the same. */
TEST(a_process_that_does_nothing_lets_go_as_well) {
  fixture f;
  char path[300];
  sdm_file *lock;
  sdm_fs *fs = sdm_fs_posix();
  begin_folder(&f);
  snprintf(path, sizeof path, "%s/%s", f.root, SDM_LOCK_NAME);
  CHECK_INT(fs->open(fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE, &lock), 0);
  CHECK_INT(fs->lock(lock, SDM_BYTE_BACKGROUND, SDM_LOCK_EXCLUSIVE, false), 0);
  begin_store(&f, true);
  delete_elsewhere(&f);
  int64_t deadline = sdm_monotonic_ms() + 20000;
  while (logs_open(f.store) > 0 && sdm_monotonic_ms() < deadline) usleep(1000);
  CHECK_INT(logs_open(f.store), 0);
  fs->close(lock);
  end(&f);
}

/* In the store's folder. */
static int run(const fixture *f, const char *command) {
  char line[400];
  snprintf(line, sizeof line, "cd '%s' && %s", f->root, command);
  return system(line);
}

TEST(a_change_is_checked_and_not_made) {
  fixture f;
  sdm_topic *t;
  sdm_setting two = {"partitions", {SDM_VALUE_INT, NULL, 2, 0}}, one = {"partitions", {SDM_VALUE_INT, NULL, 1, 0}};
  sdm_setting lag = {"min.compaction.lag.ms", {SDM_VALUE_INT, NULL, 5, 0}}, most = {"max.compaction.lag.ms", {SDM_VALUE_INT, NULL, 4, 0}};
  const char *reset[] = {"max.compaction.lag.ms"};
  begin(&f);
  CHECK_INT(sdm_topic_check_change(f.store, "t", &(sdm_settings){&two, 1}, NULL, 0), 0);
  CHECK_INT(sdm_topic_partitions(f.topic), 1);
  CHECK_INT(sdm_topic_alter(f.topic, &(sdm_settings){&two, 1}, NULL, 0, NOW), 0);
  CHECK_INT(sdm_topic_check_change(f.store, "t", &(sdm_settings){&one, 1}, NULL, 0), SDM_POLICY);
  CHECK_INT(sdm_topic_alter(f.topic, &(sdm_settings){&most, 1}, NULL, 0, NOW), 0);
  CHECK_INT(sdm_topic_check_change(f.store, "t", &(sdm_settings){&lag, 1}, NULL, 0), SDM_MISUSE);
  CHECK_INT(sdm_topic_check_change(f.store, "t", &(sdm_settings){&lag, 1}, reset, 1), 0);
  CHECK_INT(sdm_topic_check_change(f.store, "n", &(sdm_settings){&lag, 1}, NULL, 0), 0);
  CHECK_INT(sdm_topic_check_change(f.store, "n/n", &(sdm_settings){0}, NULL, 0), SDM_MISUSE);
  CHECK_INT(run(&f, "mkdir n-0"), 0);
  CHECK_INT(sdm_topic_check_change(f.store, "n", &(sdm_settings){0}, NULL, 0), SDM_EXISTS);
  CHECK_INT(run(&f, "touch n-0/sediment.deleted"), 0);                                       /* it is nobody's then */
  CHECK_INT(sdm_topic_check_change(f.store, "n", &(sdm_settings){0}, NULL, 0), 0);
  CHECK_INT(run(&f, "test -e n-0"), 0);
  CHECK_INT(sdm_topic_open(f.store, "n", NULL, NOW, &t), SDM_UNKNOWN_TOPIC);
  end(&f);
}
