/* Topic configs and store options: every row's default and range, units, the three layers, the text form. */
#include "store/config.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "test.h"

static sdm_setting text(const char *name, const char *value) {
  return (sdm_setting){ name, { SDM_VALUE_STRING, value, 0, 0 } };
}

static sdm_setting integer(const char *name, int64_t value) {
  return (sdm_setting){ name, { SDM_VALUE_INT, NULL, value, 0 } };
}

static sdm_setting number(const char *name, double value) {
  return (sdm_setting){ name, { SDM_VALUE_DOUBLE, NULL, 0, value } };
}

static int apply(sdm_config_set *set, sdm_setting s) {
  return sdm_config_apply(set, &(sdm_settings){ &s, 1 }, NULL);
}

static size_t row(const char *name) {
  sdm_described d;
  for (size_t i = 0; i < SDM_CONFIGS; i++) {
    sdm_config_describe(NULL, NULL, i, &d);
    if (strcmp(d.name, name) == 0) return i;
  }
  printf("no row %s\n", name);
  return 0;
}

/* What a setting given as `s` reads as afterwards, as text; "" when it is refused. */
static const char *reads(sdm_setting s) {
  static char out[80];
  sdm_config_set set = { .has = { false } };
  sdm_described d;
  if (apply(&set, s) < 0) return "";
  sdm_config_describe(&set, NULL, row(s.name), &d);
  if (d.source != SDM_SOURCE_TOPIC) return "wrong source";
  switch (d.value.type) {
    case SDM_VALUE_INT: snprintf(out, sizeof out, "%lld", (long long)d.value.integer); break;
    case SDM_VALUE_DOUBLE: snprintf(out, sizeof out, "%g", d.value.number); break;
    case SDM_VALUE_BOOL: snprintf(out, sizeof out, "%s", d.value.integer ? "true" : "false"); break;
    default: snprintf(out, sizeof out, "'%s'", d.value.string);
  }
  return out;
}

#define CHECK_READS(name, given, expected) CHECK_STR(reads(text(name, given)), expected)
#define CHECK_REFUSED(name, given) CHECK_STR(reads(text(name, given)), "")

#define FOREVER "9223372036854775807"

TEST(rows_have_kafkas_defaults_and_ascend) {
  static const char *const expected[][2] = {
    { "cleanup.policy", "delete" }, { "compression.gzip.level", "-1" }, { "compression.lz4.level", "9" },
    { "compression.type", "producer" }, { "compression.zstd.level", "3" }, { "delete.retention.ms", "86400000" },
    { "file.delete.delay.ms", "60000" }, { "flush.messages", FOREVER }, { "flush.ms", FOREVER }, { "index.interval.bytes", "4096" },
    { "max.compaction.lag.ms", FOREVER }, { "max.message.bytes", "1048588" }, { "message.timestamp.after.max.ms", "3600000" },
    { "message.timestamp.before.max.ms", FOREVER }, { "message.timestamp.type", "CreateTime" }, { "min.cleanable.dirty.ratio", "0.5" },
    { "min.compaction.lag.ms", "0" }, { "policy.interval.ms", "3600000" }, { "policy.script", "" }, { "preallocate", "0" }, { "retention.bytes", "-1" }, { "retention.ms", "604800000" },
    { "segment.bytes", "1073741824" }, { "segment.index.bytes", "10485760" }, { "segment.jitter.ms", "0" }, { "segment.ms", "604800000" },
  };
  CHECK_INT(sizeof expected / sizeof *expected, SDM_CONFIGS);
  for (size_t i = 0; i < SDM_CONFIGS; i++) {
    sdm_described d;
    char out[80];
    sdm_config_describe(NULL, NULL, i, &d);
    CHECK_STR(d.name, expected[i][0]);
    CHECK(i == 0 || strcmp(expected[i - 1][0], expected[i][0]) < 0);
    CHECK_INT(d.source, SDM_SOURCE_DEFAULT);
    if (d.value.type == SDM_VALUE_STRING) snprintf(out, sizeof out, "%s", d.value.string);
    else if (d.value.type == SDM_VALUE_DOUBLE) snprintf(out, sizeof out, "%g", d.value.number);
    else snprintf(out, sizeof out, "%lld", (long long)d.value.integer);
    CHECK_STR(out, expected[i][1]);
  }
}

TEST(ranges_are_kafkas) {
  static const struct { const char *name, *low, *below, *high, *above; } ranges[] = {
    { "segment.bytes", "14", "13", "2147483647", "2147483648" },
    { "segment.ms", "1", "0", FOREVER, NULL },
    { "segment.jitter.ms", "0", "-1", FOREVER, NULL },
    { "segment.index.bytes", "4", "3", "2147483647", "2147483648" },
    { "index.interval.bytes", "0", "-1", "2147483647", "2147483648" },
    { "retention.bytes", "-9223372036854775807", NULL, FOREVER, NULL },
    { "retention.ms", "-1", "-2", FOREVER, NULL },
    { "file.delete.delay.ms", "0", "-1", FOREVER, NULL },
    { "delete.retention.ms", "0", "-1", FOREVER, NULL },
    { "min.cleanable.dirty.ratio", "0", "-0.1", "1", "1.01" },
    { "min.compaction.lag.ms", "0", "-1", FOREVER, NULL },
    { "max.compaction.lag.ms", "1", "0", FOREVER, NULL },
    { "max.message.bytes", "0", "-1", "2147483647", "2147483648" },
    { "message.timestamp.before.max.ms", "0", "-1", FOREVER, NULL },
    { "message.timestamp.after.max.ms", "0", "-1", FOREVER, NULL },
    { "compression.gzip.level", "-1", "-2", "9", "10" },
    { "compression.lz4.level", "1", "0", "17", "18" },
    { "compression.zstd.level", "-131072", "-131073", "22", "23" },
    { "flush.messages", "1", "0", FOREVER, NULL },
    { "flush.ms", "0", "-1", FOREVER, NULL },
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    CHECK_READS(ranges[i].name, ranges[i].low, ranges[i].low);
    CHECK_READS(ranges[i].name, ranges[i].high, ranges[i].high);
    if (ranges[i].below) CHECK_REFUSED(ranges[i].name, ranges[i].below);
    if (ranges[i].above) CHECK_REFUSED(ranges[i].name, ranges[i].above);
  }
  CHECK_REFUSED("compression.gzip.level", "0");
  CHECK_READS("compression.zstd.level", "0", "0");
}

TEST(units_of_time) {
  CHECK_READS("retention.ms", "250ms", "250");
  CHECK_READS("retention.ms", "30s", "30000");
  CHECK_READS("retention.ms", "2m", "120000");
  CHECK_READS("retention.ms", "1.5h", "5400000");
  CHECK_READS("retention.ms", "7d", "604800000");
  CHECK_READS("retention.ms", "0.001s", "1");
  CHECK_READS("retention.ms", "1.0", "1");
  CHECK_READS("retention.ms", "-1", "-1");
  CHECK_READS("retention.ms", "999999999999999d", FOREVER);
  static const char *const bad[] = {
    "", " ", "7 d", "7 weeks", "7w", "7D", "d", "1.5ms", "0.0001s", "1.", ".5h", "--1", "+1", "1e3", "0x10", "7d ", "1KiB", "5B", "1.5",
    "1.2.3s", "7dd", "nan", "0.0000000000000000000001d",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_REFUSED("retention.ms", bad[i]);
}

TEST(units_of_size) {
  CHECK_READS("retention.bytes", "5B", "5");
  CHECK_READS("retention.bytes", "5KB", "5000");
  CHECK_READS("retention.bytes", "5KiB", "5120");
  CHECK_READS("retention.bytes", "2MB", "2000000");
  CHECK_READS("retention.bytes", "512MiB", "536870912");
  CHECK_READS("retention.bytes", "1GB", "1000000000");
  CHECK_READS("retention.bytes", "1.5GiB", "1610612736");
  CHECK_READS("retention.bytes", "1TB", "1000000000000");
  CHECK_READS("retention.bytes", "2TiB", "2199023255552");
  CHECK_READS("retention.bytes", "9000000000TiB", FOREVER);
  static const char *const bad[] = { "5s", "5m", "5kB", "5k", "5Mb", "0.3B", "5 KB", "5KiBs" };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_REFUSED("retention.bytes", bad[i]);
  CHECK_REFUSED("flush.messages", "5B");
  CHECK_REFUSED("flush.messages", "5s");
  CHECK_READS("flush.messages", "5", "5");
}

TEST(numbers_come_as_int_or_double) {
  CHECK_STR(reads(integer("retention.ms", INT64_MAX)), FOREVER);
  CHECK_STR(reads(number("retention.ms", 86400000.0)), "86400000");
  CHECK_STR(reads(number("retention.ms", 9223372036854775807.0)), FOREVER);
  CHECK_STR(reads(number("retention.ms", 1e300)), FOREVER);
  CHECK_STR(reads(number("retention.ms", 0.5)), "");
  CHECK_STR(reads(number("retention.ms", -1e300)), "");
  CHECK_STR(reads(number("retention.ms", __builtin_nan(""))), "");
  CHECK_STR(reads(number("segment.bytes", 1e300)), "");
  CHECK_STR(reads(integer("min.cleanable.dirty.ratio", 1)), "1");
  CHECK_STR(reads(number("min.cleanable.dirty.ratio", 0.25)), "0.25");
  CHECK_STR(reads(number("min.cleanable.dirty.ratio", __builtin_nan(""))), "");
  CHECK_READS("min.cleanable.dirty.ratio", "0.01", "0.01");
  CHECK_REFUSED("min.cleanable.dirty.ratio", "half");
  CHECK_REFUSED("min.cleanable.dirty.ratio", "");
  CHECK_REFUSED("min.cleanable.dirty.ratio", "0.5s");
}

TEST(words_and_booleans) {
  CHECK_READS("cleanup.policy", "compact", "'compact'");
  CHECK_READS("cleanup.policy", "delete,compact", "'compact,delete'");
  CHECK_READS("cleanup.policy", " compact , delete ", "'compact,delete'");
  CHECK_READS("cleanup.policy", "", "''");
  CHECK_REFUSED("cleanup.policy", "compact,");
  CHECK_REFUSED("cleanup.policy", ",compact");
  CHECK_REFUSED("cleanup.policy", "compact delete");
  CHECK_REFUSED("cleanup.policy", "Compact");
  CHECK_REFUSED("cleanup.policy", "keep");
  CHECK_STR(reads(integer("cleanup.policy", 1)), "");
  CHECK_READS("compression.type", "zstd", "'zstd'");
  CHECK_READS("compression.type", "uncompressed", "'uncompressed'");
  CHECK_REFUSED("compression.type", "none");
  CHECK_READS("message.timestamp.type", "LogAppendTime", "'LogAppendTime'");
  CHECK_REFUSED("message.timestamp.type", "logappendtime");
  CHECK_READS("preallocate", "true", "true");
  CHECK_READS("preallocate", "false", "false");
  CHECK_REFUSED("preallocate", "yes");
  CHECK_STR(reads(integer("preallocate", 1)), "");
  sdm_setting on = { "preallocate", { SDM_VALUE_BOOL, NULL, 1, 0 } }, off = { "retention.ms", { SDM_VALUE_BOOL, NULL, 1, 0 } };
  CHECK_STR(reads(on), "true");
  CHECK_STR(reads(off), "");
}

TEST(names_have_dots_or_underscores) {
  sdm_config_set set = { .has = { false } };
  CHECK_INT(apply(&set, integer("retention_ms", 5)), 0);
  CHECK_INT(apply(&set, integer("min.cleanable_dirty.ratio", 1)), 0);
  CHECK_INT(set.integer[row("retention.ms")], 5);
  static const char *const unknown[] = { "retention", "retention.ms.", "retention-ms", "Retention.ms", "", "internal.segment.bytes" };
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) CHECK_INT(apply(&set, integer(unknown[i], 5)), SDM_MISUSE);
  CHECK(strstr(sdm_errmsg(), "internal.segment.bytes") != NULL);
}

TEST(refusals_say_what_would_do) {
  CHECK_REFUSED("retention.ms", "7 weeks");
  CHECK_STR(sdm_errmsg(), "config 'retention.ms': '7 weeks' is not a number of milliseconds such as 604800000, \"7d\" or \"30s\"");
  CHECK_REFUSED("segment.bytes", "1d");
  CHECK_STR(sdm_errmsg(), "config 'segment.bytes': '1d' is not a number of bytes such as 1073741824, \"512MiB\" or \"64KB\"");
  CHECK_REFUSED("segment.bytes", "13");
  CHECK_STR(sdm_errmsg(), "config 'segment.bytes': '13' is outside [14, 2147483647]");
  CHECK_REFUSED("compression.type", "brotli");
  CHECK_STR(sdm_errmsg(), "config 'compression.type': 'brotli' is not one of uncompressed, zstd, lz4, snappy, gzip, producer");
  CHECK_REFUSED("preallocate", "maybe");
  CHECK_STR(sdm_errmsg(), "config 'preallocate': 'maybe' is not true or false");
}

TEST(a_refused_list_changes_nothing) {
  sdm_config_set set = { .has = { false } };
  int32_t partitions = 7;
  sdm_setting items[] = { integer("retention.ms", 5), integer("partitions", 3), text("segment.ms", "never") };
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 3 }, &partitions), SDM_MISUSE);
  CHECK(!set.has[row("retention.ms")]);
  CHECK_INT(partitions, 7);
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 2 }, &partitions), 0);
  CHECK(set.has[row("retention.ms")]);
  CHECK_INT(partitions, 3);
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 2 }, NULL), SDM_MISUSE);
  items[1] = integer("partitions", 0);
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 2 }, &partitions), SDM_MISUSE);
  items[1] = integer("retention_ms", 6);
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 2 }, &partitions), SDM_MISUSE);
  CHECK(strstr(sdm_errmsg(), "twice") != NULL);
}

TEST(three_layers) {
  sdm_config_set topic = { .has = { false } }, store = topic;
  sdm_log_config c;
  sdm_described d;
  size_t i = row("retention.ms");
  CHECK_INT(apply(&store, integer("retention.ms", 10)), 0);
  CHECK_INT(apply(&store, number("min.cleanable.dirty.ratio", 0.1)), 0);
  CHECK_INT(sdm_config_effective(&topic, &store, &c), 0);
  CHECK_INT(c.retention_ms, 10);
  CHECK(c.min_cleanable_dirty_ratio == 0.1);
  CHECK_INT(c.cleanup_policy, SDM_POLICY_DELETE);
  CHECK_INT(c.compression_type, SDM_COMPRESSION_PRODUCER);
  sdm_config_describe(&topic, &store, i, &d);
  CHECK_INT(d.source, SDM_SOURCE_STORE);
  CHECK_INT(apply(&topic, integer("retention.ms", 20)), 0);
  CHECK_INT(sdm_config_effective(&topic, &store, &c), 0);
  CHECK_INT(c.retention_ms, 20);
  CHECK_INT(sdm_config_reset(&topic, "retention_ms"), 0);
  CHECK_INT(sdm_config_effective(&topic, &store, &c), 0);
  CHECK_INT(c.retention_ms, 10);
  CHECK_INT(sdm_config_reset(&topic, "partitions"), SDM_MISUSE);
}

TEST(lags_must_agree) {
  sdm_config_set topic = { .has = { false } }, store = topic;
  sdm_log_config c;
  CHECK_INT(apply(&topic, integer("min.compaction.lag.ms", 20)), 0);
  CHECK_INT(apply(&store, integer("max.compaction.lag.ms", 20)), 0);
  CHECK_INT(sdm_config_effective(&topic, &store, &c), 0);
  CHECK_INT(apply(&store, integer("max.compaction.lag.ms", 19)), 0);
  CHECK_INT(sdm_config_effective(&topic, &store, &c), SDM_MISUSE);
}

TEST(a_policy_script_is_a_name_or_nothing) {
  CHECK_READS("policy.script", "a-Z_9", "'a-Z_9'");
  CHECK_READS("policy.script", "", "''");
  CHECK_READS("policy.script", "x23456789012345678901234567890123456789012345678901234567890123", "'x23456789012345678901234567890123456789012345678901234567890123'");
  CHECK_REFUSED("policy.script", "x234567890123456789012345678901234567890123456789012345678901234");
  CHECK_REFUSED("policy.script", "a.b");
  CHECK_REFUSED("policy.script", "../a");
  CHECK_REFUSED("policy.script", "a b");
  CHECK_STR(reads(integer("policy.script", 7)), "");
}

TEST(text_form_and_back) {
  sdm_config_set set = { .has = { false } }, again = set;
  sdm_buf out = SDM_BUF_INIT;
  sdm_setting items[] = { text("cleanup.policy", ""), text("segment.ms", "1h"), number("min.cleanable.dirty.ratio", 0.1),
                          text("preallocate", "true"), text("compression.type", "lz4") };
  CHECK_INT(sdm_config_apply(&set, &(sdm_settings){ items, 5 }, NULL), 0);
  CHECK_INT(sdm_config_encode(&set, &out, "  "), 0);
  CHECK_INT(sdm_buf_append(&out, "", 1), 0);
  CHECK_STR((char *)out.data, "  cleanup.policy \n  compression.type lz4\n  min.cleanable.dirty.ratio 0.10000000000000001\n"
                              "  preallocate true\n  segment.ms 3600000\n");
  CHECK_INT(sdm_config_decode_line(&again, "cleanup.policy", ""), 0);
  CHECK_INT(sdm_config_decode_line(&again, "compression.type", "lz4"), 0);
  CHECK_INT(sdm_config_decode_line(&again, "min.cleanable.dirty.ratio", "0.10000000000000001"), 0);
  CHECK_INT(sdm_config_decode_line(&again, "preallocate", "true"), 0);
  CHECK_INT(sdm_config_decode_line(&again, "segment.ms", "3600000"), 0);
  for (size_t i = 0; i < SDM_CONFIGS; i++) {
    CHECK(set.has[i] == again.has[i] && set.integer[i] == again.integer[i] && set.number[i] == again.number[i]);
  }
  CHECK_INT(sdm_config_decode_line(&again, "segment.ms", "1"), SDM_CORRUPT);
  CHECK_INT(sdm_config_decode_line(&again, "retention_ms", "1"), SDM_CORRUPT);
  CHECK_INT(sdm_config_decode_line(&again, "colour", "1"), SDM_CORRUPT);
  CHECK_INT(sdm_config_decode_line(&again, "retention.ms", "soon"), SDM_CORRUPT);
  sdm_buf_free(&out);
}

TEST(store_options) {
  sdm_options o;
  sdm_options_default(&o);
  CHECK_INT(o.retention_check_interval_ms, 300000);
  CHECK_INT(o.initial_task_delay_ms, 30000);
  CHECK_INT(o.flush_scheduler_interval_ms, 60000);
  CHECK_INT(o.flush_checkpoint_interval_ms, 60000);
  CHECK_INT(o.cleaner_enable, 1);
  CHECK_INT(o.cleaner_threads, 1);
  CHECK_INT(o.cleaner_dedupe_buffer_size, 134217728);
  CHECK(o.cleaner_load_factor == 0.9);
  CHECK_INT(o.cleaner_io_buffer_size, 524288);
  CHECK(o.cleaner_io_max_bytes_per_second == DBL_MAX);
  CHECK_INT(o.cleaner_backoff_ms, 15000);
  CHECK_INT(o.linger_ms, 1000);
  CHECK_INT(o.batch_size, 65536);
  sdm_setting items[] = { text("log.cleaner.dedupe.buffer.size", "1MiB"), text("log_cleaner_backoff_ms", "5s"),
                          text("log.cleaner.io.max.bytes.per.second", "10MB"), text("log.cleaner.enable", "false"),
                          integer("log.cleaner.threads", 2), number("log.cleaner.io.buffer.load.factor", 0.5),
                          integer("log.flush.scheduler.interval.ms", INT64_MAX), integer("batch.size", 0) };
  CHECK_INT(sdm_options_apply(&o, &(sdm_settings){ items, 8 }), 0);
  CHECK_INT(o.cleaner_dedupe_buffer_size, 1048576);
  CHECK_INT(o.cleaner_backoff_ms, 5000);
  CHECK(o.cleaner_io_max_bytes_per_second == 1e7);
  CHECK_INT(o.cleaner_enable, 0);
  CHECK_INT(o.cleaner_threads, 2);
  CHECK(o.cleaner_load_factor == 0.5);
  CHECK_INT(o.flush_scheduler_interval_ms, 60000);
  CHECK_INT(o.batch_size, 0);
}

TEST(store_options_are_refused_by_name) {
  sdm_options o;
  sdm_options_default(&o);
  sdm_setting items[] = { integer("linger.ms", 5), integer("batch.size", 65537) };
  CHECK_INT(sdm_options_apply(&o, &(sdm_settings){ items, 2 }), SDM_MISUSE);
  CHECK_STR(sdm_errmsg(), "option 'batch.size': 65537 is outside [0, 65536]");
  CHECK_INT(o.linger_ms, 1000);
  items[1] = integer("linger_ms", 6);
  CHECK_INT(sdm_options_apply(&o, &(sdm_settings){ items, 2 }), SDM_MISUSE);
  items[1] = integer("log.dirs", 6);
  CHECK_INT(sdm_options_apply(&o, &(sdm_settings){ items, 2 }), SDM_MISUSE);
  CHECK_STR(sdm_errmsg(), "option 'log.dirs': there is no store option of that name; docs/configs.md has them all");
}
