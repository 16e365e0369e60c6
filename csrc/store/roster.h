/* A consumer group's file, `sediment.group-<hash>` in the root of the store: a text that its members agree on, and the locks that tell who of them lives.
**
** Byte 0 is locked while the text changes, for moments. Byte 1 + slot is locked by the member in that slot for as long as it lives: the kernel releases it, however
** the process ends. Nothing is believed of a member whose byte is free.
**
** The file may be removed by the last member. Whoever waited for its lock finds that it is not the file of that name any more, and goes on with that one, in which it
** has no slot.
*/
#ifndef SDM_STORE_ROSTER_H
#define SDM_STORE_ROSTER_H

#include "base/buf.h"
#include "store/store.h"

enum { SDM_ROSTER_SLOTS = 1024 };

/* All of these but closing: SDM_CLOSED, SDM_FORKED; SDM_IO. Nothing of the file is durable: after another boot nobody of it lives. */

int sdm_roster_open(sdm_store *s, const void *group, size_t size, sdm_roster **out);    /* SDM_READONLY */
void sdm_roster_close(sdm_roster *r);                      /* lets go of all locks; NULL is fine */

int sdm_roster_lock(sdm_roster *r);                        /* waits for whoever has it */
void sdm_roster_unlock(sdm_roster *r);

/* Changes with each change of the text; 0 when there is none. Needs no lock. */
int sdm_roster_token(sdm_roster *r, uint64_t *token);

/* Under the lock. What was half written counts as no text. The buffer's content is replaced. */
int sdm_roster_read(sdm_roster *r, sdm_buf *text, uint64_t *token);
int sdm_roster_write(sdm_roster *r, const void *text, size_t size, uint64_t *token);

/* Under the lock: takes the slot until it is closed; 1, or 0 when somebody has it. One slot at a time. */
int sdm_roster_claim(sdm_roster *r, int slot);
int sdm_roster_release(sdm_roster *r);                     /* the slot, if it has one */

/* Whether somebody has the slot, 1 or 0. Needs no lock. */
int sdm_roster_is_alive(sdm_roster *r, int slot);

/* Under the lock, by the last member: the file goes. */
int sdm_roster_remove(sdm_roster *r);

/* In the child of a fork. */
void sdm_rosters_let_go(sdm_store *s);

#endif
