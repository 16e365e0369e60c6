/* What a log tells of each producer with an id, in a table by id: for transactions, and for the batches that a broker needs to know a producer again.
*/
#ifndef SDM_LOG_PRODUCERS_H
#define SDM_LOG_PRODUCERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/batch.h"

/* Kafka's producer.id.expiration.ms: so long after its last batch a broker forgets a producer that has no transaction open. */
#define SDM_PRODUCER_EXPIRES_MS 86400000

typedef struct sdm_producer {
  int64_t id;
  int64_t first_open;                    /* offset at which its open transaction begins, -1: none is open */
  int64_t last_data;                     /* last offset of its last batch with data in its epoch, -1: none */
  int64_t last_timestamp;                /* max timestamp of its last batch */
  int32_t last_sequence, last_delta;     /* of that batch with data: its last sequence number, its last offset delta */
  int32_t coordinator_epoch;             /* of its last marker, -1 */
  int16_t epoch;
  bool used;
} sdm_producer;

typedef struct sdm_producers {
  sdm_producer *slots;
  size_t count, capacity;                /* capacity: a power of two, or 0 */
} sdm_producers;                         /* zero-initialised is empty */

/* The producer's entry, made when it has none; NULL: memory is short. Valid until the next call. */
sdm_producer *sdm_producers_at(sdm_producers *p, int64_t id);
sdm_producer *sdm_producers_find(const sdm_producers *p, int64_t id);      /* NULL: it has none */
void sdm_producers_free(sdm_producers *p);

/* Takes over what a batch, of data or with a marker, tells of its producer, as a broker does: a new epoch forgets the batches of the one before. */
void sdm_producer_note(sdm_producer *p, const sdm_batch *b);

/* Whether a broker must find this batch at `now` to know its producer again: it is the last one with data of a producer that has not expired, or a
** marker of the last epoch of one without data. */
bool sdm_producers_need(const sdm_producers *p, const sdm_batch *b, int64_t now);

#endif
