/* Cleaning in the background: rounds over the compacted partitions of a store, by log.cleaner.threads threads. */
#ifndef SDM_STORE_CLEANERS_H
#define SDM_STORE_CLEANERS_H

#include "store/store.h"

typedef struct sdm_cleaners sdm_cleaners;

/* Starts a round over what is due at `now`; NULL when nothing is, or when the options leave cleaning out. */
sdm_cleaners *sdm_cleaners_begin(sdm_store *s, int64_t now, const sdm_options *o);

bool sdm_cleaners_done(const sdm_cleaners *c);

/* Waits for its threads, and frees it. Whether anything was cleaned: then there may be more, and the next round need not wait. */
bool sdm_cleaners_end(sdm_cleaners *c);

#endif
