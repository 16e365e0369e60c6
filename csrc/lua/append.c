/* topic:append and topic:append_batch; gather.c makes records out of their arguments. */
#include "lua/sdml.h"

int sdml_topic_append(lua_State *L) {
  int64_t now, offset;
  int32_t where;
  sdm_record r;
  sdml_topic *t = sdml_topic_self(L, &now);
  sdml_append_options o = { SDM_ANY_PARTITION, 0, SDM_CODEC_NONE };
  int rc = sdml_gather_one(L, &t->gathered, now, &r, &o);
  if (rc == 0) rc = sdm_topic_append(t->topic, &r, o.partition, o.flags, now, &offset, &where);
  if (rc < 0) return sdml_fail(L, rc);
  sdml_pushint(L, offset);
  sdml_pushint(L, where);
  return 2;
}

static int append_batch(lua_State *L) {
  int64_t now, first, last;
  int32_t where;
  size_t count;
  lua_settop(L, 3);
  sdml_topic *t = sdml_topic_self(L, &now);
  sdml_append_options o = { SDM_ANY_PARTITION, 0, SDM_CODEC_NONE };
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
