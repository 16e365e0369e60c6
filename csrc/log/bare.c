#include "log/bare.h"

#include <string.h>

#include "base/mem.h"
#include "log/offsets.h"
#include "log/scanner.h"
#include "log/seek.h"

/* From the last index entry, or from the last look's end on, as far as batches are valid. A torn or half-written tail is where the log ends today. */
static int scan_tail(sdm_segment *s, int64_t from, int64_t size, sdm_end *end) {
  sdm_scanner scan = {0};
  sdm_batch b;
  const uint8_t *bytes;
  int rc = sdm_seek_near(s, &scan, INT64_MAX, size);
  if (rc < 0) return rc;
  if (from > scan.position) scan.position = from;
  for (;;) {
    while ((rc = sdm_scan_batch(&scan, &b, &bytes)) == 1) {
      end->sealed_end = sdm_batch_last_offset(&b) + 1;
      end->position = scan.position;
    }
    if (rc != SDM_CORRUPT || sdm_scan_resync(&scan, end->sealed_end) != 1) break;   /* damage with good batches behind it is no end */
  }
  sdm_scanner_free(&scan);
  return rc == SDM_CORRUPT ? 0 : rc;
}

static int refresh_end(sdm_log *l, sdm_segment *s, sdm_end *end) {
  sdm_file *f;
  sdm_file_info info;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = l->fs->info(f, &info);
  if (rc < 0) return rc;
  if (end->active_base != s->base_offset) {
    memset(end, 0, sizeof *end);
    end->active_base = end->sealed_end = s->base_offset;
    end->max_timestamp = -1;
  }
  return scan_tail(s, end->position, info.size, end);
}

static void refresh_start(sdm_log *l) {
  char *root = sdm_strdup(l->dir), *slash = root ? strrchr(root, '/') : NULL;
  int64_t start = l->count ? l->segments[0]->base_offset : 0, kept = -1;
  if (slash) {
    *slash = 0;
    kept = sdm_offsets_get(l->fs, root, SDM_LOG_START_CHECKPOINT, l->topic, l->partition);
  }
  sdm_free(root);
  l->bare_start = kept > start ? kept : start;
}

int sdm_bare_refresh(sdm_log *l) {
  sdm_end end;
  int rc = sdm_log_reload_bare(l);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  memcpy(&end, &l->bare_end, sizeof end);
  sdm_segment *last = sdm_segment_ref(l->active);
  sdm_mutex_unlock(&l->lock);
  rc = refresh_end(l, last, &end);
  sdm_segment_unref(last);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  memcpy(&l->bare_end, &end, sizeof end);
  refresh_start(l);
  if (l->bare_start > l->bare_end.sealed_end) l->bare_start = l->bare_end.sealed_end;
  sdm_mutex_unlock(&l->lock);
  return 0;
}

/* The topic and partition that the folder's name tells; "" for a folder with another name, which then has no checkpoint. */
int sdm_log_open_bare(const char *dir, sdm_log **out) {
  char topic[SDM_TOPIC_NAME_MAX + 1] = "";
  int32_t partition = -1;
  const char *slash = strrchr(dir, '/');
  sdm_partition_name_decode(slash ? slash + 1 : dir, topic, &partition);
  sdm_log *l = sdm_log_new(sdm_fs_posix(), dir, topic, partition);
  if (!l) return sdm_no_memory();
  l->bare_end.active_base = -1;
  int rc = sdm_bare_refresh(l);
  if (rc < 0) {
    sdm_log_unref(l);
    return rc;
  }
  *out = l;
  return 0;
}

void sdm_log_release(sdm_log *l) { sdm_log_unref(l); }
