/* Policy scripts below Lua: an engine of the test's own decides. What is written while it is asked is not deleted, by whatever thread; when the background asks. */
#include "test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/thread.h"
#include "store/cleaners.h"
#include "store/topic.h"

enum { T0 = 1000000, OLD = 5000, KEYS = 50 };

static int asked, writes_when_asked;
static bool writes_the_other;              /* not the key that is asked about, but its counterpart from the end */
static int64_t deletes_before;             /* records, when first asked */
static int stops_after;                    /* so many questions the store begins to close */
static int name_size;                      /* of keys, at least */
static char root[256];
static sdm_store *store;
static sdm_topic *topic;
static atomic_bool writing;

enum { LONGEST = 50000 };

static void put_to(sdm_topic *t, int key, const char *value, int64_t timestamp) {
  int64_t offset;
  int32_t where;
  char name[LONGEST + 16];
  snprintf(name, sizeof name, "k%0*d", name_size, key);
  sdm_record r = {.timestamp = timestamp, .key = (const uint8_t *)name, .key_size = (int32_t)strlen(name), .value = (const uint8_t *)value,
                  .value_size = (int32_t)strlen(value)};
  CHECK_INT(sdm_topic_append(t, &r, 0, 0, T0, &offset, &where), 0);
}

static void put(int key, const char *value, int64_t timestamp) { put_to(topic, key, value, timestamp); }

static sdm_log *the_log(void) {
  sdm_log *l = NULL;
  CHECK_INT(sdm_topic_log(topic, 0, T0, &l), 0);
  return l;
}

/* ---- the engine: deletes what is older than a second ---- */

static int open_script(const char *name, const char *text, size_t size, void **script, unsigned *asks) {
  (void)name, (void)text, (void)size;
  *script = &asked;
  *asks = SDM_POLICY_ASKS_KEYS;
  return 0;
}

static int open_for_segments(const char *name, const char *text, size_t size, void **script, unsigned *asks) {
  int rc = open_script(name, text, size, script, asks);
  *asks = SDM_POLICY_ASKS_SEGMENTS;
  return rc;
}

static int of_segment(void *script, const sdm_policy_segment *s, sdm_ruling *out) {
  (void)script, (void)s, (void)out;
  if (++asked == stops_after) atomic_store(&store->env.stopping, true);
  return 0;
}

static int key_of(const sdm_policy_key *k) {
  char name[LONGEST + 16] = "";
  memcpy(name, k->key, k->key_size < sizeof name ? k->key_size : sizeof name - 1);
  return atoi(name + 1);
}

static int of_key(void *script, const sdm_policy_key *k, sdm_ruling *out) {
  (void)script;
  asked++;
  if (k->now - k->timestamp > 1000) out->verdict = SDM_VERDICT_DELETE;
  int64_t start;
  if (key_of(k) < writes_when_asked) put(writes_the_other ? KEYS - 1 - key_of(k) : key_of(k), "written when asked", T0);
  if (asked == 1 && deletes_before > 0) CHECK_INT(sdm_log_delete_records(the_log(), deletes_before, T0, &start), 0);
  if (asked == stops_after) atomic_store(&store->env.stopping, true);
  return 0;
}

static void close_script(void *script) { (void)script; }

static const sdm_policy_engine ENGINE = {open_script, NULL, of_key, close_script};
static const sdm_policy_engine OF_SEGMENTS = {open_for_segments, of_segment, NULL, close_script};

/* ---- the store ---- */

static void begin(const char *name) {
  static const sdm_setting options[] = {{"log.cleaner.threads", {.type = SDM_VALUE_INT, .integer = 1}}};
  static const sdm_setting configs[] = {{"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}},
                                        {"policy.script", {.type = SDM_VALUE_STRING, .string = "p"}},
                                        {"policy.interval.ms", {.type = SDM_VALUE_INT, .integer = 100}}};
  const char *tmp = getenv("TMPDIR");
  char command[300];
  snprintf(root, sizeof root, "%s/policy-%s-%d", tmp ? tmp : "/tmp", name, (int)getpid());
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  CHECK_INT(system(command), 0);
  sdm_policy_engine_set(&ENGINE);
  asked = writes_when_asked = stops_after = name_size = 0;
  writes_the_other = false;
  deletes_before = 0;
  CHECK_INT(sdm_store_open_on(sdm_fs_posix(), root, &(sdm_store_options){.create = true, .options = {options, 1}}, T0, &store), 0);
  CHECK_INT(sdm_store_policy_set(store, "p", "script", 6), 0);
  CHECK_INT(sdm_topic_open(store, "t", &(sdm_settings){configs, 3}, T0, &topic), 0);
}

static void end(void) {
  char command[300];
  sdm_topic_release(topic);
  CHECK_INT(sdm_store_close_on(store, T0), 0);
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  CHECK_INT(system(command), 0);
}

static int compact(sdm_compact_report *report) { return sdm_topic_compact(topic, true, T0, report); }

/* How many keys have a value. */
static int living(void) {
  sdm_reader *reader;
  sdm_record r;
  int64_t start = 0;
  int count = 0;
  CHECK_INT(sdm_log_earliest(the_log(), &start), 0);
  CHECK_INT(sdm_reader_open_latest(the_log(), start, SDM_TO_END, 0, &reader), 0);
  while (sdm_reader_next(reader, &r) == 1) count += r.value_size >= 0;
  sdm_reader_close(reader);
  return count;
}

/* ---- tests ---- */

TEST(what_is_written_while_the_script_is_asked_stays) {
  sdm_compact_report report;
  begin("asked");
  for (int i = 0; i < KEYS; i++) put(i, "old", T0 - OLD);
  writes_when_asked = 20;
  CHECK_INT(compact(&report), 0);
  CHECK_INT(report.expired, KEYS - 20);
  CHECK_INT(asked, KEYS);
  CHECK_INT(living(), 20);
  end();
}

/* More than a megabyte of keys goes in several batches; what was written before the first of them must be known at the last. */
TEST(what_is_written_stays_in_whatever_batch_its_key_would_go) {
  sdm_compact_report report;
  begin("batches");
  name_size = LONGEST;
  for (int i = 0; i < KEYS; i++) put(i, "old", T0 - OLD);
  writes_when_asked = 10;
  writes_the_other = true;
  CHECK_INT(compact(&report), 0);
  CHECK_INT(report.expired, KEYS - 10);
  CHECK_INT(living(), 10);
  end();
}

/* What was counted before the log start moved still counts; a key's last record is never taken for a superseded one. */
TEST(records_that_are_deleted_meanwhile_take_no_others_along) {
  static const sdm_setting both = {"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact,delete"}};
  sdm_compact_report report;
  int64_t base;
  begin("deleted");
  CHECK_INT(sdm_topic_alter(topic, &(sdm_settings){&both, 1}, NULL, 0, T0), 0);
  for (int i = 0; i < 6; i++) put(1, "superseded", T0);
  put(2, "last", T0);
  put(2, "last", T0);
  put(1, "last", T0);
  CHECK_INT(sdm_log_roll(the_log(), T0, &base), 0);
  deletes_before = 7;
  CHECK_INT(compact(&report), 0);
  CHECK_INT(living(), 2);
  end();
}

TEST(who_closes_the_store_waits_for_one_question) {
  sdm_compact_report report;
  begin("closes");
  for (int i = 0; i < KEYS; i++) put(i, "old", T0 - OLD);
  stops_after = 3;
  CHECK_INT(compact(&report), SDM_CLOSED);
  CHECK_INT(asked, 3);
  end();
}

TEST(a_retention_that_gives_up_for_a_close_has_not_failed) {
  sdm_retain_report report;
  sdm_log_stats stats;
  int64_t base;
  begin("gives-up");
  sdm_policy_engine_set(&OF_SEGMENTS);
  for (int i = 0; i < 3; i++) {
    put(i, "old", T0 - OLD);
    CHECK_INT(sdm_log_roll(the_log(), T0, &base), 0);
  }
  stops_after = 2;
  CHECK_INT(sdm_topic_retain(topic, T0, &report), SDM_CLOSED);
  CHECK_INT(asked, 2);
  CHECK_INT(sdm_log_get_stats(the_log(), T0, &stats), 0);
  CHECK_INT(stats.retention_failed, 0);
  end();
}

TEST(without_an_engine_everything_stays) {
  sdm_compact_report report;
  begin("none");
  put(1, "old", T0 - OLD);
  put(1, "older", T0 - OLD);
  int64_t base;
  CHECK_INT(sdm_log_roll(the_log(), T0, &base), 0);
  sdm_policy_engine_set(NULL);
  CHECK_INT(compact(&report), SDM_POLICY);
  CHECK_INT(sdm_store_policy_set(store, "q", "script", 6), SDM_POLICY);
  CHECK_INT(living(), 1);
  end();
}

/* Each key is old for a moment, over and over; only what was written last counts, and that is new. */
static void *write_on(void *own) {
  for (int round = 0; round < 400; round++) {
    for (int i = 0; i < KEYS; i++) put_to(own, i, "old", T0 - OLD);
    for (int i = 0; i < KEYS; i++) put_to(own, i, "new", T0);
  }
  atomic_store(&writing, false);
  return NULL;
}

TEST(no_key_is_deleted_for_what_it_was_before) {
  sdm_thread thread;
  sdm_compact_report report;
  int64_t expired = 0, base;
  sdm_topic *own;
  begin("race");
  CHECK_INT(sdm_topic_open(store, "t", NULL, T0, &own), 0);
  atomic_store(&writing, true);
  CHECK_INT(sdm_thread_start(&thread, write_on, own), 0);
  while (atomic_load(&writing)) {
    CHECK_INT(compact(&report), 0);
    expired += report.expired;
    CHECK_INT(sdm_log_roll(the_log(), T0, &base), 0);
  }
  sdm_thread_join(&thread);
  sdm_topic_release(own);
  CHECK_INT(living(), KEYS);
  CHECK_INT(compact(&report), 0);
  CHECK_INT(report.expired, 0);
  CHECK_INT(living(), KEYS);
  printf("# %lld tombstones on the way\n", (long long)expired);
  end();
}

TEST(the_background_asks_now_and_then) {
  begin("interval");
  put(1, "new", T0);
  for (int64_t now = T0; now < T0 + 300; now += 50) {
    sdm_cleaners *c = sdm_cleaners_begin(store, now, &store->options);
    CHECK_INT(c != NULL, (now - T0) % 100 == 0);
    if (c) sdm_cleaners_end(c);
  }
  CHECK_INT(asked, 3);
  end();
}
