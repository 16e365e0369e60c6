/* Rounds of background cleaning: who is cleaned in one, who is left out and comes back, and how fast. */
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "cleaner/uncleanable.h"
#include "store/cleaners.h"
#include "store/topic.h"

enum { TOPICS = 5, T0 = 1000000 };

typedef struct world {
  char root[256];
  sdm_fs fs;
  sdm_store *store;
  sdm_topic *topics[TOPICS];
} world;

static void remove_root(const world *w) {
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", w->root);
  CHECK_INT(system(command), 0);
}

static sdm_setting text(const char *name, const char *value) { return (sdm_setting){name, {.type = SDM_VALUE_STRING, .string = value}}; }
static sdm_setting number(const char *name, int64_t value) { return (sdm_setting){name, {.type = SDM_VALUE_INT, .integer = value}}; }

static bool noting;                      /* only while one thread cleans */
static char cleaned[TOPICS * 4];         /* then: the topics, in the order in which their outputs were opened */

static int noting_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  const char *topic = noting && strstr(path, ".log.cleaned") ? strstr(path, "/t") : NULL;
  for (; topic && !strstr(topic, "-0/0"); topic = strstr(topic + 1, "/t")) {}
  if (topic && strlen(cleaned) + 4 <= sizeof cleaned) snprintf(cleaned + strlen(cleaned), 4, "%.2s ", topic + 1);
  return sdm_fs_posix()->open(fs, path, flags, out);
}

/* So many values of one key, in a segment that is closed then. */
static void fill(sdm_topic *t, int values) {
  int64_t offset;
  int32_t where;
  sdm_log *l;
  for (int i = 0; i < values; i++) {
    sdm_record r = {.timestamp = T0, .key = "key", .key_size = 3, .value = "value", .value_size = 5};
    CHECK_INT(sdm_topic_append(t, &r, 0, 0, T0, &offset, &where), 0);
  }
  CHECK_INT(sdm_topic_log(t, 0, T0, &l), 0);
  CHECK_INT(sdm_log_roll(l, T0, &offset), 0);
}

static void begin(world *w, const char *name, int64_t threads) {
  const char *tmp = getenv("TMPDIR");
  sdm_setting options[] = {number("log.cleaner.threads", threads), number("log.cleaner.dedupe.buffer.size", 1 << 20), number("log.cleaner.backoff.ms", 2000)};
  sdm_setting configs[] = {text("cleanup.policy", "compact"), number("min.cleanable.dirty.ratio", 0)};
  sdm_store_options o = {.create = true, .options = {options, 3}};
  snprintf(w->root, sizeof w->root, "%s/cleaners-%s-%d", tmp ? tmp : "/tmp", name, (int)getpid());
  remove_root(w);
  w->fs = *sdm_fs_posix();
  w->fs.open = noting_open;
  CHECK_INT(sdm_store_open_on(&w->fs, w->root, &o, T0, &w->store), 0);
  for (int i = 0; i < TOPICS; i++) {
    char topic[] = {'t', (char)('0' + i), 0};
    CHECK_INT(sdm_topic_open(w->store, topic, &(sdm_settings){configs, 2}, T0, &w->topics[i]), 0);
    fill(w->topics[i], i + 2);
  }
}

static void end(world *w) {
  for (int i = 0; i < TOPICS; i++) sdm_topic_release(w->topics[i]);
  CHECK_INT(sdm_store_close_on(w->store, T0), 0);
  remove_root(w);
}

static sdm_log_stats stats_of(const world *w, int i) {
  sdm_log_stats s = {0};
  sdm_log *l;
  CHECK_INT(sdm_topic_log(w->topics[i], 0, T0, &l), 0);
  CHECK_INT(sdm_log_get_stats(l, T0, &s), 0);
  return s;
}

/* Changes a byte of a value in the first segment of topic i: it stands behind the batch's header. */
static void damage(const world *w, int i, const char *with) {
  char path[300];
  snprintf(path, sizeof path, "%s/t%d-0/00000000000000000000.log", w->root, i);
  int fd = open(path, O_WRONLY);
  CHECK(fd >= 0 && pwrite(fd, with, 1, 61 + 8) == 1);
  close(fd);
}

static char first_byte(const world *w, int i) {
  char path[300], byte = 0;
  snprintf(path, sizeof path, "%s/t%d-0/00000000000000000000.log", w->root, i);
  int fd = open(path, O_RDONLY);
  CHECK(fd >= 0 && pread(fd, &byte, 1, 61 + 8) == 1);
  close(fd);
  return byte;
}

/* A whole round at `now`; false when there was nothing to do. */
static bool clean_round(world *w, int64_t now) {
  sdm_cleaners *c = sdm_cleaners_begin(w->store, now, &w->store->options);
  return c && sdm_cleaners_end(c);
}

static void check_a_round(const char *name, int64_t threads) {
  world w;
  begin(&w, name, threads);
  CHECK(clean_round(&w, T0 + 1));
  for (int i = 0; i < TOPICS; i++) {
    CHECK_INT(stats_of(&w, i).clean_offset, i + 2);
    CHECK_INT(stats_of(&w, i).cleaned_ms, T0 + 1);
  }
  CHECK(!clean_round(&w, T0 + 2));
  end(&w);
}

TEST(one_thread_cleans_all_that_is_due) { check_a_round("one", 1); }
TEST(several_threads_clean_all_that_is_due) { check_a_round("three", 3); }
TEST(more_threads_than_partitions) { check_a_round("many", 64); }

TEST(without_threads_nothing_is_cleaned) {
  world w;
  begin(&w, "none", 0);
  CHECK(!clean_round(&w, T0));
  CHECK_INT(stats_of(&w, 0).clean_offset, 0);
  CHECK_INT(stats_of(&w, 0).cleaned_ms, -1);
  end(&w);
}

TEST(the_dirtiest_is_cleaned_first) {
  world w;
  begin(&w, "first", 1);
  CHECK(clean_round(&w, T0));
  fill(w.topics[1], 1);
  fill(w.topics[3], 50);
  fill(w.topics[4], 5);
  noting = true;
  CHECK(clean_round(&w, T0 + 1));
  noting = false;
  CHECK_STR(cleaned, "t3 t4 t1 ");
  end(&w);
}

/* Tries again after 2, 4, 8 s, until it is whole again. */
TEST(one_that_cannot_be_cleaned_keeps_nobody_from_it) {
  world w;
  begin(&w, "damaged", 2);
  char byte = first_byte(&w, 2), wrong = (char)(byte ^ 1);
  damage(&w, 2, &wrong);
  CHECK(clean_round(&w, T0));
  for (int i = 0; i < TOPICS; i++) {
    CHECK_INT(stats_of(&w, i).uncleanable, i == 2 ? SDM_CORRUPT : 0);
    CHECK_INT(stats_of(&w, i).cleaned_ms, i == 2 ? -1 : T0);
  }
  int64_t now = T0, tries = stats_of(&w, 2).corrupt_batches;
  CHECK_INT(tries, 1);
  for (int64_t wait = 2000; wait <= 8000; wait *= 2) {
    CHECK(!clean_round(&w, now + wait - 1));
    CHECK_INT(stats_of(&w, 2).corrupt_batches, tries);
    CHECK(!clean_round(&w, now += wait));
    CHECK_INT(stats_of(&w, 2).corrupt_batches, ++tries);
  }
  damage(&w, 2, &byte);
  CHECK(clean_round(&w, now + 16000));
  CHECK_INT(stats_of(&w, 2).uncleanable, 0);
  CHECK_INT(stats_of(&w, 2).cleaned_ms, now + 16000);
  end(&w);
}

/* The damage leaves with its segment: at once, whatever the rest. */
TEST(one_whose_damage_has_left_is_cleanable) {
  world w;
  int64_t start;
  sdm_log *l;
  sdm_retain_report gone;
  sdm_setting policy[] = {text("cleanup.policy", "compact,delete"), number("retention.ms", -1)};
  begin(&w, "left", 1);
  char wrong = (char)(first_byte(&w, 2) ^ 1);
  damage(&w, 2, &wrong);
  CHECK(clean_round(&w, T0));
  CHECK_INT(stats_of(&w, 2).uncleanable, SDM_CORRUPT);
  CHECK_INT(sdm_topic_alter(w.topics[2], &(sdm_settings){policy, 2}, NULL, 0, T0), 0);
  CHECK_INT(sdm_topic_log(w.topics[2], 0, T0, &l), 0);
  CHECK_INT(sdm_log_delete_records(l, 4, T0, &start), 0);
  CHECK_INT(sdm_topic_retain(w.topics[2], T0, &gone), 0);
  CHECK_INT(gone.segments, 1);
  CHECK(!clean_round(&w, T0 + 1));
  CHECK_INT(stats_of(&w, 2).uncleanable, 0);
  end(&w);
}

/* An hour at most, and at once when the clock has stepped back. */
TEST(the_rest_of_one_that_cannot_be_cleaned_has_an_end) {
  world w;
  sdm_log *l;
  begin(&w, "rest", 1);
  CHECK_INT(sdm_topic_log(w.topics[0], 0, T0, &l), 0);
  for (int i = 0; i < 100; i++) CHECK_INT(sdm_cleaning_ended(l, T0, SDM_IO), SDM_IO);
  CHECK(!sdm_cleaning_may_try(l, T0 + 3599999, 15000));
  CHECK(sdm_cleaning_may_try(l, T0 + 3600000, 15000));
  CHECK(!sdm_cleaning_may_try(l, T0 + 3600000, 7200000));
  CHECK(sdm_cleaning_may_try(l, T0 + 7200000, 7200000));
  CHECK(sdm_cleaning_may_try(l, T0 - 1, 15000));
  CHECK_INT(sdm_cleaning_ended(l, T0, SDM_CLOSED), SDM_CLOSED);
  CHECK_INT(stats_of(&w, 0).uncleanable, SDM_IO);
  CHECK_INT(sdm_cleaning_ended(l, T0, 0), 0);
  CHECK_INT(sdm_cleaning_ended(l, T0, SDM_DISK_FULL), SDM_DISK_FULL);
  CHECK(!sdm_cleaning_may_try(l, T0 + 999, 0));
  CHECK(sdm_cleaning_may_try(l, T0 + 1000, 0));
  end(&w);
}

/* ---- the throttle ---- */

static int64_t ms(double seconds) { return (int64_t)(seconds * 1000 + 0.5); }

TEST(bytes_take_their_time) {
  sdm_throttle t;
  sdm_throttle_init(&t);
  sdm_throttle_set(&t, 1000);
  CHECK_INT(ms(sdm_throttle_take(&t, 500, 10)), 10500);
  CHECK_INT(ms(sdm_throttle_take(&t, 500, 10)), 11000);        /* another thread's */
  CHECK_INT(ms(sdm_throttle_take(&t, 100, 10.9)), 11100);
  CHECK_INT(ms(sdm_throttle_take(&t, 100, 20)), 20100);        /* idle time is not saved up */
  CHECK_INT(ms(sdm_throttle_take(&t, 10, 30)), 30000);         /* rests that are too short are put together */
  CHECK_INT(ms(sdm_throttle_take(&t, 10, 30)), 30020);
  sdm_throttle_destroy(&t);
}
