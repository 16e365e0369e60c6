/* Making a segment's indexes from its log. The log is the truth; what the indexes said before does not matter. */
#include "base/mem.h"
#include "format/batch_records.h"
#include "log/index_builder.h"
#include "log/recover.h"
#include "log/segment_digest.h"

typedef struct indexer {
  sdm_segment *segment;
  sdm_index_builder build;
  sdm_scan_result *r;
  unsigned flags;
  sdm_buf plain;
  bool lost;                             /* damage was passed: where the next batch begins cannot be foretold */
} indexer;

static void count_records(sdm_scan_result *r, const sdm_batch *b, const uint8_t *bytes) {
  sdm_record_iter it;
  sdm_record record;
  r->records += b->count;
  if (sdm_batch_codec(b) != SDM_CODEC_NONE) {
    r->last_tombstone = SDM_UNKNOWN;       /* whoever asks for it decompresses: recovery need not, and does not depend on the codecs that are built in */
    return;
  }
  sdm_record_iter_init(&it, b, bytes + SDM_BATCH_HEADER, (size_t)b->size - SDM_BATCH_HEADER);
  while (sdm_record_next(&it, &record) == 1) {
    if (record.value_size < 0 && r->last_tombstone != SDM_UNKNOWN && !sdm_batch_is(b, SDM_ATTR_CONTROL)) r->last_tombstone = record.offset;
  }
}

/* 1: all its records can be read. 0: not, though its CRC holds. */
static int records_ok(indexer *x, const sdm_batch *b, const uint8_t *bytes) {
  sdm_record_iter it;
  sdm_record record;
  int rc = sdm_record_iter_open(&it, b, bytes, &x->plain);
  if (rc == 0) rc = 1;
  while (rc == 1) rc = sdm_record_next(&it, &record);
  return rc == 0 ? 1 : rc == SDM_CORRUPT ? 0 : rc;
}

static int take_batch(indexer *x, const sdm_batch *b, const uint8_t *bytes, int64_t position) {
  sdm_scan_result *r = x->r;
  if (position == 0) r->first_timestamp = b->max_timestamp;
  count_records(r, b, bytes);
  r->position = position + b->size;
  r->next_offset = sdm_batch_last_offset(b) + 1;
  return sdm_index_builder_add(&x->build, b, position);
}

/* Batches must lie in the segment's range and ascend; one that does not is damage as well, since no CRC covers its base offset. */
static int in_place(const indexer *x, sdm_scanner *s, const sdm_batch *b, const uint8_t **bytes) {
  if (b->base_offset < x->r->next_offset || !sdm_segment_can_hold(x->segment, b)) return 0;
  if (x->flags & SDM_REINDEX_DENSE) return x->lost ? sdm_scan_joins(s, b, bytes) : b->base_offset == x->r->next_offset;
  int rc = sdm_scan_displaced(s, b, x->r->next_offset, bytes);
  return rc < 0 ? rc : !rc;
}

static void note_damage(sdm_scan_result *r, int64_t position) {
  if (r->corrupt_batches++ == 0) r->corrupt_position = position;
}

/* 1: a batch was passed. 0: the end. SDM_CORRUPT: what stands there is none, as far as it can be told. */
static int scan_one(indexer *x, sdm_scanner *s) {
  sdm_batch b;
  const uint8_t *bytes;
  int64_t at = s->position;
  int rc = sdm_scan_batch(s, &b, &bytes);
  if (rc == 0 && s->torn) return SDM_CORRUPT;
  if (rc <= 0) return rc;
  if ((rc = in_place(x, s, &b, &bytes)) < 0) return rc;
  if (rc == 1 && (x->flags & SDM_REINDEX_RECORDS) && (rc = records_ok(x, &b, bytes)) < 0) return rc;
  if (rc == 0) {
    note_damage(x->r, at);
    x->r->position = s->position;        /* its records are whole: it is not for us to cut them */
    if (x->flags & SDM_REINDEX_DENSE) x->r->next_offset += b.last_offset_delta + 1;
    return 1;
  }
  x->lost = false;
  rc = take_batch(x, &b, bytes, at);
  return rc < 0 ? rc : 1;
}

static int scan(indexer *x, sdm_scanner *s) {
  for (;;) {
    int64_t at = s->position;
    int rc = scan_one(x, s);
    if (rc == 1) continue;
    if (rc != SDM_CORRUPT) return rc;
    s->position = at;
    if ((rc = sdm_scan_resync(s, x->r->next_offset)) <= 0) {
      x->r->doubtful = rc == 0 && s->doubtful;
      return rc;
    }
    note_damage(x->r, at);
    x->lost = true;
  }
}

static int store(sdm_segment *s, sdm_file_kind kind, const sdm_buf *b) {
  sdm_file *f;
  char *path = sdm_segment_path(s->dir, s->base_offset, kind, "");
  if (!path) return sdm_no_memory();
  int rc = s->fs->open(s->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f);
  sdm_free(path);
  if (rc < 0) return rc;
  rc = s->fs->write(f, b->data, b->size, 0);
  s->fs->close(f);
  return rc;
}

static void report(const indexer *x) {
  sdm_scan_result *r = x->r;
  r->max_timestamp = x->build.max_timestamp;
  r->max_timestamp_offset = x->build.max_timestamp_offset;
  r->indexed_timestamp = x->build.indexed_timestamp;
  r->bytes_since_index = x->build.bytes_since_index;
  r->index_entries = (int64_t)(x->build.index.size / SDM_INDEX_ENTRY);
  r->timeindex_entries = (int64_t)(x->build.timeindex.size / SDM_TIMEINDEX_ENTRY);
}

int sdm_reindex(sdm_segment *s, int64_t size, int64_t interval, unsigned flags, sdm_scan_result *out) {
  indexer x = {.segment = s, .r = out, .flags = flags};
  sdm_scanner scanner = {0};
  *out = (sdm_scan_result){.next_offset = s->base_offset, .first_timestamp = -1, .last_tombstone = -1, .corrupt_position = -1};
  sdm_index_builder_init(&x.build, s->base_offset, interval);
  int rc = sdm_segment_scan(s, &scanner, 0, size);
  if (flags & SDM_REINDEX_DIGEST) scanner.digest = NULL;
  if (rc == 0) rc = scan(&x, &scanner);
  if (rc == 0 && (flags & SDM_REINDEX_FINAL)) rc = sdm_index_builder_finish(&x.build);
  if (rc == 0) rc = store(s, SDM_FILE_INDEX, &x.build.index);
  if (rc == 0) rc = store(s, SDM_FILE_TIMEINDEX, &x.build.timeindex);
  if (rc == 0 && (flags & SDM_REINDEX_DIGEST) && out->corrupt_batches == 0 && !out->doubtful) rc = sdm_segment_digest_write(s, &x.build.digest);
  report(&x);
  out->unsure = scanner.unsure;
  sdm_scanner_free(&scanner);
  sdm_index_builder_free(&x.build);
  sdm_buf_free(&x.plain);
  return rc;
}

/* The glance needs the first and the last entry only: an index of any size costs two small reads. */
static bool sound(sdm_segment *s, sdm_file_kind kind, int64_t entry, int64_t size, int64_t next_base, int64_t *entries) {
  sdm_file *f;
  sdm_file_info info;
  uint8_t ends[2 * SDM_TIMEINDEX_ENTRY];
  size_t got, have = 0;
  if (sdm_segment_file(s, kind, &f) < 0 || s->fs->info(f, &info) < 0 || info.size % entry != 0) return false;
  *entries = info.size / entry;
  for (int64_t i = 0; i < *entries; i += *entries > 1 ? *entries - 1 : 1) {
    if (s->fs->read(f, ends + have, (size_t)entry, i * entry, &got) < 0 || got < (size_t)entry) return false;
    have += got;
  }
  if (kind == SDM_FILE_INDEX) return sdm_index_check(ends, have, s->base_offset, next_base, size) == 0;
  return sdm_timeindex_check(ends, have, s->base_offset, next_base) == 0;
}

/* Empty indexes are sound by themselves; a closed log with timestamps, or with much behind its first batch, has entries, though. */
static bool may_be_empty(sdm_segment *s, int64_t size, int64_t index_entries, int64_t time_entries) {
  enum { SURELY_INDEXED = 1 << 20 };
  sdm_scanner scan = {0};
  sdm_file *f;
  sdm_batch b;
  if (size == 0 || (index_entries > 0 && time_entries > 0)) return true;
  if (sdm_segment_file(s, SDM_FILE_LOG, &f) < 0) return true;
  sdm_scanner_start(&scan, f, 0, size);
  int rc = sdm_scan_header(&scan, &b);
  sdm_scanner_free(&scan);
  if (rc != 1) return true;
  return (time_entries > 0 || b.max_timestamp < 0) && (index_entries > 0 || size - b.size < SURELY_INDEXED);
}

bool sdm_indexes_sound(sdm_segment *s, int64_t size, int64_t next_base, bool closed) {
  int64_t entries, times;
  bool ok = sound(s, SDM_FILE_INDEX, SDM_INDEX_ENTRY, size, next_base, &entries) &&
            sound(s, SDM_FILE_TIMEINDEX, SDM_TIMEINDEX_ENTRY, size, next_base, &times) && (!closed || may_be_empty(s, size, entries, times));
  sdm_segment_close_files(s);
  return ok;
}
