/* The small files, each by its decoder alone. The first byte is a fuzz_kind, with 128: its checksum is put right first. What was decoded is
** written and decoded again where there is a writer.
*/
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "format/checkpoint.h"
#include "format/digest.h"
#include "format/epochs.h"
#include "format/index.h"
#include "format/snapshot.h"
#include "format/state_file.h"
#include "format/txn_index.h"
#include "fuzz/fuzz.h"
#include "log/producer_snapshot.h"
#include "store/topics_file.h"

static void checkpoint(const char *text, size_t size) {
  sdm_checkpoint c = {0}, again = {0};
  sdm_buf out = SDM_BUF_INIT;
  if (sdm_checkpoint_decode(&c, text, size) == 0) {
    for (size_t i = 0; i < c.count && i < 10; i++) MUST(sdm_checkpoint_find(&c, c.entries[i].topic, c.entries[i].partition) != NULL);
    MUST(sdm_checkpoint_encode(&c, &out) >= 0 && sdm_checkpoint_decode(&again, (char *)out.data, out.size) == 0 && again.count == c.count);
  }
  sdm_checkpoint_free(&c);
  sdm_checkpoint_free(&again);
  sdm_buf_free(&out);
}

static void epochs(const char *text, size_t size) {
  sdm_epochs e = {0}, again = {0};
  sdm_buf out = SDM_BUF_INIT;
  if (sdm_epochs_decode(&e, text, size) == 0) {
    for (size_t i = 1; i < e.count; i++) MUST(e.entries[i].epoch > e.entries[i - 1].epoch && e.entries[i].start_offset >= e.entries[i - 1].start_offset);
    MUST(sdm_epochs_encode(&e, &out) >= 0 && sdm_buf_append(&out, "", 1) == 0);
    MUST(sdm_epochs_decode(&again, (char *)out.data, out.size - 1) == 0 && again.count == e.count);
  }
  sdm_epochs_free(&e);
  sdm_epochs_free(&again);
  sdm_buf_free(&out);
}

static void metadata(const char *text, size_t size) {
  sdm_uuid id, again;
  sdm_buf out = SDM_BUF_INIT;
  if (sdm_metadata_decode(&id, text, size) < 0) return;
  MUST(sdm_metadata_encode(&out, &id) >= 0 && sdm_metadata_decode(&again, (char *)out.data, out.size) == 0 && memcmp(&id, &again, sizeof id) == 0);
  sdm_buf_free(&out);
}

static void topics(const char *text, size_t size) {
  sdm_topics_file f = {0}, again = {0};
  sdm_buf out = SDM_BUF_INIT, twice = SDM_BUF_INIT;
  sdm_log_config effective;
  if (sdm_topics_decode(&f, text, size) == 0) {
    for (size_t i = 0; i < f.count; i++) (void)sdm_config_effective(&f.entries[i]->config, &(sdm_config_set){0}, &effective);
    MUST(sdm_topics_encode(&f, &out) >= 0 && sdm_topics_decode(&again, (char *)out.data, out.size) == 0);
    MUST(sdm_topics_encode(&again, &twice) >= 0 && twice.size == out.size && memcmp(twice.data, out.data, out.size) == 0);
  }
  sdm_topics_free(&f);
  sdm_topics_free(&again);
  sdm_buf_free(&out);
  sdm_buf_free(&twice);
}

static void state(const uint8_t *p, size_t size) {
  sdm_state_file s, again;
  uint8_t slots[SDM_STATE_BYTES] = {0};
  if (!sdm_state_decode(p, size, &s) || s.sequence == 0) return;
  sdm_state_encode(&s, slots + s.sequence % 2 * SDM_STATE_SLOT);
  MUST(sdm_state_decode(slots, sizeof slots, &again) && again.sequence == s.sequence && again.end == s.end && again.foreign_end == s.foreign_end);
}

static void digest(const uint8_t *p, size_t size) {
  sdm_digest d;
  memset(&d, 0, sizeof d);
  if (sdm_digest_decode(&d, p, size) < 0) return;
  sdm_free(d.entries);
}

/* Base and target of the search come first. */
static void offset_index(const uint8_t *p, size_t size) {
  sdm_index_entry e;
  if (size < 16) return;
  int64_t base = (int64_t)(sdm_get64(p) & INT64_MAX >> 1), target = (int64_t)sdm_get64(p + 8);
  p += 16, size -= 16;
  size_t count = size / SDM_INDEX_ENTRY;
  (void)sdm_index_check(p, size, base, INT64_MAX, INT64_MAX);
  ptrdiff_t at = sdm_index_floor(p, count, base, target);
  MUST(at >= -1 && (at < 0 || (size_t)at < count));
  if (at < 0) return;
  sdm_index_decode(p + at * SDM_INDEX_ENTRY, base, &e);
  MUST(e.offset <= target);
}

static void time_index(const uint8_t *p, size_t size) {
  sdm_timeindex_entry e;
  if (size < 16) return;
  int64_t base = (int64_t)(sdm_get64(p) & INT64_MAX >> 1), target = (int64_t)sdm_get64(p + 8);
  p += 16, size -= 16;
  size_t count = size / SDM_TIMEINDEX_ENTRY;
  (void)sdm_timeindex_check(p, size, base, INT64_MAX);
  ptrdiff_t at = sdm_timeindex_floor(p, count, target);
  MUST(at >= -1 && (at < 0 || (size_t)at < count));
  if (at < 0) return;
  sdm_timeindex_decode(p + at * SDM_TIMEINDEX_ENTRY, base, &e);
  MUST(e.timestamp <= target);
}

static void txn_index(const uint8_t *p, size_t size) {
  sdm_txnindex_entry e;
  uint8_t again[SDM_TXNINDEX_ENTRY];
  for (; size >= SDM_TXNINDEX_ENTRY; p += SDM_TXNINDEX_ENTRY, size -= SDM_TXNINDEX_ENTRY) {
    if (!sdm_txnindex_decode(p, &e)) continue;
    sdm_txnindex_encode(again, &e);
    MUST(memcmp(p, again, sizeof again) == 0);
  }
}

/* The head and the entries of a table's snapshot: what an entry is does not depend on what is behind it. */
static void table(const uint8_t *p, size_t size) {
  sdm_snapshot_head h;
  sdm_snapshot_entry e, again;
  const uint8_t *end = p + size;
  if (sdm_snapshot_head_decode(p, size, &h) < 0) return;
  for (uint32_t i = 0; i < h.partitions && i < 10; i++) (void)sdm_snapshot_place_at(&h, i);
  for (p += h.size; sdm_snapshot_entry_decode(p, end, &e); p += e.size) {
    MUST(e.at == p && e.size > 0 && e.key >= p && e.key_size >= 0 && e.key + e.key_size == e.value && e.value < p + e.size);
    MUST(sdm_snapshot_entry_decode(p, p + e.size, &again) && again.size == e.size);
    MUST(!sdm_snapshot_entry_decode(p, p + e.size - 1, &again));
  }
}

/* A snapshot's bytes are written only, a broker reads them; of those that are there the name is read. */
static void names(const char *text) {
  char topic[SDM_TOPIC_NAME_MAX + 1];
  int64_t offset;
  int32_t partition;
  if (sdm_snapshot_name_decode(text, &offset)) MUST(offset >= 0);
  if (sdm_partition_name_decode(text, topic, &partition) == 0) MUST(partition >= 0 && strlen(topic) < strlen(text));
}

static void decode(unsigned kind, sdm_buf *b) {
  char *text = (char *)b->data;            /* a NUL follows */
  switch (kind) {
    case FUZZ_LOG_START: case FUZZ_RECOVERY_POINT: case FUZZ_CLEANER_POINT: checkpoint(text, b->size); break;
    case FUZZ_EPOCHS: epochs(text, b->size); break;
    case FUZZ_METADATA: metadata(text, b->size); break;
    case FUZZ_TOPICS: topics(text, b->size); break;
    case FUZZ_STATE: state(b->data, b->size); break;
    case FUZZ_DIGEST: digest(b->data, b->size); break;
    case FUZZ_INDEX: offset_index(b->data, b->size); break;
    case FUZZ_TIMEINDEX: time_index(b->data, b->size); break;
    case FUZZ_TXNINDEX: txn_index(b->data, b->size); break;
    case FUZZ_SNAPSHOT: names(text); break;
    case FUZZ_TABLE: table(b->data, b->size); break;
    default: break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sdm_buf b = SDM_BUF_INIT;
  if (size == 0) return 0;
  if (sdm_buf_reserve(&b, size + 64) < 0 || sdm_buf_append(&b, data + 1, size - 1) < 0) abort();
  if (data[0] >> 7) fuzz_mend((fuzz_kind)(data[0] & 31), &b);
  sdm_buf exact = {malloc(b.size + 1), b.size, b.size + 1};         /* so that a read behind the NUL is seen */
  if (!exact.data) abort();
  memcpy(exact.data, b.data, b.size);
  exact.data[b.size] = 0;
  decode(data[0] & 31, &exact);
  free(exact.data);
  sdm_buf_free(&b);
  return 0;
}
