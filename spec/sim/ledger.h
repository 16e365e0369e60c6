/* What was acknowledged, kept outside the store, and whether a store that opened again after a crash keeps those promises.
**
** A ledger of a partition lists every record that an append answered for. While an operation runs it also says what may or may not have happened.
*/
#ifndef SPEC_SIM_LEDGER_H
#define SPEC_SIM_LEDGER_H

#include "sediment.h"

enum { LEDGER_KEYS = 6, LEDGER_LOGS = 3, LEDGER_VALUE_MAX = 100, LEDGER_BATCH_MAX = 5 };

typedef struct ledger_entry {
  int64_t offset;
  int key;
  int64_t seed;                           /* of the value, -1: a tombstone */
} ledger_entry;

typedef struct ledger_log {
  const char *name;
  bool exists;
  ledger_entry *items;                    /* ascending */
  size_t count, capacity;
  int64_t start;                          /* log start offset, as told last */
  int64_t durable;                        /* everything below survives power loss, as told */
  int64_t handed;                         /* after the highest offset that was told to anybody */
  int64_t segment_bytes;                  /* config, as acknowledged */
  bool cleaned;                           /* a cleaning has run, or runs */
  bool forgotten;                         /* the topic was deleted once */

  /* The operation in hand, or one that failed: it may have happened, or not. */
  bool creating, deleting, moving_start;
  int64_t new_segment_bytes;              /* being altered to; 0 */
  ledger_entry coming[LEDGER_BATCH_MAX];  /* being appended, all or none; offsets are not known */
  size_t coming_count;

  bool start_unsure;                      /* what moves the start has failed: the next opening may find it moved */
} ledger_log;

typedef struct ledger {
  ledger_log logs[LEDGER_LOGS];
} ledger;

void ledger_key(int key, char out[8]);
size_t ledger_value(int64_t seed, char out[LEDGER_VALUE_MAX]);
bool ledger_is(const sdm_record *r, const ledger_entry *e);          /* whether it is the record that was appended */
void ledger_add(ledger_log *l, int64_t offset, int key, int64_t seed);
void ledger_forget(ledger_log *l);        /* the topic was deleted */
void ledger_copy(const ledger *from, ledger *to);
void ledger_free(ledger *l);

/* What happened to the store since: only its processes died; or the power was lost, with all changes after some moment; or with any of them; or so, and a
** sync that had said that it was done had not been. */
typedef enum ledger_loss { LEDGER_NOTHING, LEDGER_TAIL, LEDGER_ANY, LEDGER_LIE } ledger_loss;

/* Whether the store keeps what the ledger lists: every record, but for what cleaning may drop; after a loss of power every durable one, and of the others
** those up to some offset (LEDGER_TAIL), or some, perhaps with damage between them (LEDGER_ANY). And whether it goes on working: what it appends now
** takes no offset that was told before. NULL, or what is wrong.
** After a lie (LEDGER_LIE) anything may be lost, and the store may refuse to open; but what it gives was appended there, and what it appends takes no offset
** of a record that it gives. */
const char *ledger_check(const ledger *l, sdm_store *s, ledger_loss loss, int64_t now);

/* The same of a store in use, without an append. */
const char *ledger_check_kept(const ledger *l, sdm_store *s, ledger_loss loss, int64_t now);

#endif
