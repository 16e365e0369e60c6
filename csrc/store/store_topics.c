/* The list of topics: `sediment.topics`, replaced whole by whoever changes it, read again by the others when the generation moved. */
#include <string.h>

#include "base/mem.h"
#include "log/reserve.h"
#include "store/store.h"

enum { LIMIT = 64 << 20 };

/* A new store has no file yet, and no partitions. Another process may just be making both, the file first: so it is looked for once more. */
static int read_text(sdm_store *s, const char *path, char **text, size_t *size) {
  int rc = sdm_fs_read_all(s->env.fs, path, LIMIT, text, size);
  if (rc != SDM_NOT_FOUND || (rc = sdm_folders_check_none(s)) != SDM_CORRUPT) return rc;
  rc = sdm_fs_read_all(s->env.fs, path, LIMIT, text, size);
  return rc == SDM_NOT_FOUND ? sdm_folders_check_none(s) : rc;
}

static int read_file(sdm_store *s, sdm_topics_file *out) {
  char *path = sdm_format("%s/%s", s->env.root, SDM_TOPICS_NAME), *text = NULL;
  size_t size = 0;
  int rc = path ? read_text(s, path, &text, &size) : sdm_no_memory();
  if (rc == 0 && text) rc = sdm_topics_decode(out, text, size);
  sdm_free(text);
  sdm_free(path);
  return rc < 0 ? sdm_fail_within(rc, "%s: ", s->env.root) : 0;
}

/* A store that is read only has no control page to tell of changes: it looks each time. */
static int refresh_locked(sdm_store *s) {
  uint64_t generation = sdm_store_generation(s);
  sdm_topics_file fresh = {0};
  if (s->control && generation == s->topics_generation) return 0;
  int rc = read_file(s, &fresh);
  if (rc < 0) {
    sdm_topics_free(&fresh);
    return rc;
  }
  sdm_topics_free(&s->topics);
  s->topics = fresh;
  s->topics_generation = generation;
  sdm_store_forget_deleted(s);
  return 0;
}

int sdm_store_refresh(sdm_store *s) {
  sdm_mutex_lock(&s->lock);
  int rc = refresh_locked(s);
  sdm_mutex_unlock(&s->lock);
  return rc;
}

int sdm_store_topics_hold(sdm_store *s) {
  bool died;                               /* the file is replaced in one step: a dead owner left the old or the new one */
  int rc = sdm_shared_mutex_lock(&s->control->topics_lock, &died);
  if (rc == 0 && died) atomic_fetch_add(&s->control->topics_generation, 1);
  return rc;
}

void sdm_store_topics_release(sdm_store *s) { sdm_shared_mutex_unlock(&s->control->topics_lock); }

int sdm_store_topics_lock(sdm_store *s) {
  int rc = sdm_store_topics_hold(s);
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  if ((rc = refresh_locked(s)) < 0) sdm_store_topics_unlock(s);
  return rc;
}

void sdm_store_topics_unlock(sdm_store *s) {
  sdm_mutex_unlock(&s->lock);
  sdm_store_topics_release(s);
}

int sdm_store_explain(const sdm_store *s, int rc) {
  return rc == SDM_NOT_FOUND ? sdm_fail_within(SDM_IO, "the store %s is open, and a file of it is gone: ", s->env.root) : rc;
}

int sdm_store_topics_save(sdm_store *s) {
  sdm_buf text = SDM_BUF_INIT;
  int rc = sdm_topics_encode(&s->topics, &text);
  if (rc == 0) rc = sdm_reserve_replace(&s->env, s->env.root, SDM_TOPICS_NAME, text.data, text.size);
  sdm_buf_free(&text);
  if (rc < 0) {
    s->topics_generation = UINT64_MAX;     /* what is in memory is not what is on disk: read it again */
    atomic_store(&s->control->topics_doubtful, 1);
    return sdm_store_explain(s, rc);
  }
  atomic_store(&s->control->topics_doubtful, 0);
  s->topics_generation = atomic_fetch_add(&s->control->topics_generation, 1) + 1;
  return 0;
}

int sdm_store_topic_deleted(const char *name) { return sdm_fail(SDM_UNKNOWN_TOPIC, "topic '%s' was deleted; open it anew", name); }

int sdm_store_still_lists(sdm_store *s, const char *name, const sdm_uuid *id) {
  int rc = sdm_store_refresh(s);
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  bool listed = sdm_topics_find_this(&s->topics, name, id);
  sdm_mutex_unlock(&s->lock);
  return listed;
}

int sdm_store_topics_settle(sdm_store *s) {
  if (!s->env.writable || atomic_load(&s->control->topics_doubtful) == 0) return 0;
  int rc = sdm_store_topics_hold(s);
  if (rc < 0) return rc;
  rc = s->env.fs->sync_dir(s->env.fs, s->env.root, NULL);
  if (rc == 0) atomic_store(&s->control->topics_doubtful, 0);
  sdm_store_topics_release(s);
  return rc;
}

/* ---- the public side ---- */

int sdm_store_hand_over(sdm_names *list, int rc, char ***names, size_t *count) {
  sdm_names_sort(list);
  if (rc == 0) rc = sdm_names_add(list, "");      /* room for the end mark */
  if (rc < 0) {
    sdm_names_clear(list);
    return rc;
  }
  *count = list->count - 1;
  sdm_free(list->items[*count]);
  list->items[*count] = NULL;
  *names = list->items;
  return 0;
}

int sdm_store_topics(sdm_store *s, char ***names, size_t *count) {
  sdm_names list = {0};
  int rc = sdm_store_check(s);
  if (rc == 0) rc = sdm_store_refresh(s);
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  for (size_t i = 0; rc == 0 && i < s->topics.count; i++) {
    if (s->topics.entries[i]->state == SDM_TOPIC_LIVE) rc = sdm_names_add(&list, s->topics.entries[i]->name);
  }
  sdm_mutex_unlock(&s->lock);
  return sdm_store_hand_over(&list, rc, names, count);
}

void sdm_names_free(char **names) {
  for (char **p = names; p && *p; p++) sdm_free(*p);
  sdm_free(names);
}
