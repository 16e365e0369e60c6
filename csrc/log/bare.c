#include "log/bare.h"

#include <string.h>

#include "base/mem.h"
#include "log/lost.h"
#include "log/offsets.h"
#include "log/producer_snapshot.h"
#include "log/stage.h"
#include "log/state.h"

/* ---- the page, where the store is open, or was when its last process died: it tells what the files do not yet ---- */

/* It is the store's incarnation's, or is about to be: the first process of one puts the partitions right. Until then the old page counts if it has staged
** records, which the files may lack. */
static bool page_counts(sdm_log *l, sdm_control *c, const uint8_t boot_id[SDM_BOOT_ID], uint64_t incarnation, int tries) {
  sdm_end e;
  for (int i = 0; sdm_control_valid(c, boot_id); i++) {
    uint64_t now = atomic_load(&c->incarnation);
    if (now == incarnation) return true;
    sdm_control_read(c, &e);
    if ((now & 1) && sdm_stage_size(&e) > 0) return true;
    if (i + 1 >= tries) return false;
    sdm_log_await_change(l, i);
  }
  return false;
}

/* Other threads may be reading: they see the page from some moment on. */
static bool install_page(sdm_log *l, sdm_file *file, uint64_t inode, sdm_control *c) {
  sdm_mutex_lock(&l->lock);
  bool first = !l->control;
  if (first) {
    l->incarnation = atomic_load(&c->incarnation);
    l->generation = UINT64_MAX;
    l->control_file = file;
    l->control_inode = inode;
    __atomic_store_n(&l->control, c, __ATOMIC_RELEASE);
  }
  sdm_mutex_unlock(&l->lock);
  return first;
}

static bool attach_page(sdm_log *l, int tries) {
  uint8_t boot_id[SDM_BOOT_ID];
  sdm_file *file;
  sdm_file_info info;
  sdm_control *c;
  char *root = sdm_strdup(l->dir), *slash = root ? strrchr(root, '/') : NULL;
  if (slash) *slash = 0;
  if (l->env) memcpy(boot_id, l->env->boot_id, SDM_BOOT_ID);
  bool known = slash && (l->env || l->fs->boot_id(l->fs, boot_id) == 0);
  uint64_t incarnation = known ? sdm_root_incarnation(l->fs, root, boot_id) : 0;
  sdm_free(root);
  if (incarnation == 0 || sdm_control_map(l->fs, l->dir, false, &file, &c) < 0) return false;
  bool counts = l->fs->info(file, &info) == 0 && page_counts(l, c, boot_id, incarnation, tries);
  if (!counts || !install_page(l, file, info.inode, c)) sdm_control_unmap(l->fs, file, c);
  return counts;
}

/* ---- the files ---- */

/* What the checkpoint beside the directory says, -1: nothing. */
static int read_start(sdm_log *l, int64_t *out) {
  char *root = sdm_strdup(l->dir);
  if (!root) return sdm_no_memory();
  *strrchr(root, '/') = 0;                 /* an absolute path */
  int rc = sdm_offsets_read(l->fs, root, SDM_LOG_START_CHECKPOINT, l->topic, l->partition, out);
  sdm_free(root);
  return rc;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void set_start(sdm_log *l, int64_t kept) {
  sdm_mutex_lock(&l->lock);
  int64_t start = l->count ? l->segments[0]->base_offset : 0;
  l->bare_start = larger(start, larger(kept, l->bare_state.log_start));
  if (l->bare_start > l->bare_end.sealed_end) l->bare_start = l->bare_end.sealed_end;
  sdm_mutex_unlock(&l->lock);
}

/* A broker's segments are told by its snapshots; it may have cleaned them. */
static int read_state(sdm_log *l) {
  sdm_state_file state;
  int64_t broker_end;
  int rc = sdm_log_state_read(l->fs, l->dir, &state);
  if (rc == 0) rc = sdm_broker_end(l->fs, l->dir, &broker_end);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  l->bare_state = state;
  atomic_store(&l->bare_cleaned_end, state.sequence == 0 || state.damaged ? INT64_MAX : larger(state.cleaned_end, broker_end));
  sdm_mutex_unlock(&l->lock);
  return 0;
}

static int refresh(sdm_log *l) {
  int64_t start = -1;
  int rc = sdm_log_reload_bare(l);
  if (rc == 0) rc = read_state(l);
  if (rc < 0) return rc;
  sdm_mutex_lock(&l->lock);
  sdm_segment *last = sdm_segment_ref(l->active);
  bool only = l->count == 1;
  sdm_mutex_unlock(&l->lock);
  rc = sdm_bare_find_end(l, last, only);
  sdm_segment_unref(last);
  if (rc == 0) rc = read_start(l, &start);
  if (rc < 0) return rc == SDM_NOT_FOUND ? SDM_BUSY : rc;
  set_start(l, start);
  return 0;
}

void sdm_bare_end(sdm_log *l, sdm_end *out) {
  sdm_mutex_lock(&l->lock);
  memcpy(out, &l->bare_end, sizeof *out);
  if (l->bare_state.clean && l->bare_state.end > out->sealed_end) out->sealed_end = l->bare_state.end;
  sdm_mutex_unlock(&l->lock);
}

/* A broker that is cleaning or deleting changes the files between a look at the folder and one at them. */
int sdm_bare_refresh(sdm_log *l) {
  int rc = SDM_BUSY;
  sdm_log_warm(l);
  if (attach_page(l, 1)) return 0;
  for (int i = 0; rc == SDM_BUSY && i < SDM_AWAIT_MAX; i++) {
    if (i > 0) sdm_log_await_change(l, i - 1);
    rc = refresh(l);
  }
  return rc == SDM_BUSY ? sdm_fail(SDM_BUSY, "%s: its segments keep changing; try again", l->dir) : rc;
}

/* ---- what is missing ---- */

enum { PATIENCE = 8 };

/* What a broker just deletes or puts in its place may look as if it was missing. */
static int check_none_lost(sdm_log *l) {
  int rc = SDM_CORRUPT;
  for (int i = 0; rc == SDM_CORRUPT && i < PATIENCE; i++) {
    if (i > 0) sdm_log_await_change(l, i);
    rc = sdm_check_none_lost(l->fs, l->dir);
  }
  return rc;
}

int sdm_bare_check_end(sdm_log *l, sdm_end *out) {
  sdm_end e;
  sdm_mutex_lock(&l->lock);
  memcpy(&e, &l->bare_end, sizeof e);
  int64_t told = l->bare_state.clean ? l->bare_state.end : 0;
  sdm_mutex_unlock(&l->lock);
  if (out) memcpy(out, &e, sizeof e);
  if (e.sealed_end >= told) return 0;
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log has its last whole batch end at position %lld and offset %lld, but " SDM_STATE_NAME " tells of records up to "
                  "offset %lld: it was cut, or is damaged", l->dir, (long long)e.active_base, (long long)e.position, (long long)e.sealed_end, (long long)told);
}

int sdm_bare_check_cut(sdm_log *l, sdm_segment *s, int64_t size, int64_t next_offset) {
  for (int i = 0; i < PATIENCE; i++) {
    sdm_told told;
    int64_t max_timestamp = -1;
    if (i > 0) sdm_log_await_change(l, i);
    sdm_segment_told(s, &told);
    int rc = told.latest.offset >= next_offset ? sdm_log_max_timestamp(l, s, &max_timestamp) : 0;
    if (rc < 0 || !sdm_told_more(&told, size, next_offset, max_timestamp)) return rc;
  }
  return sdm_fail(SDM_CORRUPT, "%s/%020lld.log%s ends at position %lld, but its indexes tell of more behind that: it was cut", l->dir,
                  (long long)s->base_offset, s->suffix, (long long)size);
}

int sdm_bare_open(sdm_log *l) {
  enum { TRIES = 30 };
  l->bare_end.active_base = l->bare_stop = -1;
  atomic_store(&l->bare_cleaned_end, INT64_MAX);
  if (attach_page(l, TRIES)) return 0;
  int rc = sdm_bare_refresh(l);
  return rc == 0 ? check_none_lost(l) : rc;
}

static sdm_log *new_bare(sdm_fs *fs, const char *given) {
  char topic[SDM_TOPIC_NAME_MAX + 1] = "", *dir = sdm_absolute_path(given);
  int32_t partition = -1;                  /* "" and -1 for a folder with a name of another kind: it has no checkpoint */
  if (!dir) return NULL;
  const char *slash = strrchr(dir, '/');
  sdm_partition_name_decode(slash ? slash + 1 : dir, topic, &partition);
  sdm_log *l = sdm_log_new(fs, dir, topic, partition);
  sdm_free(dir);
  return l;
}

int sdm_bare_open_on(sdm_fs *fs, const char *dir, sdm_log **out) {
  sdm_log *l = new_bare(fs, dir);
  sdm_file_info info;
  if (!l) return sdm_no_memory();
  int rc = l->fs->path_info(l->fs, l->dir, &info);
  if (rc == 0 && !info.directory) rc = sdm_no_directory(l->dir);
  if (rc == 0) rc = sdm_bare_open(l);
  if (rc < 0) {
    sdm_log_unref(l);
    return rc;
  }
  *out = l;
  return 0;
}

int sdm_log_open_bare(const char *dir, sdm_log **out) { return sdm_bare_open_on(sdm_fs_posix(), dir, out); }

void sdm_log_release(sdm_log *l) { sdm_log_unref(l); }
