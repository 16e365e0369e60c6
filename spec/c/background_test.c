/* The background work goes on in another process when the one that did it is killed. What it does is seen at a record that was staged, and gets into its file. */
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sediment.h"
#include "test.h"

enum { LIMIT_MS = 10000, TICKS = 20 };     /* by then a second process has asked whether the work is its own, too */

typedef struct fixture {
  char root[256], log[300];
  sdm_store *store;                        /* of this process, which leaves the work to others */
  sdm_topic *topic;
} fixture;

static void open_store(fixture *f, bool background) {
  sdm_setting linger = {"linger.ms", {.type = SDM_VALUE_INT, .integer = 1}};
  sdm_store_options o = {.create = true, .background = background, .wall_clock = true, .options = {&linger, 1}};
  CHECK_INT(sdm_store_open(f->root, &o, sdm_wall_ms(), &f->store), 0);
  CHECK_INT(sdm_topic_open(f->store, "t", &(sdm_settings){0}, sdm_wall_ms(), &f->topic), 0);
}

static void begin(fixture *f) {
  const char *folder = getenv("TMPDIR");
  snprintf(f->root, sizeof f->root, "%s/sediment-background.XXXXXX", folder ? folder : "/tmp");
  if (!CHECK(mkdtemp(f->root))) exit(1);
  snprintf(f->log, sizeof f->log, "%s/t-0/00000000000000000000.log", f->root);
}

static void end(fixture *f) {
  char line[300];
  sdm_topic_release(f->topic);
  CHECK_INT(sdm_store_close(f->store, sdm_wall_ms()), 0);
  snprintf(line, sizeof line, "rm -rf '%s'", f->root);
  CHECK_INT(system(line), 0);
}

/* A process that has the store open, with the thread that does the work, until it is killed. */
static pid_t start_worker(fixture *f) {
  int ready[2];
  char byte;
  if (!CHECK_INT(pipe(ready), 0)) exit(1);
  pid_t child = fork();
  if (child == 0) {
    open_store(f, true);
    close(ready[0]);
    if (write(ready[1], "", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  CHECK_INT(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  return child;
}

static void kill_worker(pid_t child) {
  int status = 0;
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
}

static int64_t size_of(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 ? (int64_t)s.st_size : -1;
}

/* Nobody but the one that does the work seals a stage with a single record. */
static bool is_worked(fixture *f) {
  sdm_record r = {.timestamp = sdm_wall_ms(), .key = "k", .key_size = 1, .value = "v", .value_size = 1};
  int64_t offset, before = size_of(f->log), until = sdm_monotonic_ms() + LIMIT_MS;
  int32_t where;
  if (!CHECK_INT(sdm_topic_append(f->topic, &r, 0, 0, sdm_wall_ms(), &offset, &where), 0)) return false;
  while (size_of(f->log) == before && sdm_monotonic_ms() < until) sched_yield();
  return size_of(f->log) > before;
}

TEST(another_process_takes_over_when_the_one_that_works_is_killed) {
  fixture f;
  begin(&f);
  pid_t first = start_worker(&f);
  open_store(&f, false);
  CHECK(is_worked(&f));
  pid_t second = start_worker(&f);
  for (int i = 0; i < TICKS && is_worked(&f); i++) {}
  kill_worker(first);
  CHECK(is_worked(&f));
  kill_worker(second);
  end(&f);
}
