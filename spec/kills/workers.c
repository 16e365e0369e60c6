#include "kills/workers.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "kills/checks.h"
#include "kills/copier.h"
#include "kills/follower.h"
#include "kills/points.h"
#include "kills/sight.h"

static using use;

/* ---- writers ---- */

/* What inherited an open store keeps nothing from others, may do nothing with it, and does no harm by closing it or by not closing it. */
static _Noreturn void be_orphan(void) {
  int64_t offset;
  int32_t where;
  uint32_t author = (uint32_t)(me - the_herd->slots);
  ledger_record made;
  sdm_maintain_report report;
  me = &the_herd->slots[SLOT_ORPHAN];
  atomic_store(&the_herd->orphan, getpid());
  tell_news();
  while (atomic_load(&the_herd->release) == 0) {
    futex_wait(&the_herd->release, 0, 1000000000);
    if (kill(the_herd->driver, 0) < 0) _exit(1);         /* it has nobody left */
  }
  ledger_make(TOPIC_KEPT, author, RECORDS_MAX, &made);       /* a number that no author begins */
  made.record.timestamp = wall_ms();
  if (sdm_topic_append(use.topics[TOPIC_KEPT], &made.record, 0, 0, wall_ms(), &offset, &where) != SDM_FORKED) wrong("a handle from before a fork appends");
  if (sdm_log_latest(use.logs[TOPIC_KEPT], &offset) != SDM_FORKED) wrong("a handle from before a fork reads");
  if (sdm_store_maintain(use.store, wall_ms(), &report) != SDM_FORKED) wrong("a handle from before a fork maintains");
  if (draw(&use, 2) == 0) leave_store(&use);
  _exit(0);
}

static void fork_when_told(void) {
  if (!atomic_load(&me->forks)) return;
  pid_t pid = fork();
  if (pid < 0) wrong("fork failed");
  if (pid == 0) be_orphan();
  atomic_store(&me->forks, false);
}

static void await_quota(void) {
  for (;;) {
    uint32_t quota = atomic_load(&me->quota);
    if ((int32_t)(quota - atomic_load(&me->begun)) > 0) return;
    futex_wait(&me->quota, quota, 100000000);      /* what else one is told does not move the quota */
    fork_when_told();
  }
}

/* The first writer has everything synced. Some have a thread that cleans and keeps, too. */
static void write_on(void) {
  uint32_t author = (uint32_t)(me - the_herd->slots);
  use_store(&use, draw(&use, 2));
  for (;;) {
    await_quota();
    fork_when_told();
    atomic_fetch_add(&me->begun, 1);
    append(&use, (int)draw(&use, TOPICS), author, author == 0 ? SDM_SYNC : 0);
    if (draw(&use, 2000) > 0) continue;
    leave_store(&use);
    use_store(&use, draw(&use, 2));
  }
}

/* ---- readers ---- */

/* Reads a topic from its start, again and again what has come; where it stands. */
typedef struct reading {
  sight sight;
  int64_t position;
} reading;

static void read_more(reading *x, int topic) {
  int64_t end = atomic_load(&the_ledger->topics[topic].end), start = start_of(use.logs[topic], topic);
  if (x->position < start) {
    if (topic == TOPIC_KEPT) wrong("topic %s: the log start is %lld", topic_names[topic], (long long)start);
    x->position = start;
    if (topic == TOPIC_TRIMMED) sight_begin_again(&x->sight, start);
  }
  uint64_t before = x->sight.count;
  int64_t position = sight_read(&x->sight, use.logs[topic], x->position);
  if (position == SDM_OFFSET_OUT_OF_RANGE && topic == TOPIC_TRIMMED) return;       /* the start has moved meanwhile */
  if (position == SDM_BUSY) return;                                                /* read-only, and somebody takes the store over */
  must((int)(position < 0 ? position : 0), topic_names[topic]);
  if (position < end) wrong("topic %s: offset %lld was acknowledged, and a reader ends at %lld", topic_names[topic], (long long)end - 1, (long long)position);
  sight_end(&x->sight, position);
  x->position = position;
  atomic_fetch_add(&the_herd->read, x->sight.count - before);
}

static void read_on(void) {
  reading readings[TOPICS] = {0};
  bool readonly = draw(&use, 2) == 0;
  while (readonly && !use_store_readonly(&use)) {}
  if (!readonly) use_store(&use, false);
  for (int i = 0; i < TOPICS; i++) sight_begin(&readings[i].sight, i, i == TOPIC_COMPACTED ? INT64_MAX : 0);
  for (;;) {
    uint32_t seen = atomic_load(&the_ledger->pulse);
    for (int i = 0; i < TOPICS; i++) read_more(&readings[i], i);
    add_progress(1);
    futex_wait(&the_ledger->pulse, seen, -1);
  }
}

/* ---- cleaners ---- */

static void clean(void) {
  sdm_compact_report report;
  int64_t base;
  must(sdm_log_roll(use.logs[TOPIC_COMPACTED], wall_ms(), &base), "roll");
  must(sdm_topic_compact(use.topics[TOPIC_COMPACTED], true, wall_ms(), &report), "compact");
  if (report.corrupt != 0) wrong("compaction found %lld damaged batches", (long long)report.corrupt);
}

/* Two of them do this at once. */
static void clean_on(void) {
  use_store(&use, false);
  for (;;) {
    uint32_t seen = atomic_load(&the_ledger->pulse);
    clean();
    add_progress(1);
    futex_wait(&the_ledger->pulse, seen, -1);
  }
}

/* ---- the keeper: what takes records from the start of a log, and everything else that is due ---- */

static void delete_some(void) {
  int64_t start, end, told;
  sdm_log *log = use.logs[TOPIC_TRIMMED];
  ledger_topic *t = &the_ledger->topics[TOPIC_TRIMMED];
  must(sdm_log_earliest(log, &start), "earliest");
  must(sdm_log_latest(log, &end), "latest");
  int64_t before = start + (int64_t)draw(&use, (uint64_t)(end - start) + 1);
  raise_to(&t->asked_start, before);
  must(sdm_log_delete_records(log, before, wall_ms(), &told), "delete records");
  if (told < before) wrong("records below %lld were deleted, and the log starts at %lld", (long long)before, (long long)told);
  raise_to(&t->told_start, told);
}

static void retain(void) {
  sdm_retain_report report;
  must(sdm_topic_retain(use.topics[TOPIC_TRIMMED], wall_ms(), &report), "retain");
  raise_to(&the_ledger->topics[TOPIC_TRIMMED].told_start, start_of(use.logs[TOPIC_TRIMMED], TOPIC_TRIMMED));
}

static void maintain(void) {
  sdm_maintain_report report;
  must(sdm_store_maintain(use.store, wall_ms(), &report), "maintain");
  if (report.failed || report.corrupt) wrong("maintenance failed in %lld partitions: %s", (long long)report.failed, sdm_errmsg());
}

/* A topic that comes and goes. One that a killed keeper has left is there. */
static void make_and_delete(void) {
  sdm_topic *t;
  sdm_record r = {.key = "k", .key_size = 1, .value = "v", .value_size = 1, .timestamp = wall_ms()};
  int64_t offset;
  int32_t where;
  must(sdm_topic_open(use.store, "passing", &(sdm_settings){NULL, 0}, wall_ms(), &t), "make a topic");
  must(sdm_topic_append(t, &r, 0, 0, wall_ms(), &offset, &where), "append to a new topic");
  sdm_topic_release(t);
  must(sdm_store_delete_topic(use.store, "passing", false, wall_ms()), "delete a topic");
}

static void keep_on(void) {
  use_store(&use, false);
  for (;;) {
    uint32_t seen = atomic_load(&the_ledger->pulse);
    switch (draw(&use, 8)) {
    case 0: make_and_delete(); break;
    case 1: case 2: delete_some(); break;
    case 3: case 4: maintain(); break;
    default: retain(); break;
    }
    add_progress(1);
    futex_wait(&the_ledger->pulse, seen, -1);
  }
}

/* ---- who verifies ---- */

static _Noreturn void verify(bool still) {
  char mark[300];
  use_store(&use, false);
  for (int i = 0; i < TOPICS; i++) {
    int64_t end = atomic_load(&the_ledger->topics[i].end);
    check_topic(use.logs[i], i, atomic_load(&the_ledger->topics[i].told_start), end, still);
  }
  if (still) check_files(use.store, true);
  for (int i = 0; i < TOPICS; i++) append(&use, i, WRITERS, 0);
  if (draw(&use, 2) == 0) _exit(0);        /* the next to open finds it dead */
  leave_store(&use);
  snprintf(mark, sizeof mark, "%s/.kafka_cleanshutdown", the_herd->store);
  if (still && access(mark, F_OK) != 0) wrong("the store was closed by the last who had it open, and somebody else seemed to have it, too");
  _exit(0);
}

_Noreturn void work(void) {
  use.random.state = the_herd->seed ^ (uint64_t)(me - the_herd->slots) << 40 ^ (uint64_t)me->life << 50;
  points_begin();
  switch (me->role) {
  case ROLE_WRITER: write_on(); break;
  case ROLE_READER: read_on(); break;
  case ROLE_CLEANER: clean_on(); break;
  case ROLE_KEEPER: keep_on(); break;
  case ROLE_FOLLOWER: follow_on(&use); break;
  case ROLE_COPIER: copy_on(&use); break;
  case ROLE_VERIFIER: verify(me->still); break;
  case ROLE_ORPHAN: break;                 /* one is not made so */
  }
  _exit(1);
}
