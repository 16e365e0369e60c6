#include "kills/using.h"

#include <time.h>

#include "kills/points.h"
#include "scripted.h"

int64_t wall_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void must(int rc, const char *what) {
  if (rc < 0) wrong("%s: %s (%s)", what, sdm_errmsg(), sdm_code_name(rc));
}

uint64_t draw(using *u, uint64_t n) { return test_random_below(&u->random, n); }

static sdm_setting integer(const char *name, int64_t n) { return (sdm_setting){name, {.type = SDM_VALUE_INT, .integer = n}}; }
static sdm_setting text(const char *name, const char *s) { return (sdm_setting){name, {.type = SDM_VALUE_STRING, .string = s}}; }

__attribute__((constructor)) static void decide_by_script(void) { sdm_policy_engine_set(&SCRIPTED); }

/* Everything is small or often, so that little work meets much change; but the topic that keeps all it gets would soon have thousands of segments. Each
** process has its own idea of segment.bytes, and of who decides what compaction keeps, and so alters the topics.
*/
static void open_topic(using *u, int i) {
  static const char *const policies[TOPICS] = {"delete", "compact", "delete"};
  sdm_setting items[] = {text("cleanup.policy", policies[i]), integer("segment.bytes", (i == TOPIC_KEPT ? 40000 : 5000) + 2000 * (int64_t)draw(u, 3)), integer("retention.ms", -1),
                         integer("retention.bytes", i == TOPIC_TRIMMED ? RETENTION_BYTES : -1), integer("delete.retention.ms", 0),
                         integer("file.delete.delay.ms", 5), integer("index.interval.bytes", 300), text("min.cleanable.dirty.ratio", "0"), integer("policy.interval.ms", 10),
                         text("policy.script", i == TOPIC_COMPACTED && draw(u, 2) ? "p" : "")};
  must(sdm_topic_open(u->store, topic_names[i], &(sdm_settings){items, sizeof items / sizeof *items}, wall_ms(), &u->topics[i]), "open a topic");
}

static void take_log(using *u, int i) {
  must(sdm_topic_log(u->topics[i], 0, wall_ms(), &u->logs[i]), "open a partition");
  points_know(i, u->logs[i]);
}

void use_store(using *u, bool background) {
  sdm_setting options[] = {integer("log.cleaner.dedupe.buffer.size", 1 << 20), integer("linger.ms", 20), integer("log.cleaner.backoff.ms", 15),
                           integer("log.retention.check.interval.ms", 10), integer("log.initial.task.delay.ms", 5),
                           integer("log.flush.offset.checkpoint.interval.ms", 20)};
  sdm_store_options o = {.create = true, .background = background, .wall_clock = true, .options = {options, sizeof options / sizeof *options}};
  atomic_store(&me->opening, true);
  atomic_store(&me->background, background);
  must(sdm_store_open(the_herd->store, &o, wall_ms(), &u->store), "open the store");
  must(sdm_store_policy_set(u->store, "p", "script", 6), "put a policy script there");
  for (int i = 0; i < TOPICS; i++) {
    open_topic(u, i);
    take_log(u, i);
  }
  atomic_store(&me->opening, false);
}

bool use_store_readonly(using *u) {
  sdm_store_options o = {.readonly = true};
  int rc = sdm_store_open(the_herd->store, &o, wall_ms(), &u->store);
  if (rc == SDM_BUSY) return false;
  must(rc, "open the store read-only");
  for (int i = 0; i < TOPICS; i++) {
    must(sdm_topic_open(u->store, topic_names[i], NULL, wall_ms(), &u->topics[i]), "open a topic read-only");
    take_log(u, i);
  }
  return true;
}

void leave_store(using *u) {
  atomic_store(&me->opening, true);
  for (int i = 0; i < TOPICS; i++) {
    points_know(i, NULL);
    sdm_topic_release(u->topics[i]);
    u->topics[i] = NULL;
  }
  must(sdm_store_close(u->store, wall_ms()), "close the store");
  u->store = NULL;
}

/* What was acknowledged as synced is below the durable offset: what it is worth when the power goes is for the simulated disk (spec/sim). */
static void check_durable(using *u, int topic, int64_t last) {
  sdm_log_stats stats;
  must(sdm_log_get_stats(u->logs[topic], wall_ms(), &stats), "stats");
  if (stats.durable_offset <= last) {
    wrong("topic %s: offset %lld was synced, and the durable offset is %lld", topic_names[topic], (long long)last, (long long)stats.durable_offset);
  }
}

void append(using *u, int topic, uint32_t author, unsigned flags) {
  static ledger_record made[BATCH_MAX];
  sdm_record records[BATCH_MAX];
  int64_t now = wall_ms(), first, last;
  int32_t where;
  uint32_t number = atomic_load(&the_ledger->topics[topic].rows[author].begun), count = ledger_batch(topic, author, number);
  for (uint32_t i = 0; i < count; i++) {
    ledger_make(topic, author, number + i, &made[i]);
    records[i] = made[i].record;
    records[i].timestamp = now;
  }
  ledger_begin(topic, author, count);
  if (count > 1) {
    must(sdm_topic_append_batch(u->topics[topic], records, count, 0, SDM_CODEC_NONE, flags, now, &first, &last, &where), "append a batch");
    if (last - first != count - 1) wrong("topic %s: %u records got the offsets %lld to %lld", topic_names[topic], count, (long long)first, (long long)last);
  } else {
    must(sdm_topic_append(u->topics[topic], records, 0, flags, now, &first, &where), "append");
    last = first;
  }
  ledger_acknowledge(topic, author, number, count, first);
  add_progress(1);
  if (flags & SDM_SYNC) check_durable(u, topic, last);
}
