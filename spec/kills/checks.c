#include "kills/checks.h"

#include <string.h>

#include "kills/sight.h"
#include "kills/using.h"

static int64_t start_from(sdm_log *log, int topic, int64_t told) {
  int64_t start;
  must(sdm_log_earliest(log, &start), "earliest");
  if (start < told) wrong("topic %s: the log start is %lld, and was %lld", topic_names[topic], (long long)start, (long long)told);
  return start;
}

int64_t start_of(sdm_log *log, int topic) { return start_from(log, topic, atomic_load(&the_ledger->topics[topic].told_start)); }

static int64_t active_base(sdm_log *log) {
  sdm_segment_info *segments;
  size_t count;
  must(sdm_log_segments(log, &segments, &count), "segments");
  int64_t base = segments[count - 1].base_offset;
  sdm_segments_free(segments);
  return base;
}

/* Retention by size leaves retention.bytes; only delete_records takes more. */
static void check_start(int topic, const sdm_log_stats *stats) {
  int64_t start = stats->log_start_offset, asked = atomic_load(&the_ledger->topics[topic].asked_start);
  if (topic != TOPIC_TRIMMED && start != 0) wrong("topic %s: the log start is %lld", topic_names[topic], (long long)start);
  if (start > asked && stats->size < RETENTION_BYTES) {
    wrong("topic %s: the log starts at %lld, %lld was asked for, and retention left %lld bytes", topic_names[topic], (long long)start, (long long)asked,
          (long long)stats->size);
  }
}

void check_topic(sdm_log *log, int topic, int64_t start, int64_t end, bool still) {
  sight s;
  sdm_log_stats before, after;
  start = start_from(log, topic, start);
  must(sdm_log_get_stats(log, wall_ms(), &before), "stats");
  if (before.corrupt_batches != 0) wrong("topic %s: %lld damaged batches", topic_names[topic], (long long)before.corrupt_batches);
  if (still) check_start(topic, &before);
  sight_begin(&s, topic, topic != TOPIC_COMPACTED ? start : still ? active_base(log) : INT64_MAX);
  int64_t position = sight_read(&s, log, start);
  if (position == SDM_OFFSET_OUT_OF_RANGE && topic == TOPIC_TRIMMED && !still) return;
  must((int)(position < 0 ? position : 0), topic_names[topic]);
  if (position < end) wrong("topic %s: offset %lld was acknowledged, and the log ends at %lld", topic_names[topic], (long long)end - 1, (long long)position);
  sight_end(&s, position);
  must(sdm_log_get_stats(log, wall_ms(), &after), "stats");
  if (topic == TOPIC_COMPACTED) check_keys(&s, position, after.purge_floor, still);
  atomic_fetch_add(&the_herd->verified, s.count);
}

void check_files(sdm_store *store, bool lived) {
  sdm_verify_report *report;
  must(sdm_store_verify(store, NULL, &report), "verify");
  for (size_t i = 0; i < report->problem_count; i++) {
    const sdm_problem *p = &report->problems[i];
    if (lived && strstr(p->file, "/sediment.state")) continue;
    wrong("a verification finds in %s, at %lld: %s", p->file, (long long)p->position, p->message);
  }
  sdm_verify_report_free(report);
}
