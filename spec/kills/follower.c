#include "kills/follower.h"

#include "kills/checks.h"
#include "kills/sight.h"
#include "log/log.h"
#include "os/thread.h"

typedef struct follower {
  sdm_log *log;
  int topic;
  bool keeps;                              /* one reader for all its life; else a new one after each wait */
  sdm_reader *reader;
  int64_t position;
  sight sight;
} follower;

/* ---- sleeping ---- */

static uint32_t *awaited;                  /* the word on which it sleeps */
static uint32_t deaths;                    /* how many there were when this wait began */

bool __real_sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms);
bool __wrap_sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms);

bool __wrap_sdm_futex_wait(uint32_t *word, uint32_t seen, int64_t timeout_ms) {
  bool real = word != awaited || atomic_load(&the_herd->deaths) != deaths, going_on;
  if (real) return __real_sdm_futex_wait(word, seen, timeout_ms);
  atomic_store(&me->waits, true);
  int rc = futex_wait_for_either((_Atomic uint32_t *)word, seen, &the_herd->deaths, deaths);
  going_on = rc < 0 ? __real_sdm_futex_wait(word, seen, timeout_ms) : rc > 0;
  atomic_store(&me->waits, false);
  return going_on;
}

/* ---- following ---- */

static void close_reader(follower *f) {
  sdm_reader_close(f->reader);
  f->reader = NULL;
}

/* The log's start has passed it. */
static void begin_again(follower *f) {
  f->position = start_of(f->log, f->topic);
  sight_begin_again(&f->sight, f->position);
}

/* 1: up to where the log ended when the reader was opened, or last waited. */
static int read_on(follower *f) {
  sdm_record r;
  int rc = f->reader ? 1 : sdm_reader_open(f->log, f->position, SDM_TO_END, 0, &f->reader);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(f->reader, &r)) == 1) sight_take(&f->sight, &r);
  f->position = sdm_reader_position(f->reader);
  return rc < 0 ? rc : 1;
}

static int read_up_to(follower *f, int64_t end) {
  int rc;
  while ((rc = read_on(f)) == 1 && f->position < end && (rc = sdm_reader_wait(f->reader, 0)) == 1) {}
  if (rc < 0) close_reader(f);
  return rc;
}

static void tell_position(const follower *f) {
  atomic_store(&me->seen_ns, now_ns());
  atomic_store(&me->seen, f->position);
  atomic_store(&me->follows, 1 + f->topic);
  if (atomic_load(&the_herd->watched)) tell_news();
}

/* False: it is to be tried again. */
static bool catch_up(follower *f) {
  int64_t end = atomic_load(&the_ledger->topics[f->topic].end);
  uint64_t before = f->sight.count;
  int rc = read_up_to(f, end);
  if (rc == SDM_BUSY) return false;        /* read-only, and somebody takes the store over */
  if (rc == SDM_OFFSET_OUT_OF_RANGE && f->topic == TOPIC_TRIMMED) {
    begin_again(f);
    return false;
  }
  must(rc, topic_names[f->topic]);
  if (f->position < end) {
    wrong("topic %s: offset %lld was acknowledged, and a follower stands at %lld", topic_names[f->topic], (long long)end - 1, (long long)f->position);
  }
  sight_end(&f->sight, f->position);
  atomic_fetch_add(&the_herd->read, f->sight.count - before);
  return true;
}

static void wait_for_news(follower *f) {
  deaths = atomic_load(&the_herd->deaths);
  if (!f->keeps) close_reader(f);
  int rc = f->reader ? sdm_reader_wait(f->reader, -1) : sdm_log_wait(f->log, f->position, -1);
  if (rc != SDM_BUSY) must(rc, "wait");
  if (rc == 0) wrong("topic %s: a wait without a limit has come to one", topic_names[f->topic]);
}

static void begin(follower *f, using *u) {
  bool readonly = draw(u, 4) == 0;
  while (readonly && !use_store_readonly(u)) {}
  if (!readonly) use_store(u, false);
  *f = (follower){.topic = (int)draw(u, TOPICS), .keeps = draw(u, 2)};
  f->log = u->logs[f->topic];
  if (!readonly) awaited = (uint32_t *)&f->log->control->news;
  f->position = start_of(f->log, f->topic);
  sight_begin(&f->sight, f->topic, f->topic == TOPIC_COMPACTED ? INT64_MAX : f->position);
}

_Noreturn void follow_on(using *u) {
  follower f;
  begin(&f, u);
  for (;;) {
    if (!catch_up(&f)) continue;
    tell_position(&f);
    add_progress(1);
    wait_for_news(&f);
  }
}
