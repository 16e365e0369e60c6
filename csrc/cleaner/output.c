#include "cleaner/output.h"

#include "base/mem.h"

enum { WRITE_BYTES = 1 << 20 };

static int open_file(sdm_output *o, sdm_file_kind kind, sdm_file **out) {
  char *path = sdm_segment_path(o->log->dir, o->base_offset, kind, SDM_CLEANED);
  int rc = path ? o->log->fs->open(o->log->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, out) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

int sdm_output_open(sdm_output *o, sdm_log *l, int64_t base_offset, const sdm_log_config *cfg) {
  o->log = l;
  o->base_offset = base_offset;
  o->written = o->size = o->records = 0;
  o->file = NULL;
  sdm_buf_clear(&o->pending);
  sdm_buf_clear(&o->aborted);
  sdm_index_builder_free(&o->indexes);
  sdm_index_builder_init(&o->indexes, base_offset, cfg->index_interval_bytes);
  return open_file(o, SDM_FILE_LOG, &o->file);
}

static int write_out(sdm_output *o) {
  int rc = o->pending.size ? o->log->fs->write(o->file, o->pending.data, o->pending.size, o->written) : 0;
  if (rc < 0) return rc;
  o->written += (int64_t)o->pending.size;
  sdm_buf_clear(&o->pending);
  return 0;
}

int sdm_output_added(sdm_output *o, const sdm_batch *b) {
  int rc = sdm_index_builder_add(&o->indexes, b, o->size);
  o->size += b->size;
  o->records += b->count;
  return rc == 0 && o->pending.size >= WRITE_BYTES ? write_out(o) : rc;
}

int sdm_output_add(sdm_output *o, const uint8_t *bytes, const sdm_batch *b) {
  int rc = sdm_buf_append(&o->pending, bytes, (size_t)b->size);
  return rc < 0 ? rc : sdm_output_added(o, b);
}

int sdm_output_add_aborted(sdm_output *o, const sdm_txnindex_entry *e) {
  int rc = sdm_buf_reserve(&o->aborted, SDM_TXNINDEX_ENTRY);
  if (rc < 0) return rc;
  sdm_txnindex_encode(o->aborted.data + o->aborted.size, e);
  o->aborted.size += SDM_TXNINDEX_ENTRY;
  return 0;
}

static int write_index(sdm_output *o, sdm_file_kind kind, const sdm_buf *bytes) {
  sdm_file *f;
  int rc = open_file(o, kind, &f);
  if (rc < 0) return rc;
  rc = o->log->fs->write(f, bytes->data, bytes->size, 0);
  if (rc == 0) rc = o->log->fs->sync(f);
  o->log->fs->close(f);
  return rc;
}

static int write_digest(sdm_output *o) {
  sdm_buf bytes = SDM_BUF_INIT;
  sdm_file_info info;
  if (o->size == 0) return 0;
  int rc = o->log->fs->info(o->file, &info);
  if (rc == 0) rc = sdm_digest_encode(&o->indexes.digest, info.inode, &bytes);
  if (rc == 0) rc = write_index(o, SDM_FILE_DIGEST, &bytes);
  sdm_buf_free(&bytes);
  return rc;
}

static void close_log(sdm_output *o) {
  if (o->file) o->log->fs->close(o->file);
  o->file = NULL;
}

int sdm_output_finish(sdm_output *o, int64_t modified_ms) {
  int rc = write_out(o);
  if (rc == 0) rc = sdm_index_builder_finish(&o->indexes);
  if (rc == 0) rc = write_index(o, SDM_FILE_INDEX, &o->indexes.index);
  if (rc == 0) rc = write_index(o, SDM_FILE_TIMEINDEX, &o->indexes.timeindex);
  if (rc == 0 && o->aborted.size > 0) rc = write_index(o, SDM_FILE_TXNINDEX, &o->aborted);
  if (rc == 0) rc = write_digest(o);
  if (rc == 0) rc = o->log->fs->set_modified(o->file, modified_ms);
  if (rc == 0) rc = o->log->fs->sync(o->file);
  close_log(o);
  return rc;
}

void sdm_output_discard(sdm_output *o) {
  close_log(o);
  if (o->log) sdm_segment_unlink(o->log->fs, o->log->dir, o->base_offset, SDM_CLEANED);
}

void sdm_output_free(sdm_output *o) {
  close_log(o);
  sdm_buf_free(&o->pending);
  sdm_buf_free(&o->aborted);
  sdm_index_builder_free(&o->indexes);
}
