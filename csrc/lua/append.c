/* topic:append and topic:append_batch; gather.c makes records out of their arguments. */
#include "lua/sdml.h"

static int append_one(lua_State *L, bool async) {
  int64_t now, offset;
  int32_t where;
  sdm_record r;
  sdml_topic *t = sdml_topic_self(L, &now);
  sdml_append_options o = { .partition = SDM_ANY_PARTITION, .async = async };
  int rc = sdml_gather_one(L, &t->gathered, now, &r, &o);
  if (async) o.flags &= ~(unsigned)SDM_SYNC;
  if (rc == 0) rc = sdm_topic_append(t->topic, &r, o.partition, o.flags, now, &offset, &where);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, offset);
  sdml_pushint(L, where);
  return 2;
}

int sdml_topic_append(lua_State *L) { return append_one(L, false); }

/* core.begin(topic, key, value, options) -> offset, partition | nil, message, code: append that leaves sync and on_done to the caller */
int sdml_begin(lua_State *L) { return append_one(L, true); }

static int append_batch(lua_State *L) {
  int64_t now, first, last;
  int32_t where;
  size_t count;
  lua_settop(L, 3);
  sdml_topic *t = sdml_topic_self(L, &now);
  sdml_append_options o = { .partition = SDM_ANY_PARTITION };
  int rc = sdml_gather_batch(L, &t->gathered, now, &count, &o);
  if (rc == 0) rc = sdm_topic_append_batch(t->topic, t->gathered.records, count, o.partition, o.codec, o.flags, now, &first, &last, &where);
  sdml_gathered_trim(&t->gathered);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, first);
  sdml_pushint(L, last);
  if (!sdml_wants_partition(L)) return 2;
  sdml_pushint(L, where);
  return 3;
}

void sdml_push_append_batch(lua_State *L, bool with_partition) { sdml_push_batch_function(L, append_batch, with_partition); }
