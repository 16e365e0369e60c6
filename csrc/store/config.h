/* Topic configs and store options: names, defaults, ranges, units. Names and rules are Kafka's (docs/configs.md lists them).
**
** A sdm_config_set is what somebody set explicitly (a topic, or a store's defaults); effective values are made of three layers: the
** topic's set, the store's set, the built-in defaults.
*/
#ifndef SDM_STORE_CONFIG_H
#define SDM_STORE_CONFIG_H

#include "base/buf.h"
#include "log/log_config.h"
#include "sediment.h"

#define SDM_CONFIGS 26        /* rows of the table in config.c (checked there) */

enum { SDM_PARTITIONS_MAX = 100000 };     /* of a topic */

typedef struct sdm_config_set {
  bool has[SDM_CONFIGS];
  int64_t integer[SDM_CONFIGS];           /* ints, booleans, enum values and policy bits */
  double number[SDM_CONFIGS];             /* doubles only */
  char policy_script[SDM_POLICY_NAME_MAX + 1];     /* the one config that is a name */
} sdm_config_set;                         /* zero-initialised is empty */

/* Parses and checks each setting and puts it into *set. "partitions" is not a config: it is taken out into *partitions (untouched when
** absent; NULL: it is refused). SDM_MISUSE names the setting, the value, and what is expected; *set is then untouched. */
int sdm_config_apply(sdm_config_set *set, const sdm_settings *given, int32_t *partitions);

bool sdm_config_has(const char *name);    /* there is one; dotted or with underscores */

/* SDM_MISUSE when the set has that config: nobody can want it set and reset at once. */
int sdm_config_refuse_if_set(const sdm_config_set *set, const char *name);

/* Takes a config out of the set. SDM_MISUSE for an unknown name. */
int sdm_config_reset(sdm_config_set *set, const char *name);

/* Typed effective values. Rules between configs are checked (min.compaction.lag.ms <= max.compaction.lag.ms): SDM_MISUSE. */
int sdm_config_effective(const sdm_config_set *topic, const sdm_config_set *store, sdm_log_config *out);

/* That of file.delete.delay.ms, which has no part in those rules: a topic can be deleted under defaults that contradict it. */
int64_t sdm_config_file_delete_delay_ms(const sdm_config_set *topic, const sdm_config_set *store);

/* Effective value and source of row i; rows are ascending by name. */
void sdm_config_describe(const sdm_config_set *topic, const sdm_config_set *store, size_t i, sdm_described *out);

/* As text, one "name value" line for each config that is set, in the order of names; and back (unknown names are kept out with
** SDM_CORRUPT). Values are plain numbers and words, without units. */
int sdm_config_encode(const sdm_config_set *set, sdm_buf *out, const char *indent);
int sdm_config_decode_line(sdm_config_set *set, const char *name, const char *value);

/* ---- store options ---- */
typedef struct sdm_options {
  int64_t retention_check_interval_ms;    /* log.retention.check.interval.ms */
  int64_t initial_task_delay_ms;          /* log.initial.task.delay.ms */
  int64_t flush_scheduler_interval_ms;    /* log.flush.scheduler.interval.ms; bounded to [1, 60000] inside */
  int64_t flush_checkpoint_interval_ms;   /* log.flush.offset.checkpoint.interval.ms */
  int32_t cleaner_enable;                 /* log.cleaner.enable */
  int32_t cleaner_threads;                /* log.cleaner.threads */
  int64_t cleaner_dedupe_buffer_size;     /* log.cleaner.dedupe.buffer.size, bytes over all threads */
  double cleaner_load_factor;             /* log.cleaner.io.buffer.load.factor */
  int64_t cleaner_io_buffer_size;         /* log.cleaner.io.buffer.size */
  double cleaner_io_max_bytes_per_second; /* log.cleaner.io.max.bytes.per.second */
  int64_t cleaner_backoff_ms;             /* log.cleaner.backoff.ms */
  int64_t linger_ms;                      /* linger.ms: how long acknowledged records may stay in the stage (default 1000) */
  int64_t batch_size;                     /* batch.size: bytes of a stage, at most and by default 65536 */
  int64_t offsets_partitions;             /* offsets.topic.num.partitions: of __consumer_offsets when it is made */
  int64_t offsets_segment_bytes;          /* offsets.topic.segment.bytes */
  int64_t offsets_retention_minutes;      /* offsets.retention.minutes */
  int64_t offsets_check_interval_ms;      /* offsets.retention.check.interval.ms */
  int64_t offset_metadata_max_bytes;      /* offset.metadata.max.bytes */
} sdm_options;

bool sdm_options_has(const char *name);    /* dotted or with underscores */
int sdm_options_get(const sdm_options *o, const char *name, int64_t *out);     /* of an option that is a whole number; SDM_NOT_FOUND */
void sdm_options_default(sdm_options *o);
int sdm_options_apply(sdm_options *o, const sdm_settings *given);      /* SDM_MISUSE as above */

#endif
