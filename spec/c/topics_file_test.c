/* sediment.topics: there and back, the entries, and text that is not to be trusted. */
#include "store/topics_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh.h"
#include "test.h"

static sdm_topic_entry entry(const char *name, uint8_t id, int32_t partitions, sdm_topic_state state) {
  sdm_topic_entry e;
  memset(&e, 0, sizeof e);
  memcpy(e.name, name, strlen(name) + 1);
  memset(e.id.bytes, id, sizeof e.id.bytes);
  e.partitions = partitions;
  e.state = state;
  return e;
}

static void configure(sdm_topic_entry *e, const char *name, const char *value) {
  sdm_setting s = { name, { SDM_VALUE_STRING, value, 0, 0 } };
  CHECK_INT(sdm_config_apply(&e->config, &(sdm_settings){ &s, 1 }, NULL), 0);
}

/* Two topics and the ghost of a third. */
static void sample(sdm_buf *out) {
  sdm_topics_file f = { 0, 0, 0 };
  sdm_topic_entry a = entry("orders", 1, 3, SDM_TOPIC_LIVE), b = entry("a.b_c-d", 2, 1, SDM_TOPIC_LIVE);
  sdm_topic_entry gone = entry("orders", 3, 2, SDM_TOPIC_DELETED);
  configure(&a, "cleanup.policy", "compact");
  configure(&a, "retention.ms", "7d");
  configure(&b, "cleanup.policy", "");
  CHECK_INT(sdm_topics_add(&f, &a), 0);
  CHECK_INT(sdm_topics_add(&f, &gone), 0);
  CHECK_INT(sdm_topics_add(&f, &b), 0);
  CHECK_INT(sdm_topics_encode(&f, out), 0);
  sdm_topics_free(&f);
}

/* Decodes `body` with the right checksum behind it: what is refused then is the body. Copied to its exact size, for the sanitizer. */
static int decode(const char *body, size_t size, sdm_topics_file *f) {
  sdm_buf b = SDM_BUF_INIT;
  CHECK_INT(sdm_buf_append(&b, body, size), 0);
  CHECK_INT(sdm_buf_printf(&b, "checksum %016llx\n", (unsigned long long)sdm_hash64(body, size)), 0);
  char *exact = malloc(b.size);
  memcpy(exact, b.data, b.size);
  int rc = sdm_topics_decode(f, exact, b.size);
  free(exact);
  sdm_buf_free(&b);
  return rc;
}

static int decode_text(const char *body) {
  sdm_topics_file f = { 0, 0, 0 };
  int rc = decode(body, strlen(body), &f);
  CHECK(rc == 0 || f.count == 0);
  sdm_topics_free(&f);
  return rc;
}

TEST(there_and_back) {
  sdm_buf out = SDM_BUF_INIT, again = SDM_BUF_INIT;
  sdm_topics_file f = { 0, 0, 0 };
  sample(&out);
  CHECK_INT(sdm_topics_decode(&f, (char *)out.data, out.size), 0);
  CHECK_INT(f.count, 3);
  sdm_topic_entry *e = sdm_topics_find(&f, "orders");
  CHECK(e && e->partitions == 3 && e->state == SDM_TOPIC_LIVE && e->id.bytes[15] == 1);
  sdm_log_config c;
  CHECK_INT(sdm_config_effective(&e->config, NULL, &c), 0);
  CHECK_INT(c.cleanup_policy, SDM_POLICY_COMPACT);
  CHECK_INT(c.retention_ms, 604800000);
  e = sdm_topics_find(&f, "a.b_c-d");
  CHECK(e && sdm_config_effective(&e->config, NULL, &c) == 0 && c.cleanup_policy == 0);
  CHECK(sdm_topics_find(&f, "order") == NULL);
  CHECK_INT(sdm_topics_encode(&f, &again), 0);
  CHECK(again.size == out.size && memcmp(again.data, out.data, out.size) == 0);
  sdm_topics_free(&f);
  sdm_buf_free(&out);
  sdm_buf_free(&again);
}

TEST(the_text_looks_as_documented) {
  sdm_buf out = SDM_BUF_INIT;
  sample(&out);
  static const char expected[] = "sediment-topics 1\ntopic orders AQEBAQEBAQEBAQEBAQEBAQ 3 live\n  cleanup.policy compact\n"
                                 "  retention.ms 604800000\ntopic orders AwMDAwMDAwMDAwMDAwMDAw 2 deleted\n"
                                 "topic a.b_c-d AgICAgICAgICAgICAgICAg 1 live\n  cleanup.policy \nchecksum ";
  CHECK_INT(out.size, sizeof expected - 1 + 17);
  CHECK(out.size > sizeof expected && memcmp(out.data, expected, sizeof expected - 1) == 0);
  sdm_buf_free(&out);
}

TEST(no_text_is_no_file) {
  sdm_topics_file f = { 0, 0, 0 };
  CHECK_INT(sdm_topics_decode(&f, "", 0), SDM_CORRUPT);
  CHECK_INT(f.count, 0);
  CHECK_INT(decode_text("sediment-topics 1\n"), 0);
}

TEST(every_truncation_is_refused) {
  sdm_buf out = SDM_BUF_INIT;
  sample(&out);
  for (size_t n = 1; n < out.size; n++) {
    sdm_topics_file f = { 0, 0, 0 };
    char *exact = malloc(n);
    memcpy(exact, out.data, n);
    CHECK_INT(sdm_topics_decode(&f, exact, n), SDM_CORRUPT);
    CHECK(strstr(sdm_errmsg(), "line ") != NULL);
    CHECK_INT(f.count, 0);
    free(exact);
  }
  sdm_buf_free(&out);
}

TEST(every_flipped_bit_is_refused) {
  sdm_buf out = SDM_BUF_INIT;
  sample(&out);
  for (size_t n = 0; n < out.size * 8; n++) {
    sdm_topics_file f = { 0, 0, 0 };
    out.data[n / 8] ^= (uint8_t)(1u << n % 8);
    CHECK_INT(sdm_topics_decode(&f, (char *)out.data, out.size), SDM_CORRUPT);
    out.data[n / 8] ^= (uint8_t)(1u << n % 8);
  }
  sdm_buf_free(&out);
}

#define HEAD "sediment-topics 1\n"
#define ID1 "AQEBAQEBAQEBAQEBAQEBAQ"
#define ID2 "AgICAgICAgICAgICAgICAg"

TEST(malformed_lines_are_refused_with_their_number) {
  static const char *const bad[] = {
    "sediment-topics 2\n", "\n", "topic a " ID1 " 1 live\n", HEAD "\n", HEAD "topics a " ID1 " 1 live\n", HEAD "topic a " ID1 " 1\n",
    HEAD "topic a " ID1 " 1 live now\n", HEAD "topic a " ID1 " 1 alive\n", HEAD "topic  a " ID1 " 1 live\n", HEAD "topic a  1 live\n",
    HEAD "topic a " ID1 " 0 live\n", HEAD "topic a " ID1 " -1 live\n", HEAD "topic a " ID1 " 01 live\n", HEAD "topic a " ID1 " 1x live\n",
    HEAD "topic a " ID1 " 9999999999 live\n", HEAD "topic a/b " ID1 " 1 live\n", HEAD "topic .. " ID1 " 1 live\n",
    HEAD "topic a AQEB 1 live\n", HEAD "topic a AAAAAAAAAAAAAAAAAAAAAA 1 live\n", HEAD "topic a AQEBAQEBAQEBAQEBAQE*AQ 1 live\n",
    HEAD "  retention.ms 5\n", HEAD "topic a " ID1 " 1 live\n  retention.ms\n", HEAD "topic a " ID1 " 1 live\n  retention.ms \n",
    HEAD "topic a " ID1 " 1 live\n  retention.ms 5 6\n", HEAD "topic a " ID1 " 1 live\n  colour red\n",
    HEAD "topic a " ID1 " 1 live\n  retention.ms 5\n  retention.ms 5\n", HEAD "topic a " ID1 " 1 live\n retention.ms 5\n",
    HEAD "topic a " ID1 " 1 live\ntopic a " ID2 " 1 live\n", HEAD "topic a " ID1 " 1 live\ntopic b " ID1 " 1 live\n",
    HEAD HEAD, HEAD "checksum 0000000000000000\n", HEAD "checksum x\n", HEAD "topic\n", HEAD "\r\n",
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CHECK_INT(decode_text(bad[i]), SDM_CORRUPT);
    CHECK(strstr(sdm_errmsg(), "sediment.topics: line ") != NULL);
  }
  CHECK_INT(decode_text(HEAD "topic a " ID1 " 1 live\n  colour red\n"), SDM_CORRUPT);
  CHECK(strstr(sdm_errmsg(), "line 3: ") != NULL);
  CHECK_INT(decode_text(HEAD "topic a " ID1 " 1 deleted\ntopic a " ID2 " 1 live\n"), 0);
}

TEST(a_nul_and_long_lines_are_refused) {
  sdm_topics_file f = { 0, 0, 0 };
  static const char nul[] = HEAD "topic a\0 " ID1 " 1 live\n";
  CHECK_INT(decode(nul, sizeof nul - 1, &f), SDM_CORRUPT);
  char text[2000];
  memset(text, 'a', sizeof text);
  memcpy(text, HEAD "topic ", sizeof HEAD + 5);
  text[sizeof text - 1] = '\n';
  CHECK_INT(decode(text, sizeof text, &f), SDM_CORRUPT);
  memcpy(text + sizeof HEAD + 5 + 250, " " ID1 " 1 live\n", 31);
  CHECK_INT(decode(text, sizeof HEAD + 5 + 250 + 31, &f), SDM_CORRUPT);
}

TEST(text_behind_the_checksum_is_refused) {
  sdm_buf out = SDM_BUF_INIT;
  sdm_topics_file f = { 0, 0, 0 };
  sample(&out);
  CHECK_INT(sdm_buf_append(&out, "\n", 1), 0);
  CHECK_INT(sdm_topics_decode(&f, (char *)out.data, out.size), SDM_CORRUPT);
  CHECK(strstr(sdm_errmsg(), "line 9: ") != NULL);
  sdm_buf_free(&out);
}

TEST(entries_come_and_go) {
  sdm_topics_file f = { 0, 0, 0 };
  for (int i = 0; i < 100; i++) {
    char name[16];
    snprintf(name, sizeof name, "t%d", i);
    sdm_topic_entry e = entry(name, (uint8_t)(i + 1), i + 1, SDM_TOPIC_LIVE);
    CHECK_INT(sdm_topics_add(&f, &e), 0);
  }
  sdm_topic_entry *e = sdm_topics_find(&f, "t50");
  sdm_topics_remove(&f, sdm_topics_find(&f, "t10"));
  CHECK_INT(f.count, 99);
  CHECK(sdm_topics_find(&f, "t10") == NULL);
  CHECK(sdm_topics_find(&f, "t50") == e && e->partitions == 51);
  e->state = SDM_TOPIC_DELETED;
  CHECK(sdm_topics_find(&f, "t50") == NULL);
  sdm_topics_free(&f);
  CHECK_INT(f.count, 0);
}

TEST(topic_names) {
  char name[SDM_TOPIC_NAME_MAX + 2];
  memset(name, 'x', sizeof name);
  name[SDM_TOPIC_NAME_MAX + 1] = '\0';
  CHECK_INT(sdm_topic_name_check(name), SDM_MISUSE);
  name[SDM_TOPIC_NAME_MAX] = '\0';
  CHECK_INT(sdm_topic_name_check(name), 0);
  static const char *const good[] = { "a", "A-1_b.c", "...", "-", "__consumer_offsets" };
  static const char *const bad[] = { "", ".", "..", "a/b", "a b", "a\n", "\xc3\xa9", "a:b" };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) CHECK_INT(sdm_topic_name_check(good[i]), 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK_INT(sdm_topic_name_check(bad[i]), SDM_MISUSE);
}
