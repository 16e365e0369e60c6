/* Topic configs. One table has their names, types, defaults and ranges, as Kafka 4 has them; everything else here goes by its rows.
**
** Invariant: rows ascend by name and stand in the order of `enum row`, which indexes the arrays of sdm_config_set.
*/
#include "store/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/config_parse.h"

#define INT(name, unit, initial, min, max) { name, SDM_RULE_INT, unit, initial, min, max, 0, 0, NULL, false }
#define LEVEL(name, initial, min, max) { name, SDM_RULE_INT, SDM_UNIT_NONE, initial, min, max, 0, 0, NULL, true }
#define WORD(name, initial, words) { name, SDM_RULE_WORD, SDM_UNIT_NONE, initial, 0, 0, 0, 0, words, false }
#define MS SDM_UNIT_MS
#define BYTES SDM_UNIT_BYTES
#define FOREVER INT64_MAX
#define DAY INT64_C(86400000)

static const sdm_word COMPRESSION_TYPES[] = {
  { "uncompressed", SDM_CODEC_NONE }, { "zstd", SDM_CODEC_ZSTD }, { "lz4", SDM_CODEC_LZ4 },
  { "snappy", SDM_CODEC_SNAPPY }, { "gzip", SDM_CODEC_GZIP }, { "producer", SDM_COMPRESSION_PRODUCER }, { NULL, 0 },
};
static const sdm_word TIMESTAMP_TYPES[] = { { "CreateTime", 0 }, { "LogAppendTime", 1 }, { NULL, 0 } };

enum row {
  CLEANUP_POLICY, COMPRESSION_GZIP_LEVEL, COMPRESSION_LZ4_LEVEL, COMPRESSION_TYPE, COMPRESSION_ZSTD_LEVEL, DELETE_RETENTION_MS,
  FILE_DELETE_DELAY_MS, FLUSH_MESSAGES, FLUSH_MS, INDEX_INTERVAL_BYTES, MAX_COMPACTION_LAG_MS, MAX_MESSAGE_BYTES,
  MESSAGE_TIMESTAMP_AFTER_MAX_MS, MESSAGE_TIMESTAMP_BEFORE_MAX_MS, MESSAGE_TIMESTAMP_TYPE, MIN_CLEANABLE_DIRTY_RATIO,
  MIN_COMPACTION_LAG_MS, POLICY_INTERVAL_MS, POLICY_SCRIPT, PREALLOCATE, RETENTION_BYTES, RETENTION_MS, SEGMENT_BYTES, SEGMENT_INDEX_BYTES, SEGMENT_JITTER_MS, SEGMENT_MS,
  ROWS
};

/* segment.bytes begins at 14 as Kafka's did before 4.0: small segments are for tests. */
static const sdm_rule RULES[] = {
  { "cleanup.policy", SDM_RULE_POLICY, SDM_UNIT_NONE, SDM_POLICY_DELETE, 0, 0, 0, 0, NULL, false },
  LEVEL("compression.gzip.level", -1, -1, 9),
  LEVEL("compression.lz4.level", 9, 1, 17),
  WORD("compression.type", SDM_COMPRESSION_PRODUCER, COMPRESSION_TYPES),
  INT("compression.zstd.level", SDM_UNIT_NONE, 3, -131072, 22),
  INT("delete.retention.ms", MS, DAY, 0, FOREVER),
  INT("file.delete.delay.ms", MS, 60000, 0, FOREVER),
  INT("flush.messages", SDM_UNIT_NONE, FOREVER, 1, FOREVER),
  INT("flush.ms", MS, FOREVER, 0, FOREVER),
  INT("index.interval.bytes", BYTES, 4096, 0, INT32_MAX),
  INT("max.compaction.lag.ms", MS, FOREVER, 1, FOREVER),
  INT("max.message.bytes", BYTES, 1048588, 0, INT32_MAX),
  INT("message.timestamp.after.max.ms", MS, 3600000, 0, FOREVER),
  INT("message.timestamp.before.max.ms", MS, FOREVER, 0, FOREVER),
  WORD("message.timestamp.type", 0, TIMESTAMP_TYPES),
  { "min.cleanable.dirty.ratio", SDM_RULE_DOUBLE, SDM_UNIT_NONE, 0, 0, 0, 0.5, 1, NULL, false },
  INT("min.compaction.lag.ms", MS, 0, 0, FOREVER),
  INT("policy.interval.ms", MS, 3600000, 1, FOREVER),
  { "policy.script", SDM_RULE_SCRIPT, SDM_UNIT_NONE, 0, 0, 0, 0, 0, NULL, false },
  { "preallocate", SDM_RULE_BOOL, SDM_UNIT_NONE, 0, 0, 0, 0, 0, NULL, false },
  INT("retention.bytes", BYTES, -1, INT64_MIN, FOREVER),
  INT("retention.ms", MS, 7 * DAY, -1, FOREVER),
  INT("segment.bytes", BYTES, 1073741824, 14, INT32_MAX),
  INT("segment.index.bytes", BYTES, 10485760, 4, INT32_MAX),
  INT("segment.jitter.ms", MS, 0, 0, FOREVER),
  INT("segment.ms", MS, 7 * DAY, 1, FOREVER),
};

_Static_assert(sizeof RULES / sizeof *RULES == SDM_CONFIGS && ROWS == SDM_CONFIGS, "one row for each config");

static const sdm_rule PARTITIONS = INT("partitions", SDM_UNIT_NONE, 1, 1, SDM_PARTITIONS_MAX);

static void put(sdm_config_set *set, size_t i, sdm_setting_value v) {
  set->has[i] = true;
  set->integer[i] = v.integer;
  set->number[i] = v.number;
  if (i == POLICY_SCRIPT) snprintf(set->policy_script, sizeof set->policy_script, "%s", v.text);
}

/* ---- sets ---- */

static int apply_partitions(const sdm_value *given, int32_t *partitions) {
  sdm_setting_value v = { 0, 0, NULL };
  if (!partitions) return sdm_fail(SDM_MISUSE, "config 'partitions': it belongs to one topic and has no default here");
  int rc = sdm_rule_parse(&PARTITIONS, "config", given, &v);
  if (rc == 0) *partitions = (int32_t)v.integer;
  return rc;
}

static int refuse_unknown(const char *name) {
  const char *nearest = sdm_rule_nearest(RULES, sizeof *RULES, SDM_CONFIGS, name);
  if (sdm_options_has(name)) return sdm_fail(SDM_MISUSE, "config '%.80s': it is a store option: put it in options= of sediment.open", name);
  if (!nearest) return sdm_fail(SDM_MISUSE, "config '%.80s': there is no topic config of that name; docs/configs.md has them all", name);
  return sdm_fail(SDM_MISUSE, "config '%.80s': there is no topic config of that name; did you mean '%s'?", name, nearest);
}

bool sdm_config_has(const char *name) { return sdm_rule_find(RULES, SDM_CONFIGS, name) >= 0; }

static int apply_one(sdm_config_set *set, bool *seen, const sdm_setting *s) {
  ptrdiff_t i = sdm_rule_find(RULES, SDM_CONFIGS, s->name);
  if (i < 0) return refuse_unknown(s->name);
  if (seen[i]) return sdm_fail(SDM_MISUSE, "config '%s': it is given twice, with dots and with underscores", RULES[i].name);
  seen[i] = true;
  sdm_setting_value v = { 0, 0, NULL };
  int rc = sdm_rule_parse(&RULES[i], "config", &s->value, &v);
  if (rc == 0) put(set, (size_t)i, v);
  return rc;
}

int sdm_config_apply(sdm_config_set *set, const sdm_settings *given, int32_t *partitions) {
  sdm_config_set fresh = *set;
  int32_t count = partitions ? *partitions : 0;
  bool seen[SDM_CONFIGS] = { false };
  for (size_t i = 0; i < given->count; i++) {
    const sdm_setting *s = &given->items[i];
    bool counts = strcmp(s->name, "partitions") == 0;
    int rc = counts ? apply_partitions(&s->value, partitions ? &count : NULL) : apply_one(&fresh, seen, s);
    if (rc < 0) return rc;
  }
  *set = fresh;
  if (partitions) *partitions = count;
  return 0;
}

static ptrdiff_t find(const char *name) {
  ptrdiff_t i = sdm_rule_find(RULES, SDM_CONFIGS, name);
  if (i < 0 && strcmp(name, "partitions") == 0) sdm_fail(SDM_MISUSE, "config 'partitions': it belongs to one topic and has no default to go back to");
  else if (i < 0) refuse_unknown(name);
  return i;
}

int sdm_config_refuse_if_set(const sdm_config_set *set, const char *name) {
  ptrdiff_t i = find(name);
  if (i < 0) return SDM_MISUSE;
  return set->has[i] ? sdm_fail(SDM_MISUSE, "config '%.80s': it is to be set and to go back to its default; one of them", name) : 0;
}

int sdm_config_reset(sdm_config_set *set, const char *name) {
  ptrdiff_t i = find(name);
  if (i < 0) return SDM_MISUSE;
  set->has[i] = false;
  set->integer[i] = 0;
  set->number[i] = 0;
  if (i == POLICY_SCRIPT) *set->policy_script = '\0';
  return 0;
}

/* ---- effective values ---- */

static sdm_source source_of(const sdm_config_set *topic, const sdm_config_set *store, size_t i) {
  if (topic && topic->has[i]) return SDM_SOURCE_TOPIC;
  return store && store->has[i] ? SDM_SOURCE_STORE : SDM_SOURCE_DEFAULT;
}

static sdm_setting_value value_of(const sdm_config_set *topic, const sdm_config_set *store, size_t i) {
  switch (source_of(topic, store, i)) {
    case SDM_SOURCE_TOPIC: return (sdm_setting_value){ topic->integer[i], topic->number[i], topic->policy_script };
    case SDM_SOURCE_STORE: return (sdm_setting_value){ store->integer[i], store->number[i], store->policy_script };
    default: return (sdm_setting_value){ RULES[i].initial, RULES[i].initial_number, "" };
  }
}

static void fill(sdm_log_config *c, const int64_t *v) {
  c->cleanup_policy = (int)v[CLEANUP_POLICY];
  c->segment_bytes = v[SEGMENT_BYTES];
  c->segment_ms = v[SEGMENT_MS];
  c->segment_jitter_ms = v[SEGMENT_JITTER_MS];
  c->segment_index_bytes = v[SEGMENT_INDEX_BYTES];
  c->index_interval_bytes = v[INDEX_INTERVAL_BYTES];
  c->retention_bytes = v[RETENTION_BYTES];
  c->retention_ms = v[RETENTION_MS];
  c->file_delete_delay_ms = v[FILE_DELETE_DELAY_MS];
  c->delete_retention_ms = v[DELETE_RETENTION_MS];
  c->min_compaction_lag_ms = v[MIN_COMPACTION_LAG_MS];
  c->max_compaction_lag_ms = v[MAX_COMPACTION_LAG_MS];
  c->max_message_bytes = v[MAX_MESSAGE_BYTES];
  c->log_append_time = v[MESSAGE_TIMESTAMP_TYPE] != 0;
  c->timestamp_before_max_ms = v[MESSAGE_TIMESTAMP_BEFORE_MAX_MS];
  c->timestamp_after_max_ms = v[MESSAGE_TIMESTAMP_AFTER_MAX_MS];
  c->compression_type = (int)v[COMPRESSION_TYPE];
  c->gzip_level = (int)v[COMPRESSION_GZIP_LEVEL];
  c->lz4_level = (int)v[COMPRESSION_LZ4_LEVEL];
  c->zstd_level = (int)v[COMPRESSION_ZSTD_LEVEL];
  c->flush_messages = v[FLUSH_MESSAGES];
  c->flush_ms = v[FLUSH_MS];
  c->preallocate = v[PREALLOCATE] != 0;
  c->policy_interval_ms = v[POLICY_INTERVAL_MS];
}

int sdm_config_effective(const sdm_config_set *topic, const sdm_config_set *store, sdm_log_config *out) {
  int64_t v[SDM_CONFIGS];
  for (size_t i = 0; i < SDM_CONFIGS; i++) v[i] = value_of(topic, store, i).integer;
  if (v[MIN_COMPACTION_LAG_MS] > v[MAX_COMPACTION_LAG_MS]) {
    return sdm_fail(SDM_MISUSE, "config 'min.compaction.lag.ms': %" PRId64 " is more than max.compaction.lag.ms, %" PRId64,
                    v[MIN_COMPACTION_LAG_MS], v[MAX_COMPACTION_LAG_MS]);
  }
  memset(out, 0, sizeof *out);
  fill(out, v);
  out->min_cleanable_dirty_ratio = value_of(topic, store, MIN_CLEANABLE_DIRTY_RATIO).number;
  snprintf(out->policy_script, sizeof out->policy_script, "%s", value_of(topic, store, POLICY_SCRIPT).text);
  return 0;
}

int64_t sdm_config_file_delete_delay_ms(const sdm_config_set *topic, const sdm_config_set *store) {
  return value_of(topic, store, FILE_DELETE_DELAY_MS).integer;
}

static void copy_text(char *to, size_t size, const char *from) {
  size_t n = strlen(from);
  if (n >= size) n = size - 1;
  memcpy(to, from, n);
  to[n] = '\0';
}

void sdm_config_describe(const sdm_config_set *topic, const sdm_config_set *store, size_t i, sdm_described *out) {
  const sdm_rule *r = &RULES[i];
  sdm_setting_value v = value_of(topic, store, i);
  memset(out, 0, sizeof *out);
  out->name = r->name;
  out->source = source_of(topic, store, i);
  out->value.integer = v.integer;
  out->value.number = v.number;
  switch (r->kind) {
    case SDM_RULE_INT: out->value.type = SDM_VALUE_INT; break;
    case SDM_RULE_DOUBLE: out->value.type = SDM_VALUE_DOUBLE; break;
    case SDM_RULE_BOOL: out->value.type = SDM_VALUE_BOOL; break;
    default:
      out->value.type = SDM_VALUE_STRING;
      copy_text(out->storage, sizeof out->storage, r->kind == SDM_RULE_SCRIPT ? v.text : sdm_rule_word(r, v.integer));
      out->value.string = out->storage;
  }
}

/* ---- text ---- */

/* The decimal point is a dot whatever the program's locale. */
static int encode_number(sdm_buf *out, double d) {
  char text[40];
  int n = snprintf(text, sizeof text, "%.17g", d);
  for (int i = 0; i < n; i++) {
    if (text[i] == ',') text[i] = '.';
  }
  return sdm_buf_printf(out, "%s\n", text);
}

static int encode_value(const sdm_rule *r, const sdm_config_set *set, size_t i, sdm_buf *out) {
  switch (r->kind) {
    case SDM_RULE_INT: return sdm_buf_printf(out, "%" PRId64 "\n", set->integer[i]);
    case SDM_RULE_DOUBLE: return encode_number(out, set->number[i]);
    case SDM_RULE_BOOL: return sdm_buf_printf(out, "%s\n", set->integer[i] ? "true" : "false");
    case SDM_RULE_SCRIPT: return sdm_buf_printf(out, "%s\n", set->policy_script);
    default: return sdm_buf_printf(out, "%s\n", sdm_rule_word(r, set->integer[i]));
  }
}

int sdm_config_encode(const sdm_config_set *set, sdm_buf *out, const char *indent) {
  for (size_t i = 0; i < SDM_CONFIGS; i++) {
    if (!set->has[i]) continue;
    int rc = sdm_buf_printf(out, "%s%s ", indent, RULES[i].name);
    if (rc == 0) rc = encode_value(&RULES[i], set, i, out);
    if (rc < 0) return rc;
  }
  return 0;
}

int sdm_config_decode_line(sdm_config_set *set, const char *name, const char *value) {
  ptrdiff_t i = sdm_rule_find(RULES, SDM_CONFIGS, name);
  if (i < 0 || strcmp(RULES[i].name, name) != 0) return sdm_fail(SDM_CORRUPT, "there is no topic config '%.80s'", name);
  if (set->has[i]) return sdm_fail(SDM_CORRUPT, "config '%s' stands there twice", name);
  sdm_value given = { SDM_VALUE_STRING, value, 0, 0 };
  sdm_setting_value v = { 0, 0, NULL };
  if (sdm_rule_parse(&RULES[i], "config", &given, &v) < 0) return sdm_fail_within(SDM_CORRUPT, "%s", "");
  put(set, (size_t)i, v);
  return 0;
}

size_t sdm_config_count(void) { return SDM_CONFIGS; }
