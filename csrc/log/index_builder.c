#include "log/index_builder.h"

void sdm_index_builder_init(sdm_index_builder *x, int64_t base_offset, int64_t interval) {
  *x = (sdm_index_builder){.base_offset = base_offset, .interval = interval, .max_timestamp = -1, .max_timestamp_offset = base_offset, .indexed_timestamp = -1,
                             .digest = {.next_offset = base_offset}};
}

void sdm_index_builder_free(sdm_index_builder *x) {
  sdm_buf_free(&x->index);
  sdm_buf_free(&x->timeindex);
  sdm_digest_builder_free(&x->digest);
}

int sdm_index_builder_finish(sdm_index_builder *x) {
  uint8_t bytes[SDM_TIMEINDEX_ENTRY];
  sdm_timeindex_entry t = {x->max_timestamp, x->max_timestamp_offset};
  if (t.timestamp <= x->indexed_timestamp) return 0;
  sdm_timeindex_encode(bytes, &t, x->base_offset);
  x->indexed_timestamp = t.timestamp;
  return sdm_buf_append(&x->timeindex, bytes, sizeof bytes);
}

/* Compression may make a cleaned segment larger than the positions of an index go: readers walk there from the last entry. */
static bool has_room_for(int64_t position) { return position <= INT32_MAX; }

static int add_entries(sdm_index_builder *x, int64_t last_offset, int64_t position) {
  uint8_t bytes[SDM_INDEX_ENTRY];
  sdm_index_entry e = {last_offset, position};
  sdm_index_encode(bytes, &e, x->base_offset);
  x->bytes_since_index = 0;
  int rc = sdm_buf_append(&x->index, bytes, sizeof bytes);
  return rc < 0 ? rc : sdm_index_builder_finish(x);
}

int sdm_index_builder_add(sdm_index_builder *x, const sdm_batch *b, int64_t position) {
  int rc = 0;
  if (b->max_timestamp > x->max_timestamp) {
    x->max_timestamp = b->max_timestamp;
    x->max_timestamp_offset = sdm_batch_last_offset(b);
  }
  if (x->bytes_since_index > x->interval && has_room_for(position)) rc = add_entries(x, sdm_batch_last_offset(b), position);
  x->bytes_since_index += b->size;
  return rc == 0 ? sdm_digest_add(&x->digest, b, position) : rc;
}
