/* What the processes do that the driver kills: they use the store through the public API until they die. */
#ifndef SPEC_KILLS_WORKERS_H
#define SPEC_KILLS_WORKERS_H

#include "kills/ledger.h"

/* As the slot's role says. A verifier opens the store and its topics as a writer does, checks all of it against the ledger, appends to each, and ends with or
** without an orderly close. When everything is still, its opening is the one that recovers what the dead have left. */
_Noreturn void work(void);

#endif
