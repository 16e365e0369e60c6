/* Crashes at every system call. Histories of a program on a simulated disk are run; before each call that changes the disk, and after each operation,
** disks are made that a loss of power or the death of the process could leave there. Each is opened by the real recovery and held against the ledger;
** so are disks that a crash inside such a recovery leaves.
**
** Histories follow from their seeds, and the crashes from them. Several processes take the seeds one after the other; what they have done is added up in memory
** that they share. None outlives the first.
*/
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "sim/world.h"
#include "store/store.h"

static const char usage[] =
    "torture [--seconds N] [--histories N] [--first SEED] [--jobs N]     10 seconds in one process, from seed 1 on, when nothing is said\n"
    "torture --seed SEED [--verbose]                                     one history again\n";

enum { STEPS = 60, DEPTH_MAX = 3 };

static const sim_profile losses[] = {SIM_PREFIX, SIM_ORDERED, SIM_ANY, SIM_COPYING, SIM_PREFIX, SIM_ORDERED, SIM_ANY, SIM_COPYING, SIM_ANY, SIM_LYING};
enum { LOSSES = sizeof losses / sizeof *losses };          /* of power, tried at each call */

enum { FEW = 3 };                         /* unsynced changes of which every choice is tried */
static const sim_profile more_losses[] = {SIM_ANY, SIM_LYING};

/* Of all processes. */
typedef struct tally {
  _Atomic uint64_t begun, passed, failed;  /* histories */
  _Atomic uint64_t calls, states, nested;  /* calls before which a crash was tried; disks opened; of these after a crash inside recovery */
} tally;

typedef struct torture {
  world w;
  tally *tally;
  uint64_t seed, mark;
  test_random random;
  int step;
  bool verbose;
  char why[900];                          /* the first thing that was wrong */
} torture;

/* One that is being opened again: the hook's context. */
typedef struct reopening {
  torture *t;
  sim_disk *disk;
  uint64_t mark;
  int depth;
  ledger_loss loss;
} reopening;

static void check(torture *t, sim_disk *disk, ledger_loss loss, int depth, const char *how);

static unsigned long long ull(uint64_t n) { return n; }

static void tell(const tally *sum) { progress("%llu histories, %llu crash states, %llu failed", ull(sum->passed + sum->failed), ull(sum->states), ull(sum->failed)); }

static ledger_loss loss_of(sim_profile profile) {
  return profile == SIM_PREFIX ? LEDGER_TAIL : profile == SIM_LYING ? LEDGER_LIE : LEDGER_ANY;
}

static void fail(torture *t, const sim_disk *disk, const char *how, int depth, const char *why) {
  if (t->why[0]) return;
  snprintf(t->why, sizeof t->why, "seed %llu, step %d (%s), %s%s: %s", (unsigned long long)t->seed, t->step, t->w.doing, how,
           depth ? ", inside recovery" : "", why);
  if (t->verbose) sim_print(disk);
}

/* ---- opening what a crash left ---- */

static bool changes_something(sim_call c) { return c != SIM_READ && c != SIM_LIST && c != SIM_OPEN && c != SIM_CREATE && c != SIM_MAP; }

static int crash_inside(void *context, sim_call call, const char *path, size_t *partial) {
  reopening *o = context;
  (void)path, (void)partial;
  if (!changes_something(call) || !sim_changed(o->disk, &o->mark) || test_random_next(&o->t->random) % 8 != 0) return 0;
  size_t i = test_random_next(&o->t->random) % (LOSSES + 1);
  o->t->tally->nested++;
  if (i == LOSSES) {
    check(o->t, sim_death(o->disk), o->loss, o->depth + 1, "death again");
    return 0;
  }
  ledger_loss loss = loss_of(losses[i]) > o->loss ? loss_of(losses[i]) : o->loss;
  check(o->t, sim_power_loss(o->disk, losses[i], test_random_next(&o->t->random)), loss, o->depth + 1, "power lost again");
  return 0;
}

static bool is_ours_to_change(const char *name) {
  return strcmp(name, "sediment.control") == 0 || strcmp(name, "sediment.state") == 0 || strcmp(name, "sediment.lock") == 0;
}

/* To open it again finds nothing to do, and the same. */
static void check_second_opening(torture *t, sim_disk *disk, const char *how, int depth) {
  sdm_store *s;
  uint64_t before = sim_digest(disk, is_ours_to_change);
  if (world_open(disk, t->w.now, &s) < 0 || sdm_store_close_on(s, t->w.now) < 0) fail(t, disk, how, depth, sdm_errmsg());
  else if (sim_digest(disk, is_ours_to_change) != before) fail(t, disk, how, depth, "a second opening, after an orderly close, changes files");
}

/* What a crash left of a cleaning may do its harm in the next one. */
static const char *check_cleaned(torture *t, sdm_store *s, ledger_loss loss) {
  ledger l = t->w.ledger;                 /* with the same records */
  return world_clean(s, &l, t->w.now) < 0 ? sdm_errmsg() : ledger_check(&l, s, loss, t->w.now);
}

/* A recovery is itself in danger: always where nothing was lost so far, since there is most to lose. */
static bool in_danger(torture *t, int depth, ledger_loss loss) {
  return depth < DEPTH_MAX && ((depth == 0 && loss == LEDGER_NOTHING) || test_random_next(&t->random) % 4 == 0);
}

/* A backup is durable, whatever became of the store, and what the store did since has not touched it; nor does it touch the store. Once on a disk, for the check
** appends to it; of one that was acknowledged on each fourth. */
static const char *check_backup(torture *t, sim_disk *disk, ledger_loss loss, int depth) {
  if (t->w.backup.whole && test_random_next(&t->random) % 4) return NULL;
  return loss == LEDGER_LIE || depth > 0 ? NULL : world_check_backup(&t->w, sim_fs(disk));
}

/* Takes the disk over. */
static void check(torture *t, sim_disk *disk, ledger_loss loss, int depth, const char *how) {
  reopening o = {t, disk, 0, depth, loss};
  sdm_store *s = NULL;
  t->tally->states++;
  tell(t->tally);
  bool backup_first = test_random_next(&t->random) % 2;
  const char *backup_why = backup_first ? check_backup(t, disk, loss, depth) : NULL;
  if (in_danger(t, depth, loss)) sim_set_hook(disk, crash_inside, &o);
  int rc = world_open(disk, t->w.now, &s);
  sim_set_hook(disk, NULL, NULL);
  bool refused = rc < 0 && loss == LEDGER_LIE && sdm_errmsg()[0];
  bool clean = rc == 0 && loss != LEDGER_LIE && test_random_next(&t->random) % 16 == 0;
  const char *why = refused ? NULL : rc < 0 ? sdm_errmsg() : clean ? check_cleaned(t, s, loss) : ledger_check(&t->w.ledger, s, loss, t->w.now);
  if (why) fail(t, disk, how, depth, why);
  if (!backup_first) backup_why = check_backup(t, disk, loss, depth);
  if (backup_why) {
    char where[80];
    snprintf(where, sizeof where, "%s, the backup%s", how, backup_first ? " first" : "");
    fail(t, disk, where, depth, backup_why);
  }
  bool again = rc == 0 && !why && !clean && loss != LEDGER_LIE && test_random_next(&t->random) % 8 == 0;      /* what a cleaning deleted would go then */
  if (!again) sdm_store_unref(s);
  else if (sdm_store_close_on(s, t->w.now) < 0) fail(t, disk, how, depth, sdm_errmsg());
  else check_second_opening(t, disk, how, depth);
  sim_free(disk);
}

/* ---- crashing ---- */

static void lose_power(torture *t, const sim_profile *profiles, size_t count) {
  char how[40];
  for (size_t i = 0; i < count && !t->why[0]; i++) {
    snprintf(how, sizeof how, "power lost (%s)", sim_profile_name(profiles[i]));
    check(t, sim_power_loss(t->w.disk, profiles[i], test_random_next(&t->random)), loss_of(profiles[i]), 0, how);
  }
}

/* Each choice of the changes; the first ones of them are what a prefix is. */
static void lose_each_choice(torture *t, size_t unsynced) {
  char how[40];
  for (uint64_t which = 0; which >> unsynced == 0 && !t->why[0]; which++) {
    snprintf(how, sizeof how, "power lost (all but %llx)", (unsigned long long)(~which & ((1u << unsynced) - 1)));
    check(t, sim_power_loss_but(t->w.disk, which), (which & (which + 1)) == 0 ? LEDGER_TAIL : LEDGER_ANY, 0, how);
  }
}

static void crash_here(torture *t) {
  size_t unsynced = sim_unsynced(t->w.disk);
  t->tally->calls++;
  check(t, sim_death(t->w.disk), LEDGER_NOTHING, 0, "death");
  if (unsynced > FEW) {
    lose_power(t, losses, LOSSES);
  } else {
    lose_each_choice(t, unsynced);
    lose_power(t, more_losses, sizeof more_losses / sizeof *more_losses);
  }
}

static int before_call(void *context, sim_call call, const char *path, size_t *partial) {
  torture *t = context;
  (void)partial;
  if (t->verbose && changes_something(call) && !t->why[0]) printf("    %s %s\n", sim_call_name(call), path);
  if (changes_something(call) && !t->why[0] && sim_changed(t->w.disk, &t->mark)) crash_here(t);
  return 0;
}

/* True: all was well. */
static bool run_history(torture *t, uint64_t seed) {
  t->seed = t->random.state = seed;
  t->mark = 0;
  world_begin(&t->w, seed);
  t->w.backs_up = true;
  sim_set_hook(t->w.disk, before_call, t);
  for (t->step = 0; t->step < STEPS && !t->why[0]; t->step++) {
    world_step(&t->w);
    if (t->verbose) printf("step %d: %s\n", t->step, t->w.doing);
    if (t->w.broken) fail(t, t->w.disk, "alive", 0, t->w.why);
    if (!t->why[0]) crash_here(t);
  }
  sim_set_hook(t->w.disk, NULL, NULL);
  world_end(&t->w);
  return !t->why[0];
}

/* ---- the program ---- */

enum { FAILURES_MAX = 5, JOBS_MAX = 1000 };

typedef struct plan {
  uint64_t first, histories, seconds, jobs, one;           /* one: the only seed, 0: all from `first` on */
  double until;
} plan;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The next seed that nobody has taken; 0: it is enough. */
static uint64_t take_seed(const plan *p, tally *sum) {
  if (sum->failed >= FAILURES_MAX || seconds() >= p->until) return 0;
  uint64_t n = sum->begun++;
  return n < p->histories ? p->first + n : 0;
}

static void work(torture *t, const plan *p) {
  uint64_t seed;
  while ((seed = take_seed(p, t->tally)) != 0) {
    if (run_history(t, seed)) {
      t->tally->passed++;
      continue;
    }
    t->tally->failed++;
    progress_clear();
    printf("%s\n  repeat: torture --seed %llu --verbose\n", t->why, ull(seed));
    fflush(stdout);
    t->why[0] = 0;
  }
}

/* The processes besides this one. */
static void start_others(torture *t, const plan *p) {
  pid_t first = getpid();
  fflush(stdout);
  for (uint64_t i = 1; i < p->jobs; i++) {
    pid_t pid = fork();
    if (pid < 0) perror("fork");
    if (pid != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != first) _exit(1);
    if (freopen("/dev/null", "w", stderr)) work(t, p);     /* one tells how far they are */
    _exit(0);
  }
}

/* One that has not ended by itself was in the middle of a history. */
static void await_others(tally *sum) {
  int status;
  while (wait(&status) > 0 || errno == EINTR) {
    if (status == 0) continue;
    printf("a process was ended by signal %d\n", WTERMSIG(status));
    sum->failed++;
  }
}

static void say_what(const plan *p) {
  if (p->one) printf("torture: seed %llu\n", ull(p->one));
  else if (p->histories != UINT64_MAX) printf("torture: %llu histories, seeds from %llu on, %llu processes\n", ull(p->histories), ull(p->first), ull(p->jobs));
  else printf("torture: histories for %llu s, seeds from %llu on, %llu processes\n", ull(p->seconds), ull(p->first), ull(p->jobs));
  fflush(stdout);
}

int main(int argc, char **argv) {
  plan p = {.first = 1, .histories = UINT64_MAX, .seconds = 10, .jobs = 1};
  torture t = {.tally = mmap(NULL, sizeof *t.tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
  if (t.tally == MAP_FAILED) return perror("shared memory"), 2;
  command_line(argc, argv, (command_option[]){{"--seconds", .number = &p.seconds}, {"--histories", .number = &p.histories}, {"--first", .number = &p.first},
               {"--jobs", .number = &p.jobs}, {"--seed", .number = &p.one}, {"--verbose", .given = &t.verbose}, {NULL}}, usage);
  if (p.one) p.first = p.one, p.histories = 1;
  if (p.jobs > JOBS_MAX) p.jobs = JOBS_MAX;
  double began = seconds();
  p.until = p.histories == UINT64_MAX ? began + (double)p.seconds : 1e18;
  say_what(&p);
  start_others(&t, &p);
  work(&t, &p);
  tally *sum = t.tally;
  await_others(sum);
  progress_clear();
  printf("%llu histories: %llu calls, %llu crash states, %llu of them inside recovery, %.0f s\n", ull(sum->passed + sum->failed), ull(sum->calls),
         ull(sum->states), ull(sum->nested), seconds() - began);
  printf("%llu passed, %llu failed\n", ull(sum->passed), ull(sum->failed));
  return sum->failed > 0 || sum->passed == 0;
}
