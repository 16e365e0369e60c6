/* Writes seeds for the fuzzers.
**
**   fuzz-seeds CORPUS NAME ROOT PARTITION      from a partition's folder, and the checkpoints of ROOT beside it
**   fuzz-seeds CORPUS                          from stores of our own
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/batch.h"
#include "format/batch_records.h"
#include "format/snapshot.h"
#include "fuzz/fuzz.h"
#include "log/log.h"
#include "store/store.h"

enum { LOG_BYTES = 3000, OTHER_BYTES = 600, BATCHES = 8, BATCH_BYTES = 1200 };       /* at most of each: a fuzzer is quick with small inputs */

static const char *corpus;
static bool for_store;                    /* the seed: then its partition belongs to a topic of the target's, with another id than Kafka's */

static void save(const char *target, const char *name, int number, const sdm_buf *b) {
  char path[300];
  snprintf(path, sizeof path, "%s/%s/%s-%d", corpus, target, name, number);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(b->data, 1, b->size, f) != b->size || fclose(f) != 0) abort();
}

static void must(int rc) {
  if (rc >= 0) return;
  fprintf(stderr, "fuzz-seeds: %s\n", sdm_errmsg());
  abort();
}

/* ---- batches ---- */

static int batches, codecs;

/* As it is, and to be compressed and changed, as the target has it. */
static void save_compressed(const char *name, sdm_codec c, const uint8_t *packed, size_t packed_size, const uint8_t *plain, size_t size) {
  static const uint8_t changes[12] = {0, 9, 1, 0, 20, 16};
  sdm_buf out = SDM_BUF_INIT;
  uint8_t first = (uint8_t)(c - SDM_CODEC_GZIP);
  must(sdm_buf_append(&out, &first, 1));
  must(sdm_buf_append(&out, packed, packed_size));
  save("codecs", name, codecs++, &out);
  out.size = 0;
  first = (uint8_t)(first + 4 * 2);
  must(sdm_buf_append(&out, &first, 1));
  must(sdm_buf_append(&out, plain, size));
  must(sdm_buf_append(&out, changes, sizeof changes));
  save("codecs", name, codecs++, &out);
  sdm_buf_free(&out);
}

static void save_batch(const char *name, const uint8_t *p, const sdm_batch *b) {
  sdm_buf out = SDM_BUF_INIT, scratch = SDM_BUF_INIT;
  const uint8_t *records;
  size_t size;
  uint8_t way = 1;
  must(sdm_buf_append(&out, &way, 1));
  must(sdm_buf_append(&out, p, (size_t)b->size));
  save("batch", name, batches++, &out);
  if (sdm_batch_codec(b) != SDM_CODEC_NONE && sdm_batch_records(p, b, BATCH_BYTES, &scratch, &records, &size) == 0) {
    save_compressed(name, sdm_batch_codec(b), p + SDM_BATCH_HEADER, (size_t)b->size - SDM_BATCH_HEADER, records, size);
    out.data[0] = 2;
    out.size = 1 + SDM_BATCH_HEADER;
    must(sdm_buf_append(&out, records, size));
    save("batch", name, batches++, &out);
  }
  sdm_buf_free(&out);
  sdm_buf_free(&scratch);
}

/* Saves the first ones, and returns where the last whole batch within the bytes of a seed ends. */
static size_t take_batches(const char *name, const uint8_t *p, size_t size) {
  sdm_batch b;
  size_t at = 0, kept = 0;
  for (int i = 0; sdm_batch_decode(p + at, size - at, &b) == 0 && at + (size_t)b.size <= size; i++) {
    if (i < BATCHES && b.size <= BATCH_BYTES) save_batch(name, p + at, &b);
    at += (size_t)b.size;
    if (at <= LOG_BYTES) kept = at;
  }
  return kept;
}

/* ---- files ---- */

static int files;

static void save_file(const char *name, const fuzz_file *f) {
  static const uint8_t base_and_target[16] = {[15] = 9};
  sdm_buf out = SDM_BUF_INIT;
  uint8_t kind = (uint8_t)((unsigned)f->kind | 128);
  must(sdm_buf_append(&out, &kind, 1));
  if (f->kind == FUZZ_INDEX || f->kind == FUZZ_TIMEINDEX) must(sdm_buf_append(&out, base_and_target, sizeof base_and_target));
  must(sdm_buf_append(&out, f->bytes, f->size));
  save("files", name, files++, &out);
  sdm_buf_free(&out);
}

static void take_file(const char *seed, sdm_fs *fs, const char *dir, const char *name, unsigned folder, sdm_buf *out) {
  fuzz_file f = {.folder = folder, .mend = true};
  char *path = sdm_format("%s/%s", dir, name), *bytes;
  sdm_buf page = SDM_BUF_INIT;
  if (!fuzz_name_of(name, &f.kind, &f.base) || (for_store && f.kind == FUZZ_METADATA)) goto out;
  must(sdm_fs_read_all(fs, path, 1 << 28, &bytes, &f.size));
  f.bytes = (uint8_t *)bytes;
  if (f.kind == FUZZ_LOG) f.size = take_batches(seed, f.bytes, f.size);
  if (f.kind == FUZZ_CONTROL && f.size > 4096) {
    fuzz_pack_page(&page, f.bytes, f.size);
    f.bytes = page.data;
    f.size = page.size;
  } else if (f.kind != FUZZ_LOG) {
    if (f.size > OTHER_BYTES && f.kind != FUZZ_STATE) f.size = OTHER_BYTES;
    if (f.kind != FUZZ_CONTROL) save_file(seed, &f);
  }
  fuzz_pack_file(out, &f);
  sdm_buf_free(&page);
  sdm_free(bytes);
out:
  sdm_free(path);
}

static void take_folder(const char *seed, sdm_fs *fs, const char *dir, unsigned folder, sdm_buf *out) {
  sdm_names names = {0};
  must(fs->list(fs, dir, &names));
  for (size_t i = 0; i < names.count; i++) take_file(seed, fs, dir, names.items[i], folder, out);
  sdm_names_clear(&names);
}

static void of_kafka(const char *name, const char *root, const char *partition) {
  sdm_buf out = SDM_BUF_INIT;
  take_folder(name, sdm_fs_posix(), partition, 0, &out);
  take_folder(name, sdm_fs_posix(), root, 0, &out);
  save("partition", name, 0, &out);
  save("import", name, 0, &out);
  out.size = 0;
  for_store = true;
  batches = files = codecs = 0;                     /* the same ones again */
  take_folder(name, sdm_fs_posix(), partition, 0, &out);
  take_folder(name, sdm_fs_posix(), root, 0, &out);
  save("store", name, 0, &out);
  sdm_buf_free(&out);
}

/* ---- our own ---- */

#define NOW 1600000000000

static void fill(sdm_store *s, const char *codec) {
  sdm_setting items[] = {{"cleanup.policy", {.type = SDM_VALUE_STRING, .string = "compact"}}, {"segment.bytes", {.type = SDM_VALUE_INT, .integer = 400}},
                         {"partitions", {.type = SDM_VALUE_INT, .integer = 2}}, {"index.interval.bytes", {.type = SDM_VALUE_INT, .integer = 100}},
                         {"compression.type", {.type = SDM_VALUE_STRING, .string = codec}}};
  sdm_topic *t;
  sdm_log *l;
  must(sdm_topic_open(s, "a", &(sdm_settings){items, 5}, NOW, &t));
  for (int i = 0; i < 24; i++) {
    char value[40];
    int size = snprintf(value, sizeof value, "value %d of a record, a record", i), where;
    sdm_record r = {.key = i % 3 ? "k" : "j", .key_size = 1, .value = i % 7 ? value : NULL, .value_size = i % 7 ? size : -1, .timestamp = NOW + i};
    int64_t ignored;
    must(sdm_topic_append(t, &r, i % 5 == 0, 0, NOW + i, &ignored, &where));
    if (i % 4 == 0) must(sdm_topic_log(t, 0, NOW, &l)), must(sdm_log_roll(l, NOW, &ignored));
  }
  sdm_topic_release(t);
}

/* A swap that was begun: the first segment stands beside itself as what a cleaning made of it, and a note tells of the range. */
static void begin_swap(sim_disk *d, sdm_buf *out) {
  static const char note[] = "sediment-swap 1\n0 9\n";
  char *bytes;
  fuzz_file fresh = {.kind = FUZZ_LOG_SWAP, .mend = true}, text = {.kind = FUZZ_SWAP, .mend = true, .bytes = (const uint8_t *)note, .size = sizeof note - 1};
  must(sdm_fs_read_all(sim_fs(d), SIM_ROOT "/a-0/00000000000000000000.log", 1 << 20, &bytes, &fresh.size));
  fresh.bytes = (uint8_t *)bytes;
  fuzz_pack_file(out, &fresh);
  fuzz_pack_file(out, &text);
  sdm_free(bytes);
}

static void of_ours(int number, const char *codec, bool closed) {
  sim_disk *d = sim_new();
  sdm_store *s;
  sdm_setting items[] = {{"log.cleaner.dedupe.buffer.size", {.type = SDM_VALUE_INT, .integer = 1 << 20}}};
  sdm_store_options o = {.create = true, .options = {items, 1}};
  sdm_buf out = SDM_BUF_INIT, alone = SDM_BUF_INIT;
  must(sdm_store_open_on(sim_fs(d), SIM_ROOT, &o, NOW, &s));
  fill(s, codec);
  if (closed) must(sdm_store_close_on(s, NOW + 9000));
  take_folder("ours", sim_fs(d), SIM_ROOT, 0, &out);
  take_folder("ours", sim_fs(d), SIM_ROOT "/a-0", 0, &alone);
  if (number == 3) begin_swap(d, &alone);
  save("partition", "ours", number, &alone);
  if (!closed) save("control", "ours", number, &alone);
  else save("import", "ours", number, &alone);
  must(sdm_buf_append(&out, alone.data, alone.size));
  take_folder("ours", sim_fs(d), SIM_ROOT "/a-1", 1, &out);
  save("store", "ours", number, &out);
  if (!closed) sdm_store_unref(s);
  sim_free(d);
  sdm_buf_free(&out);
  sdm_buf_free(&alone);
}

/* What is in a name is a kind of file without bytes. */
static void save_name(const char *name) {
  sdm_buf out = SDM_BUF_INIT;
  uint8_t kind = FUZZ_SNAPSHOT;
  must(sdm_buf_append(&out, &kind, 1));
  must(sdm_buf_append(&out, name, strlen(name)));
  save("files", "name", 0, &out);
  sdm_buf_free(&out);
}

/* Two entries: one has a table with all that there is, the other a text. */
static void save_table(void) {
  sdm_buf out = SDM_BUF_INIT;
  sdm_snapshot_head head = {.topic_id = {{1}}, .schema = "plain 1", .schema_size = 7, .partitions = 2, .count = 2};
  const sdm_snapshot_place places[] = {{7, 7, 0}, {-1, -1, -1}};
  uint8_t kind = FUZZ_TABLE;
  must(sdm_buf_append(&out, &kind, 1));
  must(sdm_snapshot_head_encode(&head, places, &out));
  must(sdm_snapshot_entry_begin(&out, 1, "key", 3));
  must(sdm_saved_put(&out, SDM_SAVED_TABLE));
  must(sdm_saved_put_whole(&out, INT64_MAX));
  must(sdm_saved_put(&out, SDM_SAVED_TRUE));
  must(sdm_saved_put(&out, SDM_SAVED_END));
  must(sdm_saved_put_double(&out, 0.5));
  must(sdm_saved_put(&out, SDM_SAVED_FALSE));
  must(sdm_saved_put(&out, SDM_SAVED_END));
  must(sdm_snapshot_entry_begin(&out, 0, "", 0));
  must(sdm_saved_put_string(&out, "value", 5));
  save("files", "table", 0, &out);
  sdm_buf_free(&out);
}

static void settings(void) {
  static const char *const all[] = {"retention.ms 7d", "segment.bytes 1GiB", "cleanup.policy compact,delete", "min.cleanable.dirty.ratio 0.5",
                                    "compression.type zstd", "preallocate true", "linger.ms 5", "segment.bytes 1MiB\nretention.bytes -1\nretention.ms 30s"};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sdm_buf out = SDM_BUF_INIT;
    must(sdm_buf_append(&out, all[i], strlen(all[i])));
    save("config", "setting", (int)i, &out);
    sdm_buf_free(&out);
  }
  save_name("00000000000000000042.snapshot");
  save_table();
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 5) return fprintf(stderr, "usage: fuzz-seeds CORPUS [NAME ROOT PARTITION]\n"), 2;
  corpus = argv[1];
  if (argc == 5) {
    of_kafka(argv[2], argv[3], argv[4]);
  } else {
    of_ours(0, "producer", true);
    of_ours(1, "producer", false);
    of_ours(2, "lz4", false);
    of_ours(3, "producer", true);
    settings();
  }
  return 0;
}
