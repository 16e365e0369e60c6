#include "os/signals.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void note(int signal) {
  if (!caught) caught = signal;
}

static void handle(int signal, void (*handler)(int)) {
  struct sigaction now, ours = { .sa_handler = handler, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };
  sigemptyset(&ours.sa_mask);
  if (sigaction(signal, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN) return;
  sigaction(signal, &ours, NULL);
}

void sdm_let_interrupt(void) { handle(SIGINT, SIG_DFL); }

void sdm_catch_signals(void) {
  handle(SIGINT, note);
  handle(SIGTERM, note);
  handle(SIGHUP, note);
}

int sdm_caught_signal(void) { return caught; }
