/* Crashes at every system call. Histories of a program on a simulated disk are run; before each call that changes the disk, and after each operation,
** disks are made that a loss of power or the death of the process could leave there. Each is opened by the real recovery and held against the ledger;
** so are disks that a crash inside such a recovery leaves.
**
**   torture [--seconds N] [--histories N] [--first SEED] [--seed SEED [--verbose]]
**
** Histories follow from their seeds, and the crashes from them: --seed repeats one.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/world.h"
#include "store/store.h"

enum { STEPS = 60, DEPTH_MAX = 3 };

static const sim_profile losses[] = {SIM_PREFIX, SIM_ORDERED, SIM_ANY, SIM_COPYING, SIM_PREFIX, SIM_ORDERED, SIM_ANY, SIM_COPYING, SIM_ANY, SIM_LYING};
enum { LOSSES = sizeof losses / sizeof *losses };          /* of power, tried at each call */

enum { FEW = 3 };                         /* unsynced changes of which every choice is tried */
static const sim_profile more_losses[] = {SIM_ANY, SIM_LYING};

typedef struct torture {
  world w;
  uint64_t seed, mark;
  test_random random;
  uint64_t calls, states, nested;         /* calls before which a crash was tried; disks opened; of these after a crash inside recovery */
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
  o->t->nested++;
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
  t->states++;
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
  t->calls++;
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

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t number(char **argv, int *i) {
  if (!argv[*i + 1]) {
    fprintf(stderr, "%s: a number expected\n", argv[*i]);
    exit(2);
  }
  return strtoull(argv[++*i], NULL, 10);
}

int main(int argc, char **argv) {
  torture t = {0};
  uint64_t first = 1, last = UINT64_MAX, most = UINT64_MAX, passed = 0, failed = 0;
  double limit = 10, began = seconds();
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seconds") == 0) limit = (double)number(argv, &i);
    else if (strcmp(argv[i], "--histories") == 0) most = number(argv, &i), limit = 1e9;
    else if (strcmp(argv[i], "--first") == 0) first = number(argv, &i);
    else if (strcmp(argv[i], "--seed") == 0) first = last = number(argv, &i);
    else if (strcmp(argv[i], "--verbose") == 0) t.verbose = true;
    else return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  for (uint64_t seed = first; seed <= last && seconds() - began < limit && seed - first < most; seed++) {
    if (run_history(&t, seed)) {
      passed++;
    } else {
      failed++;
      printf("%s\n  repeat: torture --seed %llu --verbose\n", t.why, (unsigned long long)seed);
      if (failed >= 5) break;
      t.why[0] = 0;
    }
  }
  printf("%llu calls, %llu crash states, %llu of them inside recovery, %.0f s\n", (unsigned long long)t.calls, (unsigned long long)t.states,
         (unsigned long long)t.nested, seconds() - began);
  printf("%llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
  return failed > 0 || passed == 0;
}
