#include "kills/herd.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "kills/workers.h"

figures the_figures;
test_random the_random;

uint64_t choose(uint64_t n) { return test_random_below(&the_random, n); }

void note_latency(latencies *l, int64_t ns) {
  if (l->count < sizeof l->ns / sizeof *l->ns) l->ns[l->count] = ns;
  l->count++;
}

/* ---- the end ---- */

static void print_slot(const slot *s) {
  printf("  %s %d: %s%s, %llu done (%lld asked for), %u begun (%u allowed), locks", role_name(s->role), (int)(s - the_herd->slots), s->opening ? "opening, " : "",
         !lives(s) ? "dead" : s->stopped ? "stopped" : "alive", (unsigned long long)atomic_load(&s->progress), (long long)atomic_load(&s->goal),
         atomic_load(&s->begun), atomic_load(&s->quota));
  for (int i = 0; i < LOCKS; i++) printf(" %d/%d", atomic_load(&s->held[i]), atomic_load(&s->near[i]));
  int follows = atomic_load(&s->follows);
  if (follows > 0) {
    printf(", stands in %s at %lld%s; its end: %lld", topic_names[follows - 1], (long long)atomic_load(&s->seen), atomic_load(&s->waits) ? ", waits" : "",
           (long long)atomic_load(&the_ledger->topics[follows - 1].end));
  }
  printf("\n");
}

static void kill_all(void) {
  for (int i = 0; i < SLOTS; i++) {
    if (lives(&the_herd->slots[i])) kill(the_herd->slots[i].pid, SIGKILL);
  }
}

/* Kills all and says where the store is left. */
_Noreturn void give_up(const char *format, ...) {
  va_list args;
  kill_all();
  progress_clear();
  printf("round %llu, store %llu: ", (unsigned long long)the_figures.rounds, (unsigned long long)the_figures.stores);
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf("\n");
  for (int i = 0; i < HERD; i++) print_slot(&the_herd->slots[i]);
  printf("  the store is left in %s\n%llu passed, 1 failed\n", the_herd->store, (unsigned long long)the_figures.verified_kills);
  exit(1);
}

/* Somebody wants the program to end: nothing stays behind. */
static _Noreturn void give_way(void) {
  kill_all();
  atomic_store(&the_herd->release, 1);     /* an orphan may just have been born */
  futex_wake(&the_herd->release);
  while (wait(NULL) > 0 || errno == EINTR) {}
  if (remove_tree(the_herd->folder) != 0) printf("%s cannot be removed\n", the_herd->folder);
  leave();
}

/* ---- who lives ---- */

bool lives(const slot *s) { return s->pid != 0; }

static slot *slot_of(pid_t pid) {
  for (int i = 0; i < SLOTS; i++) {
    if (the_herd->slots[i].pid == pid) return &the_herd->slots[i];
  }
  return NULL;
}

static void check_failed(void) {
  if (atomic_load(&the_herd->failed) == 2) give_up("%s", the_herd->failure);
}

/* How the dead stood. */
static void note_kill(const slot *s) {
  int reached = atomic_load(&s->reached), end = 0, any = 0;
  for (int i = 0; i < LOCKS; i++) {
    any += atomic_load(&s->held[i]) > 0;
    end += i < LOCK_MAINTENANCE && atomic_load(&s->held[i]) > 0;
  }
  figures *f = &the_figures;
  f->kills[reached ? WAY_CALL : s->way]++;
  f->holding += any > 0;
  f->holding_end += end > 0;
  f->killed_waiting += atomic_load(&s->waits);
  f->killed_copying += atomic_load(&s->copying);
  if (reached) f->at_call[reached - 1]++;
}

/* It was killed, or was to end by itself, or something is wrong. */
void note_end(slot *s, int status) {
  bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (s->doomed || atomic_load(&s->reached));
  bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0 && (s->role == ROLE_VERIFIER || s->role == ROLE_ORPHAN);
  s->pid = 0;
  s->stopped = false;
  atomic_fetch_add(&the_herd->deaths, 1);
  futex_wake(&the_herd->deaths);
  if (killed) note_kill(s);
  if (killed || ended) return;
  check_failed();
  if (WIFSIGNALED(status)) give_up("%s %d was ended by signal %d", role_name(s->role), (int)(s - the_herd->slots), WTERMSIG(status));
  give_up("%s %d ended by itself, exit status %d", role_name(s->role), (int)(s - the_herd->slots), WEXITSTATUS(status));
}

void go_on(slot *s) {
  s->stopped = s->to_stop = false;
  if (s->signal == SIGSTOP) atomic_store(&s->reached, 0);
  kill(s->pid, SIGCONT);
}

/* It may come to the call where it was to stop when nobody waits for that any more. */
static void note_stop(slot *s) {
  if (s->to_stop) s->stopped = true;
  else go_on(s);
}

static void reap(void) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
    slot *s = slot_of(pid);
    if (s && WIFSTOPPED(status)) note_stop(s);
    else if (s) note_end(s, status);
  }
}

/* ---- waiting ---- */

/* Whoever runs gets somewhere; but a writer that has used up its quota waits for the driver. */
static void check_stuck(int64_t now) {
  for (int i = 0; i < HERD; i++) {
    slot *s = &the_herd->slots[i];
    uint64_t progress = atomic_load(&s->progress);
    bool idle = s->role == ROLE_WRITER && (int32_t)(atomic_load(&s->quota) - atomic_load(&s->begun)) <= 0;
    if (!lives(s) || s->stopped || idle || progress != s->stirred) {
      s->stirred = progress;
      s->stirred_ns = now;
    } else if (now - s->stirred_ns > (int64_t)STUCK_S * 1000000000) {
      give_up("%s %d has got nowhere for %d s", role_name(s->role), i, STUCK_S);
    }
  }
}

void await(bool (*until)(void *context), void *context, int seconds, const char *what) {
  enum { LOOK_NS = 100000000 };            /* how often the limits are looked at when there is no news */
  int64_t limit = now_ns() + (int64_t)seconds * 1000000000;
  for (;;) {
    uint32_t news = atomic_load(&the_herd->news);
    reap();
    check_failed();
    if (is_to_leave()) give_way();
    if (until(context)) return;
    int64_t now = now_ns();
    check_stuck(now);
    if (now > limit) give_up("%s: not within %d s", what, seconds);
    futex_wait(&the_herd->news, news, LOOK_NS);
  }
}

static void on_alarm(int number) { (void)number; }

static void on_child(int number) {
  int error = errno;
  (void)number;
  tell_news();
  errno = error;
}

/* ---- life and death ---- */

static void let_go(slot *s) {
  for (int i = 0; i < LOCKS; i++) {
    atomic_store(&s->near[i], 0);
    atomic_store(&s->held[i], 0);
  }
  atomic_store(&s->reached, 0);
  atomic_store(&s->forks, false);
  atomic_store(&s->pauses, false);
  atomic_store(&s->goal, UINT64_MAX);
  atomic_store(&s->follows, 0);
  atomic_store(&s->waits, false);
  atomic_store(&s->copying, false);
  s->doomed = s->to_stop = false;
}

void spawn(int i, int armed) {
  slot *s = &the_herd->slots[i];
  let_go(s);
  s->signal = SIGKILL;
  s->when = (slot_when)choose(3);
  s->life++;
  s->stirred_ns = now_ns();
  s->stirred = atomic_load(&s->progress);
  atomic_store(&s->armed, armed);
  atomic_store(&s->began, s->stirred);
  atomic_store(&s->begun, (uint32_t)s->stirred);
  atomic_store(&s->quota, (uint32_t)s->stirred + QUOTA);
  fflush(stdout);
  pid_t pid = fork();
  if (pid < 0) give_up("fork: %s", strerror(errno));
  if (pid > 0) {
    s->pid = pid;
    return;
  }
  signal(SIGCHLD, SIG_DFL);
  signal(SIGALRM, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != the_herd->driver) _exit(1);
  me = s;
  work();
}

void condemn(slot *s, way w) {
  s->doomed = true;
  s->way = (int)w;
  if (!atomic_load(&s->reached)) atomic_store(&s->ended_ns, now_ns());
  kill(s->pid, SIGKILL);
}

static bool is_dead(void *context) { return !lives(context); }

void end_one(slot *s, way w) {
  condemn(s, w);
  await(is_dead, s, STUCK_S, "a process that was killed ends");
}

static bool are_dead(void *context) {
  (void)context;
  for (int i = 0; i < HERD; i++) {
    if (lives(&the_herd->slots[i])) return false;
  }
  return true;
}

void end_all(void) {
  for (int i = 0; i < HERD; i++) {
    slot *s = &the_herd->slots[i];
    if (lives(s)) condemn(s, WAY_MOMENT);
  }
  await(are_dead, NULL, STUCK_S, "all processes that were killed end");
}

/* ---- the beginning ---- */

static void handle(int number, void (*handler)(int)) {
  struct sigaction a = {.sa_handler = handler};
  sigaction(number, &a, NULL);
}

/* Followers sleep until there is news or somebody has died (follower.h): both at once can be waited for since Linux 5.16. */
static void look_at_kernel(void) {
  _Atomic uint32_t word = 0;
  if (futex_wait_for_either(&word, 1, &word, 1) < 0) printf("this kernel cannot wait for two words at once: wake-ups that are lost are not looked for\n");
}

void herd_begin(void) {
  static const slot_role roles[SLOTS] = {[SLOT_READERS] = ROLE_READER, ROLE_READER, ROLE_CLEANER, ROLE_CLEANER, ROLE_KEEPER, ROLE_FOLLOWER, ROLE_FOLLOWER, ROLE_COPIER,
                                          ROLE_VERIFIER, ROLE_ORPHAN};
  the_herd = share(sizeof *the_herd);
  the_herd->driver = getpid();
  for (int i = 0; i < SLOTS; i++) the_herd->slots[i].role = roles[i];
  look_at_kernel();
  handle(SIGCHLD, on_child);
  handle(SIGALRM, on_alarm);
  leave_in_order();                        /* so do its processes, and go on: the driver ends them */
  prctl(PR_SET_CHILD_SUBREAPER, 1);        /* what a dead process leaves behind is ours */
}
