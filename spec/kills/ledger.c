#include "kills/ledger.h"

#include <stdio.h>
#include <string.h>

#define TEST_HELPER
#include "c/test.h"

ledger *the_ledger;
const char *const topic_names[TOPICS] = {"kept", "compacted", "trimmed"};

/* Bits of which the parts of a record are made, each from some of its own. */
static uint64_t bits(int topic, uint32_t author, uint32_t number) {
  test_random r = {the_ledger->salt ^ (uint64_t)topic << 40 ^ (uint64_t)author << 32 ^ number};
  return test_random_next(&r);
}

int ledger_key(int topic, uint32_t author, uint32_t number) { return (int)(bits(topic, author, number) % KEYS); }

bool ledger_is_tombstone(int topic, uint32_t author, uint32_t number) {
  return topic == TOPIC_COMPACTED && (bits(topic, author, number) >> 20) % 6 == 0;
}

uint32_t ledger_batch(int topic, uint32_t author, uint32_t number) {
  uint64_t b = bits(topic, author, number) >> 32;
  return b % 8 == 0 ? 2 + (uint32_t)(b >> 8) % (BATCH_MAX - 1) : 1;
}

static void fill(uint8_t *out, size_t size, uint64_t seed) {
  test_random r = {seed};
  for (size_t i = 0; i < size; i += 8) {
    uint64_t word = test_random_next(&r);
    memcpy(out + i, &word, size - i < 8 ? size - i : 8);
  }
}

/* One header, "id", in Kafka's encoding: its value is the author and the number. */
static void put_id(ledger_record *out, uint32_t author, uint32_t number) {
  memcpy(out->headers, "\x04id\x10", 4);
  memcpy(out->headers + 4, &author, 4);
  memcpy(out->headers + 8, &number, 4);
}

void ledger_make(int topic, uint32_t author, uint32_t number, ledger_record *out) {
  uint64_t b = bits(topic, author, number);
  size_t size = (b >> 24) % 128 == 0 ? VALUE_MAX : (size_t)(b >> 8) % 90;
  put_id(out, author, number);
  snprintf(out->key, sizeof out->key, "key%d", ledger_key(topic, author, number));
  fill(out->value, size, b);
  bool tombstone = ledger_is_tombstone(topic, author, number);
  out->record = (sdm_record){.key = out->key, .key_size = (int32_t)strlen(out->key), .value = tombstone ? NULL : out->value,
                             .value_size = tombstone ? -1 : (int32_t)size, .headers = out->headers, .headers_size = 12, .header_count = 1};
}

bool ledger_read_id(const sdm_record *r, uint32_t *author, uint32_t *number) {
  if (r->header_count != 1 || r->headers_size != 12 || memcmp(r->headers, "\x04id\x10", 4) != 0) return false;
  memcpy(author, r->headers + 4, 4);
  memcpy(number, r->headers + 8, 4);
  return true;
}

bool ledger_same(const sdm_record *r, int topic, uint32_t author, uint32_t number) {
  ledger_record expected;
  ledger_make(topic, author, number, &expected);
  const sdm_record *e = &expected.record;
  return r->key_size == e->key_size && memcmp(r->key, e->key, (size_t)e->key_size) == 0 && r->value_size == e->value_size &&
         (e->value_size <= 0 || memcmp(r->value, e->value, (size_t)e->value_size) == 0);
}

uint32_t ledger_begin(int topic, uint32_t author, uint32_t count) {
  ledger_row *row = &the_ledger->topics[topic].rows[author];
  uint32_t number = atomic_load(&row->begun);
  if (number + count > RECORDS_MAX) wrong("the ledger is full");
  for (uint32_t i = 0; i < count; i++) row->entries[number + i].first = number;
  atomic_store(&row->begun, number + count);
  return number;
}

void ledger_acknowledge(int topic, uint32_t author, uint32_t number, uint32_t count, int64_t first_offset) {
  ledger_topic *t = &the_ledger->topics[topic];
  for (uint32_t i = 0; i < count; i++) atomic_store(&t->rows[author].entries[number + i].told, first_offset + i + 1);
  raise_to(&t->end, first_offset + count);
  uint64_t before = atomic_fetch_add(&the_ledger->acknowledged, count);
  if (before / PULSE == (before + count) / PULSE) return;
  atomic_fetch_add(&the_ledger->pulse, 1);
  futex_wake(&the_ledger->pulse);
}
