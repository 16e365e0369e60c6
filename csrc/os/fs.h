/* File operations behind one table. Everything that touches a store's files goes through it, so that a simulated disk can stand in its
** place (spec/) and so that a glance at fs_posix.c shows every system call on files.
**
** All functions return 0 or a negative code with a message that names the path. Short reads and writes and EINTR are handled below the
** table: a read gives all bytes up to the end of the file, a write writes all or fails.
*/
#ifndef SDM_OS_FS_H
#define SDM_OS_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "os/host.h"

typedef struct sdm_fs sdm_fs;
typedef struct sdm_file sdm_file;

typedef struct sdm_file_info {
  int64_t size;             /* bytes */
  int64_t modified_ms;      /* milliseconds since the epoch */
  uint64_t device, inode;   /* tell two files of one name apart */
  uint64_t links;           /* names that lead to it */
  bool directory;
} sdm_file_info;

enum {                      /* how a file is opened */
  SDM_OPEN_READ = 0,
  SDM_OPEN_WRITE = 1,       /* for reading and writing; not through a symbolic link */
  SDM_OPEN_CREATE = 2,      /* made when missing */
  SDM_OPEN_FRESH = 4        /* emptied when it was there */
};

typedef enum sdm_lock_mode { SDM_LOCK_NONE, SDM_LOCK_SHARED, SDM_LOCK_EXCLUSIVE } sdm_lock_mode;

typedef struct sdm_names {  /* a directory's entries, sorted, without "." and ".." */
  char **items;
  size_t count, capacity;
} sdm_names;

struct sdm_file {
  sdm_fs *fs;
  char *path;               /* for messages; follows sdm_file_renamed */
};

struct sdm_fs {
  int (*open)(sdm_fs *fs, const char *path, int flags, sdm_file **out);        /* SDM_NOT_FOUND when missing */
  void (*close)(sdm_file *f);
  int (*read)(sdm_file *f, void *bytes, size_t size, int64_t position, size_t *got);
  int (*write)(sdm_file *f, const void *bytes, size_t size, int64_t position);
  int (*sync)(sdm_file *f);                                                     /* data and size are durable on return */
  int (*truncate)(sdm_file *f, int64_t size);
  int (*allocate)(sdm_file *f, int64_t size);                                   /* grows to size, its blocks reserved (no SIGBUS) */
  int (*info)(sdm_file *f, sdm_file_info *out);
  int (*set_modified)(sdm_file *f, int64_t ms);
  int (*lock)(sdm_file *f, int64_t byte, sdm_lock_mode mode, bool wait);        /* OFD lock of one byte; SDM_LOCKED without wait */
  int (*map)(sdm_file *f, size_t size, bool writable, void **out);              /* shared; may reach the disk at any time in any order */
  int (*map_sync)(sdm_file *f, void *map, size_t size);
  void (*unmap)(sdm_fs *fs, void *map, size_t size);

  int (*path_info)(sdm_fs *fs, const char *path, sdm_file_info *out);          /* SDM_NOT_FOUND when missing */
  int (*rename)(sdm_fs *fs, const char *from, const char *to);                 /* replaces */
  int (*link)(sdm_fs *fs, const char *from, const char *to);                   /* a second name, which must be free; SDM_UNSUPPORTED: only a copy will do */
  int (*unlink)(sdm_fs *fs, const char *path);                                 /* a missing file is fine */
  int (*make_dir)(sdm_fs *fs, const char *path);                               /* an existing one is fine */
  int (*remove_dir)(sdm_fs *fs, const char *path);                             /* must be empty; a missing one is fine */
  int (*list)(sdm_fs *fs, const char *path, sdm_names *out);
  int (*sync_dir)(sdm_fs *fs, const char *path, bool *lost);                   /* entries are durable on return; *lost (may be NULL): what was to be saved
                                                                                  may be lost, set by a failed sync, not where there was no descriptor */

  int (*boot_id)(sdm_fs *fs, uint8_t id[SDM_BOOT_ID]);                         /* what was mapped under another boot may be gone */
};

sdm_fs *sdm_fs_posix(void);

/* Conveniences over the table. */
int sdm_fs_read_all(sdm_fs *fs, const char *path, size_t limit, char **bytes, size_t *size);   /* NUL added; SDM_CORRUPT over limit */
int sdm_fs_replace(sdm_fs *fs, const char *dir, const char *name, const void *bytes, size_t size);  /* tmp, sync, rename, sync dir */
int sdm_fs_sync_parent(sdm_fs *fs, const char *path);      /* so that the absolute path lasts; where its folder cannot be opened to sync it, nothing can be done */
void sdm_names_clear(sdm_names *n);
int sdm_names_add(sdm_names *n, const char *name);
void sdm_names_sort(sdm_names *n);

#endif
