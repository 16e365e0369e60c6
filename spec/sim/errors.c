/* Every system call of a history fails, one after the other, and every allocation. The program goes on with further operations; nothing that was
** acknowledged may be lost then: not while it goes on, not when the process dies, not after a close and an opening.
**
** Passes: io, full (the call fails once), io-sticky, full-sticky (it and those behind it, until the operation has ended), memory (an allocation),
** reverting (a sync, and what it was to save is gone from the page cache, too).
*/
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "command.h"
#include "sim/world.h"
#include "store/store.h"

static const char usage[] =
    "errors [--first SEED] [--seeds N] [--every N]              N: only each Nth failure\n"
    "errors --seed SEED --pass PASS --call N [--verbose]        one of them again\n";

enum { STEPS = 60, STEPS_AFTER = 10, HANGS_AFTER_S = 20, FAILURES_SHOWN = 40 };

typedef struct pass {
  const char *name;
  int code;
  bool sticky, reverting;
} pass;

static const pass passes[] = {{"io", SDM_IO, false, false}, {"io-sticky", SDM_IO, true, false}, {"full", SDM_DISK_FULL, false, false},
                              {"full-sticky", SDM_DISK_FULL, true, false}, {"memory", SDM_NO_MEMORY, false, false}, {"reverting", SDM_IO, false, true}};
enum { PASSES = sizeof passes / sizeof *passes };

typedef struct errors {
  world w;
  const pass *pass;
  uint64_t seed, target, count;           /* which call fails, 0: none; calls so far */
  int step, hit_step;                     /* -1: it has not failed yet */
  bool watching, sync_failed;             /* a step is on; the call that failed was to save something */
  int openings;                           /* of the store, when it failed */
  int openings_before;                    /* the step */
  sim_call call;
  int64_t allocations;                    /* that were not freed */
  uint64_t every, injected, answered, failed;
  bool verbose;
  char where[200], why[900];
} errors;

static errors e;

static void wrong(const char *when, const char *why) {
  if (e.why[0]) return;
  snprintf(e.why, sizeof e.why, "step %d (%s), %s: %s\n    %s", e.step, e.w.doing, when, why, e.where);
}

/* ---- failing ---- */

static bool may_be_full(sim_call c) {
  return c == SIM_WRITE || c == SIM_ALLOCATE || c == SIM_CREATE || c == SIM_MAKE_DIR || c == SIM_RENAME || c == SIM_LINK || c == SIM_SYNC || c == SIM_SYNC_DIR;
}

static bool can_fail(sim_call c) {
  if (e.pass->code == SDM_NO_MEMORY) return false;
  if (e.pass->reverting) return c == SIM_SYNC;
  return e.pass->code != SDM_DISK_FULL || may_be_full(c);
}

/* Whether it is this one's turn. */
static bool strikes(void) {
  if (!e.watching) return false;
  e.count++;
  if (e.count == e.target) {
    e.hit_step = e.step;
    e.openings = e.w.openings;
    return true;
  }
  return e.target && e.count > e.target && e.pass->sticky && e.step == e.hit_step && e.w.failures == 0;
}

static int before_call(void *context, sim_call call, const char *path, size_t *partial) {
  (void)context;
  if (e.verbose && e.watching && e.hit_step >= 0 && e.step >= e.hit_step) printf("    %s %s\n", sim_call_name(call), path);
  if (!can_fail(call) || !strikes()) return 0;
  if (partial) *partial = e.target * 37 % 256;
  if (call == SIM_SYNC || call == SIM_SYNC_DIR) e.sync_failed = true;
  if (e.count == e.target) {
    e.call = call;
    snprintf(e.where, sizeof e.where, "%s %s", sim_call_name(call), path);
  }
  if (e.verbose) printf("  call %llu fails: %s %s\n", (unsigned long long)e.count, sim_call_name(call), path);
  return sdm_fail(e.pass->code, "%s %s: made to fail", sim_call_name(call), path);
}

static void *allocate(void *context, void *old, size_t size) {
  (void)context;
  if (size == 0) {
    e.allocations--;
    free(old);
    return NULL;
  }
  if (e.pass->code == SDM_NO_MEMORY && strikes()) {
    snprintf(e.where, sizeof e.where, "%zu bytes", size);
    if (e.verbose) printf("  allocation %llu fails: %zu bytes\n", (unsigned long long)e.count, size);
    return NULL;
  }
  void *p = realloc(old, size);
  if (p && !old) e.allocations++;
  return p;
}

/* A debugger finds the rest with what this tells. */
static void on_signal(int number) {
  printf("signal %d in step %d (%s), %s\n  repeat: errors --seed %llu --pass %s --call %llu --verbose\n", number, e.step, e.w.doing, e.where,
         (unsigned long long)e.seed, e.pass->name, (unsigned long long)e.target);
  fflush(stdout);
  _exit(1);
}

/* ---- what must hold ---- */

/* Takes the disk over. */
static void check_disk(sim_disk *d, ledger_loss loss, const char *when) {
  sdm_store *s = NULL;
  const char *why = world_open(d, e.w.now, &s) < 0 ? sdm_errmsg() : ledger_check(&e.w.ledger, s, loss, e.w.now);
  if (why) wrong(when, why);
  if ((why = world_check_backup(&e.w, sim_fs(d)))) wrong("the backup", why);
  sdm_store_unref(s);
  sim_free(d);
}

/* What a process sees after the failure. Where a sync that failed takes with it what it was to save, as much may be lost as with the power. */
static ledger_loss lost(void) { return e.pass->reverting ? LEDGER_ANY : LEDGER_NOTHING; }

/* The ledger does not know what such a sync took with it, and would take it for durable later: nothing is done behind it. */
static int steps_after(void) { return e.pass->reverting ? 0 : STEPS_AFTER; }

static void check_crashes(const char *death, const char *power) {
  check_disk(sim_death(e.w.disk), lost(), death);
  check_disk(sim_power_loss(e.w.disk, SIM_ANY, e.seed + e.target), LEDGER_ANY, power);
}

/* What a sync was to save may be lost: the partition takes nothing more until the store is opened anew. */
static bool may_refuse(void) { return e.sync_failed && e.openings_before == e.openings && e.w.code == SDM_IO && e.w.store; }

static void check_step(void) {
  char text[600];
  const world *w = &e.w;
  if (w->broken) wrong("broken", w->why);
  if (w->failures == 0) return;
  snprintf(text, sizeof text, "%d failures, %s: %s", w->failures, sdm_code_name(w->code), w->message);
  if (e.verbose) printf("  %s\n", text);
  if (!w->message[0]) wrong("no message", text);
  if (e.hit_step < 0 || e.step > e.hit_step) {
    if (!may_refuse()) wrong("fails later", text);
    return;
  }
  e.answered++;
  if (w->failures > 1 && !e.sync_failed) wrong("fails after the failure", text);
  if (w->there_anyway && w->code != SDM_IO && !strstr(w->message, "was appended")) wrong("the records are there", text);
  if (w->gone_anyway && !e.sync_failed) wrong("the topic is gone", text);
  if (w->code != e.pass->code && !e.sync_failed && !w->there_anyway && strcmp(w->doing, "maintain") != 0) wrong("another code", text);
}

static void step(void) {
  sdm_fail(0, "%s", "");
  e.openings_before = e.w.openings;
  e.watching = true;
  world_step(&e.w);
  e.watching = false;
  if (e.verbose) printf("step %d: %s\n", e.step, e.w.doing);
  check_step();
}

static void check_end(void) {
  const char *why = e.w.store ? ledger_check_kept(&e.w.ledger, e.w.store, lost(), e.w.now) : NULL;
  if (why) wrong("going on", why);
  check_crashes("death later", "power lost later");
  if (e.pass->reverting) return;
  e.w.failures = 0;
  e.openings_before = e.w.openings;
  world_reopen(&e.w);
  if (e.w.failures > 0 && !may_refuse()) wrong("closing and opening", e.w.message);
  why = e.w.store ? ledger_check(&e.w.ledger, e.w.store, lost(), e.w.now) : "it does not open";
  if (why) wrong("closed and opened", why);
}

/* ---- histories ---- */

/* Returns whether there was a call `target` to fail. */
static bool run(uint64_t seed, const pass *p, uint64_t target) {
  int64_t before = e.allocations;
  e.seed = seed;
  e.pass = p;
  e.target = target;
  e.count = 0;
  e.hit_step = -1;
  e.sync_failed = false;
  e.why[0] = e.where[0] = 0;
  alarm(HANGS_AFTER_S);
  world_begin(&e.w, seed);
  e.w.tolerant = e.w.backs_up = true;
  sim_set_hook(e.w.disk, before_call, NULL);
  sim_set_reverting(e.w.disk, p->reverting);
  for (e.step = 0; e.step < STEPS && !e.why[0] && (e.hit_step < 0 || e.step <= e.hit_step + steps_after()); e.step++) {
    step();
    if (e.hit_step == e.step) check_crashes("death", "power lost");
  }
  if (e.hit_step >= 0 && !e.why[0]) check_end();
  sim_set_hook(e.w.disk, NULL, NULL);
  world_end(&e.w);
  alarm(0);
  if (e.allocations != before) wrong("ended", "memory was not freed");
  return e.hit_step >= 0;
}

static void report(void) {
  e.injected++;
  if (!e.why[0]) return;
  progress_clear();
  if (e.failed++ >= FAILURES_SHOWN) return;
  printf("%s\n  repeat: errors --seed %llu --pass %s --call %llu --verbose\n", e.why, (unsigned long long)e.seed, e.pass->name, (unsigned long long)e.target);
  fflush(stdout);
}

static void run_all(uint64_t seed) {
  for (int p = 0; p < PASSES; p++) {
    run(seed, &passes[p], 0);
    if (e.why[0]) printf("seed %llu without a failure: %s\n", (unsigned long long)seed, e.why);
    uint64_t count = e.count;
    for (uint64_t n = 1 + (seed + (uint64_t)p) % e.every; n <= count; n += e.every) {
      progress("seed %llu, pass %s: %llu of %llu calls", (unsigned long long)seed, passes[p].name, (unsigned long long)n, (unsigned long long)count);
      if (run(seed, &passes[p], n)) report();
    }
  }
}

/* ---- the program ---- */

static int run_one(uint64_t seed, const char *name, uint64_t call) {
  for (int p = 0; p < PASSES; p++) {
    if (name && strcmp(name, passes[p].name) == 0 && run(seed, &passes[p], call)) report();
  }
  return e.injected == 0 ? fprintf(stderr, "no such failure\n"), 2 : 0;
}

int main(int argc, char **argv) {
  uint64_t first = 1, seeds = 1, seed = 0, call = 0;
  const char *name = NULL;
  e.every = 1;
  command_line(argc, argv, (command_option[]){{"--first", .number = &first}, {"--seeds", .number = &seeds}, {"--every", .number = &e.every},
               {"--seed", .number = &seed}, {"--pass", .text = &name}, {"--call", .number = &call}, {"--verbose", .given = &e.verbose}, {NULL}}, usage);
  sdm_set_allocator(allocate, NULL);
  signal(SIGALRM, on_signal);
#ifndef __SANITIZE_ADDRESS__
  signal(SIGSEGV, on_signal);
  signal(SIGABRT, on_signal);
#endif
  if (seed && run_one(seed, name, call) != 0) return 2;
  if (!seed) printf("errors: calls of the file table and allocations of %llu histories, seeds from %llu on\n", (unsigned long long)seeds, (unsigned long long)first);
  for (uint64_t s = first; !seed && s < first + seeds; s++) run_all(s);
  progress_clear();
  printf("%llu failures of calls, %llu of them answered by the operation\n", (unsigned long long)e.injected, (unsigned long long)e.answered);
  printf("%llu passed, %llu failed\n", (unsigned long long)(e.injected - e.failed), (unsigned long long)e.failed);
  return e.failed > 0 || e.injected == 0;
}
