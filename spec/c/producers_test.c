/* What is known of producers: the table, and by which batch a broker knows one again. */
#include "base/mem.h"
#include "log/producers.h"
#include "test.h"

static sdm_batch batch(int64_t id, int16_t epoch, int64_t offset, int32_t delta, int attributes) {
  return (sdm_batch){.base_offset = offset, .last_offset_delta = delta, .attributes = (int16_t)attributes, .max_timestamp = 1000, .producer_id = id,
                     .producer_epoch = epoch, .base_sequence = INT32_MAX - 1, .count = delta + 1};
}

TEST(a_thousand_are_told_apart) {
  sdm_producers p = {0};
  CHECK(!sdm_producers_find(&p, 0));
  for (int64_t id = 0; id < 1000; id++) sdm_producers_at(&p, id * 4096)->first_open = id;
  CHECK_INT(p.count, 1000);
  for (int64_t id = 0; id < 1000; id++) CHECK_INT(sdm_producers_find(&p, id * 4096)->first_open, id);
  CHECK(!sdm_producers_find(&p, 1));
  sdm_producers_free(&p);
}

TEST(the_last_batch_with_data_is_needed_until_the_producer_expires) {
  sdm_producers p = {0};
  sdm_batch first = batch(7, 0, 10, 2, 0), last = batch(7, 0, 20, 3, 0), marker = batch(7, 0, 30, 0, SDM_ATTR_CONTROL);
  sdm_producer *at = sdm_producers_at(&p, 7);
  sdm_producer_note(at, &first);
  sdm_producer_note(at, &last);
  sdm_producer_note(at, &marker);
  CHECK_INT(at->last_data, 23);
  CHECK_INT(at->last_sequence, 1);                         /* 2^31 - 2, 2^31 - 1, 0, 1 */
  CHECK(!sdm_producers_need(&p, &first, 1000));
  CHECK(sdm_producers_need(&p, &last, 1000 + SDM_PRODUCER_EXPIRES_MS - 1));
  CHECK(!sdm_producers_need(&p, &last, 1000 + SDM_PRODUCER_EXPIRES_MS));
  CHECK(!sdm_producers_need(&p, &marker, 1000));
  at->first_open = 20;
  CHECK(sdm_producers_need(&p, &last, INT64_MAX));
  sdm_producers_free(&p);
}

TEST(a_new_epoch_forgets_the_data_of_the_one_before) {
  sdm_producers p = {0};
  sdm_batch data = batch(7, 0, 10, 2, 0), fence = batch(7, 1, 13, 0, SDM_ATTR_CONTROL), none = batch(-1, -1, 10, 2, 0);
  sdm_producer *at = sdm_producers_at(&p, 7);
  sdm_producer_note(at, &data);
  sdm_producer_note(at, &fence);
  CHECK(!sdm_producers_need(&p, &data, 1000));
  CHECK(sdm_producers_need(&p, &fence, 1000));
  CHECK(!sdm_producers_need(&p, &none, 1000));
  sdm_producers_free(&p);
}

TEST(short_memory_is_told) {
  sdm_producers p = {0};
  int none = 0;
  sdm_set_allocator(test_short_memory, &none);
  CHECK(!sdm_producers_at(&p, 1));
  CHECK_INT(p.count, 0);
  sdm_set_allocator(NULL, NULL);
}
