/* Times and limits at the ends of what 64 bits hold: nothing wraps around (KAFKA-985, KAFKA-17415). */
#include "cleaner/clean.h"
#include "cleaner/retention.h"
#include "log_fixture.h"
#include "test.h"

static const int64_t clocks[] = {0, FIXTURE_T0, INT64_MAX / 2};
enum { CLOCKS = sizeof clocks / sizeof *clocks };

static void for_ever(sdm_log_config *cfg) {
  cfg->cleanup_policy = SDM_POLICY_COMPACT | SDM_POLICY_DELETE;
  cfg->segment_ms = cfg->retention_ms = cfg->retention_bytes = cfg->file_delete_delay_ms = INT64_MAX;
  cfg->delete_retention_ms = cfg->max_compaction_lag_ms = INT64_MAX;
  cfg->timestamp_before_max_ms = cfg->timestamp_after_max_ms = INT64_MAX;
}

/* All of it stays, at any time, but for what has a later record of its key. */
static void keep(fixture *f, int64_t now) {
  sdm_clean_options o = {.map_bytes = 1 << 16, .load_factor = 0.9, .force = true};
  sdm_compact_report cleaned = {0};
  sdm_retain_report retained = {0};
  int64_t unlinked = 0;
  CHECK_INT(sdm_retain(f->log, &f->cfg, now, &retained), 0);
  CHECK_INT(sdm_clean(f->log, &f->cfg, &o, now, &cleaned), 0);
  CHECK_INT(sdm_retention_unlink(f->log, &f->cfg, now, &unlinked), 0);
  CHECK_INT(retained.segments + cleaned.tombstones_removed + unlinked, 0);
  fixture_check_from(f, f->log, 0);
}

TEST(the_largest_limits_keep_all) {
  static const int64_t times[] = {0, INT64_MAX, -1, FIXTURE_T0, INT64_MAX - 1, 0, INT64_MAX};
  fixture f;
  int64_t base, offset;
  fixture_begin(&f);
  for_ever(&f.cfg);
  fixture_open(&f);
  for (uint32_t i = 0; i < 7; i++) {
    CHECK_INT(fixture_put(&f, i, 8, i == 3 ? -1 : 20, times[i]), 0);
    CHECK_INT(fixture_base(&f, SIZE_MAX), i < 4 ? 0 : 4);        /* by hand, below, and never by time */
    if (i == 3) CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  }
  for (int i = 0; i < CLOCKS; i++) keep(&f, clocks[i]);
  CHECK_INT(sdm_log_offset_for_time(f.log, INT64_MAX, &offset), 1);
  CHECK_INT(offset, 1);
  CHECK(fixture_close(&f));
  fixture_open(&f);
  for (int i = 0; i < CLOCKS; i++) keep(&f, clocks[i]);
  fixture_end(&f);
}

/* A lag for ever: nothing is old enough to be cleaned. */
TEST(the_largest_lag_keeps_the_cleaner_away) {
  sdm_clean_options o = {.map_bytes = 1 << 16, .load_factor = 0.9, .force = true};
  fixture f;
  int64_t base;
  fixture_begin(&f);
  for_ever(&f.cfg);
  f.cfg.min_compaction_lag_ms = INT64_MAX;
  fixture_open(&f);
  for (int i = 0; i < 2; i++) CHECK_INT(fixture_put(&f, 1, 8, 20, i ? INT64_MAX : 0), 0);
  CHECK_INT(sdm_log_roll(f.log, f.now, &base), 0);
  for (int i = 0; i < CLOCKS; i++) {
    sdm_compact_report cleaned = {0};
    CHECK_INT(sdm_clean(f.log, &f.cfg, &o, clocks[i], &cleaned), 0);
    CHECK_INT(cleaned.partitions, 0);
  }
  fixture_end(&f);
}
