#include "kills/rounds.h"

#include <signal.h>

static slot *writer(int i) { return &the_herd->slots[i]; }

/* A writer that has had an append acknowledged in this life, and so is not just opening. */
static bool works(const slot *s) { return lives(s) && !s->stopped && atomic_load(&s->progress) > atomic_load(&s->began); }

static void raise_quotas(void) {
  for (int i = 0; i < WRITERS; i++) {
    atomic_store(&writer(i)->quota, atomic_load(&writer(i)->begun) + QUOTA);
    futex_wake(&writer(i)->quota);
  }
}

/* ---- how far it has come ---- */

static void set_goal(slot *s, uint64_t more) {
  atomic_store(&s->goal_ns, 0);
  atomic_store(&s->goal, atomic_load(&s->progress) + more);
}

static bool reached_goal(const slot *s) { return atomic_load(&s->goal_ns) != 0; }

/* The first that lives of those that are killed, from a random one on; it comes to life if need be. */
static slot *choose_living(int below) {
  int first = (int)choose((uint64_t)below);
  for (int i = 0; i < below; i++) {
    slot *s = &the_herd->slots[(first + i) % below];
    if (lives(s) && !s->stopped) return s;
  }
  spawn(first, 0);
  return &the_herd->slots[first];
}

/* A random moment: when some writer has had so many appends acknowledged, or is dead. Or earlier, when `watched`, armed, has ended by itself. */
typedef struct moment {
  const slot *who, *watched;
} moment;

static bool has_come(void *context) {
  const moment *m = context;
  return !lives(m->who) || reached_goal(m->who) || (m->watched && (!lives(m->watched) || m->watched->stopped));
}

static void await_moment(const slot *watched, uint64_t appends) {
  slot *who = choose_living(WRITERS);
  set_goal(who, 1 + choose(appends));
  raise_quotas();
  await(has_come, &(moment){who, watched}, STUCK_S, "a writer goes on");
}

/* From there some microseconds more: acknowledgements have their favourite instants, too. */
static void spin(void) {
  int64_t until = now_ns() + (int64_t)choose(200000);
  while (now_ns() < until) {}
}

/* ---- the survivors ---- */

static bool are_served(void *context) {
  (void)context;
  for (int i = 0; i < WRITERS; i++) {
    if (works(writer(i)) && !reached_goal(writer(i))) return false;
  }
  return true;
}

/* The second append from now on was begun after now. */
static void set_goals(void) {
  for (int i = 0; i < WRITERS; i++) set_goal(writer(i), 2);
  raise_quotas();                          /* last: it reaches to the goals then */
}

/* ---- who waits for news ---- */

static slot *follower(int i) { return &the_herd->slots[SLOT_FOLLOWERS + i]; }

/* Offsets up to which the followers of each topic are to come. One that was just born has to read what there is first. */
typedef struct stands { int64_t ends[TOPICS]; } stands;

static bool has_heard(const slot *s, const stands *to) {
  int topic = atomic_load(&s->follows) - 1;
  return !lives(s) || s->stopped || topic < 0 || atomic_load(&s->seen) >= to->ends[topic];
}

static bool have_heard(void *context) {
  for (int i = 0; i < FOLLOWERS; i++) {
    if (!has_heard(follower(i), context)) return false;
  }
  return true;
}

/* Every follower reads what was acknowledged before now. */
static void await_followers(void) {
  stands to;
  for (int t = 0; t < TOPICS; t++) to.ends[t] = atomic_load(&the_ledger->topics[t].end);
  atomic_store(&the_herd->watched, true);
  await(have_heard, &to, BOUND_S, "who waits for records hears of those that were appended");
  atomic_store(&the_herd->watched, false);
}

/* Every surviving writer gets an append through that it began after the kill. */
static void serve_survivors(int64_t since) {
  bool any = false;
  int64_t last = 0;
  for (int i = 0; i < WRITERS; i++) any = any || works(writer(i));
  if (!any) return;
  set_goals();
  await(are_served, NULL, BOUND_S, "the writers that survive a kill get their appends through");
  for (int i = 0; i < WRITERS; i++) {
    int64_t at = atomic_load(&writer(i)->goal_ns);
    if (works(writer(i)) && at > last) last = at;
  }
  if (last != 0) note_latency(&the_figures.served, last - since);        /* else they have died, too */
  await_followers();
}

/* ---- killing ---- */

/* One, or some, at a random moment. */
static void kill_some(void) {
  uint64_t many = choose(4) ? 1 : 1 + choose(HERD);
  int64_t since = now_ns();
  await_moment(NULL, 200);
  spin();
  for (uint64_t i = 0; i < many; i++) {
    slot *s = choose_living(HERD);
    end_one(s, WAY_MOMENT);
    since = atomic_load(&s->ended_ns);
  }
  serve_survivors(since);
}

/* A backup has many calls. */
static void arm(slot *s, int number) {
  s->signal = number;
  s->when = (slot_when)choose(3);
  atomic_store(&s->armed, 1 + (int)choose(s->role == ROLE_COPIER ? 1000 : 40));
}

/* One that kills itself at a call of the file system; if it does not come to that, it is killed as it stands. */
static void kill_at_call(void) {
  slot *s = choose_living(HERD);
  arm(s, SIGKILL);
  await_moment(s, 500);
  if (lives(s)) end_one(s, WAY_MOMENT);
  serve_survivors(atomic_load(&s->ended_ns));
}

/* A writer, killed between two instructions: one without a thread of the store's, which would go on meanwhile. */
static void kill_stepped(void) {
  await_moment(NULL, 100);
  slot *s = choose_living(WRITERS);
  for (int i = 0; i < WRITERS && (!works(s) || atomic_load(&s->background)); i++) s = writer(i);
  raise_quotas();
  if (!works(s) || atomic_load(&s->background) || !step_and_kill(s)) {
    kill_some();
    return;
  }
  serve_survivors(atomic_load(&s->ended_ns));
}

/* A writer dies and leaves a child that has inherited its open store. */
static bool is_born(void *context) { return atomic_load(&the_herd->orphan) != 0 || !lives(context); }

static void leave_orphan(void) {
  slot *s = choose_living(WRITERS), *orphan = &the_herd->slots[SLOT_ORPHAN];
  await_moment(NULL, 200);
  if (lives(orphan) || !lives(s)) return;
  atomic_store(&s->armed, 0);
  atomic_store(&the_herd->orphan, 0);
  atomic_store(&the_herd->release, 0);
  atomic_store(&s->forks, true);
  futex_wake(&s->quota);
  await(is_born, s, STUCK_S, "a writer forks");
  orphan->pid = atomic_load(&the_herd->orphan);
  the_figures.orphans += lives(orphan);
  if (lives(s)) end_one(s, WAY_MOMENT);
  serve_survivors(atomic_load(&s->ended_ns));
}

/* ---- stopping ---- */

static bool is_stopped(void *context) { return ((slot *)context)->stopped || !lives(context); }

/* Whether the writer waits for a lock that the stopped process has, or may have. While one of them opens the store, locks are not known by name. */
static bool waits_for(const slot *w, const slot *stopped) {
  bool opening = atomic_load(&w->opening) || atomic_load(&stopped->opening), waits = false, has = false;
  for (int i = 0; i < LOCKS; i++) {
    bool waits_here = atomic_load(&w->near[i]) > atomic_load(&w->held[i]), has_here = atomic_load(&stopped->near[i]) > 0;
    if (waits_here && has_here) return true;
    waits = waits || waits_here;
    has = has || has_here;
  }
  return opening && (waits || atomic_load(&w->opening)) && (has || atomic_load(&stopped->opening));
}

/* Or for one who waits for it: whoever deletes records has the lock of the log's end while it writes the checkpoint file, which all partitions share. */
static bool waits_in_row(const slot *w, const slot *stopped) {
  if (waits_for(w, stopped)) return true;
  for (int i = 0; i < HERD; i++) {
    const slot *between = &the_herd->slots[i];
    if (between != w && lives(between) && waits_for(w, between) && waits_for(between, stopped)) return true;
  }
  return false;
}

static bool are_served_or_wait(void *context) {
  for (int i = 0; i < WRITERS; i++) {
    if (works(writer(i)) && !reached_goal(writer(i)) && !waits_in_row(writer(i), context)) return false;
  }
  return true;
}

/* Appends that others begin while somebody stopped has the lock of the topic's end: none may be acknowledged. */
typedef struct begun_rows { uint32_t of[TOPICS][AUTHORS]; } begun_rows;

static void mark_rows(begun_rows *marks) {
  for (int t = 0; t < TOPICS; t++) {
    for (int a = 0; a < AUTHORS; a++) marks->of[t][a] = atomic_load(&the_ledger->topics[t].rows[a].begun);
  }
}

static void check_nothing_stolen(const begun_rows *marks, const slot *stopped) {
  for (int t = 0; t < TOPICS; t++) {
    if (atomic_load(&stopped->held[LOCK_END + t]) == 0) continue;
    for (int a = 0; a < AUTHORS; a++) {
      const ledger_row *row = &the_ledger->topics[t].rows[a];
      for (uint32_t i = marks->of[t][a]; i < atomic_load(&row->begun); i++) {
        if (ledger_told(row, i) >= 0) give_up("topic %s: writer %d appended while a stopped process had the lock", topic_names[t], a);
      }
    }
  }
}

static bool is_past(void *context) { return now_ns() > *(int64_t *)context; }

/* How long it stays stopped is nothing that could be waited for: in that time nothing may happen. */
static void stay_stopped(const slot *s, const begun_rows *marks) {
  int64_t until = now_ns() + 1000000 * (int64_t)(1 + choose(15));
  set_goals();
  atomic_store(&the_herd->watched, true);
  await(are_served_or_wait, (void *)s, BOUND_S, "while one process is stopped, the writers go on or wait for its lock");
  await(is_past, &until, STUCK_S, "time passes");
  atomic_store(&the_herd->watched, false);
  check_nothing_stolen(marks, s);
}

/* At a random moment, or at a call of the file system. */
static void stop(slot *s) {
  bool at_call = choose(2);
  s->to_stop = true;
  if (at_call) arm(s, SIGSTOP);
  await_moment(at_call ? s : NULL, at_call ? 500 : 200);
  spin();
  atomic_store(&s->armed, 0);
  if (lives(s) && !s->stopped) kill(s->pid, SIGSTOP);
  await(is_stopped, s, STUCK_S, "a process stops");
}

static void stop_one(void) {
  slot *s = choose_living(HERD);
  begun_rows marks;
  stop(s);
  if (!lives(s)) return;
  mark_rows(&marks);
  the_figures.stops++;
  for (int i = 0; i < LOCK_MAINTENANCE; i++) the_figures.stops_holding += atomic_load(&s->held[i]) > 0;
  stay_stopped(s, &marks);
  go_on(s);
  set_goals();
  await(are_served, NULL, BOUND_S, "after a stop all writers go on");
  await_followers();
}

/* ---- news, one by one ---- */

static bool is_idle(const slot *s) {
  uint32_t begun = atomic_load(&s->begun);
  return (int32_t)(atomic_load(&s->quota) - begun) <= 0 && begun == (uint32_t)atomic_load(&s->progress);
}

static bool are_idle(void *context) {
  (void)context;
  for (int i = 0; i < WRITERS; i++) {
    slot *s = writer(i);
    if (lives(s) && !is_idle(s)) return false;
  }
  return true;
}

static void halt_writers(void) {
  for (int i = 0; i < WRITERS; i++) atomic_store(&writer(i)->quota, atomic_load(&writer(i)->begun));
  await(are_idle, NULL, STUCK_S, "writers that have used up their quota wait");
}

static bool has_appended(void *context) {
  slot *s = context;
  return !lives(s) || reached_goal(s);
}

/* From the append's return until the last follower had it, if its topic has any; they may be quicker than the return. */
static void note_hearing(const slot *s, int64_t since) {
  int64_t last = 0, at = atomic_load(&s->goal_ns);
  for (int i = 0; i < FOLLOWERS; i++) {
    int64_t seen = atomic_load(&follower(i)->seen_ns);
    if (lives(follower(i)) && atomic_load(&follower(i)->follows) > 0 && seen > last) last = seen;
  }
  if (last > since && at > 0) note_latency(&the_figures.heard, last > at ? last - at : 0);
}

static void tell_one(slot *s) {
  int64_t since = now_ns();
  set_goal(s, 1);
  atomic_store(&s->quota, atomic_load(&s->begun) + 1);     /* it may have begun one more than it was halted at */
  futex_wake(&s->quota);
  await(has_appended, s, STUCK_S, "a writer appends once");
  await_followers();
  note_hearing(s, since);
}

/* Nothing but its own wake-up tells of an append when no other one follows. Now and then one of those who wait dies, or hears of it when it goes on. */
static void tell_one_by_one(void) {
  enum { TIMES = 50 };
  await_moment(NULL, 200);
  halt_writers();
  for (int i = 0; i < TIMES; i++) {
    slot *s = writer((int)choose(WRITERS)), *f = follower((int)choose(FOLLOWERS));
    if (choose(TIMES) == 0 && lives(f)) end_one(f, WAY_MOMENT);
    if (lives(s)) tell_one(s);
  }
}

/* ---- rounds ---- */

void start_all(void) {
  for (int i = 0; i < HERD; i++) {
    slot *s = &the_herd->slots[i];
    if (!lives(s)) spawn(i, choose(6) ? 0 : 1 + (int)choose(30));
  }
}

void run_round(void) {
  the_figures.rounds++;
  start_all();
  raise_quotas();
  switch (choose(17)) {
  case 0: stop_one(); break;
  case 1: leave_orphan(); break;
  case 16: tell_one_by_one(); break;
  case 2: case 3: case 4: case 5: case 6: kill_stepped(); break;
  case 7: case 8: case 9: case 10: case 11: kill_at_call(); break;
  default: kill_some(); break;
  }
}

/* ---- verifying ---- */

static bool is_gone(void *context) { return !lives(context); }

/* True: it has checked everything; false: it has killed itself before. */
static bool verify_once(bool still, int armed) {
  slot *s = &the_herd->slots[SLOT_VERIFIER];
  s->still = still;
  spawn(SLOT_VERIFIER, armed);
  await(is_gone, s, 6 * STUCK_S, "a verification ends");
  return !atomic_load(&s->reached);
}

void verify_running(void) {
  start_all();
  raise_quotas();
  the_figures.verifications += verify_once(false, 0);
}

static void release_orphan(void) {
  slot *orphan = &the_herd->slots[SLOT_ORPHAN];
  if (!lives(orphan)) return;
  atomic_store(&the_herd->release, 1);
  futex_wake(&the_herd->release);
  await(is_gone, orphan, STUCK_S, "a child that has inherited an open store ends");
}

void verify_still(void) {
  end_all();
  while (!verify_once(true, choose(2) ? 0 : 1 + (int)choose(80))) {}
  release_orphan();
  figures *f = &the_figures;
  f->verifications++;
  f->verified_kills = 0;
  for (int i = 0; i < WAYS; i++) f->verified_kills += f->kills[i];
}
