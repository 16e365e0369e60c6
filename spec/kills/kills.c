/* Processes killed at any moment. A driver lets writers, readers, cleaners, followers, a keeper and one that makes backups work on one store, kills them, and keeps
** a ledger of what was acknowledged; the survivors must go on at once, and what was acknowledged must be there, once, in order, whoever opens the store next.
**
** They are killed (-9) at random moments, at calls of the file system (before, halfway through, after), and between two instructions; are stopped and go on;
** die and leave a child that inherited the open store. All choices follow from the seed; what the processes do at the same time does not.
*/
#include <sys/mman.h>
#include <unistd.h>

#include "command.h"
#include "kills/points.h"
#include "kills/rounds.h"

enum { ROUNDS_OF_STORE = 40 };

static const char usage[] = "kills [--seconds N] [--seed SEED] [--folder PATH]          10 seconds from seed 1; the stores are made below PATH\n";

static unsigned long long ull(uint64_t n) { return n; }

/* ---- a store's life ---- */

static void begin_store(void) {
  if (the_ledger) munmap(the_ledger, sizeof *the_ledger);
  the_ledger = share(sizeof *the_ledger);
  the_ledger->salt = test_random_next(&the_random);
  the_herd->seed = test_random_next(&the_random);
  snprintf(the_herd->store, sizeof the_herd->store, "%s/%llu", the_herd->folder, (unsigned long long)++the_figures.stores);
  verify_still();                          /* makes it */
}

static void remove_store(const char *suffix) {
  char path[300];
  snprintf(path, sizeof path, "%s%s", the_herd->store, suffix);
  if (access(path, F_OK) == 0 && remove_tree(path) != 0) give_up("%s cannot be removed", path);
}

static void end_store(void) {
  verify_still();
  the_figures.records += atomic_load(&the_ledger->acknowledged);
  remove_store("");
  remove_store(".copy");                   /* the copier's */
  remove_store(".used");
}

static void run_store(int64_t until) {
  begin_store();
  for (int i = 1; i <= ROUNDS_OF_STORE && now_ns() < until; i++) {
    run_round();
    progress("%llu rounds on %llu stores, %llu kills verified", ull(the_figures.rounds), ull(the_figures.stores), ull(the_figures.verified_kills));
    if (choose(10) == 0) verify_still();
    else if (choose(10) == 0) verify_running();
  }
  end_store();
}

/* ---- figures ---- */

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void print_latencies(const char *what, latencies *l) {
  uint64_t kept = sizeof l->ns / sizeof *l->ns, n = l->count < kept ? l->count : kept;
  if (n == 0) return;
  qsort(l->ns, n, sizeof *l->ns, by_size);
  printf("  %s after %.3f ms (median of %llu), %.2f ms (99 of 100), %.2f ms at most\n", what, (double)l->ns[n / 2] / 1e6, ull(l->count),
         (double)l->ns[n * 99 / 100] / 1e6, (double)l->ns[n - 1] / 1e6);
}

static void print_calls(const figures *f) {
  printf("  at calls:");
  for (int i = 0; i < CALLS; i++) printf(" %s %llu", point_name((point_call)i), ull(f->at_call[i]));
  printf("\n");
}

static void print_sweeps(const figures *f) {
  if (f->sweeps > 0) {
    printf("  %llu sweeps over the instructions that an append has under its lock, each seventh; there were up to %llu\n", ull(f->sweeps), ull(f->swept));
  } else if (f->kills[WAY_STEPS] > 0) {
    printf("  no sweep over all the instructions that an append has under its lock has ended in that time\n");
  }
}

static void print_figures(double seconds) {
  figures *f = &the_figures;
  uint64_t inherited = 0;
  for (int i = 0; i < LOCKS; i++) inherited += atomic_load(&the_herd->inherited[i]);
  printf("%llu rounds on %llu stores in %.0f s; %llu kills: %llu at a random moment, %llu at a call of the file system, %llu between two instructions\n",
         ull(f->rounds), ull(f->stores), seconds, ull(f->verified_kills), ull(f->kills[WAY_MOMENT]), ull(f->kills[WAY_CALL]), ull(f->kills[WAY_STEPS]));
  print_calls(f);
  print_sweeps(f);
  printf("  %llu died with a shared lock, %llu of them with that of a log's end; %llu times the next to have it was told\n", ull(f->holding), ull(f->holding_end), ull(inherited));
  printf("  %llu stops, %llu with the lock of a log's end; %llu children inherited an open store and lost their parent\n", ull(f->stops), ull(f->stops_holding), ull(f->orphans));
  printf("  %llu records acknowledged; %llu read by readers, %llu by %llu verifications\n", ull(f->records), ull(atomic_load(&the_herd->read)),
         ull(atomic_load(&the_herd->verified)), ull(f->verifications));
  printf("  %llu backups checked, %llu that were killed refused; %llu died in the middle of one, %llu as they waited for news\n", ull(atomic_load(&the_herd->copies)),
         ull(atomic_load(&the_herd->refused)), ull(f->killed_copying), ull(f->killed_waiting));
  print_latencies("every surviving writer was served", &f->served);
  print_latencies("in a quiet store every follower had an append", &f->heard);
}

/* ---- the program ---- */

/* In memory where there is some: the disk's time would be most of it. */
static void make_folder(const char *parent) {
  if (!parent) parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(the_herd->folder, sizeof the_herd->folder, "%s/sediment-kills.XXXXXX", parent);
  if (mkdtemp(the_herd->folder)) return;
  perror(the_herd->folder);
  exit(2);
}

int main(int argc, char **argv) {
  uint64_t seconds = 10, seed = 1;
  const char *parent = getenv("TMPDIR");
  command_line(argc, argv, (command_option[]){{"--seconds", .number = &seconds}, {"--seed", .number = &seed}, {"--folder", .text = &parent}, {NULL}}, usage);
  herd_begin();
  make_folder(parent);
  the_random.state = seed;
  printf("kills: seed %llu, %llu s, %d processes at work, below %s\n", ull(seed), ull(seconds), HERD, the_herd->folder);
  fflush(stdout);
  int64_t began = now_ns(), until = began + (int64_t)seconds * 1000000000;
  while (now_ns() < until) run_store(until);
  progress_clear();
  print_figures((double)(now_ns() - began) / 1e9);
  rmdir(the_herd->folder);
  printf("%llu passed, 0 failed\n", ull(the_figures.verified_kills));
  return the_figures.verified_kills == 0;
}
