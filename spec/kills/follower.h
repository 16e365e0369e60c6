/* Processes that wait for the records of one topic, and must have each that was acknowledged: once, in order, and as soon as it is there.
**
** Who waits looks by itself twenty times a second, for the one who was to wake it may have died. That would hide a wake-up that somebody forgot: so here a
** follower sleeps on while nobody has died, and the driver sees that it does not sleep for ever.
*/
#ifndef SPEC_KILLS_FOLLOWER_H
#define SPEC_KILLS_FOLLOWER_H

#include "kills/using.h"

_Noreturn void follow_on(using *u);

#endif
