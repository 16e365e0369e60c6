/* One round: something happens to some of the processes, and the others go on. */
#ifndef SPEC_KILLS_ROUNDS_H
#define SPEC_KILLS_ROUNDS_H

#include "kills/herd.h"

void start_all(void);                      /* whoever does not live; some of them die while they open the store, and come again */
void run_round(void);
void verify_running(void);                 /* beside the others */
void verify_still(void);                   /* after the death of all: by the process that recovers */

#endif
