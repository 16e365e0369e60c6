/* What must be true of a whole topic, whoever has opened it: the store that is worked on, or a copy of it. What is wrong ends the process (slot.h). */
#ifndef SPEC_KILLS_CHECKS_H
#define SPEC_KILLS_CHECKS_H

#include "kills/ledger.h"

int64_t start_of(sdm_log *log, int topic);               /* not below what anybody was told before */

/* Reads the topic to its end and holds it against the ledger. `start` and `end` were told before the log was opened, or copied: it starts no lower, and ends no
** lower. `still`: nobody else has it open. */
void check_topic(sdm_log *log, int topic, int64_t start, int64_t end, bool still);

/* sdm_store_verify has nothing to tell. `lived`: processes have died in it, and perhaps as one wrote a slot of sediment.state: that stays torn until the next is
** written. */
void check_files(sdm_store *store, bool lived);

#endif
