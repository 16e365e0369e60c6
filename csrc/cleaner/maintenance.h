/* One retention or cleaning at a time on a partition, over all processes. */
#ifndef SDM_CLEANER_MAINTENANCE_H
#define SDM_CLEANER_MAINTENANCE_H

#include "log/log.h"

/* Waits for whoever is at work; puts right what a dead worker left (unfinished .cleaned files). */
int sdm_maintenance_lock(sdm_log *l);
int sdm_maintenance_try(sdm_log *l);      /* the same without waiting: 1 it is ours, 0 somebody is at work */
void sdm_maintenance_unlock(sdm_log *l);

#endif
