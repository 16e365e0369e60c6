/* The effective configs of a topic, typed: what the log, the cleaner and retention go by. Names, defaults and ranges are in store/config.c. */
#ifndef SDM_LOG_LOG_CONFIG_H
#define SDM_LOG_LOG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "format/policy_file.h"

enum { SDM_POLICY_DELETE = 1, SDM_POLICY_COMPACT = 2 };      /* bits of cleanup_policy; none is legal */
enum { SDM_COMPRESSION_PRODUCER = -1 };                       /* compression_type: else a sdm_codec */

typedef struct sdm_log_config {
  int cleanup_policy;
  int64_t segment_bytes, segment_ms, segment_jitter_ms, segment_index_bytes, index_interval_bytes;
  int64_t retention_bytes, retention_ms, file_delete_delay_ms;
  int64_t delete_retention_ms, min_compaction_lag_ms, max_compaction_lag_ms;
  double min_cleanable_dirty_ratio;
  int64_t max_message_bytes;
  bool log_append_time;                                       /* message.timestamp.type */
  int64_t timestamp_before_max_ms, timestamp_after_max_ms;
  int compression_type, gzip_level, lz4_level, zstd_level;
  int64_t flush_messages, flush_ms;
  bool preallocate;
  char policy_script[SDM_POLICY_NAME_MAX + 1];                /* its name; "": none */
  int64_t policy_interval_ms;
} sdm_log_config;

/* segment.ms, or max.compaction.lag.ms where that is shorter and the topic is compacted. */
static inline int64_t sdm_log_config_segment_ms(const sdm_log_config *c) {
  bool shorter = (c->cleanup_policy & SDM_POLICY_COMPACT) && c->max_compaction_lag_ms < c->segment_ms;
  return shorter ? c->max_compaction_lag_ms : c->segment_ms;
}

#endif
