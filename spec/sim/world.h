/* A program that uses a store on a simulated disk: random operations, each in the ledger before and after. */
#ifndef SPEC_SIM_WORLD_H
#define SPEC_SIM_WORLD_H

#define TEST_HELPER
#include "c/test.h"
#include "sim/disk.h"
#include "sim/ledger.h"

/* The last copy of the store that was made, or is being made, in a folder of its own. */
typedef struct world_backup {
  char path[400];                         /* "": there was none */
  bool whole;                             /* it was acknowledged */
  ledger ledger;                          /* what was in the store then */
  int count;
} world_backup;

typedef struct world {
  sdm_fs *fs;
  const char *root;
  sim_disk *disk;                         /* NULL: the folder is on a real one */
  sdm_store *store;                       /* NULL while it is closed */
  sdm_topic *topics[LEDGER_LOGS];
  ledger ledger;
  int64_t now, seed;                      /* the clock; of the next value */
  test_random random;
  const char *doing;                      /* the operation in hand */
  bool broken;                            /* an operation failed that should not */
  char why[300];

  /* Where operations may fail: the ledger notes what such a one may have done, and the next steps go on. */
  bool tolerant;
  int failures, code;                     /* of the operations of the last step; what the first of them answered */
  char message[300];
  bool there_anyway;                      /* an append to be synced failed, and its records are in the log */
  bool gone_anyway;                       /* a deletion failed, and the topic is not listed */
  int openings;

  bool backs_up;                          /* backups are among the operations */
  world_backup backup;
} world;

#define WORLD_T0 1700000000000
#define WORLD_ROOT SIM_ROOT "/store"      /* on a disk of its own; backups are beside it */

void world_begin(world *w, uint64_t seed);                     /* on a disk of its own */
void world_begin_at(world *w, sdm_fs *fs, const char *root, uint64_t seed);
void world_step(world *w);                /* one operation */
void world_close(world *w);
void world_reopen(world *w);
void world_leave(world *w);               /* lets go of the store, as if its process had died */
void world_end(world *w);                 /* and frees all */

/* As world does it. */
int world_open(sim_disk *d, int64_t now, sdm_store **out);
int world_open_at(sdm_fs *fs, const char *root, int64_t now, sdm_store **out);

/* Whether the last backup, as it stands on that disk, is a whole store with all that was in the source; or, as long as it was not acknowledged, none at all.
** NULL, or what is wrong. */
const char *world_check_backup(const world *w, sdm_fs *fs);

/* Cleans the compacted logs of a store that was opened so, and again when the time of the tombstones is up; the ledger notes it. Not those that were just
** being appended to: what may or may not have come would supersede what is listed. */
int world_clean(sdm_store *s, ledger *l, int64_t now);

#endif
