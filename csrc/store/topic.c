/* Topics: creation, configs, deletion, and which partition a record goes to. */
#include "store/topic.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/murmur2.h"
#include "cleaner/policy.h"
#include "store/new_partitions.h"
#include "store/snapshot_file.h"

/* ---- handles ---- */

static int grow_logs(sdm_topic *t, int32_t count) {
  if (count <= t->log_count) return 0;
  sdm_log **logs = sdm_realloc(t->logs, (size_t)count * sizeof(*logs));
  if (!logs) return sdm_no_memory();
  memset((void *)(logs + t->log_count), 0, (size_t)(count - t->log_count) * sizeof(*logs));
  t->logs = logs;
  t->log_count = count;
  return 0;
}

/* Takes over what the topics file says of the topic with this id; holding store->lock. */
static int take_entry(sdm_topic *t, const sdm_topic_entry *e) {
  sdm_log_config cfg;
  int rc = sdm_config_effective(&e->config, &t->store->defaults, &cfg);
  if (rc == 0) rc = grow_logs(t, e->partitions);
  if (rc < 0) return rc;
  t->entry = *e;
  t->config = cfg;
  t->generation = t->store->topics_generation;
  for (int32_t i = 0; i < t->log_count; i++) {
    if (t->logs[i]) sdm_log_set_config(t->logs[i], &cfg);
  }
  return 0;
}

/* Holding store->lock; NULL, with its message: the topic was deleted, though there may be another of its name. */
static sdm_topic_entry *entry_of(const sdm_topic *t) {
  sdm_topic_entry *e = sdm_topics_find_this(&t->store->topics, t->entry.name, &t->entry.id);
  if (!e) sdm_store_topic_deleted(t->entry.name);
  return e;
}

static int update(sdm_topic *t) {
  sdm_store *s = t->store;
  int rc = sdm_store_refresh(s);
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  const sdm_topic_entry *e = entry_of(t);
  rc = e ? take_entry(t, e) : SDM_UNKNOWN_TOPIC;
  sdm_mutex_unlock(&s->lock);
  return rc;
}

int sdm_topic_check(sdm_topic *t) {
  int rc = sdm_store_check(t->store);
  if (rc < 0) return rc;
  return t->generation == sdm_store_generation(t->store) && t->store->control ? 0 : update(t);
}

static void forget_logs(sdm_topic *t) {
  for (int32_t i = 0; i < t->log_count; i++) {
    sdm_log_unref(t->logs[i]);
    t->logs[i] = NULL;
  }
}

void sdm_topic_release(sdm_topic *t) {
  if (!t) return;
  forget_logs(t);
  sdm_free(t->logs);
  sdm_buf_free(&t->scratch);
  sdm_store_unref(t->store);
  sdm_free(t);
}

const char *sdm_topic_name(const sdm_topic *t) { return t->entry.name; }

void sdm_topic_id(const sdm_topic *t, uint8_t out[SDM_TOPIC_ID_BYTES]) { memcpy(out, t->entry.id.bytes, SDM_TOPIC_ID_BYTES); }

int sdm_topic_partitions(sdm_topic *t) {
  int rc = sdm_topic_check(t);
  return rc < 0 ? rc : t->entry.partitions;
}

/* After sdm_topic_check. */
static int partition_log(sdm_topic *t, int32_t partition, int64_t now, sdm_log **out) {
  if (partition < 0 || partition >= t->entry.partitions) {
    return sdm_fail(SDM_UNKNOWN_PARTITION, "topic '%s' has no partition %d; it has %d, counted from 0", t->entry.name, partition, t->entry.partitions);
  }
  sdm_store_saw(t->store, now);
  if (t->logs[partition] && sdm_log_is_replaced(t->logs[partition])) {
    sdm_log_unref(t->logs[partition]);
    t->logs[partition] = NULL;
  }
  if (!t->logs[partition]) {
    int rc = sdm_store_log(t->store, &t->entry, partition, now, &t->logs[partition]);
    if (rc < 0) return rc;
  }
  *out = t->logs[partition];
  return 0;
}

int sdm_topic_log(sdm_topic *t, int32_t partition, int64_t now, sdm_log **out) {
  int rc = sdm_topic_check(t);
  return rc < 0 ? rc : partition_log(t, partition, now, out);
}

/* ---- the end of a deletion ---- */

/* The topic is gone once the file says so; its folders follow, also after a crash in between. One that cannot go does not keep the others. */
static int finish_deletion_locked(sdm_store *s, sdm_topic_entry *e, int64_t now) {
  int64_t delay_ms = sdm_config_file_delete_delay_ms(&e->config, &s->defaults);
  sdm_failure first = {0};
  for (int32_t p = 0; p < e->partitions; p++) sdm_failure_note(&first, sdm_folder_delete(s, e->name, &e->id, p, now, delay_ms));
  if (first.code == 0) sdm_failure_note(&first, sdm_folders_forget_offsets(s, e->name, e->partitions));
  if (first.code == 0) sdm_failure_note(&first, sdm_snapshots_remove(s, &e->id));
  if (first.code == 0) sdm_failure_note(&first, s->env.fs->sync_dir(s->env.fs, s->env.root, NULL));
  if (first.code < 0) return sdm_failure_tell(&first);
  sdm_topics_remove(&s->topics, e);
  return sdm_store_topics_save(s);
}

/* Of this topic, or of all; under the topics lock. Who marked it may have died before the mark was durable: else a loss of power could bring back the topic,
** and not its folders. */
static int finish_deletions_locked(sdm_store *s, const char *name, int64_t now) {
  sdm_failure first = {0};
  for (size_t i = s->topics.count; i-- > 0;) {
    sdm_topic_entry *e = s->topics.entries[i];
    if (e->state != SDM_TOPIC_DELETED || (name && strcmp(e->name, name) != 0)) continue;
    int rc = s->env.fs->sync_dir(s->env.fs, s->env.root, NULL);
    sdm_failure_note(&first, rc == 0 ? finish_deletion_locked(s, e, now) : rc);
  }
  return sdm_failure_tell(&first);
}

/* ---- creation and change; under the topics lock ---- */

/* A script that is named from now on, or whose topic is compacted no longer, must be there and fit. */
static int check_policy(sdm_store *s, const char *topic, const sdm_log_config *before, const sdm_log_config *now) {
  const char *text, *name = now->policy_script;
  char *bytes;
  size_t size;
  unsigned asks;
  bool compacted = now->cleanup_policy & SDM_POLICY_COMPACT;
  if (!*name || (strcmp(name, before->policy_script) == 0 && (compacted || now->cleanup_policy == before->cleanup_policy))) return 0;
  int rc = sdm_policy_read(s->env.fs, s->env.root, name, &bytes, &text, &size);
  if (rc < 0) return rc;
  if (!compacted) rc = sdm_policy_check(name, text, size, &asks);
  if (!compacted && rc == 0) rc = sdm_policy_fits(name, asks, topic, compacted);
  sdm_free(bytes);
  return rc;
}

/* The set with what is given on top, checked as a whole. */
static int change_config(sdm_store *s, const char *topic, sdm_config_set *set, const sdm_settings *given, const char *const *reset, size_t reset_count, int32_t *partitions) {
  sdm_log_config effective, before = {0};
  int rc = 0;
  sdm_config_effective(set, &s->defaults, &before);
  if (reset_count > 0) {                   /* a config in both lists would be neither set nor reset for sure */
    sdm_config_set both = {0};
    int32_t ignored;
    if ((rc = sdm_config_apply(&both, given, &ignored)) < 0) return rc;
    for (size_t i = 0; rc == 0 && i < reset_count; i++) rc = sdm_config_refuse_if_set(&both, reset[i]);
  }
  for (size_t i = 0; rc == 0 && i < reset_count; i++) rc = sdm_config_reset(set, reset[i]);
  if (rc == 0) rc = sdm_config_apply(set, given, partitions);
  if (rc == 0) rc = sdm_config_effective(set, &s->defaults, &effective);
  return rc == 0 ? check_policy(s, topic, &before, &effective) : rc;
}

/* A deletion of that name that failed half-way is finished before: later it would take the new topic's folders. And a list is there before the first topic's
** folders are: a store that has those alone has lost it. */
int sdm_topic_entry_make(sdm_store *s, const char *name, const sdm_settings *config, sdm_topic_entry *out) {
  sdm_topic_entry e = {.partitions = 1, .state = SDM_TOPIC_LIVE};
  int rc = finish_deletions_locked(s, name, atomic_load_explicit(&s->last_now, memory_order_relaxed));
  if (rc == 0) rc = change_config(s, name, &e.config, config, NULL, 0, &e.partitions);
  if (rc == 0 && s->topics.count == 0) rc = sdm_store_topics_save(s);
  if (rc == 0) rc = sdm_random(e.id.bytes, sizeof e.id.bytes);
  if (rc < 0) return rc;
  e.id.bytes[6] = (uint8_t)((e.id.bytes[6] & 0x0f) | 0x40);       /* a version 4 UUID, as Kafka draws them; never all zero, */
  e.id.bytes[8] = (uint8_t)((e.id.bytes[8] & 0x3f) | 0x80);
  e.id.bytes[0] &= 0x7f;                                           /* and its text never begins with a dash */
  memcpy(e.name, name, strlen(name) + 1);
  *out = e;
  return 0;
}

/* The list that could not be saved may be on the disk: what was before is saved again. */
static int unsaved(sdm_store *s, sdm_new_partitions *made, int rc) {
  sdm_failure why = {0};
  sdm_failure_note(&why, rc);
  sdm_store_topics_save(s);
  return sdm_new_partitions_undo(s, made, sdm_failure_tell(&why));
}

static int list_new(sdm_store *s, const sdm_topic_entry *e, sdm_new_partitions *made) {
  int rc = sdm_topics_add(&s->topics, e);
  if (rc < 0) return sdm_new_partitions_undo(s, made, rc);
  if ((rc = sdm_store_topics_save(s)) < 0) {
    sdm_topics_remove(&s->topics, sdm_topics_find(&s->topics, e->name));
    return unsaved(s, made, rc);
  }
  sdm_new_partitions_listed(s, &e->id, made);
  return 0;
}

static int list_changed(sdm_store *s, sdm_topic_entry *e, const sdm_topic_entry *changed, sdm_new_partitions *made) {
  sdm_topic_entry before = *e;
  *e = *changed;
  int rc = sdm_store_topics_save(s);
  if (rc < 0) {
    *e = before;
    return unsaved(s, made, rc);
  }
  sdm_new_partitions_listed(s, &e->id, made);
  return 0;
}

/* `t` is the new topic's handle: after it is listed nothing can fail. */
static int create_locked(sdm_topic *t, const char *name, const sdm_settings *config, int64_t now) {
  sdm_store *s = t->store;
  sdm_topic_entry e;
  sdm_new_partitions made = {0};
  int rc = sdm_topic_entry_make(s, name, config, &e);
  if (rc == 0) rc = take_entry(t, &e);
  if (rc == 0) rc = sdm_new_partitions_make(s, &e, 0, e.partitions, now, &made);
  if (rc == 0) rc = list_new(s, &e, &made);
  t->generation = s->topics_generation;
  return rc;
}

/* The entry `to` with what is given on top, of the topic that `e` is now. */
static int change_entry(sdm_store *s, const sdm_topic_entry *e, sdm_topic_entry *to, const sdm_settings *given, const char *const *reset, size_t reset_count) {
  int rc = change_config(s, to->name, &to->config, given, reset, reset_count, &to->partitions);
  if (rc < 0 || to->partitions >= e->partitions) return rc;
  return sdm_fail(SDM_POLICY, "topic '%s' has %d partitions; their number can grow only, not become %d", e->name, e->partitions, to->partitions);
}

static int change_locked(sdm_topic *t, sdm_topic_entry *e, const sdm_settings *given, const char *const *reset, size_t reset_count, int64_t now) {
  sdm_store *s = t->store;
  sdm_topic_entry changed = *e;
  sdm_new_partitions made = {0};
  int rc = change_entry(s, e, &changed, given, reset, reset_count);
  if (rc < 0) return rc;
  if (memcmp(&changed, e, sizeof changed) == 0) return 0;
  rc = grow_logs(t, changed.partitions);
  if (rc == 0) rc = sdm_new_partitions_make(s, &changed, e->partitions, changed.partitions, now, &made);
  if (rc == 0) rc = list_changed(s, e, &changed, &made);
  return rc == 0 ? take_entry(t, e) : rc;
}

/* ---- opening ---- */

static int find_entry(sdm_store *s, const char *name, sdm_topic_entry *out) {
  int rc = sdm_store_refresh(s);
  if (rc < 0) return rc;
  sdm_mutex_lock(&s->lock);
  const sdm_topic_entry *e = sdm_topics_find(&s->topics, name);
  if (e) *out = *e;
  sdm_mutex_unlock(&s->lock);
  return e ? 0 : sdm_fail(SDM_UNKNOWN_TOPIC, "there is no topic '%s'; give a config, even {}, to create it", name);
}

/* A topic's partitions are opened with it: so what they hold is put right before the first record. */
static int open_logs(sdm_topic *t, int64_t now) {
  sdm_log *l;
  int rc = 0;
  for (int32_t p = 0; rc == 0 && p < t->entry.partitions; p++) rc = sdm_topic_log(t, p, now, &l);
  return rc;
}

static int open_existing(sdm_topic *t, const char *name, int64_t now) {
  int rc = find_entry(t->store, name, &t->entry);
  if (rc == 0) rc = update(t);
  return rc == 0 ? open_logs(t, now) : rc;
}

/* 1: there is one of that name since the last look. */
static int create(sdm_topic *t, const char *name, const sdm_settings *config, int64_t now) {
  sdm_store *s = t->store;
  int rc = sdm_store_topics_lock(s);
  if (rc < 0) return rc;
  rc = sdm_topics_find(&s->topics, name) ? 1 : create_locked(t, name, config, now);
  sdm_store_topics_unlock(s);
  return rc;
}

/* Makes the topic or changes its configs; others may be deleting and making it. */
static int open_defined(sdm_topic *t, const char *name, const sdm_settings *config, int64_t now) {
  for (;;) {
    int rc = open_existing(t, name, now);
    if (rc == 0) rc = sdm_topic_alter(t, config, NULL, 0, now);
    if (rc != SDM_UNKNOWN_TOPIC) return rc;
    forget_logs(t);
    if ((rc = create(t, name, config, now)) != 1) return rc;
  }
}

int sdm_topic_open(sdm_store *s, const char *name, const sdm_settings *config, int64_t now, sdm_topic **out) {
  int rc = config ? sdm_store_check_writable(s) : sdm_store_check(s);
  if (rc == 0) rc = sdm_topic_name_check(name);
  if (rc == 0) rc = sdm_store_topics_settle(s);
  if (rc < 0) return rc;
  sdm_topic *t = sdm_calloc(1, sizeof *t);
  if (!t) return sdm_no_memory();
  t->store = sdm_store_ref(s);
  rc = config ? open_defined(t, name, config, now) : open_existing(t, name, now);
  if (rc < 0) {
    sdm_topic_release(t);
    return rc;
  }
  *out = t;
  return 0;
}

int sdm_topic_alter(sdm_topic *t, const sdm_settings *set, const char *const *reset, size_t reset_count, int64_t now) {
  sdm_store *s = t->store;
  int rc = sdm_topic_check(t);
  if (rc == 0) rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_store_topics_lock(s);
  if (rc < 0) return rc;
  sdm_topic_entry *e = entry_of(t);
  rc = e ? change_locked(t, e, set, reset, reset_count, now) : SDM_UNKNOWN_TOPIC;
  sdm_store_topics_unlock(s);
  return rc;
}

int sdm_topic_describe(sdm_topic *t, size_t i, sdm_described *out) {
  int rc = sdm_topic_check(t);
  if (rc < 0) return rc;
  sdm_mutex_lock(&t->store->lock);
  sdm_config_describe(&t->entry.config, &t->store->defaults, i, out);
  sdm_mutex_unlock(&t->store->lock);
  return 0;
}

/* ---- deletion ---- */

static bool has_unfinished(sdm_store *s) {
  sdm_mutex_lock(&s->lock);
  size_t i = 0;
  while (i < s->topics.count && s->topics.entries[i]->state != SDM_TOPIC_DELETED) i++;
  bool found = i < s->topics.count;
  sdm_mutex_unlock(&s->lock);
  return found;
}

int sdm_store_finish_deletions(sdm_store *s, int64_t now) {
  int rc = has_unfinished(s) ? sdm_store_topics_lock(s) : 1;
  if (rc == 1) return 0;
  if (rc < 0) return rc;
  rc = finish_deletions_locked(s, NULL, now);
  sdm_store_topics_unlock(s);
  return rc;
}

int sdm_store_delete_topic(sdm_store *s, const char *name, bool if_exists, int64_t now) {
  int rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_topic_name_check(name);
  if (rc == 0) rc = sdm_store_topics_lock(s);
  if (rc < 0) return rc;
  sdm_store_saw(s, now);
  sdm_topic_entry *e = sdm_topics_find(&s->topics, name);
  if (!e) {
    rc = finish_deletions_locked(s, name, now);        /* one that failed may be in memory only */
    sdm_store_topics_unlock(s);
    return rc < 0 ? rc : if_exists ? 0 : sdm_fail(SDM_UNKNOWN_TOPIC, "there is no topic '%s'", name);
  }
  e->state = SDM_TOPIC_DELETED;
  rc = sdm_store_topics_save(s);
  sdm_store_forget_deleted(s);
  if (rc == 0) finish_deletion_locked(s, e, now);      /* what fails of it is left to upkeep: the topic is deleted, durably */
  sdm_store_topics_unlock(s);
  return rc;
}

/* ---- what would be refused ---- */

/* A deletion of that name that is not finished is finished by the creation: what it has left is in nobody's way. */
int sdm_topic_check_change(sdm_store *s, const char *name, const sdm_settings *set, const char *const *reset, size_t reset_count) {
  sdm_topic_entry now = {0};
  int rc = sdm_store_check(s);
  if (rc == 0) rc = sdm_topic_name_check(name);
  if (rc == 0 && (rc = find_entry(s, name, &now)) == SDM_UNKNOWN_TOPIC) rc = 0;
  if (rc < 0) return rc;
  sdm_topic_entry then = now;
  if (now.partitions == 0) then.partitions = 1;
  sdm_mutex_lock(&s->lock);
  rc = change_entry(s, &now, &then, set, reset, reset_count);
  sdm_mutex_unlock(&s->lock);
  if (rc < 0 || has_unfinished(s)) return rc;
  return sdm_folder_check_free(s, name, now.partitions, then.partitions, false);
}

/* ---- flushing in another thread ---- */

static int flusher_of(sdm_store *s, sdm_flusher **out) {
  sdm_mutex_lock(&s->lock);
  int rc = s->flusher ? 0 : sdm_flusher_start(&s->flusher);
  *out = s->flusher;
  sdm_mutex_unlock(&s->lock);
  return rc;
}

int sdm_topic_flush_begin(sdm_topic *t, int32_t partition, int64_t now, uint64_t *ticket) {
  sdm_flusher *f;
  sdm_log *l;
  int rc = sdm_topic_log(t, partition, now, &l);
  if (rc == 0) rc = sdm_log_check_writable(l);
  if (rc == 0) rc = flusher_of(t->store, &f);
  return rc == 0 ? sdm_flusher_begin(f, l, now, ticket) : rc;
}

int sdm_topic_flush_poll(sdm_topic *t, int32_t partition, uint64_t ticket, int64_t *durable) {
  return sdm_topic_flush_wait(t, partition, ticket, 0, durable);
}

int sdm_topic_flush_wait(sdm_topic *t, int32_t partition, uint64_t ticket, int64_t timeout_ms, int64_t *durable) {
  sdm_flusher *f;
  sdm_log *l;
  int rc = sdm_topic_log(t, partition, atomic_load(&t->store->last_now), &l);
  if (rc == 0) rc = sdm_log_check_writable(l);
  if (rc == 0) rc = flusher_of(t->store, &f);
  if (rc == 0) rc = sdm_flusher_wait(f, l, ticket, timeout_ms);
  if (rc == 1) *durable = atomic_load(&l->control->durable_end);
  return rc;
}

/* ---- where a record goes ---- */

static int32_t choose(sdm_topic *t, const sdm_record *r) {
  int32_t n = t->entry.partitions;
  if (n == 1) return 0;
  if (r->key_size < 0) return (int32_t)(t->round_robin++ % (uint32_t)n);
  return sdm_key_partition(r->key, (size_t)r->key_size, n);
}

static int choose_for_batch(sdm_topic *t, const sdm_record *records, size_t count, int32_t *out) {
  int32_t n = t->entry.partitions, found = -1;
  *out = 0;
  if (n == 1 || count == 0) return 0;
  for (size_t i = 0; i < count; i++) {
    if (records[i].key_size < 0) continue;
    int32_t p = sdm_key_partition(records[i].key, (size_t)records[i].key_size, n);
    if (found >= 0 && p != found) {
      return sdm_fail(SDM_INVALID_RECORD, "record %zu belongs to partition %d and one before it to %d; a batch goes to one partition: give partition=, or sort the records by it",
                      i + 1, p, found);
    }
    found = p;
  }
  *out = found >= 0 ? found : (int32_t)(t->round_robin++ % (uint32_t)n);
  return 0;
}

/* An import has put another folder in the place of the empty partition between being asked for and being appended to. */
static bool replaced_meanwhile(sdm_log *l, int rc) { return rc == SDM_BUSY && sdm_log_is_replaced(l); }

int sdm_topic_append(sdm_topic *t, const sdm_record *r, int32_t partition, unsigned flags, int64_t now, int64_t *offset, int32_t *where) {
  sdm_log *l;
  int64_t last;
  int rc = sdm_topic_check(t);
  if (rc < 0) return rc;
  if (partition == SDM_ANY_PARTITION) partition = choose(t, r);
  sdm_append a = {.records = r, .count = 1, .flags = flags, .scratch = &t->scratch};
  do {
    if ((rc = partition_log(t, partition, now, &l)) < 0) return rc;
    rc = sdm_log_append(l, &t->config, &a, now, offset, &last);
  } while (replaced_meanwhile(l, rc));
  if (rc == 0) *where = partition;
  return rc;
}

int sdm_topic_append_batch(sdm_topic *t, const sdm_record *records, size_t count, int32_t partition, sdm_codec codec, unsigned flags, int64_t now,
                           int64_t *first, int64_t *last, int32_t *where) {
  sdm_log *l;
  int rc = sdm_topic_check(t);
  if (rc == 0 && partition == SDM_ANY_PARTITION) rc = choose_for_batch(t, records, count, &partition);
  if (rc < 0) return rc;
  sdm_append a = {.records = records, .count = count, .own_batch = true, .codec = codec, .flags = flags, .scratch = &t->scratch};
  do {
    if ((rc = partition_log(t, partition, now, &l)) < 0) return rc;
    rc = sdm_log_append(l, &t->config, &a, now, first, last);
  } while (replaced_meanwhile(l, rc));
  if (rc == 0) *where = partition;
  return rc;
}
