#include "kills/copier.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "kills/checks.h"

enum { PATH = 300 };

/* As backup left it; and from then on: what is found there is only removed. */
static char fresh[PATH], used[PATH];

static bool has(const char *file) {
  char path[PATH + 40];
  snprintf(path, sizeof path, "%s%s", fresh, file);
  return access(path, F_OK) == 0;
}

static void remove_used(void) {
  if (access(used, F_OK) == 0 && remove_tree(used) != 0) wrong("%s cannot be removed", used);
}

static void put_aside(void) {
  remove_used();
  if (rename(fresh, used) != 0) wrong("%s cannot be renamed", fresh);
}

/* ---- what is in a copy ---- */

static bool same_id(const sdm_record *a, const sdm_record *b) {
  return a->headers_size == b->headers_size && memcmp(a->headers, b->headers, (size_t)a->headers_size) == 0;
}

/* It cannot be read from there on just now: it begins later, or, read-only, somebody takes it over. */
static bool has_moved(int rc, int topic) { return rc == SDM_BUSY || (rc == SDM_OFFSET_OUT_OF_RANGE && topic == TOPIC_TRIMMED); }

/* Nothing is ever put in between records, and what the store has now it had then. */
static void compare(int topic, sdm_reader *original, sdm_reader *copy) {
  sdm_record a, b = {.offset = -1};
  int rc, more = 1;
  while ((rc = sdm_reader_next(original, &a)) == 1) {
    while (more == 1 && b.offset < a.offset) more = sdm_reader_next(copy, &b);
    must(more, "read a copy");
    if (more == 1 && b.offset == a.offset && same_id(&a, &b)) continue;
    wrong("topic %s: offset %lld of the store is not in its copy, or another record", topic_names[topic], (long long)a.offset);
  }
  if (!has_moved(rc, topic)) must(rc, "read the store");
}

static void compare_topic(using *u, int topic, sdm_log *copy) {
  sdm_reader *a, *b;
  int64_t start, end, copy_start;
  must(sdm_log_latest(copy, &end), "latest of a copy");
  must(sdm_log_earliest(copy, &copy_start), "earliest of a copy");
  must(sdm_log_earliest(u->logs[topic], &start), "earliest");
  if (start < copy_start) wrong("topic %s: the copy begins at %lld, the store at %lld", topic_names[topic], (long long)copy_start, (long long)start);
  if (start >= end) return;
  int rc = sdm_reader_open(u->logs[topic], start, end, 0, &a);
  if (has_moved(rc, topic)) return;
  must(rc, "read the store");
  must(sdm_reader_open(copy, copy_start, end, 0, &b), "read a copy");
  compare(topic, a, b);
  sdm_reader_close(a);
  sdm_reader_close(b);
}

/* ---- using it ---- */

static void disturb(sdm_topic *t, sdm_log *log, int topic) {
  sdm_record r = {.key = "key1", .key_size = 4, .value_size = -1, .timestamp = wall_ms()};
  sdm_compact_report report;
  int64_t offset, start;
  int32_t where;
  must(sdm_topic_append(t, &r, 0, 0, wall_ms(), &offset, &where), "append to a copy");
  must(sdm_log_roll(log, wall_ms(), &start), "roll a copy");
  if (topic == TOPIC_COMPACTED) must(sdm_topic_compact(t, true, wall_ms(), &report), "compact a copy");
  else must(sdm_log_delete_records(log, offset, wall_ms(), &start), "delete records of a copy");
}

static void check_copy_topic(using *u, sdm_store *copy, int topic, bool writable) {
  sdm_topic *t;
  sdm_log *log;
  must(sdm_topic_open(copy, topic_names[topic], NULL, wall_ms(), &t), "open a topic of a copy");
  must(sdm_topic_log(t, 0, wall_ms(), &log), "open a partition of a copy");
  check_topic(log, topic, atomic_load(&me->starts[topic]), atomic_load(&me->ends[topic]), true);
  compare_topic(u, topic, log);
  if (writable) disturb(t, log, topic);
  sdm_topic_release(t);
}

static void check_whole(using *u, const char *path) {
  bool writable = draw(u, 2);
  sdm_store_options o = {.readonly = !writable};
  sdm_store *copy;
  must(sdm_store_open(path, &o, wall_ms(), &copy), "open a copy");
  check_files(copy, false);
  for (int i = 0; i < TOPICS; i++) check_copy_topic(u, copy, i, writable);
  must(sdm_store_close(copy, wall_ms()), "close a copy");
  atomic_fetch_add(&the_herd->copies, 1);
}

static void check_refused(bool readonly) {
  sdm_store_options o = {.create = !readonly, .readonly = readonly};
  sdm_store *copy;
  if (sdm_store_open(fresh, &o, wall_ms(), &copy) != SDM_CORRUPT) wrong("%s is a backup that was interrupted, and opens", fresh);
}

/* Whoever made it may have died at any point: from its topics file on it is whole, before it is nobody's. */
static void judge(using *u) {
  if (has("/sediment.topics")) {
    put_aside();
    check_whole(u, used);
  } else if (has("/sediment.backup")) {
    check_refused(false);
    check_refused(true);
    atomic_fetch_add(&the_herd->refused, 1);
  }
  if (has("") && remove_tree(fresh) != 0) wrong("%s cannot be removed", fresh);
  remove_used();
}

/* ---- making it ---- */

static void note_ledger(void) {
  for (int i = 0; i < TOPICS; i++) {
    atomic_store(&me->starts[i], atomic_load(&the_ledger->topics[i].told_start));
    atomic_store(&me->ends[i], atomic_load(&the_ledger->topics[i].end));
  }
}

/* A store that changes all the time may be too busy to be copied: then nothing is left. */
static void back_up(using *u) {
  note_ledger();
  atomic_store(&me->copying, true);
  int rc = sdm_store_backup(u->store, fresh, wall_ms());
  atomic_store(&me->copying, false);
  if (rc == SDM_BUSY && !has("")) return;
  must(rc, "back up");
  if (!has("/sediment.topics")) wrong("%s is a backup that was done, and no store", fresh);
}

_Noreturn void copy_on(using *u) {
  bool readonly = draw(u, 3) == 0;
  snprintf(fresh, sizeof fresh, "%s.copy", the_herd->store);
  snprintf(used, sizeof used, "%s.used", the_herd->store);
  while (readonly && !use_store_readonly(u)) {}
  if (!readonly) use_store(u, false);
  for (;;) {
    uint32_t seen = atomic_load(&the_ledger->pulse);
    judge(u);
    back_up(u);
    add_progress(1);
    judge(u);
    add_progress(1);
    futex_wait(&the_ledger->pulse, seen, -1);
  }
}
