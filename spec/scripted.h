/* A policy script's engine for tests below Lua: what it says is all that may be said but "delete", another thing after a while. What must be there stays there
** whatever it says of that: the last record of each key, and nothing that was deleted.
*/
#ifndef SPEC_SCRIPTED_H
#define SPEC_SCRIPTED_H

#include "sediment.h"

static int scripted_open(const char *name, const char *script, size_t size, void **out, unsigned *asks) {
  (void)name, (void)script, (void)size;
  *out = NULL;
  *asks = SDM_POLICY_ASKS_SEGMENTS | SDM_POLICY_ASKS_KEYS;
  return 0;
}

static int scripted_segment(void *script, const sdm_policy_segment *s, sdm_ruling *out) {
  static const sdm_verdict verdicts[] = {SDM_VERDICT_NONE, SDM_VERDICT_KEEP, SDM_VERDICT_COMPACT, SDM_VERDICT_NONE};
  (void)script;
  out->verdict = verdicts[(s->base_offset / 3 + s->now / 700) % 4];
  return 0;
}

static int scripted_key(void *script, const sdm_policy_key *k, sdm_ruling *out) {
  (void)script;
  int kind = k->key_size > 0 ? ((const uint8_t *)k->key)[k->key_size - 1] % 3 : 0;
  *out = (sdm_ruling){kind == 0 ? SDM_VERDICT_NONE : SDM_VERDICT_KEEP, kind == 1 ? 2 : INT64_MAX};
  return 0;
}

static void scripted_close(void *script) { (void)script; }

static const sdm_policy_engine SCRIPTED = {scripted_open, scripted_segment, scripted_key, scripted_close};

#endif
