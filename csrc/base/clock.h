/* Clocks. The library never asks the machine for the time on its own: functions whose result depends on it take `now`, in milliseconds
** since the epoch. These are the sources of it.
*/
#ifndef SDM_BASE_CLOCK_H
#define SDM_BASE_CLOCK_H

#include <stdint.h>

int64_t sdm_wall_ms(void);        /* the machine's time of day, milliseconds since the epoch */
int64_t sdm_monotonic_ms(void);   /* a clock that is never set; only differences mean something */
double sdm_monotonic_seconds(void);

/* Saturating arithmetic for times and lags: configs of 2^63-1 mean "for ever". */
static inline int64_t sdm_add_sat(int64_t a, int64_t b) {
  int64_t r;
  return !__builtin_add_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t sdm_sub_sat(int64_t a, int64_t b) {
  int64_t r;
  return !__builtin_sub_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

#endif
