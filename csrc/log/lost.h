/* What is missing in a directory that somebody else wrote. */
#ifndef SDM_LOG_LOST_H
#define SDM_LOG_LOST_H

#include "os/fs.h"

/* SDM_CORRUPT: behind the first segment there is an index with entries whose .log is gone, though it was not deleted or replaced. While a broker works in
** the directory it can look so for a moment. */
int sdm_check_none_lost(sdm_fs *fs, const char *dir);

int sdm_no_directory(const char *path);  /* SDM_NOT_FOUND, with its message */

#endif
