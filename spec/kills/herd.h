/* The driver's hand on its processes. */
#ifndef SPEC_KILLS_HERD_H
#define SPEC_KILLS_HERD_H

#include "kills/ledger.h"

#define TEST_HELPER
#include "c/test.h"

enum { BOUND_S = 2, STUCK_S = 10 };      /* a survivor is served within BOUND_S, and followers hear of it; whoever runs gets somewhere within STUCK_S */

typedef enum way { WAY_MOMENT, WAY_CALL, WAY_STEPS, WAYS } way;    /* how a process was killed */

typedef struct latencies {
  uint64_t count;                          /* the first of them are kept */
  int64_t ns[1 << 17];
} latencies;

typedef struct figures {
  uint64_t rounds, stores, kills[WAYS], holding, holding_end, sweeps, swept, stops, stops_holding, orphans;
  uint64_t at_call[16];                    /* sweeps: see step.c; swept: the instructions of the longest */
  uint64_t verified_kills, verifications, records;                /* kills that a verification has followed; records acknowledged */
  uint64_t killed_waiting, killed_copying; /* followers as they waited, copiers in the middle of a backup */
  latencies served;                        /* from the kill until every surviving writer had an append acknowledged that it began after it */
  latencies heard;                         /* from an append's return to its writer, in a quiet store, until every follower had read it */
} figures;

extern figures the_figures;
extern test_random the_random;             /* of the driver's choices */

uint64_t choose(uint64_t n);               /* below n */
void note_latency(latencies *l, int64_t ns);

enum { QUOTA = 2000 };                     /* appends that a writer may begin before the driver gives it more */

void herd_begin(void);
void spawn(int i, int armed);              /* armed: the changing call at which it kills itself, 0: none */
bool lives(const slot *s);
void await(bool (*until)(void *context), void *context, int seconds, const char *what);
void condemn(slot *s, way w);              /* SIGKILL */
void end_one(slot *s, way w);              /* the same, and waits for the end */
void go_on(slot *s);                       /* one that was to stop */
void note_end(slot *s, int status);        /* of one that is dead, as waitpid told */
void end_all(void);
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* step.c: runs a writer instruction by instruction, and kills it where it has, or is to get or give back, the lock of a log's end. False: it is dead
** already, or this machine does not allow that. */
bool step_and_kill(slot *s);

#endif
