#include "sim/ledger.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ledger_key(int key, char out[8]) { snprintf(out, 8, "key%d", key); }

size_t ledger_value(int64_t seed, char out[LEDGER_VALUE_MAX]) {
  size_t size = (size_t)snprintf(out, LEDGER_VALUE_MAX, "value %lld ", (long long)seed);
  for (size_t more = (size_t)seed * 7 % 60; more > 0; more--) out[size++] = (char)('a' + (seed + (int64_t)more) % 26);
  return size;
}

void ledger_add(ledger_log *l, int64_t offset, int key, int64_t seed) {
  if (l->count == l->capacity && !(l->items = realloc(l->items, (l->capacity = 2 * l->capacity + 64) * sizeof *l->items))) abort();
  l->items[l->count++] = (ledger_entry){offset, key, seed};
  if (offset >= l->handed) l->handed = offset + 1;
}

void ledger_forget(ledger_log *l) {
  l->count = 0;
  l->start = l->durable = l->handed = 0;
  l->exists = l->cleaned = l->moving_start = l->start_unsure = false;
  l->forgotten = true;
  l->new_segment_bytes = 0;
}

void ledger_copy(const ledger *from, ledger *to) {
  *to = *from;
  for (int i = 0; i < LEDGER_LOGS; i++) {
    ledger_log *l = &to->logs[i];
    if (!(l->items = malloc(l->capacity * sizeof *l->items + 1))) abort();
    if (l->count) memcpy(l->items, from->logs[i].items, l->count * sizeof *l->items);
  }
}

void ledger_free(ledger *l) {
  for (int i = 0; i < LEDGER_LOGS; i++) free(l->logs[i].items);
}

/* ---- the check ---- */

static char failure[600];

static const char *wrong(const ledger_log *l, const char *format, ...) {
  va_list args;
  int n = snprintf(failure, sizeof failure, "topic %s: ", l->name);
  va_start(args, format);
  vsnprintf(failure + n, sizeof failure - (size_t)n, format, args);
  va_end(args);
  return failure;
}

typedef struct found {                    /* what the store has of one log */
  const ledger_log *l;
  bool *present;                          /* of each item */
  size_t next;                            /* item to be met next */
  size_t came;                            /* of the records being appended */
  int64_t last;                           /* offset of the last record that was met, -1 */
  int64_t start, end;
  ledger_loss loss;
  int64_t from;                           /* what the ledger has from here on is looked for */
} found;

bool ledger_is(const sdm_record *r, const ledger_entry *e) {
  char key[8], value[LEDGER_VALUE_MAX];
  ledger_key(e->key, key);
  if (r->key_size != (int32_t)strlen(key) || memcmp(r->key, key, (size_t)r->key_size) != 0) return false;
  if (e->seed < 0) return r->value_size < 0;
  size_t size = ledger_value(e->seed, value);
  return r->value_size == (int32_t)size && memcmp(r->value, value, size) == 0;
}

static const char *take(found *f, const sdm_record *r) {
  const ledger_log *l = f->l;
  if (r->offset <= f->last || r->offset < f->start || r->offset >= f->end) {
    return wrong(l, "offset %lld came after %lld in a log from %lld to %lld", (long long)r->offset, (long long)f->last, (long long)f->start, (long long)f->end);
  }
  f->last = r->offset;
  while (f->next < l->count && l->items[f->next].offset < r->offset) f->next++;
  if (f->next < l->count && l->items[f->next].offset == r->offset) {
    if (!ledger_is(r, &l->items[f->next])) return wrong(l, "offset %lld holds another record than was appended", (long long)r->offset);
    f->present[f->next++] = true;
    return NULL;
  }
  if (r->offset >= l->handed && f->came < l->coming_count && ledger_is(r, &l->coming[f->came])) {
    f->came++;
    return NULL;
  }
  return wrong(l, "offset %lld holds a record that was never appended there", (long long)r->offset);
}

static const char *read_all(found *f, sdm_log *log) {
  sdm_reader *reader;
  sdm_record r;
  const char *why = NULL;
  int rc = sdm_reader_open(log, f->start, SDM_TO_END, 0, &reader);
  if (rc < 0) return wrong(f->l, "no reader: %s", sdm_errmsg());
  while (!why && (rc = sdm_reader_next(reader, &r)) == 1) why = take(f, &r);
  if (rc == SDM_CORRUPT && f->loss == LEDGER_ANY) rc = 0;        /* a batch was torn, and one behind it was not: told, and nothing is cut */
  if (!why && rc < 0) why = wrong(f->l, "reading after offset %lld: %s", (long long)f->last, sdm_errmsg());
  sdm_reader_close(reader);
  return why;
}

/* Of a key its newest record below `bound` must be there, or a later one; or it and all before it have gone with a tombstone, itself or a later one, whose
** time was up. Then the purge floor tells so, and no older record of the key is there: a deleted key would be back.
*/
static const char *check_key(const found *f, int key, int64_t bound, int64_t floor) {
  const ledger_log *l = f->l;
  const ledger_entry *newest = NULL, *tombstone = NULL;
  bool is_there = false, older_is_there = false;
  for (size_t i = 0; i < l->count; i++) {
    const ledger_entry *e = &l->items[i];
    if (e->key != key || e->offset < f->from) continue;
    if (e->offset < bound) {
      older_is_there = older_is_there || is_there;
      newest = e;
      is_there = false;
      tombstone = NULL;
    }
    is_there = is_there || f->present[i];
    if (e->seed < 0 && !tombstone) tombstone = e;
  }
  if (!newest || is_there) return NULL;
  if (!tombstone) return wrong(l, "the last record of key%d, offset %lld, is lost", key, (long long)newest->offset);
  if (older_is_there) return wrong(l, "key%d is back: its tombstone at offset %lld has gone before a record that it deletes", key, (long long)tombstone->offset);
  if (floor < tombstone->offset) return wrong(l, "the purge floor %lld is below the tombstone at %lld that has gone", (long long)floor, (long long)tombstone->offset);
  return NULL;
}

static const char *check_complete(const found *f, int64_t floor) {
  const ledger_log *l = f->l;
  int64_t bound = f->loss == LEDGER_NOTHING ? INT64_MAX : l->durable;
  if (f->loss == LEDGER_TAIL && f->last >= bound) bound = f->last + 1;
  if (f->came != 0 && f->came != l->coming_count) return wrong(l, "%zu of %zu records of a batch are there", f->came, l->coming_count);
  for (size_t i = 0; !l->cleaned && i < l->count; i++) {
    const ledger_entry *e = &l->items[i];
    if (!f->present[i] && e->offset >= f->from && e->offset < bound) {
      return wrong(l, "offset %lld is lost (log start %lld, durable to %lld, found to %lld)", (long long)e->offset, (long long)f->start, (long long)l->durable,
                   (long long)f->last);
    }
  }
  for (int key = 0; l->cleaned && key < LEDGER_KEYS; key++) {
    const char *why = check_key(f, key, bound, floor);
    if (why) return why;
  }
  return NULL;
}

static const char *check_bounds(const found *f) {
  const ledger_log *l = f->l;
  int64_t least = f->loss ? l->durable : l->handed;
  if (f->start < l->start) return wrong(l, "the log start went back from %lld to %lld", (long long)l->start, (long long)f->start);
  if (f->start > l->start && !l->moving_start && !f->loss) return wrong(l, "the log start moved from %lld to %lld", (long long)l->start, (long long)f->start);
  if (f->end < least) return wrong(l, "the log ends at %lld, and %lld was told", (long long)f->end, (long long)least);
  return NULL;
}

static const char *check_config(const ledger_log *l, sdm_topic *t) {
  sdm_described d;
  for (size_t i = 0; i < sdm_config_count(); i++) {
    if (sdm_topic_describe(t, i, &d) < 0) return wrong(l, "describe: %s", sdm_errmsg());
    if (strcmp(d.name, "segment.bytes") != 0) continue;
    if (d.value.integer == l->segment_bytes || (l->new_segment_bytes && d.value.integer == l->new_segment_bytes)) return NULL;
    return wrong(l, "segment.bytes is %lld, and %lld was acknowledged", (long long)d.value.integer, (long long)l->segment_bytes);
  }
  return wrong(l, "no segment.bytes");
}

/* Life goes on, and no offset is given twice. */
static const char *check_append(const ledger_log *l, sdm_topic *t, int64_t now) {
  sdm_record r = {.timestamp = now, .key = "key0", .key_size = 4, .value = "afterwards", .value_size = 10};
  int64_t offset;
  int32_t where;
  int rc = sdm_topic_append(t, &r, 0, SDM_SYNC, now, &offset, &where);
  if (rc < 0) return wrong(l, "no append any more: %s", sdm_errmsg());
  return offset >= l->handed ? NULL : wrong(l, "offset %lld was given a second time; %lld was told before", (long long)offset, (long long)l->handed - 1);
}

static const char *check_log(const ledger_log *l, sdm_topic *t, ledger_loss loss, bool goes_on, int64_t now) {
  found f = {.l = l, .last = -1, .loss = loss};
  sdm_log *log;
  sdm_log_stats stats;
  if (sdm_topic_log(t, 0, now, &log) < 0 || sdm_log_get_stats(log, now, &stats) < 0) return wrong(l, "stats: %s", sdm_errmsg());
  f.start = stats.log_start_offset;
  f.end = stats.log_end_offset;
  f.from = l->moving_start ? f.start : l->start;       /* a log that lost all it had goes on, and begins, where no offset was given yet */
  if (stats.corrupt_batches != 0 && loss != LEDGER_ANY) return wrong(l, "recovery found %lld damaged batches", (long long)stats.corrupt_batches);
  f.present = calloc(l->count + 1, 1);
  if (!f.present) abort();
  const char *why = check_bounds(&f);
  if (!why) why = read_all(&f, log);
  if (!why) why = check_complete(&f, stats.purge_floor);
  free(f.present);
  if (!why) why = check_config(l, t);
  return why || !goes_on ? why : check_append(l, t, now);
}

/* Only what needs no sync to have been true. */
static const char *check_after_lie(const ledger_log *l, sdm_topic *t, int64_t now) {
  found f = {.l = l, .last = -1, .loss = LEDGER_ANY};
  sdm_log *log;
  sdm_record r = {.timestamp = now, .key = "key0", .key_size = 4, .value = "afterwards", .value_size = 10};
  int64_t offset;
  int32_t where;
  if (l->forgotten || sdm_topic_log(t, 0, now, &log) < 0) return NULL;
  if (sdm_log_earliest(log, &f.start) < 0 || sdm_log_latest(log, &f.end) < 0) return wrong(l, "no bounds: %s", sdm_errmsg());
  f.present = calloc(l->count + 1, 1);
  if (!f.present) abort();
  const char *why = read_all(&f, log);
  free(f.present);
  if (why || sdm_topic_append(t, &r, 0, SDM_SYNC, now, &offset, &where) < 0) return why;
  return offset > f.last ? NULL : wrong(l, "offset %lld was given, and %lld has a record", (long long)offset, (long long)f.last);
}

static const char *check_logs(const ledger *all, sdm_store *s, ledger_loss loss, bool goes_on, int64_t now) {
  for (int i = 0; i < LEDGER_LOGS; i++) {
    const ledger_log *l = &all->logs[i];
    sdm_topic *t;
    int rc = sdm_topic_open(s, l->name, NULL, now, &t);
    if (rc == SDM_UNKNOWN_TOPIC && (!l->exists || l->deleting)) continue;
    if (rc < 0 && loss == LEDGER_LIE) continue;
    if (rc < 0) return wrong(l, "cannot be opened: %s", sdm_errmsg());
    if (loss != LEDGER_LIE && !l->exists && !l->creating) return wrong(l, "is back after its deletion");
    const char *why = loss == LEDGER_LIE ? check_after_lie(l, t, now) : check_log(l, t, loss, goes_on, now);
    sdm_topic_release(t);
    if (why) return why;
  }
  return NULL;
}

const char *ledger_check(const ledger *l, sdm_store *s, ledger_loss loss, int64_t now) { return check_logs(l, s, loss, true, now); }
const char *ledger_check_kept(const ledger *l, sdm_store *s, ledger_loss loss, int64_t now) { return check_logs(l, s, loss, false, now); }
