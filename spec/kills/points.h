/* Where a process can end by itself: before, halfway through and after each call of the file system that changes something. And which of the locks that
** processes share it has then.
**
** The table of csrc/os/fs.h is wrapped in this process, and, by the linker, the two functions of the shared locks: the product is as it is shipped.
*/
#ifndef SPEC_KILLS_POINTS_H
#define SPEC_KILLS_POINTS_H

#include "kills/slot.h"
#include "sediment.h"

typedef enum point_call { CALL_CREATE, CALL_WRITE, CALL_SYNC, CALL_TRUNCATE, CALL_ALLOCATE, CALL_SET_MODIFIED, CALL_LOCK, CALL_MAP, CALL_RENAME, CALL_LINK, CALL_UNLINK,
                          CALL_MAKE_DIR, CALL_REMOVE_DIR, CALL_SYNC_DIR, CALLS } point_call;

const char *point_name(point_call c);
void points_begin(void);                                 /* in a child, before it opens the store */
void points_know(int topic, const sdm_log *log);         /* from now on its locks are known by name */

#endif
