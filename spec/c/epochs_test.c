/* leader-epoch-checkpoint, and entries of .txnindex. */
#include "base/err.h"
#include "base/mem.h"
#include "format/epochs.h"
#include "format/txn_index.h"
#include "test.h"

static int decode(sdm_epochs *e, const char *text) { return sdm_epochs_decode(e, text, strlen(text)); }

TEST(epochs_are_written_as_kafka_does) {
  sdm_epochs e = {0};
  sdm_buf out = SDM_BUF_INIT;
  CHECK_INT(sdm_epochs_add(&e, 0, 0), 0);
  CHECK_INT(sdm_epochs_add(&e, 0, 7), 0);                  /* known */
  CHECK_INT(sdm_epochs_add(&e, -1, 8), 0);                 /* none */
  CHECK_INT(sdm_epochs_add(&e, 5, 1234567890123), 0);
  CHECK_INT(sdm_epochs_add(&e, 3, 1234567890124), 0);      /* gone back: Kafka's are ascending */
  CHECK_INT(sdm_epochs_encode(&e, &out), 0);
  CHECK_BYTES(out.data, out.size, "0\n2\n0 0\n5 1234567890123\n", 24);
  sdm_buf_free(&out);
  sdm_epochs_free(&e);
}

TEST(epochs_are_read) {
  sdm_epochs e = {0};
  CHECK_INT(decode(&e, "0\n2\n0 0\n5 12\n"), 0);
  if (CHECK_INT(e.count, 2)) CHECK(e.entries[1].epoch == 5 && e.entries[1].start_offset == 12);
  CHECK_INT(decode(&e, "0\r\n1\r\n7 3"), 0);
  if (CHECK_INT(e.count, 1)) CHECK(e.entries[0].epoch == 7 && e.entries[0].start_offset == 3);
  CHECK_INT(decode(&e, "0\n0\n"), 0);
  CHECK_INT(e.count, 0);
  CHECK_INT(decode(&e, ""), 0);
  sdm_epochs_free(&e);
}

TEST(a_malformed_file_is_refused_and_changes_nothing) {
  static const char *const bad[] = {"1\n0\n", "0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 1\n", "0\n1\n0 x\n", "0\n1\n0\n", "0\n1\n-1 0\n", "0\n1\n0 0 0\n",
                                    "0\n1\n99999999999 0\n", "0\n1\n0 99999999999999999999\n", "0\n2\n0 5\n1 4\n", "0\n2\n1 0\n1 4\n", "x", "0 0\n"};
  sdm_epochs e = {0};
  CHECK_INT(decode(&e, "0\n1\n4 2\n"), 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (!CHECK_INT(decode(&e, bad[i]), SDM_CORRUPT)) printf("  %zu: %s\n", i, bad[i]);
  }
  CHECK_INT(sdm_epochs_decode(&e, "0\n1\n4 2\n\0", 9), SDM_CORRUPT);
  CHECK(e.count == 1 && e.entries[0].epoch == 4);
  sdm_epochs_free(&e);
}

TEST(short_memory_is_told) {
  sdm_epochs e = {0};
  int none = 0;
  sdm_set_allocator(test_short_memory, &none);
  CHECK_INT(decode(&e, "0\n1\n0 0\n"), SDM_NO_MEMORY);
  CHECK_INT(sdm_epochs_add(&e, 0, 0), SDM_NO_MEMORY);
  CHECK(!e.entries && e.count == 0);
  sdm_set_allocator(NULL, NULL);
}

/* From a segment of Kafka's own. */
TEST(txnindex_entries_are_kafkas) {
  static const uint8_t bytes[SDM_TXNINDEX_ENTRY] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5};
  sdm_txnindex_entry e;
  uint8_t again[SDM_TXNINDEX_ENTRY];
  CHECK(sdm_txnindex_decode(bytes, &e));
  CHECK(e.producer_id == 2 && e.first == 1 && e.last == 6 && e.stable == 5);
  sdm_txnindex_encode(again, &e);
  CHECK_BYTES(again, sizeof again, bytes, sizeof bytes);
  again[1] = 1;
  CHECK(!sdm_txnindex_decode(again, &e));
}
