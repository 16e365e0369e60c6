/* Options of a store, under the names of Kafka's broker settings. One table says where each goes in sdm_options. */
#include <float.h>
#include <string.h>

#include "cleaner/offset_map.h"
#include "log/control.h"
#include "store/config.h"
#include "store/config_parse.h"

typedef struct option {
  sdm_rule rule;
  size_t at;                              /* offset in sdm_options of an int64_t, of a double, or of an int32_t if `narrow` */
  bool narrow;
} option;

#define INT(name, unit, initial, min, max, field) \
  { { name, SDM_RULE_INT, unit, initial, min, max, 0, 0, NULL, false }, offsetof(sdm_options, field), false }
#define DOUBLE(name, unit, initial, max, field) \
  { { name, SDM_RULE_DOUBLE, unit, 0, 0, 0, initial, max, NULL, false }, offsetof(sdm_options, field), false }
#define MS SDM_UNIT_MS
#define BYTES SDM_UNIT_BYTES

enum { FLUSH_SCHEDULER_MAX_MS = 60000 };

static const option OPTIONS[] = {
  INT("batch.size", BYTES, SDM_STAGE_BYTES, 0, SDM_STAGE_BYTES, batch_size),
  INT("linger.ms", MS, 1000, 0, INT64_MAX, linger_ms),
  INT("log.cleaner.backoff.ms", MS, 15000, 0, INT64_MAX, cleaner_backoff_ms),
  INT("log.cleaner.dedupe.buffer.size", BYTES, 134217728, SDM_OFFSET_MAP_LEAST, INT64_MAX, cleaner_dedupe_buffer_size),
  { { "log.cleaner.enable", SDM_RULE_BOOL, SDM_UNIT_NONE, 1, 0, 0, 0, 0, NULL, false }, offsetof(sdm_options, cleaner_enable), true },
  DOUBLE("log.cleaner.io.buffer.load.factor", SDM_UNIT_NONE, 0.9, 1, cleaner_load_factor),
  INT("log.cleaner.io.buffer.size", BYTES, 524288, 0, INT32_MAX, cleaner_io_buffer_size),
  DOUBLE("log.cleaner.io.max.bytes.per.second", BYTES, DBL_MAX, DBL_MAX, cleaner_io_max_bytes_per_second),
  { { "log.cleaner.threads", SDM_RULE_INT, SDM_UNIT_NONE, 1, 0, 1024, 0, 0, NULL, false }, offsetof(sdm_options, cleaner_threads), true },
  INT("log.flush.offset.checkpoint.interval.ms", MS, 60000, 0, INT64_MAX, flush_checkpoint_interval_ms),
  INT("log.flush.scheduler.interval.ms", MS, FLUSH_SCHEDULER_MAX_MS, 1, INT64_MAX, flush_scheduler_interval_ms),
  INT("log.initial.task.delay.ms", MS, 30000, 0, INT64_MAX, initial_task_delay_ms),
  INT("log.retention.check.interval.ms", MS, 300000, 1, INT64_MAX, retention_check_interval_ms),
  INT("offset.metadata.max.bytes", BYTES, 4096, 0, INT16_MAX, offset_metadata_max_bytes),
  INT("offsets.retention.check.interval.ms", MS, 600000, 1, INT64_MAX, offsets_check_interval_ms),
  INT("offsets.retention.minutes", SDM_UNIT_NONE, 10080, 1, INT32_MAX, offsets_retention_minutes),
  INT("offsets.topic.num.partitions", SDM_UNIT_NONE, 1, 1, 10000, offsets_partitions),
  INT("offsets.topic.segment.bytes", BYTES, 104857600, 14, INT32_MAX, offsets_segment_bytes),
};

enum { COUNT = sizeof OPTIONS / sizeof *OPTIONS };

static void store_value(sdm_options *o, const option *p, sdm_setting_value v) {
  char *at = (char *)o + p->at;
  int32_t narrow = (int32_t)v.integer;
  if (p->narrow) memcpy(at, &narrow, sizeof narrow);
  else if (p->rule.kind == SDM_RULE_DOUBLE) memcpy(at, &v.number, sizeof v.number);
  else memcpy(at, &v.integer, sizeof v.integer);
}

void sdm_options_default(sdm_options *o) {
  memset(o, 0, sizeof *o);
  for (int i = 0; i < COUNT; i++) {
    const sdm_rule *r = &OPTIONS[i].rule;
    store_value(o, &OPTIONS[i], (sdm_setting_value){ r->initial, r->initial_number, "" });
  }
}

static ptrdiff_t find(const char *name) {
  for (ptrdiff_t i = 0; i < COUNT; i++) {
    if (sdm_rule_named(&OPTIONS[i].rule, name)) return i;
  }
  return -1;
}

bool sdm_options_has(const char *name) { return find(name) >= 0; }

int sdm_options_get(const sdm_options *o, const char *name, int64_t *out) {
  ptrdiff_t i = find(name);
  if (i < 0 || OPTIONS[i].rule.kind != SDM_RULE_INT || OPTIONS[i].narrow) return sdm_fail(SDM_NOT_FOUND, "there is no such option: %s", name);
  memcpy(out, (const char *)o + OPTIONS[i].at, sizeof *out);
  return 0;
}

static int refuse_unknown(const char *name) {
  const char *nearest = sdm_rule_nearest(&OPTIONS[0].rule, sizeof *OPTIONS, COUNT, name);
  if (sdm_config_has(name)) return sdm_fail(SDM_MISUSE, "option '%.80s': it is a topic config: put it in defaults= or in store:topic(name, {...})", name);
  if (!nearest) return sdm_fail(SDM_MISUSE, "option '%.80s': there is no store option of that name; docs/configs.md has them all", name);
  return sdm_fail(SDM_MISUSE, "option '%.80s': there is no store option of that name; did you mean '%s'?", name, nearest);
}

/* Each thread's share must have room for a key, or nothing can be cleaned. */
static int check_room(const sdm_options *o) {
  int64_t threads = o->cleaner_threads > 0 ? o->cleaner_threads : 1, share = o->cleaner_dedupe_buffer_size / threads;
  if (share >= SDM_OFFSET_MAP_LEAST) return 0;
  return sdm_fail(SDM_MISUSE, "option 'log.cleaner.dedupe.buffer.size': %lld bytes for each of log.cleaner.threads=%lld have no room for a key; %d are expected at least",
                  (long long)share, (long long)threads, SDM_OFFSET_MAP_LEAST);
}

/* At 0 a cleaning would rest for ever. */
static int check_rate(const sdm_options *o) {
  if (o->cleaner_io_max_bytes_per_second >= 1) return 0;
  return sdm_fail(SDM_MISUSE, "option 'log.cleaner.io.max.bytes.per.second': at least 1 is expected; log.cleaner.enable=false keeps the background from cleaning");
}

int sdm_options_apply(sdm_options *o, const sdm_settings *given) {
  sdm_options fresh = *o;
  bool seen[COUNT] = { false };
  for (size_t n = 0; n < given->count; n++) {
    const sdm_setting *s = &given->items[n];
    ptrdiff_t i = find(s->name);
    if (i < 0) return refuse_unknown(s->name);
    if (seen[i]) return sdm_fail(SDM_MISUSE, "option '%s': it is given twice, with dots and with underscores", OPTIONS[i].rule.name);
    seen[i] = true;
    sdm_setting_value v = { 0, 0, NULL };
    int rc = sdm_rule_parse(&OPTIONS[i].rule, "option", &s->value, &v);
    if (rc < 0) return rc;
    store_value(&fresh, &OPTIONS[i], v);
  }
  if (fresh.flush_scheduler_interval_ms > FLUSH_SCHEDULER_MAX_MS) fresh.flush_scheduler_interval_ms = FLUSH_SCHEDULER_MAX_MS;
  int rc = check_room(&fresh);
  if (rc == 0) rc = check_rate(&fresh);
  if (rc == 0) *o = fresh;
  return rc;
}
