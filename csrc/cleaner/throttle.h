/* How fast the cleanings of a store may read and write, all of them together: log.cleaner.io.max.bytes.per.second. */
#ifndef SDM_CLEANER_THROTTLE_H
#define SDM_CLEANER_THROTTLE_H

#include <stdint.h>

#include "os/thread.h"

typedef struct sdm_throttle {
  sdm_mutex lock;                        /* guards what follows */
  double rate;                           /* bytes per second */
  double paid;                           /* by then all that was taken is paid for; monotonic seconds */
} sdm_throttle;

void sdm_throttle_init(sdm_throttle *t);
void sdm_throttle_destroy(sdm_throttle *t);
void sdm_throttle_set(sdm_throttle *t, double bytes_per_second);

/* Takes so many bytes, which were read or written just now. Until the returned time whoever took them has to rest; `now`: not at all. Time in which nobody
** takes any is not saved up. */
double sdm_throttle_take(sdm_throttle *t, int64_t bytes, double now);

#endif
