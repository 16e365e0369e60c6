/* Copying files as they are, and making them durable. */
#ifndef SDM_LOG_COPY_H
#define SDM_LOG_COPY_H

#include "os/fs.h"

/* The first `size` bytes of an open file, or all with INT64_MAX, become the file `to`, with its time. Zeros become holes. */
int sdm_copy_open(sdm_file *in, int64_t size, const char *to);
int sdm_copy_file(sdm_fs *fs, const char *from, const char *to);       /* all of it. SDM_NOT_FOUND */
int sdm_sync_file(sdm_fs *fs, const char *path);
int sdm_sync_files(sdm_fs *fs, const char *dir);                       /* every file in it, and the folder */

#endif
