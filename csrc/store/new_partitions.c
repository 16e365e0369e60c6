#include "store/new_partitions.h"

#include "base/mem.h"
#include "os/host.h"
#include "store/folders.h"

static void remove_folder(sdm_store *s, const char *dir) {
  char *mark = sdm_format("%s/%s", dir, SDM_DELETED_MARK);
  if (mark) sdm_folder_remove(s, dir, mark);
  sdm_free(mark);
}

/* Under a name that is nobody's, for the mark must be in the folder before it gets its own. */
static int fill_folder(sdm_store *s, const char *dir, const char *named, const sdm_uuid *id, int64_t now) {
  sdm_failure why = {0};
  int rc = s->env.fs->make_dir(s->env.fs, dir);
  if (rc == 0) rc = sdm_folder_mark(s, dir, now, 0);
  if (rc == 0) rc = sdm_folder_write_small_files(s, dir, id);
  if (rc == 0) rc = s->env.fs->rename(s->env.fs, dir, named);
  if (rc == 0) return 0;
  sdm_failure_note(&why, rc);
  remove_folder(s, dir);
  return sdm_failure_tell(&why);
}

static int open_folder(sdm_store *s, const char *dir, const char *topic, int32_t partition, const sdm_log_config *cfg, int64_t now, sdm_log **out) {
  sdm_failure why = {0};
  sdm_failure_note(&why, sdm_log_open(&s->env, topic, partition, cfg, now, out));
  if (why.code < 0) remove_folder(s, dir);
  return sdm_failure_tell(&why);
}

static int make_one(sdm_store *s, const sdm_topic_entry *topic, int32_t partition, const sdm_log_config *cfg, int64_t now, sdm_log **out) {
  sdm_uuid drawn;
  int rc = sdm_random(drawn.bytes, sizeof drawn.bytes);
  if (rc < 0) return rc;
  char *dir = sdm_folder_path(s, topic->name, partition), *fresh = sdm_folder_deleted_path(s, topic->name, &drawn, partition);
  rc = dir && fresh ? fill_folder(s, fresh, dir, &topic->id, now) : sdm_no_memory();
  if (rc == 0) rc = open_folder(s, dir, topic->name, partition, cfg, now, out);
  sdm_free(dir);
  sdm_free(fresh);
  return rc;
}

int sdm_new_partitions_make(sdm_store *s, const sdm_topic_entry *topic, int32_t first, int32_t end, int64_t now, sdm_new_partitions *out) {
  sdm_log_config cfg;
  *out = (sdm_new_partitions){0};
  if (first >= end) return 0;
  int rc = sdm_config_effective(&topic->config, &s->defaults, &cfg);
  if (rc == 0) rc = sdm_folder_check_free(s, topic->name, first, end, true);
  if (rc == 0 && !(out->logs = sdm_malloc((size_t)(end - first) * sizeof(*out->logs)))) rc = sdm_no_memory();
  for (int32_t p = first; rc == 0 && p < end; p++) {
    rc = make_one(s, topic, p, &cfg, now, &out->logs[out->count]);
    out->count += rc == 0;
  }
  if (rc == 0) rc = s->env.fs->sync_dir(s->env.fs, s->env.root, NULL);
  return rc == 0 ? 0 : sdm_new_partitions_undo(s, out, sdm_store_explain(s, rc));
}

/* What fails here is done when the partition is opened. */
void sdm_new_partitions_listed(sdm_store *s, const sdm_uuid *topic_id, sdm_new_partitions *n) {
  for (int32_t i = 0; i < n->count; i++) sdm_folder_unmark(s, n->logs[i]->dir);
  sdm_store_add_logs(s, topic_id, n->logs, (size_t)n->count);
  sdm_free(n->logs);
  *n = (sdm_new_partitions){0};
}

int sdm_new_partitions_undo(sdm_store *s, sdm_new_partitions *n, int rc) {
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  for (int32_t i = 0; i < n->count; i++) remove_folder(s, n->logs[i]->dir);
  for (int32_t i = 0; i < n->count; i++) sdm_log_unref(n->logs[i]);
  sdm_free(n->logs);
  *n = (sdm_new_partitions){0};
  return sdm_failure_tell(&why);
}
