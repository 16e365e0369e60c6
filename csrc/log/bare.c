#include "log/bare.h"

#include <string.h>

#include "base/mem.h"
#include "log/offsets.h"
#include "log/scanner.h"
#include "log/seek.h"

/* From the last index entry, or from the last look's end on, as far as batches are valid. A torn or half-written tail is where the log ends today;
** damage with good batches behind it is no end. What was found to have none behind it is not searched again.
*/
static int scan_tail(sdm_log *l, sdm_scanner *scan, sdm_end *end) {
  sdm_batch b;
  const uint8_t *bytes;
  for (;;) {
    int rc;
    while ((rc = sdm_scan_batch(scan, &b, &bytes)) == 1) {
      end->sealed_end = sdm_batch_last_offset(&b) + 1;
      end->position = scan->position;
    }
    if (rc != SDM_CORRUPT) return rc;
    if (scan->position == l->bare_stop && scan->limit == l->bare_size) return 0;
    int64_t stop = scan->position;
    if ((rc = sdm_scan_resync(scan, end->sealed_end)) == 1) continue;
    l->bare_stop = stop;
    l->bare_size = scan->limit;
    return rc;
  }
}

static int refresh_end(sdm_log *l, sdm_segment *s, sdm_end *end) {
  sdm_scanner scan = {0};
  sdm_file *f;
  sdm_file_info info;
  int rc = sdm_segment_file(s, SDM_FILE_LOG, &f);
  if (rc == 0) rc = l->fs->info(f, &info);
  if (rc == 0) rc = sdm_seek_near(s, &scan, INT64_MAX, info.size);
  if (rc < 0) return rc;
  if (end->active_base != s->base_offset) {
    memset(end, 0, sizeof *end);
    end->active_base = end->sealed_end = s->base_offset;
    end->max_timestamp = -1;
  }
  if (end->position > scan.position) scan.position = end->position;
  rc = scan_tail(l, &scan, end);
  sdm_scanner_free(&scan);
  return rc;
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

/* Whether the page is of the store's incarnation. While the first process of one puts the partitions right, it is about to be. */
static bool page_is_current(sdm_log *l, const uint8_t boot_id[SDM_BOOT_ID], uint64_t incarnation) {
  enum { TRIES = 30 };
  for (int i = 0; i < TRIES && sdm_control_valid(l->control, boot_id); i++) {
    if (atomic_load(&l->control->incarnation) == incarnation) return true;
    sdm_log_await_change(l, i);
  }
  return false;
}

/* A partition of a store that is open somewhere, or was when its last process died: then the page tells what the files do not yet. */
static void attach_page(sdm_log *l) {
  uint8_t boot_id[SDM_BOOT_ID];
  char *root = sdm_strdup(l->dir), *slash = root ? strrchr(root, '/') : NULL;
  if (slash) *slash = 0;
  if (l->env) memcpy(boot_id, l->env->boot_id, SDM_BOOT_ID);
  bool known = slash && (l->env || l->fs->boot_id(l->fs, boot_id) == 0);
  uint64_t incarnation = known ? sdm_root_incarnation(l->fs, root, boot_id) : 0;
  sdm_free(root);
  if (incarnation == 0 || sdm_control_map(l->fs, l->dir, false, &l->control_file, &l->control) < 0) return;
  l->incarnation = incarnation;
  l->generation = UINT64_MAX;
  if (page_is_current(l, boot_id, incarnation)) return;
  sdm_control_unmap(l->fs, l->control_file, l->control);
  l->control_file = NULL;
  l->control = NULL;
}

int sdm_bare_open(sdm_log *l) {
  l->bare_end.active_base = l->bare_stop = -1;
  attach_page(l);
  return l->control ? 0 : sdm_bare_refresh(l);
}

static sdm_log *new_bare(const char *given) {
  char topic[SDM_TOPIC_NAME_MAX + 1] = "", *dir = sdm_absolute_path(given);
  int32_t partition = -1;                  /* "" and -1 for a folder with a name of another kind: it has no checkpoint */
  if (!dir) return NULL;
  const char *slash = strrchr(dir, '/');
  sdm_partition_name_decode(slash ? slash + 1 : dir, topic, &partition);
  sdm_log *l = sdm_log_new(sdm_fs_posix(), dir, topic, partition);
  sdm_free(dir);
  return l;
}

int sdm_log_open_bare(const char *dir, sdm_log **out) {
  sdm_log *l = new_bare(dir);
  if (!l) return sdm_no_memory();
  int rc = sdm_bare_open(l);
  if (rc < 0) {
    sdm_log_unref(l);
    return rc;
  }
  *out = l;
  return 0;
}

void sdm_log_release(sdm_log *l) { sdm_log_unref(l); }
