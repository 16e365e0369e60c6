/* The digests of closed segments (format/digest.h): made when a segment is closed or rewritten, dropped when somebody else may have rewritten it.
** Derived: one that is missing, damaged or of another .log is as good as none.
*/
#ifndef SDM_LOG_SEGMENT_DIGEST_H
#define SDM_LOG_SEGMENT_DIGEST_H

#include "format/digest.h"
#include "log/scanner.h"
#include "log/segment.h"

/* Starts the scanner on the segment's .log, with its digest if it has one. */
int sdm_segment_scan(sdm_segment *s, sdm_scanner *scan, int64_t position, int64_t limit);

/* Reads the headers of a segment that is just being closed, of which `size` bytes count, and writes its digest; `dense`: its offsets have no gaps. What is out
** of place has none, lest the digest bear it out. It fails only for what is not the digest's own: a full disk leaves the segment without one. */
int sdm_segment_digest_make(sdm_segment *s, int64_t size, bool dense);
int sdm_segment_digest_write(sdm_segment *s, const sdm_digest_builder *x);         /* the same for one whose batches went by */
int sdm_segment_digest_drop(sdm_segment *s);

/* What recovery must know of the digest: whether the .log is as it says, by size alone. */
typedef enum sdm_digest_state {
  SDM_DIGEST_NONE,
  SDM_DIGEST_FITS,
  SDM_DIGEST_OWN,                        /* it fits, and was made of this very file */
  SDM_DIGEST_CUT,                        /* the .log is shorter, and it is the file of which it was made, or the index tells of more as well */
  SDM_DIGEST_OTHER                       /* it is another, as a broker's cleaning leaves */
} sdm_digest_state;
sdm_digest_state sdm_segment_digest_state(sdm_segment *s);
int sdm_segment_digest_bind(sdm_segment *s);       /* from now on it is of this file, not of that of which it was made. 1: it is; 0: there is none */

#endif
