/* What the programs that run for long share: their options, --help, a word now and then on how far they are, and leaving when a signal asks for it. */
#ifndef SPEC_COMMAND_H
#define SPEC_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* One option: what it sets, a whole number above 0, a text, or, without a value, that it was given. */
typedef struct command_option {
  const char *name;                        /* "--seed"; NULL ends a list */
  uint64_t *number;
  const char **text;
  bool *given;
} command_option;

/* --help prints the usage and ends the program; so does, with exit status 2 and a message, whatever is no option or no number. */
void command_line(int argc, char **argv, const command_option *options, const char *usage);

/* On a terminal (stderr) one line, written anew every two seconds; elsewhere a line a minute. Costs nothing in between. */
void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void progress_clear(void);                 /* before anything else is printed */

int remove_tree(const char *path);         /* a folder with all that is in it; -1: errno */

/* SIGINT, SIGTERM and SIGHUP are noted instead of ending the program at once, for those that have something to put away. */
void leave_in_order(void);
bool is_to_leave(void);
_Noreturn void leave(void);                /* says so, and dies of the signal */

#endif
