/* Walks the batches of a .log from a position on, through a window of memory that is filled by big reads. */
#ifndef SDM_LOG_SCANNER_H
#define SDM_LOG_SCANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "format/batch.h"
#include "format/digest.h"
#include "os/fs.h"

typedef struct sdm_scanner {
  sdm_file *file;
  int64_t position;         /* of the next batch */
  int64_t limit;            /* bytes of the file that count */
  bool torn;                /* the last call ended before `limit`: the rest is no whole batch */
  bool doubtful;            /* the last search found none, but there may be one: what was valid seemed to be within a record, or it gave up */
  int64_t spent;            /* bytes that searches have read for checksums */
  sdm_buf window;           /* file bytes from window_start on */
  int64_t window_start;
  const sdm_digest *digest; /* of the segment, borrowed; NULL: none */
  int64_t checked_from, checked_to;     /* batches that begin there were held against it; empty at first */
  int64_t bad_from, bad_to;             /* of these the ones that it denies */
  bool unsure;              /* it denied many of which one is damaged, or more */
} sdm_scanner;              /* zero-initialised is valid, at the end of nothing */

/* From here on it reads `file`, which is borrowed. The window's memory is kept. With s->digest set behind it, what that denies is SDM_CORRUPT, and so is
** the limit where the file was cut. */
void sdm_scanner_start(sdm_scanner *s, sdm_file *file, int64_t position, int64_t limit);
void sdm_scanner_free(sdm_scanner *s);

/* 1: the next batch, its CRC verified, whole at *bytes until the next call. 0: the end, or a torn tail (see `torn`). SDM_CORRUPT: what stands
** at `position` is no valid batch; SDM_UNSUPPORTED: an old message format. After a failure `position` has not moved. */
int sdm_scan_batch(sdm_scanner *s, sdm_batch *b, const uint8_t **bytes);

/* The same for the header alone: the CRC is not looked at and the records are not read. */
int sdm_scan_header(sdm_scanner *s, sdm_batch *b);

/* No CRC covers a base offset. Whether that of b, the batch that was scanned last, is damaged: it leaves a gap behind `expected`, and the batch that
** follows begins before b ends, but late enough for b's records to lie between. `*bytes` (NULL after sdm_scan_header) stays valid. 1, 0, SDM_IO,
** SDM_NO_MEMORY. */
int sdm_scan_displaced(sdm_scanner *s, const sdm_batch *b, int64_t expected, const uint8_t **bytes);

/* The same where there are no gaps, and damage hides where b must begin: whether the batch that follows, if one does, begins where b ends. 1, 0, SDM_IO,
** SDM_NO_MEMORY. */
int sdm_scan_joins(sdm_scanner *s, const sdm_batch *b, const uint8_t **bytes);

/* 1: from `position` on there is the padding of a preallocated file: nothing but zeros, and enough of them for a batch's header; or nothing at all,
** unless the digest says that it was cut there. 0: there is something. SDM_IO, SDM_NO_MEMORY. */
int sdm_scan_padding(sdm_scanner *s);

/* Bytes from `position` on up to the last that is not zero, or a failure. */
int64_t sdm_scan_rest(sdm_scanner *s);

/* Whether what stands at `position`, where no valid batch does, can be the front of one of that segment that was being written: a plausible header, as far
** as it goes, with fewer bytes behind it than it says, or zeros for the last of them. 1, 0, SDM_IO, SDM_NO_MEMORY. */
int sdm_scan_unfinished(sdm_scanner *s, int64_t segment_base);

/* The next batch that is valid, damage before it stepped over if a batch with a base offset above `offset` follows; `bytes` NULL: by its header alone.
** 1, or 0 when there is none, or what no search helps against. For those who leave it to readers to report damage. */
int sdm_scan_past_damage(sdm_scanner *s, int64_t offset, sdm_batch *b, const uint8_t **bytes);

/* After SDM_CORRUPT: looks for the next valid batch whose base offset is above `offset`, where the damage begins: where the size of what is damaged leads, else
** at each byte, for one from which sizes lead on to the end, or far enough. A valid one from which they do not lies within a record, whose bytes may be
** anything. 1: `position` is there. 0: none, or see `doubtful`. */
int sdm_scan_resync(sdm_scanner *s, int64_t offset);

#endif
