/* Finding a batch in a segment: by the index as far as it can be believed, then from header to header. */
#ifndef SDM_LOG_SEEK_H
#define SDM_LOG_SEEK_H

#include "log/scanner.h"
#include "log/segment.h"

/* Starts the scanner on the segment's .log (of which `limit` bytes count) at a batch from which all with last offset >= `offset` follow:
** the indexed one at or before it, 0 when the index is missing, damaged or of another version of the segment. */
int sdm_seek_near(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit);

/* Starts the scanner at the first batch whose last offset is >= `offset`; at the limit when there is none. Damage is passed when what lies behind
** it is still not beyond `offset`; else the scanner stands before it. `dense`: each batch begins where the one before it ended. *expected: where the batch found must begin (dense), or end of the one before it; -1: not known. */
int sdm_seek(sdm_segment *s, sdm_scanner *scan, int64_t offset, int64_t limit, bool dense, int64_t *expected);

#endif
