/* The signals that ask a program to end. A library leaves a program's signals alone: this is for the command, which asks for it. */
#ifndef SDM_OS_SIGNALS_H
#define SDM_OS_SIGNALS_H

/* From now on SIGINT ends the process, whoever catches it: the lua program does, and makes an error of it. If it is ignored it stays so. */
void sdm_let_interrupt(void);

/* From now on SIGINT, SIGTERM and SIGHUP are only noted, each once: its second one ends the process, as without this. Those that are ignored stay so. */
void sdm_catch_signals(void);

int sdm_caught_signal(void);              /* the number of the first that came; 0: none */

#endif
