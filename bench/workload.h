/* The workloads of the benchmarks, from a fixed seed, so that every program and every run sees the same records.
**   W1  1,000,000 records, 16-byte keys drawn evenly from 100,000, 100-byte values
**   W2    200,000 records, 16-byte keys drawn evenly from 100,000, 1 KiB values
**   W3  5,000,000 records, 16-byte keys drawn evenly from 1,000,000, 100-byte values
** Values are windows of incompressible text.
*/
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>

enum { KEY_BYTES = 16 };

typedef struct workload {
  const char *name;
  uint32_t count, keys, value_bytes;
  uint32_t *order;         /* count key numbers, in order of arrival */
  uint32_t *last;          /* per key: its last record, UINT32_MAX when it never comes */
  uint32_t live;           /* keys that come */
  char *key_text, *pool;
} workload;

int workload_make(workload *w, const char *name);           /* 0, or -1 for an unknown name or too little memory */
void workload_free(workload *w);
const char *workload_key(const workload *w, uint32_t i);    /* KEY_BYTES of record i */
const char *workload_value(const workload *w, uint32_t i);  /* value_bytes of record i */

double bench_now(void);                                     /* seconds, monotonic */
double bench_median(double *values, int count);
void bench_die(const char *what);                           /* prints errno and ends */

#endif
