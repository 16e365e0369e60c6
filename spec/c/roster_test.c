/* The file of a consumer group: its text, its lock, and who lives, over processes that die and fork. */
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/roster.h"

enum { T0 = 1000000 };

static char root[256];

static void begin(const char *name) {
  const char *tmp = getenv("TMPDIR");
  char command[300];
  snprintf(root, sizeof root, "%s/roster-%s-%d", tmp ? tmp : "/tmp", name, (int)getpid());
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  CHECK_INT(system(command), 0);
}

static void end(sdm_store *s) {
  char command[300];
  CHECK_INT(sdm_store_close(s, T0), 0);
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  CHECK_INT(system(command), 0);
}

static sdm_store *open_store(void) {
  sdm_store *s = NULL;
  CHECK_INT(sdm_store_open(root, &(sdm_store_options){.create = true}, T0, &s), 0);
  return s;
}

static sdm_roster *open_roster(sdm_store *s, const char *group) {
  sdm_roster *r = NULL;
  CHECK_INT(sdm_roster_open(s, group, strlen(group), &r), 0);
  return r;
}

/* The text, as a string. */
static const char *text_of(sdm_roster *r) {
  static char text[100];
  sdm_buf b = {0};
  uint64_t token;
  text[0] = 0;
  if (CHECK_INT(sdm_roster_read(r, &b, &token), 0)) snprintf(text, sizeof text, "%.*s", (int)b.size, (const char *)b.data);
  sdm_buf_free(&b);
  return text;
}

static void write_text(sdm_roster *r, const char *text) {
  uint64_t token;
  CHECK_INT(sdm_roster_write(r, text, strlen(text), &token), 0);
}

TEST(a_text_is_what_was_written_last) {
  begin("text");
  sdm_store *s = open_store();
  sdm_roster *a = open_roster(s, "g"), *b = open_roster(s, "g"), *other = open_roster(s, "h");
  uint64_t first = 1, second;
  CHECK_INT(sdm_roster_token(a, &first), 0);
  CHECK_INT(first, 0);
  CHECK_STR(text_of(a), "");
  write_text(a, "a long text");
  CHECK_INT(sdm_roster_token(b, &first), 0);
  CHECK(first != 0);
  CHECK_STR(text_of(b), "a long text");
  write_text(b, "short");
  CHECK_STR(text_of(a), "short");
  CHECK_INT(sdm_roster_token(a, &second), 0);
  CHECK(second != first);
  CHECK_STR(text_of(other), "");
  sdm_roster_close(a);
  sdm_roster_close(b);
  sdm_roster_close(other);
  end(s);
}

TEST(a_text_that_was_damaged_is_none) {
  begin("damage");
  sdm_store *s = open_store();
  sdm_roster *r = open_roster(s, "g");
  char path[400], *names;
  write_text(r, "text");
  snprintf(path, sizeof path, "ls %s/" SDM_GROUP_PREFIX "*", root);
  FILE *p = popen(path, "r");
  CHECK(fgets(path, sizeof path, p) != NULL);
  pclose(p);
  path[strcspn(path, "\n")] = 0;
  for (long at = 0; at < 36; at++) {
    FILE *f = fopen(path, "r+");
    fseek(f, at, SEEK_SET);
    int byte = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(byte ^ 0x10, f);
    fclose(f);
    names = sdm_format("byte %ld: %s", at, text_of(r));
    CHECK(names && strstr(names, ": ") && !strstr(names, "text"));
    sdm_free(names);
    write_text(r, "text");
  }
  for (long size = 0; size < 36; size++) {
    CHECK_INT(truncate(path, size), 0);
    CHECK_STR(text_of(r), "");
    write_text(r, "text");
  }
  CHECK_STR(text_of(r), "text");
  sdm_roster_close(r);
  end(s);
}

TEST(a_slot_is_one_handles_at_a_time) {
  begin("slot");
  sdm_store *s = open_store();
  sdm_roster *a = open_roster(s, "g"), *b = open_roster(s, "g");
  CHECK_INT(sdm_roster_is_alive(a, 0), 0);
  CHECK_INT(sdm_roster_claim(a, 0), 1);
  CHECK_INT(sdm_roster_claim(b, 0), 0);
  CHECK_INT(sdm_roster_claim(b, 1), 1);
  CHECK_INT(sdm_roster_is_alive(a, 0), 1);         /* its own, which stays its own */
  CHECK_INT(sdm_roster_is_alive(b, 0), 1);
  CHECK_INT(sdm_roster_is_alive(a, 1), 1);
  CHECK_INT(sdm_roster_is_alive(a, 2), 0);
  CHECK_INT(sdm_roster_release(a), 0);
  CHECK_INT(sdm_roster_is_alive(b, 0), 0);
  CHECK_INT(sdm_roster_claim(a, SDM_ROSTER_SLOTS - 1), 1);
  sdm_roster_close(a);
  CHECK_INT(sdm_roster_is_alive(b, SDM_ROSTER_SLOTS - 1), 0);
  sdm_roster_close(b);
  end(s);
}

/* Who waited for the lock of a file that was removed meanwhile goes on with the new one, and has no slot in it. */
TEST(a_file_that_is_removed_is_left) {
  begin("removed");
  sdm_store *s = open_store();
  sdm_roster *a = open_roster(s, "g"), *b = open_roster(s, "g");
  CHECK_INT(sdm_roster_claim(b, 0), 1);
  write_text(a, "old");
  CHECK_INT(sdm_roster_lock(a), 0);
  CHECK_INT(sdm_roster_remove(a), 0);
  sdm_roster_unlock(a);
  CHECK_INT(sdm_roster_lock(b), 0);
  CHECK_STR(text_of(b), "");
  write_text(b, "new");
  sdm_roster_unlock(b);
  CHECK_INT(sdm_roster_lock(a), 0);
  CHECK_STR(text_of(a), "new");
  CHECK_INT(sdm_roster_is_alive(a, 0), 0);
  CHECK_INT(sdm_roster_claim(a, 0), 1);
  sdm_roster_unlock(a);
  sdm_roster_close(a);
  sdm_roster_close(b);
  end(s);
}

/* In a child: claims a slot, forks, and both wait. Writes a byte into the pipe when that has come to be. */
static void hold_a_slot_and_fork(int ready) {
  sdm_store *s = open_store();
  sdm_roster *r = open_roster(s, "g");
  bool done = sdm_roster_claim(r, 5) == 1;
  if (fork() == 0) {
    alarm(60);
    uint64_t token;
    done = done && sdm_roster_token(r, &token) == SDM_FORKED && sdm_roster_lock(r) == SDM_FORKED;
    sdm_roster_close(r);
    if (write(ready, done ? "y" : "n", 1) != 1) _exit(1);
  }
  for (;;) pause();
}

/* A child that was forked from a member does not keep it alive. */
TEST(a_member_dies_with_its_process) {
  int ready[2];
  char byte = 0;
  begin("forked");
  sdm_store *s = open_store();
  sdm_roster *r = open_roster(s, "g");
  CHECK_INT(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    alarm(60);
    hold_a_slot_and_fork(ready[1]);
  }
  CHECK_INT(read(ready[0], &byte, 1), 1);
  CHECK_INT(byte, 'y');
  CHECK_INT(sdm_roster_is_alive(r, 5), 1);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CHECK_INT(sdm_roster_is_alive(r, 5), 0);
  kill(-child, SIGKILL);
  close(ready[0]);
  close(ready[1]);
  sdm_roster_close(r);
  end(s);
}

TEST(a_store_that_is_only_read_has_none) {
  begin("readonly");
  sdm_store *s = open_store(), *reading;
  sdm_roster *r;
  CHECK_INT(sdm_store_open(root, &(sdm_store_options){.readonly = true}, T0, &reading), 0);
  CHECK_INT(sdm_roster_open(reading, "g", 1, &r), SDM_READONLY);
  CHECK_INT(sdm_store_close(reading, T0), 0);
  r = open_roster(s, "g");
  end(s);
  CHECK_INT(sdm_roster_lock(r), SDM_CLOSED);
  sdm_roster_close(r);
}
