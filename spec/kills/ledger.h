/* What was acknowledged, kept outside the store, in memory that outlives every process but the driver.
**
** Each author numbers its records of a topic from 0. It marks a record as begun before the append, and notes the offset after the append has
** returned: what has no offset may be in the log or not, once, all records of its batch or none. Everything in a record follows from the topic, its author and
** its number, and a header has these: so whatever is read can be told from what was appended.
*/
#ifndef SPEC_KILLS_LEDGER_H
#define SPEC_KILLS_LEDGER_H

#include "kills/slot.h"
#include "sediment.h"

enum { AUTHORS = WRITERS + 1, KEYS = 24, BATCH_MAX = 6, VALUE_MAX = 700, PULSE = 256, RECORDS_MAX = 1 << 18 };     /* the last author is who verifies */

typedef struct ledger_entry {
  _Atomic int64_t told;                    /* 1 + the offset that was acknowledged; 0: none */
  uint32_t first;                          /* number of the first record of its append */
} ledger_entry;

typedef struct ledger_row {                /* what an author has appended to a topic */
  _Atomic uint32_t begun;                  /* records */
  ledger_entry entries[RECORDS_MAX];
} ledger_row;

typedef struct ledger_topic {
  ledger_row rows[AUTHORS];
  _Atomic int64_t end;                     /* after the highest offset that was acknowledged */
  _Atomic int64_t asked_start, told_start; /* log start offset: the highest asked for; the highest that was told */
} ledger_topic;

typedef struct ledger {
  uint64_t salt;                           /* of this store's life: what an older one has left is not taken for its records */
  ledger_topic topics[TOPICS];
  _Atomic uint64_t acknowledged;
  _Atomic uint32_t pulse;                  /* a futex: one more for each PULSE records */
} ledger;

extern ledger *the_ledger;                 /* shared by all */
extern const char *const topic_names[TOPICS];

/* A record as its author appends it. */
typedef struct ledger_record {
  sdm_record record;
  char key[8];
  uint8_t value[VALUE_MAX], headers[12];
} ledger_record;

void ledger_make(int topic, uint32_t author, uint32_t number, ledger_record *out);
bool ledger_read_id(const sdm_record *r, uint32_t *author, uint32_t *number);
bool ledger_same(const sdm_record *r, int topic, uint32_t author, uint32_t number);
int ledger_key(int topic, uint32_t author, uint32_t number);
bool ledger_is_tombstone(int topic, uint32_t author, uint32_t number);
uint32_t ledger_batch(int topic, uint32_t author, uint32_t number);    /* records of the append that begins with it; 1: through the stage */

uint32_t ledger_begin(int topic, uint32_t author, uint32_t count);     /* the number of the first */
void ledger_acknowledge(int topic, uint32_t author, uint32_t number, uint32_t count, int64_t first_offset);

static inline int64_t ledger_told(const ledger_row *row, uint32_t number) { return atomic_load(&row->entries[number].told) - 1; }     /* -1: not */
static inline void raise_to(_Atomic int64_t *where, int64_t to) {
  int64_t seen = atomic_load(where);
  while (seen < to && !atomic_compare_exchange_weak(where, &seen, to)) {}
}

#endif
