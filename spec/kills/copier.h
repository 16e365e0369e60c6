/* A process that backs the store up, again and again, while others write, clean and die, and looks at what has become of it.
**
** A backup that was done, whether its maker lived to hear of it or not, opens, verifies, and holds all that the ledger had before it began; nothing in it was not in the store. It is then
** used, for nothing that happens to a copy may harm the store. One that was interrupted is refused.
*/
#ifndef SPEC_KILLS_COPIER_H
#define SPEC_KILLS_COPIER_H

#include "kills/using.h"

_Noreturn void copy_on(using *u);

#endif
