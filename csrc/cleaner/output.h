/* The segment that a cleaning writes: `<base>.log.cleaned` and its indexes (.txnindex only where it has an entry). Durable and closed when sdm_output_finish has returned. */
#ifndef SDM_CLEANER_OUTPUT_H
#define SDM_CLEANER_OUTPUT_H

#include "base/buf.h"
#include "format/txn_index.h"
#include "log/index_builder.h"
#include "log/log.h"

#define SDM_CLEANED ".cleaned"

typedef struct sdm_output {
  sdm_log *log;
  int64_t base_offset;
  sdm_file *file;
  sdm_buf pending;                       /* bytes that belong at `written` */
  int64_t written, size;
  int64_t records;
  sdm_index_builder indexes;
  sdm_buf aborted;                       /* entries of .txnindex */
} sdm_output;

int sdm_output_open(sdm_output *o, sdm_log *l, int64_t base_offset, const sdm_log_config *cfg);

/* Takes a batch that stands in memory. */
int sdm_output_add(sdm_output *o, const uint8_t *bytes, const sdm_batch *b);

/* Takes the batch that the caller has just put at the end of o->pending. */
int sdm_output_added(sdm_output *o, const sdm_batch *b);

/* Notes a transaction whose marker, that of an abort, is in the segment. */
int sdm_output_add_aborted(sdm_output *o, const sdm_txnindex_entry *e);

int sdm_output_finish(sdm_output *o, int64_t modified_ms);
void sdm_output_discard(sdm_output *o);  /* closes and removes the files; also after finish */
void sdm_output_free(sdm_output *o);     /* the memory only */

#endif
