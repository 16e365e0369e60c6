/* Walks the batches of a whole segment, from the first to the last that is whole and in its place, and tells of the damage that it passes. What counts as
** damage, and where to go on behind it, is the same for recovery, import and verification.
*/
#ifndef SDM_LOG_WALK_H
#define SDM_LOG_WALK_H

#include "log/scanner.h"
#include "log/segment.h"

enum {
  SDM_WALK_DENSE = 2,                    /* a gap between two batches is damage */
  SDM_WALK_RECORDS = 4                   /* so are records that cannot be read; decompresses them */
};

typedef struct sdm_walk {
  sdm_segment *segment;                  /* borrowed */
  unsigned flags;
  sdm_scanner scan;
  sdm_buf plain;
  int64_t at, begins;                    /* of what was met last: its position; where it had to begin, or at least to */
  int64_t position;                      /* end of the last batch whose CRC holds */
  int64_t next_offset;                   /* behind the last one in its place; the segment's base when there is none */
  bool lost;                             /* damage was passed: where the next batch begins cannot be foretold */
  bool doubtful;                         /* at the end: behind `position` there may be valid ones, which cannot be told from what records hold */
  sdm_failure why;                       /* what is wrong with what was met last; code 0: nothing */
} sdm_walk;                              /* zero-initialised may be closed */

enum { SDM_WALK_END, SDM_WALK_BATCH, SDM_WALK_DAMAGE };

/* `size`: bytes of the .log that count. The segment's digest is asked as well. */
int sdm_walk_open(sdm_walk *w, sdm_segment *s, int64_t size, unsigned flags);

/* SDM_WALK_BATCH: *b, whole at *bytes until the next call. SDM_WALK_DAMAGE: it was passed, from w->at to w->scan.position. SDM_WALK_END: of all; with w->why
** set what follows w->at is no valid batch, or the file was cut there. Or a failure. */
int sdm_walk_next(sdm_walk *w, sdm_batch *b, const uint8_t **bytes);
void sdm_walk_close(sdm_walk *w);

#endif
