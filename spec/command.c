#include "command.h"

#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- options ---- */

enum { DIGITS_MAX = 9 };                   /* as in tools/check-numbers.sh */

static uint64_t number_of(const char *name, const char *text) {
  size_t n = strspn(text, "0123456789");
  uint64_t value = n <= DIGITS_MAX && text[n] == '\0' ? strtoull(text, NULL, 10) : 0;
  if (value > 0) return value;
  fprintf(stderr, "%s: a whole number from 1 to 999999999 expected, got '%s'\n", name, text);
  exit(2);
}

static const command_option *find(const command_option *options, const char *name) {
  while (options->name && strcmp(options->name, name) != 0) options++;
  if (options->name) return options;
  fprintf(stderr, "unknown option '%s'; --help lists them\n", name);
  exit(2);
}

/* Takes its value, if it has one; how many words it was. */
static int take(const command_option *o, const char *value) {
  if (o->given) {
    *o->given = true;
    return 1;
  }
  if (!value) {
    fprintf(stderr, "%s: its value is missing\n", o->name);
    exit(2);
  }
  if (o->text) *o->text = value;
  else *o->number = number_of(o->name, value);
  return 2;
}

void command_line(int argc, char **argv, const command_option *options, const char *usage) {
  for (int i = 1; i < argc;) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      exit(0);
    }
    i += take(find(options, argv[i]), argv[i + 1]);
  }
}

/* ---- how far it is ---- */

static bool shown;

static bool on_terminal(void) {
  static int answer = -1;
  if (answer < 0) answer = isatty(STDERR_FILENO);
  return answer;
}

static bool is_time(void) {
  static time_t next;
  struct timespec now;
  int every = on_terminal() ? 2 : 60;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  bool due = next != 0 && now.tv_sec >= next;
  if (next == 0 || due) next = now.tv_sec + every;
  return due;
}

void progress(const char *format, ...) {
  va_list args;
  if (!is_time()) return;
  fflush(stdout);
  progress_clear();
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  if (!on_terminal()) fputc('\n', stderr);
  shown = on_terminal();
}

void progress_clear(void) {
  if (shown) fputs("\r\033[K", stderr);
  shown = false;
}

/* ---- leaving ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
  (void)st, (void)kind, (void)at;
  return remove(path);
}

int remove_tree(const char *path) { return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static volatile sig_atomic_t told;

static void on_signal(int number) { told = number; }

/* A signal that was ignored from the beginning, as SIGINT is in the background of a script, stays so. */
void leave_in_order(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  for (int i = 0; i < 3; i++) {
    if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL);
  }
}

bool is_to_leave(void) { return told != 0; }

_Noreturn void leave(void) {
  progress_clear();
  printf("ended by signal %d\n", (int)told);
  fflush(stdout);
  signal(told, SIG_DFL);
  raise(told);
  _exit(1);
}
