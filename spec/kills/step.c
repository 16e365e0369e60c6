/* Killing between two instructions. What an append does under the lock of a log's end is short, and changes memory that all share: no other kill would
** find each of its steps. A sweep kills one writer at the first instruction of that section, another at the eighth, the fifteenth, and so on to its end; the
** next begins with the second, and after seven each instruction has had its turn. Other kills go to a random instruction, for the sections that are longer than
** most: when the stage is sealed, or the segment rolled.
*/
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kills/herd.h"

enum { STRIDE = 7, LONG = 3000 };          /* instructions: from one kill of a sweep to the next; of a long section */

static bool has_ended(const slot *s) {
  siginfo_t i = {0};
  return waitid(P_PID, (id_t)s->pid, &i, WEXITED | WNOHANG | WNOWAIT) == 0 && i.si_pid == s->pid;
}

static bool seize(const slot *s) {
  static bool refused;
  if (refused) return false;
  if (ptrace(PTRACE_SEIZE, s->pid, NULL, PTRACE_O_EXITKILL) == 0) return true;
  refused = !has_ended(s);
  if (refused) printf("this machine does not let a process be traced (%s): none is killed between two instructions\n", strerror(errno));
  return false;
}

/* Waits for the traced process to stop again. False: it is dead. */
static bool next_stop(slot *s) {
  int status;
  if (waitpid(s->pid, &status, __WALL) < 0) give_up("writer %d was stepped into a wait that does not end", (int)(s - the_herd->slots));
  if (WIFSTOPPED(status)) return true;
  note_end(s, status);
  return false;
}

static bool step(slot *s) { return ptrace(PTRACE_SINGLESTEP, s->pid, NULL, NULL) == 0 && next_stop(s); }

static bool is_inside(const slot *s) {
  for (int i = LOCK_END; i < LOCK_MAINTENANCE; i++) {
    if (atomic_load(&s->near[i]) > 0) return true;
  }
  return false;
}

/* So many instructions, as long as it is inside; how many there were. */
static uint64_t step_inside(slot *s, uint64_t most) {
  uint64_t n = 0;
  while (lives(s) && n < most && is_inside(s) && step(s)) n++;
  return n;
}

/* Sections differ in length: a sweep has ended when several in a row have ended before the instruction that it has come to. */
static void sweep(slot *s) {
  enum { SHORT_ONES = 8 };
  static uint64_t first, next, longest;
  static int ended;
  uint64_t n = step_inside(s, next);
  if (!lives(s)) return;
  if (n > longest) longest = n;
  ended = is_inside(s) ? 0 : ended + 1;
  if (ended == 0) next += STRIDE;
  if (ended < SHORT_ONES) return;
  ended = 0;
  next = ++first % STRIDE;
  the_figures.sweeps++;
  the_figures.swept = longest;
}

/* It stops itself; from there it is but a few instructions. */
static void go_to_section(slot *s) {
  enum { NEAR = 1000 };
  atomic_store(&s->pauses, true);
  if (!next_stop(s)) return;
  for (int i = 0; i < NEAR && lives(s) && !is_inside(s); i++) step(s);
}

static void hear_of_children(bool on) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(on ? SIG_UNBLOCK : SIG_BLOCK, &child, NULL);
}

bool step_and_kill(slot *s) {
  if (!seize(s)) return false;
  hear_of_children(false);                 /* each stop is a signal */
  alarm(STUCK_S);
  go_to_section(s);
  if (choose(8)) sweep(s);
  else step_inside(s, choose(LONG));
  alarm(0);
  if (lives(s)) condemn(s, WAY_STEPS);
  while (lives(s)) next_stop(s);
  hear_of_children(true);
  return true;
}
