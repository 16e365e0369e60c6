/* Every bit of a small store's files changed, and every file cut at every length, one at a time: what is read then is what was appended, or it is told what
** is damaged, and where; records outside the batch that was hit stay readable; compaction does not make damage look whole.
**
** The store is what a history of random operations leaves after an orderly close; or, unclean, after a loss of power that has cost nothing, so that the
** recovery reads it all. It is opened as its writers do, or only to be read.
*/
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "log/scanner.h"
#include "sim/world.h"
#include "store/store.h"

static const char usage[] = "flips [--seed SEED] [--every N] [--unclean] [--readonly]      N: only each Nth change\n";

enum { STEPS = 90, RECORDS_MAX = 500, FAILURES_SHOWN = 20, HANGS_AFTER_S = 20 };

typedef struct truth {                    /* what a log has */
  int64_t offsets[RECORDS_MAX];
  ledger_entry what[RECORDS_MAX];
  bool found[RECORDS_MAX];
  size_t count;
  int64_t start, end;
} truth;

typedef struct flips {
  world w;
  truth logs[LEDGER_LOGS];
  uint64_t every, turn, changes, tried, told, found, failures;         /* changes: how many there are to try */
  const char *path;                       /* of the file that is changed */
  char how[80], why[700];                 /* the change; the first thing that was wrong */
  int64_t low, high;                      /* offsets that may be lost by it, in the log `log`; high < low: none */
  const char *log;
  bool said;                              /* damage was reported */
  bool unclean, cut;                      /* the store was not closed; the change is a cut */
  bool readonly;
} flips;

__attribute__((format(printf, 2, 3))) static void wrong(flips *f, const char *format, ...) {
  va_list args;
  if (f->why[0]) return;
  va_start(args, format);
  vsnprintf(f->why, sizeof f->why, format, args);
  va_end(args);
}

/* Only damage may be the reason, and the message names the file. */
static void take_failure(flips *f, int rc, const char *doing) {
  bool others = rc == SDM_EXISTS && strstr(f->path, "partition.metadata");         /* another topic's id */
  others = others || (rc == SDM_POLICY && strstr(f->path, SDM_POLICY_PREFIX));      /* a damaged script decides nothing */
  if (rc != SDM_CORRUPT && rc != SDM_OFFSET_OUT_OF_RANGE && !others) wrong(f, "%s fails with %s: %s", doing, sdm_code_name(rc), sdm_errmsg());
  else if (rc == SDM_CORRUPT && !strstr(sdm_errmsg(), SIM_ROOT)) wrong(f, "%s does not say where: %s", doing, sdm_errmsg());
  f->said = true;
}

/* ---- what there is ---- */

static int open_store(flips *f, sim_disk *disk, sdm_store **out) {
  sdm_store_options readonly = {.readonly = true};
  return f->readonly ? sdm_store_open_on(sim_fs(disk), f->w.root, &readonly, f->w.now, out) : world_open(disk, f->w.now, out);
}

static const ledger_entry *appended(const ledger_log *l, int64_t offset) {
  for (size_t i = 0; i < l->count; i++) {
    if (l->items[i].offset == offset) return &l->items[i];
  }
  return NULL;
}

static void learn(flips *f, sdm_store *s, int i) {
  truth *t = &f->logs[i];
  const ledger_log *l = &f->w.ledger.logs[i];
  sdm_topic *topic;
  sdm_log *log;
  sdm_reader *r;
  sdm_record record;
  if (!l->exists) return;
  if (sdm_topic_open(s, l->name, NULL, f->w.now, &topic) < 0 || sdm_topic_log(topic, 0, f->w.now, &log) < 0) abort();
  if (sdm_log_earliest(log, &t->start) < 0 || sdm_log_latest(log, &t->end) < 0 || sdm_reader_open(log, t->start, SDM_TO_END, 0, &r) < 0) abort();
  while (sdm_reader_next(r, &record) == 1) {
    const ledger_entry *e = appended(l, record.offset);
    if (!e || !ledger_is(&record, e) || t->count == RECORDS_MAX) abort();
    t->offsets[t->count] = record.offset;
    t->what[t->count++] = *e;
  }
  sdm_reader_close(r);
  sdm_topic_release(topic);
}

/* ---- reading it after a change ---- */

static void take(flips *f, truth *t, const sdm_record *r) {
  for (size_t i = 0; i < t->count; i++) {
    if (t->offsets[i] != r->offset) continue;
    if (!ledger_is(r, &t->what[i])) wrong(f, "offset %lld holds another record", (long long)r->offset);
    t->found[i] = true;
    return;
  }
  bool deleted = f->unclean && strstr(f->path, "log-start-offset-checkpoint");         /* without a checksum: back where that names a lower start */
  if (!deleted) wrong(f, "offset %lld was never there", (long long)r->offset);
}

/* Reads from `from` on; returns where it ended. */
static int64_t read_from(flips *f, truth *t, sdm_log *log, int64_t from) {
  sdm_reader *r;
  sdm_record record;
  int rc = sdm_reader_open(log, from, SDM_TO_END, 0, &r);
  if (rc < 0) {
    take_failure(f, rc, "a reader");
    return from;
  }
  while ((rc = sdm_reader_next(r, &record)) == 1) take(f, t, &record);
  if (rc < 0) take_failure(f, rc, "reading");
  int64_t ended = rc < 0 ? sdm_reader_position(r) : INT64_MAX;
  sdm_reader_close(r);
  return ended;
}

/* All of it by openings at rising offsets. */
static void read_by_offset(flips *f, truth *t, sdm_log *log, int64_t from, int64_t end) {
  while (from < end && !f->why[0]) {
    int64_t ended = read_from(f, t, log, from);
    from = ended > from ? ended : from + 1;
  }
}

/* All of it in one go, damage left out: no step leads back, and none stands still for ever. */
static void read_skipping(flips *f, truth *t, sdm_log *log, int64_t start) {
  enum { SKIPS_MAX = RECORDS_MAX };
  sdm_reader *r;
  sdm_record record;
  int64_t from, to;
  int rc = sdm_reader_open(log, start, SDM_TO_END, 0, &r), skips = 0;
  if (rc < 0) {
    take_failure(f, rc, "a reader");
    return;
  }
  while ((rc = sdm_reader_next(r, &record)) != 0 && !f->why[0]) {
    if (rc == 1) {
      take(f, t, &record);
      continue;
    }
    take_failure(f, rc, "reading");
    if (rc != SDM_CORRUPT || (rc = sdm_reader_skip(r, &from, &to)) < 0) break;
    if (to < from || skips++ == SKIPS_MAX) wrong(f, "skipping leads from %lld to %lld", (long long)from, (long long)to);
  }
  sdm_reader_close(r);
}

static void read_all(flips *f, truth *t, sdm_log *log) {
  int64_t start = 0, end = 0;
  memset(t->found, 0, sizeof t->found);
  if (sdm_log_earliest(log, &start) < 0 || sdm_log_latest(log, &end) < 0) wrong(f, "no bounds: %s", sdm_errmsg());
  bool may_end = f->unclean && f->readonly;              /* before a damaged last batch, as where nobody has finished writing it */
  if (end < t->end && !may_end) wrong(f, "the log ends at %lld instead of %lld", (long long)end, (long long)t->end);
  if (f->tried % 4 == 0) read_by_offset(f, t, log, start, end);
  else read_skipping(f, t, log, start);
}

/* Only the batch that was hit may be missing (of a file that was cut all from there on), and not in silence. */
static void check_missing(flips *f, const char *name, int64_t durable, truth *t, sdm_log *log) {
  sdm_log_stats stats;
  size_t missing = 0;
  for (size_t i = 0; i < t->count; i++) {
    if (t->found[i]) continue;
    if (strstr(f->path, "log-start-offset-checkpoint")) continue;        /* Kafka's, without a checksum: another number is another start */
    if (f->unclean && t->offsets[i] >= durable) continue;                /* the stage of another boot, and what it was to continue */
    missing++;
    if (!f->log || strcmp(f->log, name) != 0 || t->offsets[i] < f->low || t->offsets[i] > f->high) wrong(f, "offset %lld is missing", (long long)t->offsets[i]);
  }
  if (missing == 0 || (f->unclean && f->cut)) return;    /* of a file that was cut at a batch's end, and was not closed, there is nothing that tells */
  if (sdm_log_get_stats(log, f->w.now, &stats) < 0) wrong(f, "no stats: %s", sdm_errmsg());
  else if (!f->said && stats.truncated_bytes == 0 && stats.corrupt_batches == 0) wrong(f, "%zu records are missing in silence", missing);
}

static void check_log(flips *f, sdm_store *s, int i) {
  truth *t = &f->logs[i];
  sdm_topic *topic;
  sdm_log *log;
  sdm_compact_report report;
  const char *name = f->w.ledger.logs[i].name;
  if (!f->w.ledger.logs[i].exists) return;
  int rc = sdm_topic_open(s, name, NULL, f->w.now, &topic);
  if (rc < 0) {
    take_failure(f, rc, "opening the topic");
    return;
  }
  if ((rc = sdm_topic_log(topic, 0, f->w.now, &log)) < 0) {
    take_failure(f, rc, "opening the partition");
  } else {
    read_all(f, t, log);
    check_missing(f, name, f->w.ledger.logs[i].durable, t, log);
    if (!f->readonly && f->tried % 8 == 0 && strcmp(name, "d") != 0) {
      if ((rc = sdm_topic_compact(topic, true, f->w.now, &report)) < 0) take_failure(f, rc, "compacting");
      read_by_offset(f, t, log, t->start, t->end);
    }
  }
  sdm_topic_release(topic);
}

static bool nothing(const char *name) { return (void)name, false; }

/* A verification by who only reads, before anything is put right: whether it finds something. It changes nothing. */
static bool verify(flips *f, sim_disk *disk) {
  sdm_store *s;
  sdm_verify_report *r = NULL;
  uint64_t before = sim_digest(disk, nothing);
  int rc = sdm_store_open_on(sim_fs(disk), f->w.root, &(sdm_store_options){.readonly = true}, f->w.now, &s);
  if (rc < 0) return true;
  rc = sdm_store_verify(s, NULL, &r);
  bool found = rc < 0 || r->problem_count > 0;
  if (rc < 0) wrong(f, "verifying fails with %s: %s", sdm_code_name(rc), sdm_errmsg());
  if (sim_digest(disk, nothing) != before) wrong(f, "verifying changes something");
  sdm_verify_report_free(r);
  sdm_store_unref(s);
  f->found += found;
  return found;
}

/* What never ends is told with the change that has led to it. */
static const flips *the_flips;

static void on_alarm(int number) {
  (void)number;
  printf("%s, %s: it does not end\n", the_flips->path, the_flips->how);
  fflush(stdout);
  _exit(1);
}

/* Takes the disk over. What reading tells of, a verification tells of as well. */
static void check(flips *f, sim_disk *disk) {
  sdm_store *s;
  f->tried++;
  alarm(HANGS_AFTER_S);
  progress("%llu of %llu changes, %llu failed", (unsigned long long)f->tried, (unsigned long long)f->changes, (unsigned long long)f->failures);
  f->said = false;
  bool found = verify(f, disk);
  int rc = open_store(f, disk, &s);
  if (rc < 0) take_failure(f, rc, "opening the store");
  for (int i = 0; rc == 0 && i < LEDGER_LOGS; i++) check_log(f, s, i);
  if (rc == 0) sdm_store_unref(s);
  sim_free(disk);
  f->told += f->said;
  if (f->said && !found && !f->unclean) wrong(f, "verifying has found nothing");
  if (!f->why[0]) return;
  progress_clear();
  if (f->failures++ < FAILURES_SHOWN) printf("%s, %s: %s\n", f->path, f->how, f->why);
  f->why[0] = 0;
}

/* ---- the changes ---- */

static bool is_turn(flips *f) { return f->turn++ % f->every == 0; }

static sim_disk *changed(flips *f, int64_t position, uint8_t mask) {
  sim_disk *d = sim_death(f->w.disk);
  sdm_file *file;
  uint8_t byte;
  size_t got;
  if (sim_fs(d)->open(sim_fs(d), f->path, SDM_OPEN_WRITE, &file) < 0 || sim_fs(d)->read(file, &byte, 1, position, &got) < 0) abort();
  byte ^= mask;
  if (sim_fs(d)->write(file, &byte, 1, position) < 0) abort();
  sim_fs(d)->close(file);
  return d;
}

static sim_disk *cut(flips *f, int64_t size) {
  sim_disk *d = sim_death(f->w.disk);
  sdm_file *file;
  if (sim_fs(d)->open(sim_fs(d), f->path, SDM_OPEN_WRITE, &file) < 0 || sim_fs(d)->truncate(file, size) < 0) abort();
  sim_fs(d)->close(file);
  return d;
}

/* The reserve is never read, and the most of a page is its stage, which is empty. */
static int64_t counts(const char *path, int64_t size) {
  if (strstr(path, "sediment.reserve")) return 0;
  return strstr(path, "sediment.control") && size > 4096 ? 4096 : size;
}

/* The batches of a .log: a change at `at` may cost the one that it hits. */
static void find_hit(flips *f, const char *path, int64_t size, int64_t at, bool cut) {
  sdm_scanner scan = {0};
  sdm_batch b;
  sdm_file *file;
  f->log = NULL;
  f->cut = cut;
  if (strcmp(path + strlen(path) - 4, ".log") != 0) return;
  for (int i = 0; i < LEDGER_LOGS; i++) {
    char folder[40];
    snprintf(folder, sizeof folder, "/%s-0/", f->w.ledger.logs[i].name);
    if (strstr(path, folder)) f->log = f->w.ledger.logs[i].name;
  }
  if (sim_fs(f->w.disk)->open(sim_fs(f->w.disk), path, SDM_OPEN_READ, &file) < 0) abort();
  sdm_scanner_start(&scan, file, 0, size);
  f->low = INT64_MAX;
  while (sdm_scan_header(&scan, &b) == 1) {
    if (scan.position <= at) continue;
    if (f->low == INT64_MAX) f->low = b.base_offset;
    f->high = sdm_batch_last_offset(&b);
    if (!cut) break;
  }
  sdm_scanner_free(&scan);
  sim_fs(f->w.disk)->close(file);
}

static void change_file(void *context, const char *path, int64_t size) {
  flips *f = context;
  int64_t end = counts(path, size);
  f->path = path;
  for (int64_t at = 0; at < end; at++) {
    for (int bit = 0; bit < 8; bit++) {
      if (!is_turn(f)) continue;
      snprintf(f->how, sizeof f->how, "bit %d of byte %lld changed", bit, (long long)at);
      find_hit(f, path, size, at, false);
      check(f, changed(f, at, (uint8_t)(1 << bit)));
    }
    if (!is_turn(f)) continue;
    snprintf(f->how, sizeof f->how, "cut at %lld of %lld", (long long)at, (long long)size);
    find_hit(f, path, size, at, true);
    check(f, cut(f, at));
  }
}

/* ---- the program ---- */

/* On a copy: to open it may change it. */
static void learn_all(flips *f) {
  sim_disk *d = sim_death(f->w.disk);
  sdm_store *s;
  if (open_store(f, d, &s) < 0) abort();
  for (int i = 0; i < LEDGER_LOGS; i++) learn(f, s, i);
  sdm_store_unref(s);
  sim_free(d);
}

static void build(flips *f, uint64_t seed) {
  world_begin(&f->w, seed);
  for (int i = 0; i < STEPS && !f->w.broken; i++) world_step(&f->w);
  if (f->w.broken) abort();
  if (!f->unclean) world_close(&f->w);
  sim_disk *d = sim_reboot(f->w.disk);
  world_leave(&f->w);
  sim_free(f->w.disk);
  f->w.disk = d;
  learn_all(f);
}

static void count_changes(void *context, const char *path, int64_t size) {
  ((flips *)context)->changes += (uint64_t)counts(path, size) * 9;
}

static void say_what(flips *f, uint64_t seed) {
  sim_each_file(f->w.disk, count_changes, f);
  f->changes = (f->changes + f->every - 1) / f->every;
  printf("flips: %llu changes of the store of seed %llu, %s, opened %s\n", (unsigned long long)f->changes, (unsigned long long)seed,
         f->unclean ? "not closed" : "closed in order", f->readonly ? "read-only" : "as by a writer");
  fflush(stdout);
}

int main(int argc, char **argv) {
  flips f = {.every = 1};
  uint64_t seed = 1;
  command_line(argc, argv, (command_option[]){{"--seed", .number = &seed}, {"--every", .number = &f.every}, {"--unclean", .given = &f.unclean},
               {"--readonly", .given = &f.readonly}, {NULL}}, usage);
  build(&f, seed);
  say_what(&f, seed);
  the_flips = &f;
  signal(SIGALRM, on_alarm);
  sim_each_file(f.w.disk, change_file, &f);
  world_end(&f.w);
  progress_clear();
  printf("%llu changes, %llu of them reported, %llu found by verifying\n", (unsigned long long)f.tried, (unsigned long long)f.told,
         (unsigned long long)f.found);
  printf("%llu passed, %llu failed\n", (unsigned long long)(f.tried - f.failures), (unsigned long long)f.failures);
  return f.failures > 0 || f.tried == 0;
}
