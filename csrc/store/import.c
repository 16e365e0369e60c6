/* Adopting a copy of a broker's partition directory. The copy is made and verified in a folder that is nobody's (staging.h), without any lock; only its
** becoming the partition is done under the topics lock. What decides is, for a partition that is new, the topics file that lists it; for one that is listed
** and empty, the rename that puts the folder in its place. After that nothing can fail.
*/
#include <string.h>

#include "base/mem.h"
#include "log/adopt.h"
#include "log/offsets.h"
#include "store/new_partitions.h"
#include "store/staging.h"
#include "store/topic.h"

typedef struct import {
  sdm_store *store;
  const char *topic;
  int32_t partition;
  bool abort_open;
  int64_t now;
  bool opened;                             /* the partition was listed, of the topic with this id, and is open */
  sdm_uuid id;
  sdm_log_config config;
  sdm_staging staging;
  sdm_adopted adopted;
} import;

static int find_entry(import *m, sdm_topic_entry *out, bool *found) {
  int rc = sdm_store_refresh(m->store);
  if (rc < 0) return rc;
  sdm_mutex_lock(&m->store->lock);
  const sdm_topic_entry *e = sdm_topics_find(&m->store->topics, m->topic);
  *found = e != NULL;
  if (e) *out = *e;
  sdm_mutex_unlock(&m->store->lock);
  return 0;
}

/* A partition that is listed is opened first: so its folder is there, put right, and its page tells whether it is empty. */
static int check_empty(import *m, const sdm_topic_entry *e) {
  sdm_log *l;
  int64_t end;
  int rc = sdm_store_log(m->store, e, m->partition, m->now, &l);
  if (rc < 0) return rc;
  rc = sdm_log_latest(l, &end);
  sdm_log_unref(l);
  if (rc < 0 || end == 0) return rc;
  return sdm_fail(SDM_EXISTS, "partition %s-%d has records, or had: its log end offset is %lld; import into a partition that is new", m->topic, m->partition, (long long)end);
}

static int look(import *m) {
  sdm_topic_entry e = {0};
  bool found;
  int rc = find_entry(m, &e, &found);
  if (rc == 0) rc = sdm_config_effective(&e.config, &m->store->defaults, &m->config);
  m->opened = found && m->partition < e.partitions;
  m->id = e.id;
  return rc == 0 && m->opened ? check_empty(m, &e) : rc;
}

/* ---- becoming the partition; under the topics lock ---- */

/* `listed`: what the topics file says next, in memory already. */
static int place(import *m, const sdm_uuid *id) {
  int rc = sdm_staging_place(m->store, &m->staging, m->topic, id, m->partition);
  if (rc == 0) rc = sdm_store_topics_save(m->store);
  return rc < 0 ? sdm_staging_take_back(m->store, &m->staging, m->topic, m->partition, rc) : 0;
}

/* The partitions before it that the topic has not either are made with it. */
static int place_with_those_before(import *m, const sdm_topic_entry *e, int32_t first) {
  sdm_store *s = m->store;
  sdm_new_partitions made;
  int rc = sdm_folder_check_free(s, m->topic, m->partition, m->partition + 1, true);
  if (rc == 0) rc = sdm_new_partitions_make(s, e, first, m->partition, m->now, &made);
  if (rc < 0) return rc;
  if ((rc = place(m, &e->id)) < 0) return sdm_new_partitions_undo(s, &made, rc);
  sdm_new_partitions_listed(s, &e->id, &made);
  return 0;
}

static int place_in_new_topic(import *m) {
  sdm_store *s = m->store;
  sdm_topic_entry e;
  int rc = sdm_topic_entry_make(s, m->topic, &(sdm_settings){0}, &e);
  e.partitions = m->partition + 1;
  if (rc == 0) rc = sdm_topics_add(&s->topics, &e);
  if (rc < 0) return rc;
  if ((rc = place_with_those_before(m, &e, 0)) < 0) sdm_topics_remove(&s->topics, sdm_topics_find(&s->topics, m->topic));
  return rc;
}

static int place_behind(import *m, sdm_topic_entry *e) {
  int32_t before = e->partitions;
  e->partitions = m->partition + 1;
  int rc = place_with_those_before(m, e, before);
  if (rc < 0) e->partitions = before;
  return rc;
}

static int place_or_replace(import *m) {
  sdm_topic_entry *e = sdm_topics_find(&m->store->topics, m->topic);
  if (!e) return place_in_new_topic(m);
  if (m->partition >= e->partitions) return place_behind(m, e);
  if (!m->opened || memcmp(&m->id, &e->id, sizeof e->id) != 0) return 1;
  return sdm_staging_replace(m->store, &m->staging, m->topic, &e->id, m->partition, m->now);
}

/* 1: the partition was listed since the last look: it is to be looked at. */
static int commit(import *m) {
  int rc = sdm_store_topics_lock(m->store);
  if (rc < 0) return rc;
  rc = place_or_replace(m);
  if (rc == 0) sdm_staging_done(m->store, &m->staging, m->topic, m->partition);
  sdm_store_topics_unlock(m->store);
  return rc;
}

static int look_and_commit(import *m) {
  enum { TRIES = 100 };
  int rc = 1;
  for (int i = 0; (rc == 1 || rc == SDM_UNKNOWN_TOPIC) && i < TRIES; i++) {        /* listed, or deleted, since */
    rc = look(m);
    if (rc == 0) rc = commit(m);
  }
  return rc == 1 ? sdm_fail(SDM_BUSY, "partition %s-%d is made and deleted again and again; try again", m->topic, m->partition) : rc;
}

/* What can be told only now that the partition is there. Without the cleaner's checkpoint the next cleaning does again what a broker's had done. */
static void tell(import *m) {
  sdm_topic_entry e;
  sdm_log *l;
  bool found;
  int64_t unknown = -1, clean = m->adopted.clean_offset;
  if ((clean < 0 && m->adopted.left_out == 0) || find_entry(m, &e, &found) < 0 || !found) return;
  if (m->partition >= e.partitions || sdm_store_log(m->store, &e, m->partition, m->now, &l) < 0) return;
  if (clean >= 0 && sdm_offsets_set(&m->store->env, SDM_CLEANER_CHECKPOINT, m->topic, m->partition, clean) == 0) {
    atomic_compare_exchange_strong(&l->control->clean_offset, &unknown, clean);
  }
  if (m->adopted.left_out > 0) atomic_store(&l->control->truncated_bytes, m->adopted.left_out);
  sdm_log_unref(l);
}

static int run(import *m, const char *dir) {
  int rc = look(m);
  if (rc == 0) rc = sdm_staging_begin(m->store, m->topic, m->partition, m->now, &m->staging);
  if (rc == 0) rc = sdm_adopt(m->store->env.fs, dir, m->staging.dir, &(sdm_adopt_options){&m->config, m->abort_open, m->now}, &m->adopted);
  if (rc == 0) rc = look_and_commit(m);
  if (rc == SDM_IO || rc == SDM_DISK_FULL) rc = sdm_fail_within(rc, "importing %s as %s-%d: ", dir, m->topic, m->partition);
  return sdm_staging_end(m->store, &m->staging, rc);
}

int sdm_store_import(sdm_store *s, const char *topic, const char *dir, const sdm_import_options *options, int64_t now, sdm_import_report *out) {
  int32_t partition = options->partition;
  import m = {.store = s, .topic = topic, .partition = partition, .abort_open = options->abort_open, .now = now};
  int rc = sdm_store_check_writable(s);
  if (rc == 0) rc = sdm_topic_name_check(topic);
  if (rc == 0 && (partition < 0 || partition >= SDM_PARTITIONS_MAX)) {
    rc = sdm_fail(SDM_UNKNOWN_PARTITION, "there can be no partition %d; a topic has at most %d, counted from 0", partition, SDM_PARTITIONS_MAX);
  }
  if (rc < 0) return rc;
  sdm_store_saw(s, now);
  if ((rc = run(&m, dir)) < 0) return rc;
  tell(&m);
  *out = (sdm_import_report){m.adopted.log_end, m.adopted.left_out};
  return 0;
}
