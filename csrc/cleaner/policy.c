/* Invariant: a verdict that comes from here is one that the caller may act on as it stands; everything doubtful is an error. */
#include "cleaner/policy.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cleaner/cleanable.h"
#include "sediment.h"

struct sdm_policy {
  const sdm_policy_engine *engine;
  sdm_log *log;
  void *script;
  unsigned asks;
  bool compacts;                           /* the topic is compacted */
  char name[SDM_POLICY_NAME_MAX + 1];
};

static const sdm_policy_engine *_Atomic the_engine;

void sdm_policy_engine_set(const sdm_policy_engine *engine) { atomic_store(&the_engine, engine); }

static int start(const char *name, const char *text, size_t size, const sdm_policy_engine **engine, void **script, unsigned *asks) {
  *engine = atomic_load(&the_engine);
  if (*engine) return (*engine)->open(name, text, size, script, asks);
  return sdm_fail(SDM_POLICY, "policy script '%s': nothing is here that runs scripts; open the store with the Lua module", name);
}

int sdm_policy_fits(const char *name, unsigned asks, const char *topic, bool compacted) {
  if (compacted || !(asks & SDM_POLICY_ASKS_KEYS)) return 0;
  return sdm_fail(SDM_POLICY, "policy script '%s' decides of keys, and topic '%s' is not compacted; its cleanup.policy would have to include compact", name, topic);
}

int sdm_policy_check(const char *name, const char *text, size_t size, unsigned *asks) {
  const sdm_policy_engine *engine;
  void *script;
  int rc = start(name, text, size, &engine, &script, asks);
  if (rc == 0) engine->close(script);
  return rc;
}

int sdm_policy_read(sdm_fs *fs, const char *root, const char *name, char **bytes, const char **text, size_t *size) {
  enum { LIMIT = SDM_POLICY_TEXT_MAX + 4096 };
  char *path = sdm_policy_path(root, name);
  *bytes = NULL;
  int rc = path ? sdm_fs_read_all(fs, path, LIMIT, bytes, size) : sdm_no_memory();
  if (rc == SDM_NOT_FOUND) rc = sdm_fail(rc, "there is no policy script '%s' in %s; store:policy puts one there", name, root);
  else if (rc == 0 && (rc = sdm_policy_decode(*bytes, *size, text, size)) < 0) rc = sdm_fail_within(rc, "%s: ", path);
  sdm_free(path);
  if (rc == 0) return 0;
  sdm_free(*bytes);
  *bytes = NULL;
  return rc;
}

static bool is_damage(int rc) { return rc == SDM_NOT_FOUND || rc == SDM_CORRUPT; }

int sdm_policy_open(sdm_log *l, const sdm_log_config *cfg, sdm_policy **out) {
  const char *text;
  char *bytes = NULL;
  size_t size = 0;
  *out = NULL;
  if (!cfg->policy_script[0] || !l->env) return 0;
  sdm_policy *p = sdm_calloc(1, sizeof *p);
  if (!p) return sdm_no_memory();
  p->log = l;
  p->compacts = cfg->cleanup_policy & SDM_POLICY_COMPACT;
  memcpy(p->name, cfg->policy_script, sizeof p->name);
  int rc = sdm_policy_read(l->fs, l->env->root, p->name, &bytes, &text, &size);
  if (rc == 0) rc = start(p->name, text, size, &p->engine, &p->script, &p->asks);
  sdm_free(bytes);
  if (rc < 0) sdm_free(p);
  else if ((rc = sdm_policy_fits(p->name, p->asks, l->topic, p->compacts)) < 0) sdm_policy_close(p);
  else *out = p;
  return is_damage(rc) ? SDM_POLICY : rc;      /* not the partition's own: to be told from damage to that */
}

void sdm_policy_close(sdm_policy *p) {
  if (!p) return;
  p->engine->close(p->script);
  sdm_free(p);
}

bool sdm_policy_asks(const sdm_policy *p, unsigned what) { return p && (p->asks & what); }

static int refuse_compact(const sdm_policy *p) {
  return sdm_fail(SDM_POLICY, "policy script '%s' says \"compact\", and topic '%s' is not compacted; its cleanup.policy would have to include compact", p->name,
                  p->log->topic);
}

/* Each question may take a second: who waits for this to end is not to wait for all of them, so the log is checked before each. */

int sdm_policy_of_segment(sdm_policy *p, const sdm_policy_segment *s, sdm_verdict *out) {
  sdm_ruling r = {0};
  int rc = sdm_log_check_going(p->log);
  if (rc < 0) return rc;
  rc = p->engine->segment(p->script, s, &r);
  if (rc < 0) return sdm_fail_within(rc, "%s-%d, the segment at offset %lld: ", s->topic, s->partition, (long long)s->base_offset);
  if (r.verdict == SDM_VERDICT_COMPACT && !p->compacts) return refuse_compact(p);
  *out = r.verdict;
  return 0;
}

int sdm_policy_of_key(sdm_policy *p, const sdm_policy_key *k, sdm_ruling *out) {
  sdm_ruling r = {0};
  int rc = sdm_log_check_going(p->log);
  if (rc < 0) return rc;
  rc = p->engine->key(p->script, k, &r);
  if (rc < 0) return sdm_fail_within(rc, "%s-%d, the key of offset %lld: ", k->topic, k->partition, (long long)k->offset);
  if (r.verdict != SDM_VERDICT_KEEP) r.versions = 1;
  *out = r;
  return 0;
}

int sdm_policy_describe(sdm_log *l, sdm_segment *const *segments, size_t count, size_t i, int64_t now, sdm_policy_segment *out) {
  sdm_segment *s = segments[i];
  int64_t newest = 0;
  *out = (sdm_policy_segment){.topic = l->topic, .partition = l->partition, .now = now, .base_offset = s->base_offset, .index = (int64_t)i + 1,
                              .segments = (int64_t)count - 1};
  int rc = i + 1 < count ? 0 : sdm_log_latest(l, &out->next_offset);
  if (i + 1 < count) out->next_offset = segments[i + 1]->base_offset;
  out->clean = out->next_offset <= sdm_first_dirty(l);
  for (size_t k = 0; k + 1 < count; k++) out->log_size += segments[k]->size;
  if (rc == 0) rc = sdm_log_segment_limit(l, s, &out->size);
  if (rc == 0) rc = sdm_log_count_segment(l, s, &out->records, NULL);
  if (rc == 0) rc = sdm_log_first_timestamp(l, s, &out->first_timestamp);
  if (rc == 0) rc = sdm_log_max_timestamp(l, s, &out->max_timestamp);
  if (rc == 0) rc = sdm_log_largest_timestamp(l, s, &newest);
  out->age = sdm_sub_sat(now, newest);
  sdm_segment_rest(s);
  return rc;
}
