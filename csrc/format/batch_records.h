/* The records of a batch as they were before compression. */
#ifndef SDM_FORMAT_BATCH_RECORDS_H
#define SDM_FORMAT_BATCH_RECORDS_H

#include "format/batch.h"

/* A batch of `size` bytes may hold so many bytes of records, uncompressed: 128 MiB, or 16 times its size when that is more; never 2 GiB. What
** claims or gives more is damage; nothing is written that would. */
size_t sdm_batch_records_max(int64_t size);

/* *records and *size become the records of the whole batch at `bytes`: borrowed from it when it has no codec, else decompressed into `scratch`,
** which is cleared. SDM_CORRUPT also when more than `limit` bytes come out; SDM_UNSUPPORTED for a codec that is not built in. */
int sdm_batch_records(const uint8_t *bytes, const sdm_batch *b, size_t limit, sdm_buf *scratch, const uint8_t **records, size_t *size);

/* The same within sdm_batch_records_max, ready to be walked. */
int sdm_record_iter_open(sdm_record_iter *it, const sdm_batch *b, const uint8_t *bytes, sdm_buf *scratch);

#endif
