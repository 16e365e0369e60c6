/* Making a segment's indexes from its log. The log is the truth; what the indexes said before does not matter. */
#include "base/mem.h"
#include "log/index_builder.h"
#include "log/recover.h"
#include "log/segment_digest.h"
#include "log/walk.h"

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

static int scan(sdm_walk *w, sdm_index_builder *build, sdm_scan_result *r) {
  sdm_batch b;
  const uint8_t *bytes;
  int rc;
  while ((rc = sdm_walk_next(w, &b, &bytes)) > 0) {
    if (rc == SDM_WALK_DAMAGE) {
      if (r->corrupt_batches++ == 0) r->corrupt_position = w->at;
      continue;
    }
    if (w->at == 0) r->first_timestamp = b.max_timestamp;
    count_records(r, &b, bytes);
    if ((rc = sdm_index_builder_add(build, &b, w->at)) < 0) return rc;
  }
  return rc;
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

static void report(const sdm_walk *w, const sdm_index_builder *build, sdm_scan_result *r) {
  r->position = w->position;
  r->next_offset = w->next_offset;
  r->doubtful = w->doubtful;
  r->unsure = w->scan.unsure;
  r->max_timestamp = build->max_timestamp;
  r->max_timestamp_offset = build->max_timestamp_offset;
  r->indexed_timestamp = build->indexed_timestamp;
  r->bytes_since_index = build->bytes_since_index;
  r->index_entries = (int64_t)(build->index.size / SDM_INDEX_ENTRY);
  r->timeindex_entries = (int64_t)(build->timeindex.size / SDM_TIMEINDEX_ENTRY);
}

int sdm_reindex(sdm_segment *s, int64_t size, int64_t interval, unsigned flags, sdm_scan_result *out) {
  sdm_walk walk;
  sdm_index_builder build;
  *out = (sdm_scan_result){.first_timestamp = -1, .last_tombstone = -1, .corrupt_position = -1};
  sdm_index_builder_init(&build, s->base_offset, interval);
  int rc = sdm_walk_open(&walk, s, size, flags & (SDM_WALK_DENSE | SDM_WALK_RECORDS));
  if (flags & SDM_REINDEX_DIGEST) walk.scan.digest = NULL;
  if (rc == 0) rc = scan(&walk, &build, out);
  if (rc == 0 && (flags & SDM_REINDEX_FINAL)) rc = sdm_index_builder_finish(&build);
  if (rc == 0) rc = store(s, SDM_FILE_INDEX, &build.index);
  if (rc == 0) rc = store(s, SDM_FILE_TIMEINDEX, &build.timeindex);
  report(&walk, &build, out);
  if (rc == 0 && (flags & SDM_REINDEX_DIGEST) && out->corrupt_batches == 0 && !out->doubtful) rc = sdm_segment_digest_write(s, &build.digest);
  sdm_walk_close(&walk);
  sdm_index_builder_free(&build);
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
  sdm_scanner scan = {0};
  sdm_file *f;
  sdm_batch b;
  if (size == 0 || (index_entries > 0 && time_entries > 0)) return true;
  if (sdm_segment_file(s, SDM_FILE_LOG, &f) < 0) return true;
  sdm_scanner_start(&scan, f, 0, size);
  int rc = sdm_scan_header(&scan, &b);
  sdm_scanner_free(&scan);
  if (rc != 1) return true;
  return (time_entries > 0 || b.max_timestamp < 0) && (index_entries > 0 || size - b.size < SDM_SURELY_INDEXED);
}

bool sdm_indexes_sound(sdm_segment *s, int64_t size, int64_t next_base, bool closed) {
  int64_t entries, times;
  bool ok = sound(s, SDM_FILE_INDEX, SDM_INDEX_ENTRY, size, next_base, &entries) &&
            sound(s, SDM_FILE_TIMEINDEX, SDM_TIMEINDEX_ENTRY, size, next_base, &times) && (!closed || may_be_empty(s, size, entries, times));
  sdm_segment_close_files(s);
  return ok;
}
