/* What the machine can do at best, without a store around it: the other side of each ratio. Records are encoded as Kafka's, by code of its own
** here, so that a floor owes nothing to what it is held against.
*/
#ifndef BENCH_FLOORS_H
#define BENCH_FLOORS_H

#include "workload.h"

/* Each works in a file under `dir` and returns seconds. */
double floor_write1(const char *dir, uint32_t count);                  /* write(2) of 180 bytes, count times */
double floor_encode(const char *dir, const workload *w, uint32_t per); /* encode batches of `per`, CRC, one write(2) each */
double floor_decode(const char *dir, const workload *w);               /* read 64 KiB at a time, CRC, walk the records; batches of 1000 */
double floor_clean(const char *dir, const workload *w);                /* ideal two-pass cleaner, no crash safety, no indexes */

/* A log of W in batches of 1000 as DIR/NAME.log, made once; live_only: only the last record of each key. Returns its bytes. */
int64_t floor_make_log(const char *dir, const workload *w, int live_only, char *path, size_t path_size);

/* Calls f for each record of the log, reading as floor_decode does, without CRC when `check` is 0. */
typedef void floor_visit(void *context, const uint8_t *key, const uint8_t *value, uint32_t value_size);
void floor_walk(const char *path, int check, floor_visit *f, void *context);

#endif
