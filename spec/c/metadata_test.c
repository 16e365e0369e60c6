/* Topic ids, partition.metadata, names of partition folders. */
#include "base/err.h"
#include "format/checkpoint.h"
#include "test.h"

/* The bytes 0..15, and what java.util.Base64's URL encoder makes of them. */
static const sdm_uuid counting = { { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } };
static const char counting_text[] = "AAECAwQFBgcICQoLDA0ODw";

TEST(ids_are_url_safe_base64) {
  char text[SDM_UUID_TEXT + 1];
  sdm_uuid id;
  sdm_uuid_encode(&counting, text);
  CHECK_STR(text, counting_text);
  CHECK_INT(sdm_uuid_decode(&id, text, SDM_UUID_TEXT), 0);
  CHECK_BYTES(&id, sizeof id, &counting, sizeof counting);
  memset(&id, 255, sizeof id);
  sdm_uuid_encode(&id, text);
  CHECK_STR(text, "_____________________w");
  memset(&id, 0xfb, sizeof id);
  sdm_uuid_encode(&id, text);
  CHECK_STR(text, "-_v7-_v7-_v7-_v7-_v7-w");
}

TEST(ids_round_trip) {
  test_random random = { 9 };
  for (int round = 0; round < 10000; round++) {
    char text[SDM_UUID_TEXT + 1];
    sdm_uuid id, back;
    for (int i = 0; i < 16; i++) id.bytes[i] = (uint8_t)test_random_next(&random);
    sdm_uuid_encode(&id, text);
    CHECK_INT(sdm_uuid_decode(&back, text, strlen(text)), 0);
    if (!CHECK_BYTES(&back, sizeof back, &id, sizeof id)) return;
  }
}

TEST(bad_ids_are_refused) {
  static const char *const texts[] = {
    "", "AAECAwQFBgcICQoLDA0OD", "AAECAwQFBgcICQoLDA0ODwA", "AAECAwQFBgcICQoLDA0OD+", "AAECAwQFBgcICQoLDA0O/w", "AAECAwQFBgcICQoLDA0OD=",
    "AAECAwQFBgcICQoLDA0ODx", "AAAAAAAAAAAAAAAAAAAAAA", "AAECAwQFBgcICQoLDA0O w",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    sdm_uuid id = counting;
    CHECK_INT(sdm_uuid_decode(&id, texts[i], strlen(texts[i])), SDM_CORRUPT);
    CHECK_BYTES(&id, sizeof id, &counting, sizeof counting);
  }
  char with_nul[SDM_UUID_TEXT];
  sdm_uuid id;
  memcpy(with_nul, counting_text, sizeof with_nul);
  with_nul[3] = 0;
  CHECK_INT(sdm_uuid_decode(&id, with_nul, sizeof with_nul), SDM_CORRUPT);
}

TEST(metadata_is_kafkas) {
  sdm_buf out = SDM_BUF_INIT;
  const char expected[] = "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw";
  sdm_uuid id;
  CHECK_INT(sdm_metadata_encode(&out, &counting), 0);
  CHECK_BYTES(out.data, out.size, expected, sizeof expected - 1);
  CHECK_INT(sdm_metadata_decode(&id, (const char *)out.data, out.size), 0);
  CHECK_BYTES(&id, sizeof id, &counting, sizeof counting);
  sdm_buf_free(&out);
}

TEST(metadata_may_end_its_lines_in_any_way) {
  static const char *const texts[] = {
    "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n",
    "version: 0\r\ntopic_id: AAECAwQFBgcICQoLDA0ODw\r\n",
    "version:  0 \ntopic_id: AAECAwQFBgcICQoLDA0ODw \nmore: 1\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    sdm_uuid id;
    CHECK_INT(sdm_metadata_decode(&id, texts[i], strlen(texts[i])), 0);
    CHECK_BYTES(&id, sizeof id, &counting, sizeof counting);
  }
}

static void check_refused(const char *text, const char *message) {
  sdm_uuid id = counting;
  CHECK_INT(sdm_metadata_decode(&id, text, strlen(text)), SDM_CORRUPT);
  CHECK_STR(sdm_errmsg(), message);
  CHECK_BYTES(&id, sizeof id, &counting, sizeof counting);
}

TEST(bad_metadata_is_refused) {
  check_refused("", "partition.metadata does not begin with a version");
  check_refused("topic_id: AAECAwQFBgcICQoLDA0ODw", "partition.metadata does not begin with a version");
  check_refused("version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", "partition.metadata: version 1 instead of 0");
  check_refused("version: \ntopic_id: AAECAwQFBgcICQoLDA0ODw", "partition.metadata: version  instead of 0");
  check_refused("version: 0", "partition.metadata: line 2 is not a topic_id");
  check_refused("version: 0\n", "partition.metadata: line 2 is not a topic_id");
  check_refused("version: 0\nid: AAECAwQFBgcICQoLDA0ODw", "partition.metadata: line 2 is not a topic_id");
  check_refused("version: 0\ntopic_id: AAECAw", "partition.metadata: topic id has 6 characters instead of 22");
  check_refused("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "partition.metadata: topic id is all zero");
}

TEST(cut_off_metadata_is_refused) {
  const char text[] = "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw";
  for (size_t size = 0; size < sizeof text - 1; size++) {
    char exact[sizeof text];
    sdm_uuid id;
    memset(exact, 'A', sizeof exact);
    memcpy(exact, text, size);
    CHECK_INT(sdm_metadata_decode(&id, exact, size), SDM_CORRUPT);
  }
}

TEST(partition_names_split_at_the_last_dash) {
  static const struct { const char *name, *topic; int32_t partition; } rows[] = {
    { "a-0", "a", 0 }, { "a-b-12", "a-b", 12 }, { "a--1", "a-", 1 }, { "--0", "-", 0 }, { "x.y_z-2147483647", "x.y_z", INT32_MAX },
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char topic[SDM_TOPIC_NAME_MAX + 1];
    int32_t partition = -1;
    CHECK_INT(sdm_partition_name_decode(rows[i].name, topic, &partition), 0);
    CHECK_STR(topic, rows[i].topic);
    CHECK_INT(partition, rows[i].partition);
  }
}

TEST(other_names_are_no_partitions) {
  static const char *const names[] = { "", "a", "-", "-0", "a-", "a-x", "a-0x", "a-+1", "a- 1", "a-00", "a-01", "a-2147483648",
                                       "a-99999999999999999999", "a-0.0123456789abcdef0123456789abcdef-delete", "sediment.topics" };
  char topic[SDM_TOPIC_NAME_MAX + 1] = "kept", longest[SDM_TOPIC_NAME_MAX + 10];
  int32_t partition = 7;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    CHECK_INT(sdm_partition_name_decode(names[i], topic, &partition), SDM_MISUSE);
  }
  memset(longest, 'n', sizeof longest);
  memcpy(longest + SDM_TOPIC_NAME_MAX + 1, "-0", 3);
  CHECK_INT(sdm_partition_name_decode(longest, topic, &partition), SDM_MISUSE);
  CHECK_STR(topic, "kept");
  CHECK_INT(partition, 7);
  memcpy(longest + SDM_TOPIC_NAME_MAX, "-0", 3);
  CHECK_INT(sdm_partition_name_decode(longest, topic, &partition), 0);
  CHECK_INT(strlen(topic), SDM_TOPIC_NAME_MAX);
}
