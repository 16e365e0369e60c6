/* A process's use of the store: opening and closing it, and appending with the ledger. */
#ifndef SPEC_KILLS_USING_H
#define SPEC_KILLS_USING_H

#include "kills/ledger.h"

#define TEST_HELPER
#include "c/test.h"

enum { RETENTION_BYTES = 20000 };          /* of the trimmed topic */

typedef struct using {
  sdm_store *store;
  sdm_topic *topics[TOPICS];
  sdm_log *logs[TOPICS];
  test_random random;                      /* of this process's choices */
} using;

int64_t wall_ms(void);
void must(int rc, const char *what);       /* a failure is wrong */
uint64_t draw(using *u, uint64_t n);       /* below n */

void use_store(using *u, bool background);               /* makes it and its topics where they are missing */
bool use_store_readonly(using *u);         /* false: somebody is just taking it over */
void leave_store(using *u);                /* in order */
void append(using *u, int topic, uint32_t author, unsigned flags);       /* one record or a batch, as the ledger draws it */

#endif
