/* Verifying a store: each partition of each topic, and the store's own files. Every partition is looked at through a handle of its own that only reads, so
** that not even what is owed to a crash is put right.
*/
#include <string.h>

#include "base/mem.h"
#include "log/bare.h"
#include "log/offsets.h"
#include "log/verify.h"
#include "store/store.h"

enum { LIMIT = 64 << 20 };

/* ---- the store's own files ---- */

static int own_problem(sdm_verify_report *r, const char *path, int rc, sdm_harm harm) {
  sdm_verification v = {.report = r, .topic = "", .partition = -1};
  return sdm_report_problem(&v, path, -1, -1, rc, harm);
}

static int decode_topics(const char *text, size_t size) {
  sdm_topics_file f = {0};
  int rc = sdm_topics_decode(&f, text, size);
  sdm_topics_free(&f);
  return rc;
}

static int decode_checkpoint(const char *text, size_t size) {
  sdm_checkpoint c = {0};
  int rc = sdm_checkpoint_decode(&c, text, size);
  sdm_checkpoint_free(&c);
  return rc;
}

static int decode_policy(const char *text, size_t size) { return sdm_policy_decode(text, size, &(const char *){NULL}, &(size_t){0}); }

/* A file that is missing is as good as an empty one. */
static int verify_own(sdm_store *s, const char *name, int (*decode)(const char *text, size_t size), sdm_harm harm, sdm_verify_report *r) {
  char *path = sdm_format("%s/%s", s->env.root, name), *text = NULL;
  size_t size;
  int rc = path ? sdm_fs_read_all(s->env.fs, path, LIMIT, &text, &size) : sdm_no_memory();
  if (rc == 0 && (rc = decode(text, size)) < 0) rc = sdm_fail_within(rc, "%s: ", path);
  if (rc == SDM_NOT_FOUND) rc = 0;
  if (rc < 0 && sdm_is_finding(rc)) rc = own_problem(r, path, rc, harm);
  sdm_free(text);
  sdm_free(path);
  return rc;
}

static int verify_policies(sdm_store *s, sdm_verify_report *r) {
  sdm_names names = {0};
  int rc = s->env.fs->list(s->env.fs, s->env.root, &names);
  for (size_t i = 0; rc == 0 && i < names.count; i++) {
    if (sdm_policy_name_in(names.items[i])) rc = verify_own(s, names.items[i], decode_policy, SDM_HARM_DATA, r);
  }
  sdm_names_clear(&names);
  return rc;
}

static int verify_own_files(sdm_store *s, sdm_verify_report *r) {
  int rc = verify_own(s, SDM_TOPICS_NAME, decode_topics, SDM_HARM_DATA, r);
  if (rc == 0) rc = verify_own(s, SDM_LOG_START_CHECKPOINT, decode_checkpoint, SDM_HARM_DERIVED, r);
  if (rc == 0) rc = verify_own(s, SDM_RECOVERY_CHECKPOINT, decode_checkpoint, SDM_HARM_DERIVED, r);
  if (rc == 0) rc = verify_own(s, SDM_CLEANER_CHECKPOINT, decode_checkpoint, SDM_HARM_DERIVED, r);
  return rc == 0 ? verify_policies(s, r) : rc;
}

/* ---- topics ---- */

static int look_and_verify(sdm_store *s, const sdm_topic_entry *topic, const char *dir, sdm_verification *v) {
  sdm_log *l;
  int rc = sdm_folder_look(s, topic->name, &topic->id, v->partition);
  if (rc == 0) v->report->partitions++;
  if (rc <= 0) return rc;
  if ((rc = sdm_bare_open_on(s->env.fs, dir, &l)) < 0) return rc;
  rc = sdm_verify_log(l, v);
  sdm_log_unref(l);
  return rc;
}

/* What was found wrong with a partition since the report was as in `before`, if its topic was deleted meanwhile, perhaps to be made anew, is nothing. */
static int withdraw(sdm_store *s, const sdm_topic_entry *topic, const sdm_verify_report *before, sdm_verify_report *r) {
  if (r->problem_count == before->problem_count && r->dropped == before->dropped) return 0;
  int rc = sdm_store_still_lists(s, topic->name, &topic->id);
  if (rc == 0) sdm_report_withdraw(r, before);
  return rc < 0 ? rc : 0;
}

static int verify_partition(sdm_store *s, const sdm_topic_entry *topic, int32_t partition, sdm_verify_report *r) {
  sdm_verification v = {.report = r, .topic = topic->name, .partition = partition};
  const sdm_verify_report before = *r;
  sdm_failure why = {0};
  char *dir = sdm_format("%s/%s-%d", s->env.root, topic->name, partition);
  int rc = dir ? look_and_verify(s, topic, dir, &v) : sdm_no_memory();
  if (rc == SDM_UNKNOWN_TOPIC) rc = 0;
  if (rc < 0 && sdm_is_finding(rc)) {
    sdm_failure_note(&why, rc);
    rc = sdm_store_still_lists(s, topic->name, &topic->id);
    if (rc == 1) rc = sdm_report_problem(&v, dir, -1, -1, sdm_failure_tell(&why), SDM_HARM_DATA);
  }
  if (rc == 0) rc = withdraw(s, topic, &before, r);
  sdm_free(dir);
  return rc;
}

/* Without it nothing of the topic is deleted or compacted any more. */
static int verify_script(sdm_store *s, const sdm_topic_entry *topic, sdm_verify_report *r) {
  const char *name = topic->config.policy_script;
  sdm_file_info info;
  char *path = *name ? sdm_policy_path(s->env.root, name) : NULL;
  if (!path) return *name ? sdm_no_memory() : 0;
  int rc = s->env.fs->path_info(s->env.fs, path, &info);
  if (rc == SDM_NOT_FOUND) rc = own_problem(r, path, sdm_fail(rc, "policy script '%s', which topic '%s' names, is missing", name, topic->name), SDM_HARM_DATA);
  sdm_free(path);
  return rc;
}

static int verify_topic(sdm_store *s, const sdm_topic_entry *topic, sdm_verify_report *r) {
  int rc = verify_script(s, topic, r);
  r->topics++;
  for (int32_t p = 0; rc == 0 && p < topic->partitions; p++) {
    rc = sdm_store_check(s);
    if (rc == 0) rc = verify_partition(s, topic, p, r);
  }
  return rc;
}

static int verify_topics(sdm_store *s, const char *name, sdm_verify_report *r) {
  sdm_topic_entry *topics = NULL;
  size_t count = 0;
  bool found = false;
  int rc = sdm_store_copy_topics(s, &topics, &count);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    if (topics[i].state != SDM_TOPIC_LIVE || (name && strcmp(topics[i].name, name) != 0)) continue;
    found = true;
    rc = verify_topic(s, &topics[i], r);
  }
  sdm_free(topics);
  return rc == 0 && name && !found ? sdm_fail(SDM_UNKNOWN_TOPIC, "there is no topic '%s'", name) : rc;
}

/* The topics file may be damaged since it was read: what it said is verified all the same. */
static int verify(sdm_store *s, const char *topic, sdm_verify_report *r) {
  int rc = sdm_store_check(s);
  if (rc == 0) rc = verify_own_files(s, r);
  if (rc == 0 && r->problem_count == 0) rc = sdm_store_refresh(s);
  return rc == 0 ? verify_topics(s, topic, r) : rc;
}

int sdm_store_verify(sdm_store *s, const char *topic, sdm_verify_report **out) {
  int rc = topic ? sdm_topic_name_check(topic) : 0;
  if (rc < 0) return rc;
  sdm_verify_report *r = sdm_calloc(1, sizeof *r);
  rc = r ? verify(s, topic, r) : sdm_no_memory();
  if (rc < 0) sdm_verify_report_free(r);
  else *out = r;
  return rc;
}
