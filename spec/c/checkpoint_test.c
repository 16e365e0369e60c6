/* Checkpoint files and leader-epoch-checkpoint. */
#include "format/checkpoint.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "test.h"

static int decode(sdm_checkpoint *c, const char *text) {
  return sdm_checkpoint_decode(c, text, strlen(text));
}

static void check_text(const sdm_checkpoint *c, const char *expected) {
  sdm_buf out = SDM_BUF_INIT;
  CHECK_INT(sdm_checkpoint_encode(c, &out), 0);
  CHECK_BYTES(out.data, out.size, expected, strlen(expected));
  sdm_buf_free(&out);
}

TEST(kafkas_file_is_read_and_written) {
  sdm_checkpoint c = { 0 };
  const char *text = "0\n2\ntopicA 0 1234\ntopicA 1 99\n";
  CHECK_INT(decode(&c, text), 0);
  CHECK_INT(c.count, 2);
  CHECK_INT(sdm_checkpoint_find(&c, "topicA", 0)->offset, 1234);
  CHECK_INT(sdm_checkpoint_find(&c, "topicA", 1)->offset, 99);
  CHECK(!sdm_checkpoint_find(&c, "topicA", 2));
  CHECK(!sdm_checkpoint_find(&c, "topic", 0));
  check_text(&c, text);
  sdm_checkpoint_free(&c);
  CHECK(!c.entries && c.count == 0);
}

TEST(an_empty_file_has_no_entries) {
  sdm_checkpoint c = { 0 };
  CHECK_INT(sdm_checkpoint_decode(&c, NULL, 0), 0);
  CHECK_INT(c.count, 0);
  check_text(&c, "0\n0\n");
  CHECK_INT(decode(&c, "0\n0\n"), 0);
  CHECK_INT(c.count, 0);
  sdm_checkpoint_free(&c);
}

TEST(entries_may_come_in_any_order_and_spacing) {
  sdm_checkpoint c = { 0 };
  CHECK_INT(decode(&c, "0\r\n4\r\nb 1 5\r\n b\t0  6 \na-b 10 0\nb 2147483647 9223372036854775807"), 0);
  check_text(&c, "0\n4\na-b 10 0\nb 0 6\nb 1 5\nb 2147483647 9223372036854775807\n");
  sdm_checkpoint_free(&c);
}

static void check_refused(const char *text, size_t size, const char *message) {
  sdm_checkpoint c = { 0 };
  CHECK_INT(decode(&c, "0\n1\nkept 3 4\n"), 0);
  char *exact = malloc(size);
  memcpy(exact, text, size);
  CHECK_INT(sdm_checkpoint_decode(&c, exact, size), SDM_CORRUPT);
  CHECK_STR(sdm_errmsg(), message);
  check_text(&c, "0\n1\nkept 3 4\n");
  free(exact);
  sdm_checkpoint_free(&c);
}

#define CHECK_REFUSED(text, message) check_refused(text, sizeof(text) - 1, "checkpoint, line " message)

TEST(malformed_files_are_refused) {
  char longest[400];
  CHECK_REFUSED("\n", "1: the version is not 0");
  CHECK_REFUSED("1\n0\n", "1: the version is not 0");
  CHECK_REFUSED("-0\n0\n", "1: the version is not 0");
  CHECK_REFUSED("0 0\n0\n", "1: the version is not 0");
  CHECK_REFUSED("0", "2: missing");
  CHECK_REFUSED("0\nx\n", "2: not a number of entries");
  CHECK_REFUSED("0\n-1\n", "2: not a number of entries");
  CHECK_REFUSED("0\n9223372036854775808\na 0 0\n", "2: not a number of entries");
  CHECK_REFUSED("0\n1\n", "2: it says 1 entries and there are 0");
  CHECK_REFUSED("0\n1\na 0 0\nb 0 0\n", "2: it says 1 entries and there are 2");
  CHECK_REFUSED("0\n2\na 0 0\n", "2: it says 2 entries and there are 1");
  CHECK_REFUSED("0\n1\n\n", "3: no topic name");
  CHECK_REFUSED("0\n1\na\n", "3: no partition number");
  CHECK_REFUSED("0\n1\na 0\n", "3: no offset");
  CHECK_REFUSED("0\n1\na x 0\n", "3: no partition number");
  CHECK_REFUSED("0\n1\na -1 0\n", "3: no partition number");
  CHECK_REFUSED("0\n1\na 2147483648 0\n", "3: no partition number");
  CHECK_REFUSED("0\n1\na 0 9223372036854775808\n", "3: no offset");
  CHECK_REFUSED("0\n1\na 0 99999999999999999999999\n", "3: no offset");
  CHECK_REFUSED("0\n1\na 0 -5\n", "3: no offset");
  CHECK_REFUSED("0\n1\na 0 0x\n", "3: no offset");
  CHECK_REFUSED("0\n1\na 0 0 0\n", "3: more than topic, partition and offset");
  CHECK_REFUSED("0\n2\na 0 0\na 0 0\n", "4: a partition for the second time");
  CHECK_REFUSED("0\n1\na\0 0 0\n", "3: a NUL");
  memset(longest, 'x', sizeof longest);
  memcpy(longest, "0\n1\n", 4);
  memcpy(longest + 4 + SDM_TOPIC_NAME_MAX + 1, " 0 0", 4);
  check_refused(longest, 4 + SDM_TOPIC_NAME_MAX + 5, "checkpoint, line 3: no topic name");
}

TEST(every_truncation_is_refused_or_an_entry_short_of_digits) {
  const char *text = "0\n2\ntopicA 0 1234\ntopicA 1 99\n";
  for (size_t size = 1; size < strlen(text); size++) {
    sdm_checkpoint c = { 0 };
    char *exact = malloc(size);
    memcpy(exact, text, size);
    int rc = sdm_checkpoint_decode(&c, exact, size);
    CHECK_INT(rc, size >= strlen(text) - 2 ? 0 : SDM_CORRUPT);
    free(exact);
    sdm_checkpoint_free(&c);
  }
}

TEST(changed_bytes_are_survived) {
  char text[] = "0\n2\ntopicA 0 1234\ntopicA 1 99\n";
  for (size_t i = 0; i < sizeof text - 1; i++) {
    char before = text[i];
    for (int x = 0; x < 256; x++) {
      sdm_checkpoint c = { 0 };
      text[i] = (char)x;
      int rc = sdm_checkpoint_decode(&c, text, sizeof text - 1);
      CHECK(rc == 0 ? c.count == 2 : rc == SDM_CORRUPT && c.count == 0);
      sdm_checkpoint_free(&c);
    }
    text[i] = before;
  }
}

TEST(longest_names_fit) {
  char name[SDM_TOPIC_NAME_MAX + 2], text[400];
  sdm_checkpoint c = { 0 };
  memset(name, 'n', sizeof name);
  name[SDM_TOPIC_NAME_MAX + 1] = 0;
  CHECK_INT(sdm_checkpoint_set(&c, name, 0, 1), SDM_MISUSE);
  name[SDM_TOPIC_NAME_MAX] = 0;
  CHECK_INT(sdm_checkpoint_set(&c, name, 0, 1), 0);
  snprintf(text, sizeof text, "0\n1\n%s 0 1\n", name);
  check_text(&c, text);
  CHECK_INT(decode(&c, text), 0);
  CHECK_INT(sdm_checkpoint_find(&c, name, 0)->offset, 1);
  sdm_checkpoint_free(&c);
}

TEST(entries_are_set_and_removed) {
  enum { TOPICS = 5, PARTITIONS = 12 };
  int64_t model[TOPICS][PARTITIONS];
  char topic[] = "t0";
  sdm_checkpoint c = { 0 };
  test_random random = { 8 };
  memset(model, 255, sizeof model);
  for (int round = 0; round < 5000; round++) {
    int t = (int)test_random_below(&random, TOPICS), p = (int)test_random_below(&random, PARTITIONS);
    topic[1] = (char)('0' + t);
    model[t][p] = test_random_below(&random, 3) ? round : -1;
    if (model[t][p] >= 0) CHECK_INT(sdm_checkpoint_set(&c, topic, p, round), 0);
    else sdm_checkpoint_remove(&c, topic, p, p + 1);
    size_t count = 0;
    for (int i = 0; i < TOPICS * PARTITIONS; i++) {
      topic[1] = (char)('0' + i / PARTITIONS);
      const sdm_checkpoint_entry *e = sdm_checkpoint_find(&c, topic, i % PARTITIONS);
      int64_t expected = model[i / PARTITIONS][i % PARTITIONS];
      count += expected >= 0;
      if (!CHECK_INT(e ? e->offset : -1, expected)) return;
    }
    CHECK_INT(c.count, count);
  }
  sdm_checkpoint_free(&c);
}

TEST(short_memory_is_told) {
  sdm_checkpoint c = { 0 };
  int none = 0;
  sdm_set_allocator(test_short_memory, &none);
  CHECK_INT(decode(&c, "0\n1\na 0 0\n"), SDM_NO_MEMORY);
  CHECK_INT(sdm_checkpoint_set(&c, "a", 0, 0), SDM_NO_MEMORY);
  CHECK(!c.entries && c.count == 0);
  sdm_set_allocator(NULL, NULL);
}
