#include "kills/sight.h"

void sight_begin(sight *s, int topic, int64_t dense) {
  *s = (sight){.topic = topic, .dense = dense, .last = -1};
  for (int k = 0; k < KEYS; k++) s->newest[k] = -1;
}

void sight_begin_again(sight *s, int64_t start) {
  s->dense = start;
  for (int a = 0; a < AUTHORS; a++) s->came[a] = false;
}

static const ledger_row *row_of(const sight *s, uint32_t author) { return &the_ledger->topics[s->topic].rows[author]; }

/* The author's records that come between the last one seen and number `to`, or the end of its row. */
static void check_skipped(const sight *s, uint32_t author, uint32_t to, int64_t below) {
  const ledger_row *row = row_of(s, author);
  for (uint32_t i = s->next[author]; i < to; i++) {
    int64_t told = ledger_told(row, i);
    if (told < s->dense || told >= below) continue;
    wrong("topic %s: author %u's record %u, acknowledged at offset %lld, is missing (after offset %lld)", topic_names[s->topic], author, i, (long long)told,
          (long long)s->last);
  }
}

/* A batch of which nothing was acknowledged is there as a whole, or not at all: it cannot end where the author's records are missing from, nor begin again
** with number `to`.
*/
static void check_batch(const sight *s, uint32_t author, uint32_t to) {
  const ledger_row *row = row_of(s, author);
  uint32_t next = s->next[author], begun = atomic_load(&row->begun);
  bool torn = to > next && ((s->came[author] && row->entries[next].first < next) || (to < begun && row->entries[to].first < to));
  if (torn) wrong("topic %s: of a batch of author %u some records are missing, between the numbers %u and %u", topic_names[s->topic], author, next, to);
}

static void check_offset(const sight *s, int64_t offset) {
  int64_t least = s->last + 1;
  if (offset >= s->dense && least < s->dense) least = s->dense;
  if (offset < least) wrong("topic %s: offset %lld came after %lld", topic_names[s->topic], (long long)offset, (long long)s->last);
  if (offset >= s->dense && offset != least) {
    wrong("topic %s: offsets %lld to %lld are missing", topic_names[s->topic], (long long)least, (long long)offset - 1);
  }
}

static void check_identity(const sight *s, const sdm_record *r, uint32_t *author, uint32_t *number) {
  const char *topic = topic_names[s->topic];
  long long offset = (long long)r->offset;
  if (!ledger_read_id(r, author, number) || *author >= AUTHORS || *number >= atomic_load(&row_of(s, *author)->begun)) {
    wrong("topic %s: offset %lld holds a record that nobody appended", topic, offset);
  }
  if (!ledger_same(r, s->topic, *author, *number)) wrong("topic %s: offset %lld holds other bytes than author %u's record %u", topic, offset, *author, *number);
  int64_t told = ledger_told(row_of(s, *author), *number);
  if (told >= 0 && told != r->offset) {
    wrong("topic %s: author %u's record %u is at offset %lld, and %lld was acknowledged", topic, *author, *number, offset, (long long)told);
  }
  if (*number < s->next[*author]) wrong("topic %s: author %u's record %u comes twice or out of order, at offset %lld", topic, *author, *number, offset);
}

void sight_take(sight *s, const sdm_record *r) {
  uint32_t author, number;
  check_offset(s, r->offset);
  check_identity(s, r, &author, &number);
  check_skipped(s, author, number, r->offset);
  if (r->offset >= s->dense && s->last >= s->dense) check_batch(s, author, number);
  s->next[author] = number + 1;
  s->came[author] = r->offset >= s->dense;
  s->last = r->offset;
  s->newest[ledger_key(s->topic, author, number)] = r->offset;
  s->count++;
}

int64_t sight_read(sight *s, sdm_log *log, int64_t from) {
  sdm_reader *reader;
  sdm_record r;
  int rc = sdm_reader_open(log, from, SDM_TO_END, 0, &reader);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(reader, &r)) == 1) sight_take(s, &r);
  int64_t position = sdm_reader_position(reader);
  sdm_reader_close(reader);
  return rc < 0 ? rc : position;
}

void sight_end(const sight *s, int64_t end) {
  if (end > s->dense && s->last != end - 1) {
    wrong("topic %s: the log ends at %lld, and the last record read is at %lld", topic_names[s->topic], (long long)end, (long long)s->last);
  }
  for (uint32_t a = 0; a < AUTHORS; a++) {
    uint32_t begun = atomic_load(&row_of(s, a)->begun);
    check_skipped(s, a, begun, end);
    check_batch(s, a, begun);
  }
}

/* ---- keys ---- */

/* What the ledger has of one key, apart from what was seen. */
typedef struct key_facts {
  int64_t newest;                          /* the last acknowledged offset below the end, -1 */
  bool was_tombstone;                      /* that one */
  bool tombstone_later, anything_later;    /* which may have come after it */
} key_facts;

static void note(key_facts *f, int64_t told, bool tombstone, int64_t end) {
  if (told >= 0 && told < end && told > f->newest) {
    f->newest = told;
    f->was_tombstone = tombstone;
  }
}

/* Records below `limit`. One whose offset nobody knows comes before the author's next one that was acknowledged. */
static void note_later(key_facts *facts, int topic, uint32_t author, int64_t limit) {
  const ledger_row *row = &the_ledger->topics[topic].rows[author];
  int64_t bound = INT64_MAX;
  for (uint32_t i = atomic_load(&row->begun); i-- > 0;) {
    int64_t told = ledger_told(row, i);
    key_facts *f = &facts[ledger_key(topic, author, i)];
    if (told >= 0) bound = told;
    if (told >= limit || bound <= f->newest) continue;
    f->anything_later = true;
    f->tombstone_later = f->tombstone_later || ledger_is_tombstone(topic, author, i);
  }
}

static void check_key(const sight *s, int key, const key_facts *f, int64_t floor, bool still) {
  if (s->newest[key] >= f->newest || (!still && f->anything_later)) return;
  if (!f->was_tombstone && !f->tombstone_later) {
    wrong("topic %s: the last record of key%d, acknowledged at offset %lld, is missing", topic_names[s->topic], key, (long long)f->newest);
  }
  if (floor < f->newest) {
    wrong("topic %s: the purge floor %lld is below the tombstone of key%d that has gone, at offset %lld or later", topic_names[s->topic], (long long)floor, key,
          (long long)f->newest);
  }
  if (still && s->newest[key] >= 0) {
    wrong("topic %s: key%d is back: offset %lld is there, and its tombstone at %lld or later has gone", topic_names[s->topic], key, (long long)s->newest[key],
          (long long)f->newest);
  }
}

void check_keys(const sight *s, int64_t end, int64_t floor, bool still) {
  key_facts facts[KEYS] = {0};
  for (int k = 0; k < KEYS; k++) facts[k].newest = -1;
  for (uint32_t a = 0; a < AUTHORS; a++) {
    const ledger_row *row = row_of(s, a);
    for (uint32_t i = 0, n = atomic_load(&row->begun); i < n; i++) {
      note(&facts[ledger_key(s->topic, a, i)], ledger_told(row, i), ledger_is_tombstone(s->topic, a, i), end);
    }
  }
  for (uint32_t a = 0; a < AUTHORS; a++) note_later(facts, s->topic, a, still ? end : INT64_MAX);
  for (int k = 0; k < KEYS; k++) check_key(s, k, &facts[k], floor, still);
}
