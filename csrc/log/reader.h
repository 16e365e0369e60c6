/* Iterating over a partition's records. sediment.h has the public part. */
#ifndef SDM_LOG_READER_H
#define SDM_LOG_READER_H

#include "log/log.h"

/* Decides which records a reader gives; NULL filter: all. */
typedef struct sdm_reader_filter {
  bool (*wants)(void *context, const sdm_record *r);
  void (*free)(void *context);
  void *context;
} sdm_reader_filter;

/* The reader owns the filter from a successful call on. */
void sdm_reader_set_filter(sdm_reader *r, const sdm_reader_filter *filter);

#endif
