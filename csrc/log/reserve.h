/* Room for the small files that must be written before anything can be deleted. On a full disk the store gives up `sediment.reserve`, a file of zeros
** that it keeps for that, writes them in its place, and takes it back when there is room again.
*/
#ifndef SDM_LOG_RESERVE_H
#define SDM_LOG_RESERVE_H

#include "log/log.h"

#define SDM_RESERVE_NAME "sediment.reserve"

/* Makes the reserve if it can be made; that it cannot is no failure. True: it is there. */
bool sdm_reserve_keep(sdm_env *env);

/* Its room is free on return, if it was there. */
bool sdm_reserve_give_up(sdm_env *env);

/* sdm_fs_replace for the files of a store: on a full disk it gives up the reserve and tries again. */
int sdm_reserve_replace(sdm_env *env, const char *dir, const char *name, const void *bytes, size_t size);

/* Whether the disk was full and the reserve is not back yet: then what is deleted goes at once, without its delay. */
bool sdm_reserve_is_used(const sdm_env *env);

#endif
