#include "log/segment_digest.h"

#include <string.h>

#include "base/mem.h"

enum { LIMIT = 64 << 20 };

/* Under s->lock. The digest under the segment's name, if it is of the file that the segment is: names change hands in a swap, the .log's first, so a .log
** that still bears its name had not been replaced when the digest was read. NULL: there is none to go by. */
static sdm_digest *load(sdm_segment *s, int64_t *size) {
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_DIGEST, s->suffix), *bytes = NULL;
  char *log = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_LOG, s->suffix);
  sdm_digest *d = sdm_calloc(1, sizeof *d);
  sdm_file_info info;
  size_t n = 0;
  bool ok = path && log && d && sdm_fs_read_all(s->fs, path, LIMIT, &bytes, &n) == 0 && sdm_digest_decode(d, (const uint8_t *)bytes, n) == 0;
  ok = ok && s->fs->path_info(s->fs, log, &info) == 0 && info.inode == s->inode;
  sdm_free(bytes);
  sdm_free(path);
  sdm_free(log);
  if (ok) {
    *size = info.size;
    return d;
  }
  sdm_digest_free(d);
  return NULL;
}

/* One of another size is believed when it was made of this very file: that was cut then. A segment that is just being closed has its digest before anybody
** is told, and a reader's limit may be behind that.
*/
static const sdm_digest *digest_of(sdm_segment *s) {
  sdm_mutex_lock(&s->lock);
  if (!s->digest_asked) {
    int64_t size;
    s->digest_asked = true;
    s->digest = load(s, &size);
    if (s->digest) s->digest->cut = s->digest->inode == s->inode && s->digest->size > size;
    if (s->digest && s->digest->size != size && !s->digest->cut) {
      sdm_digest_free(s->digest);
      s->digest = NULL;
    }
  }
  const sdm_digest *d = s->digest;
  sdm_mutex_unlock(&s->lock);
  return d;
}

int sdm_segment_scan(sdm_segment *s, sdm_scanner *scan, int64_t position, int64_t limit) {
  sdm_file *f;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  sdm_scanner_start(scan, f, position, limit);
  scan->digest = digest_of(s);
  return 0;
}

/* Who found none asks again. What somebody has found already he may be going by: it stays as long as the files are open. */
static void ask_again(sdm_segment *s) {
  sdm_mutex_lock(&s->lock);
  if (!s->digest) s->digest_asked = false;
  sdm_mutex_unlock(&s->lock);
}

int sdm_segment_digest_drop(sdm_segment *s) {
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_DIGEST, s->suffix);
  int rc = path ? s->fs->unlink(s->fs, path) : sdm_no_memory();
  sdm_free(path);
  ask_again(s);
  return rc;
}

static int store(sdm_segment *s, const sdm_buf *bytes) {
  sdm_file *f;
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_DIGEST, s->suffix);
  int rc = path ? s->fs->open(s->fs, path, SDM_OPEN_WRITE | SDM_OPEN_CREATE | SDM_OPEN_FRESH, &f) : sdm_no_memory();
  sdm_free(path);
  if (rc < 0) return rc;
  rc = s->fs->write(f, bytes->data, bytes->size, 0);
  s->fs->close(f);
  return rc;
}

int sdm_segment_digest_write(sdm_segment *s, const sdm_digest_builder *x) {
  sdm_buf bytes = SDM_BUF_INIT;
  if (x->size == 0) return sdm_segment_digest_drop(s);
  int rc = sdm_digest_encode(x, s->inode, &bytes);
  if (rc == 0) rc = store(s, &bytes);
  sdm_buf_free(&bytes);
  if (rc == SDM_DISK_FULL) rc = sdm_segment_digest_drop(s);
  ask_again(s);
  return rc;
}

int sdm_segment_digest_make(sdm_segment *s, int64_t size, bool dense) {
  sdm_digest_builder x = {.next_offset = s->base_offset};
  sdm_scanner scan = {0};
  sdm_file *f;
  sdm_batch b;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc < 0) return rc;
  sdm_scanner_start(&scan, f, 0, size);
  while ((rc = sdm_scan_header(&scan, &b)) == 1 && sdm_segment_places(s, &b, x.next_offset, dense) && (rc = sdm_digest_add(&x, &b, scan.position - b.size)) == 0) {}
  bool whole = rc == 0 && !scan.torn && x.size == size;
  sdm_scanner_free(&scan);
  if (rc >= 0 || rc == SDM_CORRUPT) rc = whole ? sdm_segment_digest_write(s, &x) : sdm_segment_digest_drop(s);
  sdm_digest_builder_free(&x);
  return rc;
}

sdm_digest_state sdm_segment_digest_state(sdm_segment *s) {
  sdm_told told;
  int64_t size;
  sdm_mutex_lock(&s->lock);
  sdm_digest *d = load(s, &size);
  sdm_mutex_unlock(&s->lock);
  sdm_digest_state state = !d ? SDM_DIGEST_NONE : d->size != size ? SDM_DIGEST_OTHER : d->inode == s->inode ? SDM_DIGEST_OWN : SDM_DIGEST_FITS;
  if (state == SDM_DIGEST_OTHER && d->size > size) {
    sdm_segment_told(s, &told);
    if (d->inode == s->inode || told.batch.position >= size) state = SDM_DIGEST_CUT;
  }
  sdm_digest_free(d);
  return state;
}

/* It is all that tells of a cut, so it is there before and after whatever fails. */
int sdm_segment_digest_bind(sdm_segment *s) {
  char *path = sdm_segment_path(s->dir, s->base_offset, SDM_FILE_DIGEST, s->suffix), *text = NULL;
  sdm_digest *d = sdm_calloc(1, sizeof *d);
  size_t size;
  int rc = path && d ? sdm_fs_read_all(s->fs, path, LIMIT, &text, &size) : sdm_no_memory();
  if (rc == 0) rc = sdm_digest_decode(d, (const uint8_t *)text, size);
  bool none = rc == SDM_NOT_FOUND || rc == SDM_CORRUPT;
  if (rc == 0 && sdm_digest_set_inode((uint8_t *)text, size, s->inode)) rc = sdm_fs_replace(s->fs, s->dir, strrchr(path, '/') + 1, text, size);
  sdm_digest_free(d);
  sdm_free(text);
  sdm_free(path);
  ask_again(s);
  return none ? 0 : rc < 0 ? rc : 1;
}
