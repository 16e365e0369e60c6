#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scripted.h"
#include "store/store.h"

static uint64_t below(world *w, uint64_t n) { return test_random_below(&w->random, n); }

static sdm_setting integer(const char *name, int64_t n) { return (sdm_setting){name, {.type = SDM_VALUE_INT, .integer = n}}; }
static sdm_setting text(const char *name, const char *s) { return (sdm_setting){name, {.type = SDM_VALUE_STRING, .string = s}}; }

int world_open_at(sdm_fs *fs, const char *root, int64_t now, sdm_store **out) {
  sdm_setting options[] = {integer("log.cleaner.dedupe.buffer.size", 1 << 20)};
  sdm_store_options o = {.create = true, .options = {options, 1}};
  sdm_policy_engine_set(&SCRIPTED);
  return sdm_store_open_on(fs, root, &o, now, out);
}

int world_open(sim_disk *d, int64_t now, sdm_store **out) { return world_open_at(sim_fs(d), WORLD_ROOT, now, out); }

static void break_off(world *w, const char *why) {
  if (!w->broken) snprintf(w->why, sizeof w->why, "%s: %s", w->doing, why);
  w->broken = true;
}

static bool ok(world *w, int rc) {
  if (rc >= 0) return true;
  if (!w->tolerant) break_off(w, sdm_errmsg());
  if (w->failures++ > 0) return false;
  w->code = rc;
  snprintf(w->message, sizeof w->message, "%s", sdm_errmsg());
  return false;
}

/* ---- topics ---- */

static const char *const policies[LEDGER_LOGS] = {"delete", "compact", "compact,delete"};

/* A history lasts some seconds of its clock: short enough times that in most of them tombstones go, and segments for their age. */
enum { SEGMENT_BYTES = 1024, RETENTION_MS = 4000, DELETE_RETENTION_MS = 300, FILE_DELETE_DELAY_MS = 1000 };

static bool compacts(int i) { return strcmp(policies[i], "delete") != 0; }

static bool log_of(world *w, int i, sdm_log **log) { return ok(w, sdm_topic_log(w->topics[i], 0, w->now, log)); }

static void create(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  sdm_setting items[] = {text("cleanup.policy", policies[i]), integer("segment.bytes", SEGMENT_BYTES), integer("retention.ms", RETENTION_MS),
                         integer("delete.retention.ms", DELETE_RETENTION_MS), integer("file.delete.delay.ms", FILE_DELETE_DELAY_MS),
                         integer("index.interval.bytes", 200),
                         text("message.timestamp.type", below(w, 4) ? "CreateTime" : "LogAppendTime")};
  l->creating = true;
  l->segment_bytes = SEGMENT_BYTES;
  w->doing = "create";
  if (ok(w, sdm_topic_open(w->store, l->name, &(sdm_settings){items, sizeof items / sizeof *items}, w->now, &w->topics[i]))) l->exists = true;
  l->creating = w->tolerant && !l->exists;
}

static bool listed(world *w, const char *name) {
  char **names;
  size_t count;
  bool found = false;
  if (!ok(w, sdm_store_topics(w->store, &names, &count))) return true;
  for (size_t i = 0; i < count; i++) found = found || strcmp(names[i], name) == 0;
  sdm_names_free(names);
  return found;
}

static void delete_topic(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  w->doing = "delete_topic";
  bool again = l->deleting;               /* one that failed may have deleted it */
  l->deleting = true;
  bool done = ok(w, sdm_store_delete_topic(w->store, l->name, again, w->now));
  l->deleting = w->tolerant && !done;
  w->gone_anyway = !done && !again && w->tolerant && !listed(w, l->name);
  if (!done) return;
  ledger_forget(l);
  sdm_topic_release(w->topics[i]);
  w->topics[i] = NULL;
}

/* Whether it is there. */
static bool put_script(world *w) {
  w->doing = "policy";
  return ok(w, sdm_store_policy_set(w->store, "p", "script", 6));
}

static void alter(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  sdm_setting items[] = {integer("segment.bytes", 800 + (int64_t)below(w, 800)), text("policy.script", below(w, 2) ? "p" : "")};
  bool scripted = compacts(i) && put_script(w);
  w->doing = "alter";
  l->new_segment_bytes = items[0].value.integer;
  if (ok(w, sdm_topic_alter(w->topics[i], &(sdm_settings){items, scripted ? 2 : 1}, NULL, 0, w->now))) l->segment_bytes = l->new_segment_bytes;
  else if (w->tolerant) return;
  l->new_segment_bytes = 0;
}

/* ---- records ---- */

static void draw(world *w, ledger_log *l, size_t count) {
  for (size_t i = 0; i < count; i++) l->coming[i] = (ledger_entry){-1, (int)below(w, LEDGER_KEYS), below(w, 4) ? w->seed++ : -1};
  l->coming_count = count;
}

static bool end_of(world *w, int i, int64_t *end) {
  sdm_log *log;
  return log_of(w, i, &log) && ok(w, sdm_log_latest(log, end));
}

/* What failed was not appended, unless it was to be synced, and the sync is what failed. */
static bool failed_append(world *w, int i, size_t count, unsigned flags, int64_t before, int64_t *first) {
  int64_t end = before;
  if (!w->tolerant || !end_of(w, i, &end) || end == before) return false;
  w->there_anyway = true;
  *first = before;
  if (!(flags & SDM_SYNC)) break_off(w, "failed, and the records are there");
  if (end != before + (int64_t)count) break_off(w, "failed, and the log ends elsewhere");
  return true;
}

static void append(world *w, int i, size_t count, bool batch, unsigned flags) {
  ledger_log *l = &w->ledger.logs[i];
  char keys[LEDGER_BATCH_MAX][8], values[LEDGER_BATCH_MAX][LEDGER_VALUE_MAX];
  sdm_record r[LEDGER_BATCH_MAX];
  int64_t first = 0, last, before = 0;
  int32_t where;
  draw(w, l, count);
  for (size_t k = 0; k < count; k++) {
    ledger_key(l->coming[k].key, keys[k]);
    size_t size = l->coming[k].seed < 0 ? 0 : ledger_value(l->coming[k].seed, values[k]);
    r[k] = (sdm_record){.timestamp = w->now - (int64_t)below(w, 50), .key = keys[k], .key_size = (int32_t)strlen(keys[k])};
    r[k].value = l->coming[k].seed < 0 ? NULL : values[k];
    r[k].value_size = l->coming[k].seed < 0 ? -1 : (int32_t)size;
  }
  w->doing = batch ? "append_batch" : "append";
  if (w->tolerant && !end_of(w, i, &before)) {
    l->coming_count = 0;
    return;
  }
  int rc = batch ? sdm_topic_append_batch(w->topics[i], r, count, 0, SDM_CODEC_NONE, flags, w->now, &first, &last, &where)
                 : sdm_topic_append(w->topics[i], r, 0, flags, w->now, &first, &where);
  l->coming_count = 0;
  bool done = ok(w, rc);
  if (!done && !failed_append(w, i, count, flags, before, &first)) return;
  for (size_t k = 0; k < count; k++) ledger_add(l, first + (int64_t)k, l->coming[k].key, l->coming[k].seed);
  if (done && (flags & SDM_SYNC)) l->durable = l->handed;
}

static void flush(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  sdm_log *log;
  int64_t durable = 0;
  w->doing = "flush";
  if (log_of(w, i, &log) && ok(w, sdm_log_flush(log, w->now, &durable)) && durable > l->durable) l->durable = durable;
}

/* ---- upkeep ---- */

/* What the log's start is now; it may have moved by what was done. */
static void told_start(world *w, int i) {
  sdm_log *log;
  int64_t start = 0;
  ledger_log *l = &w->ledger.logs[i];
  l->start_unsure = l->start_unsure || (w->tolerant && w->failures > 0);
  if (w->topics[i] && !l->deleting && log_of(w, i, &log) && ok(w, sdm_log_earliest(log, &start))) l->start = start;
  l->moving_start = l->start_unsure;
}

static void roll(world *w, int i) {
  sdm_log *log;
  int64_t base;
  w->doing = "roll";
  if (log_of(w, i, &log)) ok(w, sdm_log_roll(log, w->now, &base));
}

static void retain(world *w, int i) {
  sdm_retain_report report;
  w->doing = "retain";
  w->ledger.logs[i].moving_start = true;
  ok(w, sdm_topic_retain(w->topics[i], w->now, &report));
  told_start(w, i);
}

static void delete_records(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  sdm_log *log;
  int64_t end = 0, start;
  if (strcmp(policies[i], "compact") == 0 || !end_of(w, i, &end) || end <= l->start || !log_of(w, i, &log)) return;
  w->doing = "delete_records";
  l->moving_start = true;
  ok(w, sdm_log_delete_records(log, l->start + (int64_t)below(w, (uint64_t)(end - l->start) + 1), w->now, &start));
  told_start(w, i);
}

static void compact(world *w, int i) {
  sdm_compact_report report;
  w->doing = "compact";
  w->ledger.logs[i].cleaned = true;
  w->ledger.logs[i].moving_start = true;               /* a log that cleaning left empty may start later */
  ok(w, sdm_topic_compact(w->topics[i], true, w->now, &report));
  told_start(w, i);
}

static void maintain(world *w) {
  sdm_maintain_report report = {0};
  w->doing = "maintain";
  for (int i = 0; i < LEDGER_LOGS; i++) {
    w->ledger.logs[i].moving_start = true;
    if (compacts(i)) w->ledger.logs[i].cleaned = true;
  }
  ok(w, sdm_store_maintain(w->store, w->now, &report));
  if (report.failed) ok(w, SDM_IO);
  for (int i = 0; i < LEDGER_LOGS; i++) told_start(w, i);
}

/* Cleans all of a log but what comes now. */
static int clean_log(sdm_store *s, const char *name, int64_t now) {
  sdm_compact_report report;
  sdm_topic *t;
  sdm_log *log;
  int64_t base;
  int rc = sdm_topic_open(s, name, NULL, now, &t);
  if (rc < 0) return rc == SDM_UNKNOWN_TOPIC ? 0 : rc;
  rc = sdm_topic_log(t, 0, now, &log);
  if (rc == 0) rc = sdm_log_roll(log, now, &base);
  for (int i = 0; rc == 0 && i < 2; i++) rc = sdm_topic_compact(t, true, now + i * DELETE_RETENTION_MS, &report);
  sdm_topic_release(t);
  return rc;
}

int world_clean(sdm_store *s, ledger *l, int64_t now) {
  int rc = 0;
  for (int i = 0; rc == 0 && i < LEDGER_LOGS; i++) {
    if (!compacts(i) || l->logs[i].coming_count > 0) continue;
    l->logs[i].cleaned = l->logs[i].moving_start = true;
    rc = clean_log(s, l->logs[i].name, now);
  }
  return rc;
}

/* ---- life ---- */

/* What failed is what the store says from now on, but for a topic whose deletion failed: that is tried again. */
static void open_topic(world *w, int i) {
  ledger_log *l = &w->ledger.logs[i];
  w->doing = "open";
  if (!l->exists || l->deleting || !ok(w, sdm_topic_open(w->store, l->name, NULL, w->now, &w->topics[i]))) return;
  if (!l->start_unsure) return;
  l->start_unsure = false;
  told_start(w, i);
}

static void open_store(world *w) {
  w->doing = "open";
  w->openings++;
  if (!ok(w, world_open_at(w->fs, w->root, w->now, &w->store))) return;
  for (int i = 0; i < LEDGER_LOGS; i++) open_topic(w, i);
}

static void release_topics(world *w) {
  for (int i = 0; i < LEDGER_LOGS; i++) {
    sdm_topic_release(w->topics[i]);
    w->topics[i] = NULL;
  }
}

void world_close(world *w) {
  w->doing = "close";
  release_topics(w);
  bool closed = !w->store || ok(w, sdm_store_close_on(w->store, w->now));
  for (int i = 0; closed && i < LEDGER_LOGS; i++) w->ledger.logs[i].durable = w->ledger.logs[i].handed;
  w->store = NULL;
}

void world_reopen(world *w) {
  world_close(w);
  open_store(w);
}

/* ---- backups ---- */

static void back_up(world *w) {
  world_backup *b = &w->backup;
  w->doing = "backup";
  ledger_free(&b->ledger);
  b->whole = false;
  ledger_copy(&w->ledger, &b->ledger);
  snprintf(b->path, sizeof b->path, "%s-backup-%d", w->root, ++b->count);
  b->whole = ok(w, sdm_store_backup(w->store, b->path, w->now));
}

/* There is something in the folder, so that to open it makes no new store. */
static bool is_begun(const world *w, sdm_fs *fs) {
  sdm_names names = {0};
  bool begun = fs->list(fs, w->backup.path, &names) == 0 && names.count > 0;
  sdm_names_clear(&names);
  return begun;
}

const char *world_check_backup(const world *w, sdm_fs *fs) {
  sdm_store *s;
  if (!w->backup.path[0]) return NULL;
  if (!is_begun(w, fs)) return w->backup.whole ? "the backup is gone" : NULL;
  int rc = world_open_at(fs, w->backup.path, w->now, &s);
  if (rc < 0) return rc == SDM_CORRUPT && !w->backup.whole ? NULL : sdm_errmsg();
  const char *why = ledger_check(&w->backup.ledger, s, LEDGER_NOTHING, w->now);
  if (!why && sdm_store_close_on(s, w->now) < 0) why = sdm_errmsg();
  else if (why) sdm_store_unref(s);
  return why;
}

void world_begin_at(world *w, sdm_fs *fs, const char *root, uint64_t seed) {
  static const char *const names[LEDGER_LOGS] = {"d", "c", "cd"};
  *w = (world){.fs = fs, .root = root, .now = WORLD_T0, .random = {seed}, .doing = "open"};
  for (int i = 0; i < LEDGER_LOGS; i++) w->ledger.logs[i].name = names[i];
}

void world_begin(world *w, uint64_t seed) {
  sim_disk *d = sim_new();
  world_begin_at(w, sim_fs(d), WORLD_ROOT, seed);
  w->disk = d;
}

void world_step(world *w) {
  w->failures = w->code = 0;
  w->there_anyway = w->gone_anyway = false;
  if (!w->store) {
    open_store(w);
    return;
  }
  int i = (int)below(w, LEDGER_LOGS);
  w->now += (int64_t)below(w, 100);
  if (!w->ledger.logs[i].exists) {
    create(w, i);
    return;
  }
  if (w->ledger.logs[i].deleting) {
    delete_topic(w, i);
    return;
  }
  if (!w->topics[i]) {
    open_topic(w, i);
    return;
  }
  switch (below(w, 40)) {
  case 0: flush(w, i); break;
  case 1: case 2: case 3: append(w, i, 1, false, SDM_SYNC); break;
  case 4: case 5: append(w, i, 1 + below(w, LEDGER_BATCH_MAX), true, SDM_SYNC); break;
  case 6: case 7: case 8: append(w, i, 1 + below(w, LEDGER_BATCH_MAX), true, 0); break;
  case 9: case 10: case 20: roll(w, i); break;
  case 11: retain(w, i); break;
  case 12: delete_records(w, i); break;
  case 13: case 14: case 21: case 22: if (compacts(i)) compact(w, i); else retain(w, i); break;
  case 15: maintain(w); break;
  case 16: alter(w, i); break;
  case 17: if (below(w, 3) == 0) delete_topic(w, i); break;
  case 18: world_reopen(w); break;
  case 23: if (w->backs_up) back_up(w); else append(w, i, 1, false, 0); break;
  case 19: w->now += (int64_t)below(w, 8000); break;
  default: append(w, i, 1, false, 0); break;
  }
}

void world_leave(world *w) {
  release_topics(w);
  sdm_store_unref(w->store);
  w->store = NULL;
}

void world_end(world *w) {
  world_leave(w);
  ledger_free(&w->ledger);
  ledger_free(&w->backup.ledger);
  sim_free(w->disk);
}
