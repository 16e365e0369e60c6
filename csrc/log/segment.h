/* One segment: the files <base>.log, <base>.index and <base>.timeindex of a partition directory, and <base>.txnindex where a broker has aborted a
** transaction.
**
** A segment object is what one process knows of it; it is reference counted, so that a reader keeps reading files that retention has
** renamed or cleaning replaced. Files are opened when first needed. How much of the active segment's .log counts is not known here: the
** control page says it (sdm_end.position); for every other segment it is `size`.
*/
#ifndef SDM_LOG_SEGMENT_H
#define SDM_LOG_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/batch.h"
#include "format/index.h"
#include "os/fs.h"
#include "os/thread.h"

typedef enum sdm_file_kind { SDM_FILE_LOG, SDM_FILE_INDEX, SDM_FILE_TIMEINDEX, SDM_FILE_TXNINDEX, SDM_FILE_DIGEST, SDM_FILE_KINDS } sdm_file_kind;

#define SDM_UNKNOWN (-2)                 /* of a number that has not been looked up; -1 means "none" */

typedef struct sdm_segment {
  atomic_int refs;
  sdm_fs *fs;
  char *dir;
  int64_t base_offset;
  int64_t size;                          /* bytes of the .log that count, once the segment is closed */
  int64_t modified_ms;                   /* its age when no record in it has a timestamp */
  uint64_t inode;                        /* of the .log: cleaning puts another file under the same name */
  bool writable;
  const char *suffix;                    /* of its files' names: "", or ".swap" where an unfinished swap is only read */
  atomic_bool listed;                    /* the log's list of segments holds one of the references */
  sdm_mutex lock;                        /* guards what follows */
  int64_t max_timestamp;                 /* SDM_UNKNOWN, -1: no record has one */
  int64_t first_timestamp;               /* max timestamp of the first batch; SDM_UNKNOWN, -1 */
  int64_t records;                       /* SDM_UNKNOWN */
  int64_t last_tombstone;                /* highest offset of one; SDM_UNKNOWN, -1 */
  int64_t horizon;                       /* earliest delete horizon that still has a tombstone (cleaner/tombstone.h); SDM_UNKNOWN */
  sdm_file *files[SDM_FILE_KINDS];
  struct sdm_digest *digest;             /* NULL: none to go by, if it was asked for (segment_digest.h) */
  bool digest_asked;
} sdm_segment;

/* "DIR/00000000000000000042.log" + suffix ("", ".deleted", ".cleaned", ".swap"); a fresh string, NULL when memory is short. */
char *sdm_segment_path(const char *dir, int64_t base_offset, sdm_file_kind kind, const char *suffix);

/* Splits a file name: 0 and base offset, kind and suffix (pointing into the name); -1 when it is not a segment's file. Kafka's .snapshot is none. */
int sdm_segment_name_decode(const char *name, int64_t *base_offset, sdm_file_kind *kind, const char **suffix);

/* Looks at the .log that is there. SDM_NOT_FOUND. */
int sdm_segment_open(sdm_fs *fs, const char *dir, int64_t base_offset, bool writable, sdm_segment **out);

/* The same for one whose files are still named with `suffix` (a literal), to be read. */
int sdm_segment_open_suffixed(sdm_fs *fs, const char *dir, int64_t base_offset, const char *suffix, sdm_segment **out);

/* The same for a .log that stands under another name; such a segment has no indexes. */
int sdm_segment_open_as(sdm_fs *fs, const char *dir, int64_t base_offset, const char *log_path, sdm_segment **out);

/* Makes fresh empty files, in place of any that are there; their time is now_ms. */
int sdm_segment_create(sdm_fs *fs, const char *dir, int64_t base_offset, int64_t now_ms, sdm_segment **out);

sdm_segment *sdm_segment_ref(sdm_segment *s);
void sdm_segment_unref(sdm_segment *s);  /* NULL is fine */

/* The file, opened now if need be; borrowed, valid as long as the caller's reference on the segment. */
int sdm_segment_file(sdm_segment *s, sdm_file_kind kind, sdm_file **out);
int sdm_segment_check_name(const sdm_segment *s, const char *path);        /* SDM_NOT_FOUND: no file there, or another than its .log */
void sdm_segment_close_files(sdm_segment *s);      /* while nobody reads it */

/* Closes its files if the list and the caller alone hold it, for those who go through many segments; a file that the caller borrowed is gone. */
void sdm_segment_rest(sdm_segment *s);
int64_t sdm_segment_file_size(sdm_segment *s, sdm_file_kind kind);   /* as it stands under its name, without opening it; 0 when it is missing */

/* Renames its files (those that exist) from one suffix to another. */
int sdm_segment_rename(sdm_fs *fs, const char *dir, int64_t base_offset, const char *from, const char *to);
int sdm_segment_unlink(sdm_fs *fs, const char *dir, int64_t base_offset, const char *suffix);

/* Whether the batch's offsets are such as the segment can have; no CRC covers a base offset. */
bool sdm_segment_can_hold(const sdm_segment *s, const sdm_batch *b);
bool sdm_segment_places(const sdm_segment *s, const sdm_batch *b, int64_t expected, bool dense);       /* and it begins at `expected`, or behind it in gaps */

/* What the last entries of the indexes, as they stand under their names, tell of; offset -1: nothing. */
typedef struct sdm_told {
  sdm_index_entry batch;
  sdm_timeindex_entry latest;
} sdm_told;

void sdm_segment_told(sdm_segment *s, sdm_told *out);

/* Whether that is more than the .log of a closed segment has, which ends there: then it was cut. An entry counts only when all of it lies behind the end,
** for a damaged one is no sign. */
bool sdm_told_more(const sdm_told *t, int64_t position, int64_t next_offset, int64_t max_timestamp);

/* Where to begin looking for `offset`: the entry of the last indexed batch whose last offset is <= offset. False: the index says nothing,
** begin at 0. `limit`: bytes of the log that count. The index is a hint that may be damaged, or of another version of the segment: the
** caller checks that a batch with that last offset stands there. */
bool sdm_segment_lookup(sdm_segment *s, int64_t offset, int64_t limit, sdm_index_entry *out);

/* The last entry whose timestamp is <= `timestamp`: everything newer lies after its offset. A hint as well: the caller checks that the batch with
** that last offset has that largest timestamp. */
bool sdm_segment_lookup_time(sdm_segment *s, int64_t timestamp, sdm_timeindex_entry *out);

/* Where another name leads to its .log as well, as a backup's does, it gets a copy of its own, durably: before it is cut or written to. */
int sdm_segment_unshare(sdm_segment *s);

/* A sync that failed may have dropped what it was to save, and the next one would not tell: what memory still has of the segment is written once more
** and synced, before anything is said to be durable. */
int sdm_segment_write_anew(sdm_segment *s);

#endif
