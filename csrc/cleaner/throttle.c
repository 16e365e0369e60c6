#include "cleaner/throttle.h"

#define SHORTEST_REST 0.02               /* seconds: shorter ones are put together */

void sdm_throttle_init(sdm_throttle *t) {
  sdm_mutex_init(&t->lock);
  t->rate = t->paid = 0;
}

void sdm_throttle_destroy(sdm_throttle *t) { sdm_mutex_destroy(&t->lock); }

void sdm_throttle_set(sdm_throttle *t, double bytes_per_second) {
  sdm_mutex_lock(&t->lock);
  t->rate = bytes_per_second;
  sdm_mutex_unlock(&t->lock);
}

double sdm_throttle_take(sdm_throttle *t, int64_t bytes, double now) {
  sdm_mutex_lock(&t->lock);
  if (t->paid < now) t->paid = now;
  t->paid += (double)bytes / t->rate;
  double until = t->paid;
  sdm_mutex_unlock(&t->lock);
  return until - now < SHORTEST_REST ? now : until;
}
