/* Appends that are not waited for: what lua/sediment/kafka/append_async.lua is made of. */
#include "kafka/pipeline.h"
#include "lua_kafka/sdkl.h"

/* core.begin(topic, key, value, options, number) -> how many reports are there to be taken | nil, message, code. The arguments are append's, and on_done among
** the options; the number is what the report will have. */
int sdkl_begin(lua_State *L) {
  int64_t now;
  sdm_record r;
  sdk_record record;
  uint32_t number = (uint32_t)lua_tointeger(L, 5);
  lua_settop(L, 4);
  sdkl_topic *t = sdkl_timed_topic(L, &now);
  sdml_append_options o = { .partition = SDM_ANY_PARTITION, .async = true };
  int rc = sdml_gather_one(L, &t->gathered, now, &r, &o);
  if (rc == 0) rc = sdkl_writable(t->store);
  if (rc == 0) rc = sdkl_record_of(&r, o.partition, &record);
  if (rc == 0) rc = sdk_pipeline_add(t->store->client, t->name, &record, number);
  if (rc < 0) return sdml_fail(L, rc);
  lua_pushinteger(L, (lua_Integer)sdk_pipeline_reports(t->store->client));
  return 1;
}

/* ---- reports ---- */

enum { FIELDS = 3, AT_ONCE = 1024 };

/* A failure that many records have in common is asked about once. */
typedef struct failure {
  sdk_report of;
  int message, code;                      /* stack indexes */
} failure;

static void push_failure(lua_State *L, sdk_client *c, const sdk_report *r, failure *f) {
  bool same = r->err == f->of.err && r->partition == f->of.partition && r->topic == f->of.topic && r->maybe == f->of.maybe;
  if (!same) {
    int code = sdk_report_fail(c, r);
    lua_pushstring(L, sdm_errmsg());
    lua_replace(L, f->message);
    lua_pushstring(L, sdm_code_name(code));
    lua_replace(L, f->code);
    f->of = *r;
  }
  lua_pushvalue(L, f->message);
  lua_pushvalue(L, f->code);
}

/* Nothing of the store's is used behind what may run a finalizer but the client, which is held. */
static int push_reports(lua_State *L, sdkl_store *s) {
  sdk_report r;
  int n = 0;
  failure f = { .message = 5, .code = 6 };
  lua_settop(L, 6);
  for (; n < FIELDS * AT_ONCE && s->client && sdk_pipeline_next(s->client, &r); n += FIELDS) {
    lua_pushinteger(L, (lua_Integer)r.number);
    lua_rawseti(L, 2, n + 1);
    if (r.err) push_failure(L, s->client, &r, &f);
    else {
      sdml_pushint(L, r.offset);
      lua_pushinteger(L, r.partition);
    }
    lua_rawseti(L, 2, n + 3);
    lua_rawseti(L, 2, n + 2);
  }
  lua_pushinteger(L, n);
  return 1;
}

/* core.reports(store, list, ms, hurry) -> how many fields of the list were set | nil, message, code. Of each report three: its number; offset and partition,
** or message and code. Waits so long at most if there is none, or with hurry until nothing is under way. None is left when fewer come than could. */
int sdkl_reports(lua_State *L) {
  sdkl_store *s = sdkl_store_check(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  int ms = (int)sdml_int(L, 3, 3, "ms"), rc = sdkl_usable(s);
  if (rc < 0) return sdml_fail(L, rc);
  sdk_pipeline_poll(s->client, ms, lua_toboolean(L, 4) != 0);
  return push_reports(L, s);
}

/* core.give_up(store): what is under way is reported as given up */
int sdkl_give_up(lua_State *L) {
  sdkl_store *s = sdkl_store_check(L, 1);
  if (sdkl_is_here(s)) sdk_pipeline_give_up(s->client);
  return 0;
}
