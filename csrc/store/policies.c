/* Policy scripts as the store keeps them: one file each in its root (format/policy_file.h), replaced in one step. */
#include <string.h>

#include "base/mem.h"
#include "cleaner/policy.h"
#include "store/store.h"

static int save(sdm_store *s, const char *name, const char *text, size_t size) {
  sdm_buf bytes = SDM_BUF_INIT;
  char *file = sdm_format(SDM_POLICY_PREFIX "%s", name);
  int rc = file ? sdm_policy_encode(text, size, &bytes) : sdm_no_memory();
  if (rc == 0) rc = sdm_fs_replace(s->env.fs, s->env.root, file, bytes.data, bytes.size);
  sdm_buf_free(&bytes);
  sdm_free(file);
  return sdm_store_explain(s, rc);
}

int sdm_store_policy_check(const char *name, const char *text, size_t size, unsigned *asks) {
  int rc = sdm_policy_name_check(name);
  if (rc < 0) return rc;
  if (size > SDM_POLICY_TEXT_MAX) return sdm_fail(SDM_TOO_LARGE, "policy script '%s' has %zu bytes; %d are the most", name, size, SDM_POLICY_TEXT_MAX);
  return sdm_policy_check(name, text, size, asks);
}

int sdm_store_policy_set(sdm_store *s, const char *name, const char *text, size_t size) {
  unsigned asks;
  int rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_store_policy_check(name, text, size, &asks);
  if (rc == 0) rc = sdm_store_topics_hold(s);
  if (rc < 0) return rc;
  rc = save(s, name, text, size);
  sdm_store_topics_release(s);
  return rc;
}

int sdm_store_policy_get(sdm_store *s, const char *name, char **text, size_t *size) {
  char *bytes;
  const char *from;
  int rc = sdm_store_check(s);
  if (rc == 0) rc = sdm_policy_name_check(name);
  if (rc == 0) rc = sdm_policy_read(s->env.fs, s->env.root, name, &bytes, &from, size);
  if (rc < 0) return rc;
  memmove(bytes, from, *size);
  bytes[*size] = '\0';
  *text = bytes;
  return 0;
}

void sdm_policy_text_free(char *text) { sdm_free(text); }

/* ---- removal ---- */

static int check_unused(const sdm_store *s, const char *name) {
  for (size_t i = 0; i < s->topics.count; i++) {
    const sdm_topic_entry *e = s->topics.entries[i];
    if (e->state != SDM_TOPIC_LIVE || strcmp(e->config.policy_script, name) != 0) continue;
    return sdm_fail(SDM_POLICY, "policy script '%s' is that of topic '%s'; set its policy.script to another or to '' first", name, e->name);
  }
  return 0;
}

static int remove_locked(sdm_store *s, const char *name) {
  sdm_file_info info;
  int rc = check_unused(s, name);
  char *path = sdm_policy_path(s->env.root, name);
  if (rc == 0) rc = path ? s->env.fs->path_info(s->env.fs, path, &info) : sdm_no_memory();
  if (rc == SDM_NOT_FOUND) rc = sdm_fail(rc, "there is no policy script '%s' in %s", name, s->env.root);
  if (rc == 0) rc = s->env.fs->unlink(s->env.fs, path);
  if (rc == 0) rc = s->env.fs->sync_dir(s->env.fs, s->env.root, NULL);
  sdm_free(path);
  return rc;
}

int sdm_store_policy_remove(sdm_store *s, const char *name) {
  int rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_policy_name_check(name);
  if (rc == 0) rc = sdm_store_topics_lock(s);
  if (rc < 0) return rc;
  rc = remove_locked(s, name);
  sdm_store_topics_unlock(s);
  return rc;
}

/* ---- the list ---- */

static int take_names(const sdm_names *files, sdm_names *out) {
  int rc = 0;
  for (size_t i = 0; rc == 0 && i < files->count; i++) {
    const char *name = sdm_policy_name_in(files->items[i]);
    if (name) rc = sdm_names_add(out, name);
  }
  return rc;
}

int sdm_store_policies(sdm_store *s, char ***names, size_t *count) {
  sdm_names files = {0}, list = {0};
  int rc = sdm_store_check(s);
  if (rc == 0) rc = s->env.fs->list(s->env.fs, s->env.root, &files);
  if (rc == 0) rc = take_names(&files, &list);
  sdm_names_clear(&files);
  return sdm_store_hand_over(&list, rc, names, count);
}
