/* The partitions that this process has open, by topic and number. A log stays open until the store closes or its topic is deleted. */
#include <string.h>

#include "base/mem.h"
#include "store/store.h"

static int compare(const sdm_open_log *l, const sdm_uuid *id, int32_t partition) {
  int order = memcmp(&l->topic_id, id, sizeof *id);
  return order ? order : (l->log->partition > partition) - (l->log->partition < partition);
}

/* Where it is, or would be, in the list. Holding store->lock, as all that follows. */
static size_t locate(const sdm_store *s, const sdm_uuid *id, int32_t partition) {
  size_t low = 0, high = s->log_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (compare(&s->logs[middle], id, partition) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* One that an import has replaced is forgotten: the partition is in another folder now. */
static sdm_log *find(sdm_store *s, const sdm_uuid *id, int32_t partition) {
  size_t i = locate(s, id, partition);
  if (i == s->log_count || compare(&s->logs[i], id, partition) != 0) return NULL;
  sdm_log *l = s->logs[i].log;
  if (!sdm_log_is_replaced(l)) return l;
  memmove(&s->logs[i], &s->logs[i + 1], (--s->log_count - i) * sizeof *s->logs);
  sdm_log_unref(l);
  return NULL;
}

static int add(sdm_store *s, const sdm_uuid *id, sdm_log *l) {
  sdm_open_log *logs = sdm_grown(s->logs, s->log_count, &s->log_capacity, sizeof *logs);
  if (!logs) return sdm_no_memory();
  s->logs = logs;
  size_t i = locate(s, id, l->partition);
  memmove(&logs[i + 1], &logs[i], (s->log_count++ - i) * sizeof *logs);
  logs[i] = (sdm_open_log){*id, l};
  return 0;
}

/* One that finds no room is opened again by whoever wants it. */
void sdm_store_add_logs(sdm_store *s, const sdm_uuid *topic_id, sdm_log **logs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (add(s, topic_id, logs[i]) < 0) sdm_log_unref(logs[i]);
  }
}

/* Two threads may open the same partition at once; the first to come back is kept. */
static int keep_one(sdm_store *s, const sdm_uuid *id, sdm_log *opened, sdm_log **out) {
  sdm_mutex_lock(&s->lock);
  sdm_log *l = find(s, id, opened->partition);
  int rc = 0;
  if (l) {
    sdm_log_unref(opened);
  } else {
    l = opened;
    rc = add(s, id, l);
  }
  if (rc == 0) *out = sdm_log_ref(l);
  else sdm_log_unref(opened);
  sdm_mutex_unlock(&s->lock);
  return rc;
}

/* Between the look at its folder and its opening the topic may have been deleted and made anew: then this is the new one's partition. */
static int keep_if_ours(sdm_store *s, const sdm_topic_entry *topic, sdm_log *opened, sdm_log **out) {
  int rc = sdm_folder_ensure(s, topic->name, &topic->id, opened->partition);
  if (rc == 0) return keep_one(s, &topic->id, opened, out);
  sdm_log_unref(opened);
  return rc;
}

int sdm_store_log(sdm_store *s, const sdm_topic_entry *topic, int32_t partition, int64_t now, sdm_log **out) {
  sdm_log_config cfg;
  sdm_mutex_lock(&s->lock);
  int rc = sdm_config_effective(&topic->config, &s->defaults, &cfg);
  sdm_log *l = find(s, &topic->id, partition);
  if (l) sdm_log_ref(l);
  sdm_mutex_unlock(&s->lock);
  if (rc < 0) {
    sdm_log_unref(l);
    return rc;
  }
  if (!l) {
    sdm_log *opened;
    rc = sdm_folder_ensure(s, topic->name, &topic->id, partition);
    if (rc == 0) rc = sdm_log_open(&s->env, topic->name, partition, &cfg, now, &opened);
    if (rc == 0) rc = keep_if_ours(s, topic, opened, &l);
    if (rc < 0) return rc;
  }
  sdm_log_set_config(l, &cfg);
  *out = l;
  return 0;
}

static bool is_live(const sdm_store *s, const sdm_uuid *topic_id) {
  for (size_t i = 0; i < s->topics.count; i++) {
    const sdm_topic_entry *e = s->topics.entries[i];
    if (memcmp(&e->id, topic_id, sizeof *topic_id) == 0) return e->state == SDM_TOPIC_LIVE;
  }
  return false;
}

/* Handles and readers that have one keep it as long as they are. A topic's stand side by side, and are asked for once. */
void sdm_store_forget_deleted(sdm_store *s) {
  size_t kept = 0;
  bool live = false;
  sdm_uuid last;
  for (size_t i = 0; i < s->log_count; i++) {
    const sdm_uuid *id = &s->logs[i].topic_id;
    if (i == 0 || memcmp(id, &last, sizeof last) != 0) live = is_live(s, id);
    last = *id;
    if (live) s->logs[kept++] = s->logs[i];
    else sdm_log_unref(s->logs[i].log);
  }
  s->log_count = kept;
}

int sdm_store_log_refs(sdm_store *s, sdm_log ***out, size_t *count) {
  sdm_mutex_lock(&s->lock);
  sdm_log **logs = sdm_malloc(s->log_count * sizeof(*logs));
  for (size_t i = 0; logs && i < s->log_count; i++) logs[i] = sdm_log_ref(s->logs[i].log);
  *count = s->log_count;
  sdm_mutex_unlock(&s->lock);
  if (!logs) return sdm_no_memory();
  *out = logs;
  return 0;
}

void sdm_logs_unref(sdm_log **logs, size_t count) {
  for (size_t i = 0; i < count; i++) sdm_log_unref(logs[i]);
  sdm_free(logs);
}

int sdm_store_copy_topics(sdm_store *s, sdm_topic_entry **out, size_t *count) {
  sdm_mutex_lock(&s->lock);
  sdm_topic_entry *copies = sdm_malloc(s->topics.count * sizeof(*copies));
  for (size_t i = 0; copies && i < s->topics.count; i++) copies[i] = *s->topics.entries[i];
  *count = s->topics.count;
  sdm_mutex_unlock(&s->lock);
  if (!copies) return sdm_no_memory();
  *out = copies;
  return 0;
}

/* One that was deleted meanwhile has not failed. */
static void try_to_open(sdm_store *s, const sdm_topic_entry *topic, int32_t partition, int64_t now, sdm_failure *first, int64_t *failed) {
  sdm_log *l;
  int rc = sdm_store_log(s, topic, partition, now, &l);
  if (rc == 0) sdm_log_unref(l);
  if (rc == 0 || rc == SDM_UNKNOWN_TOPIC || !first) return;
  sdm_failure_note(first, rc);
  (*failed)++;
}

/* Copies, since the list may change while partitions are opened. One partition that cannot be opened does not keep the others from it. */
int sdm_store_open_all(sdm_store *s, int64_t now, sdm_failure *first, int64_t *failed) {
  sdm_topic_entry *topics = NULL;
  size_t count = 0;
  int rc = sdm_store_copy_topics(s, &topics, &count);
  if (rc < 0) return rc;
  for (size_t i = 0; i < count; i++) {
    if (topics[i].state != SDM_TOPIC_LIVE) continue;
    for (int32_t p = 0; p < topics[i].partitions; p++) try_to_open(s, &topics[i], p, now, first, failed);
  }
  sdm_free(topics);
  return 0;
}
