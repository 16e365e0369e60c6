/* What the driver and the processes it kills tell each other: one slot a process, in memory that they share and that no death takes away.
**
** Nobody sleeps for another: who waits, waits on a futex word that the others change. A process that finds something wrong says so here and ends.
*/
#ifndef SPEC_KILLS_SLOT_H
#define SPEC_KILLS_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { TOPIC_KEPT, TOPIC_COMPACTED, TOPIC_TRIMMED, TOPICS };       /* nothing ever goes; the last of each key stays; the oldest go */

typedef enum slot_role { ROLE_WRITER, ROLE_READER, ROLE_CLEANER, ROLE_KEEPER, ROLE_FOLLOWER, ROLE_COPIER, ROLE_VERIFIER, ROLE_ORPHAN } slot_role;
enum { WRITERS = 3, READERS = 2, CLEANERS = 2, FOLLOWERS = 2 };
enum { SLOT_READERS = WRITERS, SLOT_CLEANERS = SLOT_READERS + READERS, SLOT_KEEPER = SLOT_CLEANERS + CLEANERS, SLOT_FOLLOWERS, SLOT_COPIER = SLOT_FOLLOWERS + FOLLOWERS,
       HERD, SLOT_VERIFIER = HERD, SLOT_ORPHAN, SLOTS };           /* the first HERD are killed and come again; an orphan has inherited an open store */

/* The locks that processes share. */
enum { LOCK_END, LOCK_MAINTENANCE = LOCK_END + TOPICS, LOCK_OTHER = LOCK_MAINTENANCE + TOPICS, LOCKS };

/* A call of the file system at which a process shall die or stop by itself. */
typedef enum slot_when { WHEN_BEFORE, WHEN_HALFWAY, WHEN_AFTER } slot_when;       /* halfway: half of the bytes are written */

typedef struct slot {
  slot_role role;
  pid_t pid;                               /* 0: there is none */
  bool doomed, to_stop, stopped;           /* it is to die; to stop; it is stopped, and stays so until the driver lets it go on */
  int way;                                 /* how (herd.h) */
  uint32_t life;                           /* how many this slot has had */
  int64_t stirred_ns;                      /* when the driver last saw it progress */
  uint64_t stirred;

  _Atomic uint64_t progress;               /* appends acknowledged, passes ended */
  _Atomic uint64_t began;                  /* what that was when this life began */
  _Atomic bool opening;                    /* or closing */
  _Atomic bool background;                 /* it has a thread of the store's */
  _Atomic uint64_t goal;                   /* the driver wants to hear when there is so much; UINT64_MAX: it does not */
  _Atomic int64_t goal_ns;                 /* when that was, by the monotonic clock */
  _Atomic uint32_t quota;                  /* a writer begins that many appends, and waits for more; a futex */
  _Atomic uint32_t begun;
  _Atomic int32_t follows;                 /* a follower: 1 + the topic with which it has caught up once; 0: it is to do that yet */
  _Atomic int64_t seen, seen_ns;           /* it has read all below that offset; and when that was */
  _Atomic bool waits;                      /* it sleeps until there is news */
  _Atomic bool copying;                    /* a copier: in the middle of a backup */
  _Atomic int64_t ends[TOPICS], starts[TOPICS];      /* and what the ledger had when that began (ledger.h) */
  bool still;                              /* a verifier: nobody else has the store open */
  _Atomic bool pauses;                     /* the driver wants it to stop when it is next to lock the end of a log */
  _Atomic bool forks;                      /* the driver wants a child of it that outlives it */

  _Atomic int32_t armed;                   /* changing calls from now to the one where it ends; 0: none */
  int signal;                              /* SIGKILL or SIGSTOP */
  slot_when when;
  _Atomic int32_t reached;                 /* 1 + the call (points.h) where it ended so; 0: it did not */
  _Atomic int64_t ended_ns;                /* when it was killed, by whom ever */

  _Atomic int32_t near[LOCKS], held[LOCKS];    /* locks that it may have, and that it has for sure */
} slot;

typedef struct herd {
  _Atomic uint32_t news;                   /* a futex: something that the driver may wait for has changed */
  _Atomic uint32_t failed;
  char failure[1200];
  char folder[120], store[200];            /* paths: of all stores; of the one in use */
  uint64_t seed;                           /* of this store's life */
  _Atomic bool watched;                    /* who is about to wait for a lock tells it, and a follower that has read something */
  _Atomic uint32_t deaths;                 /* a futex: that the driver has seen */
  _Atomic uint64_t copies, refused;        /* backups that were done and checked; that were interrupted, and do not open */
  _Atomic uint64_t inherited[LOCKS];       /* locks whose last owner had died, as who got them was told */
  pid_t driver;
  _Atomic pid_t orphan;                    /* a child that inherited an open store, and is to lose its parent */
  _Atomic uint32_t release;                /* a futex: 1: it may end */
  _Atomic uint64_t read, verified;         /* records that readers have checked, and verifiers */
  slot slots[SLOTS];
} herd;

extern herd *the_herd;                     /* shared by all */
extern slot *me;                           /* of this process; the driver has none */

int64_t now_ns(void);                      /* by the monotonic clock */
void *share(size_t size);                  /* zeroed memory that children have, too; does not return without */
void tell_news(void);
void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t timeout_ns);        /* -1: for ever */
int futex_wait_for_either(_Atomic uint32_t *a, uint32_t seen_a, _Atomic uint32_t *b, uint32_t seen_b);       /* 0: a signal; -1: this kernel cannot */
void futex_wake(_Atomic uint32_t *word);
void add_progress(uint64_t n);

/* The first says what it found; the process ends. */
_Noreturn void wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

const char *role_name(slot_role role);

#endif
