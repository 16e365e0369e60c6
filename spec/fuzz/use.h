/* What the targets do with a store that has opened. */
#ifndef SPEC_FUZZ_USE_H
#define SPEC_FUZZ_USE_H

#include "fuzz/fuzz.h"
#include "store/store.h"

enum { FUZZ_LOGS_MAX = 6 };               /* partitions that are looked at */

int fuzz_open_store(sim_disk *d, const char *root, int64_t now, sdm_store **out);

/* Reads all of it, appends, compacts, keeps it up, and closes it; then it opens once more, and no log has lost its end. Takes the store over. */
void fuzz_use_store(sim_disk *d, const char *root, sdm_store *s, int64_t now);

#endif
