/* The Lua binding of csrc/kafka: what its files share. Arguments, errors and records of a call are those of csrc/lua; so are its rules (lua/sdml.h).
**
** What takes long is waited for in slices. Between two of them hooks run, which may raise, or close anything: so whatever is under way lies
** in a userdata, and what it belongs to is asked for again behind each slice.
*/
#ifndef SDM_LUA_KAFKA_SDKL_H
#define SDM_LUA_KAFKA_SDKL_H

#include "kafka/admin.h"
#include "kafka/append.h"
#include "kafka/client.h"
#include "kafka/lookup.h"
#include "kafka/member.h"
#include "kafka/reader.h"
#include "lua/sdml.h"

extern const char SDKL_STORE[], SDKL_TOPIC[], SDKL_READER[], SDKL_REQUEST[], SDKL_HELD[], SDKL_APPEND[], SDKL_SOURCE[];

typedef struct sdkl_store {
  sdml_store plain;                       /* its flags and clock; there is no store of ours behind it */
  sdk_client *client;                     /* NULL once it is closed */
  uint32_t forks;                         /* when it was opened */
  bool readonly;
} sdkl_store;

typedef struct sdkl_topic {
  sdml_object object;
  sdkl_store *store;                      /* kept alive by the companion */
  char *name;                             /* NULL once it is closed */
  int32_t partitions;                     /* as it was last told */
  sdml_gathered gathered;
} sdkl_topic;

/* ---- store.c ---- */
void sdkl_open_store(lua_State *L);                            /* pushes its table of methods, as the others here */
int sdkl_store_open(lua_State *L);
int sdkl_store_life(lua_State *L);
sdkl_store *sdkl_store_self(lua_State *L);                     /* argument 1, open; raises use after close */
sdkl_store *sdkl_store_check(lua_State *L, int arg);           /* the same, for functions that are no methods */
void sdkl_require_open(lua_State *L, const sdkl_store *s);
bool sdkl_is_here(const sdkl_store *s);                        /* no fork lies between its opening and now: what it has may be freed */
int sdkl_usable(const sdkl_store *s);                          /* 0, or SDM_FORKED */
int sdkl_writable(const sdkl_store *s);                        /* ... or SDM_READONLY */

/* ---- waits.c ---- */
/* One try of something that asks the cluster, for so long at most. Called only while the store is open. */
typedef int sdkl_try(sdkl_store *s, void *of, int timeout_ms);
int sdkl_try_for(lua_State *L, sdkl_store *s, sdkl_try *f, void *of);          /* ... tried until it succeeds, fails for good, or the store's time is over */
bool sdkl_goes_on(lua_State *L, sdkl_store *s, int rc, int64_t until);         /* after a slice: whether it is not over. Raises use after close */
/* 0 once a broker answers. A request waits in librdkafka for one, trying to connect without a pause: so this is done before. Runs hooks. */
int sdkl_reach(lua_State *L, sdkl_store *s);
int64_t sdkl_patience(const sdkl_store *s);                                    /* until when to wait, beginning now */

typedef struct sdkl_request {
  sdml_object object;
  sdk_request *request;
  uint32_t forks;
} sdkl_request;
void sdkl_open_request(lua_State *L);
sdkl_request *sdkl_new_request(lua_State *L);                  /* pushes it, empty */
int sdkl_await(lua_State *L, sdkl_store *s, sdkl_request *r);  /* 0, or the failure */
int sdkl_drop_request(sdkl_request *r, int rc);                /* frees it; rc */

typedef struct sdkl_held {                /* memory that a Lua error must not leak; goes by sdm_free with the userdata */
  sdml_object object;
  void *memory;
} sdkl_held;
void sdkl_open_held(lua_State *L);
sdkl_held *sdkl_hold(lua_State *L);                            /* pushes it, empty */

/* ---- topic.c, append.c, pipeline.c, records.c ---- */
void sdkl_open_topic(lua_State *L);
void sdkl_open_append(lua_State *L);
void sdkl_open_reader(lua_State *L);
int sdkl_topic_open(lua_State *L);                             /* core.topic, core.name, core.bounds */
int sdkl_topic_name(lua_State *L);
int sdkl_store_of(lua_State *L);
int sdkl_bounds(lua_State *L);
sdkl_topic *sdkl_topic_self(lua_State *L);                     /* argument 1, open, and its store */
sdkl_topic *sdkl_topic_check(lua_State *L, int arg);
int sdkl_try_bounds(lua_State *L, sdkl_topic *t, int32_t partition, int64_t *start, int64_t *end);
int sdkl_try_time(lua_State *L, sdkl_topic *t, int32_t partition, int64_t ms, int64_t *offset);
int sdkl_topic_append(lua_State *L);
void sdkl_push_append_batch(lua_State *L);
sdkl_topic *sdkl_timed_topic(lua_State *L, int64_t *now);      /* argument 1 as it is once the clock, which is the caller's function, was asked */
int sdkl_record_of(const sdm_record *r, int32_t partition, sdk_record *out);   /* its headers are the caller's to hand over */
int sdkl_begin(lua_State *L);                                  /* pipeline.c: core.begin, core.reports, core.give_up */
int sdkl_reports(lua_State *L);
int sdkl_give_up(lua_State *L);
int sdkl_topic_records(lua_State *L);
int sdkl_reader_open(lua_State *L);                            /* core.reader */
int sdkl_push_record(lua_State *L, const sdk_record *r);       /* offset, key, value, timestamp, headers */

/* ---- admin.c, groups.c: functions of the module ---- */
int sdkl_create_topic(lua_State *L);
int sdkl_grow_topic(lua_State *L);
int sdkl_describe(lua_State *L);
int sdkl_set_configs(lua_State *L);
int sdkl_store_delete_topic(lua_State *L);
int sdkl_topic_delete_records(lua_State *L);
sdk_setting *sdkl_settings(lua_State *L, int index, size_t *count);            /* of a table of strings; pushes what keeps them */
int sdkl_groups(lua_State *L);
int sdkl_group(lua_State *L);
int sdkl_delete_group(lua_State *L);

/* ---- source.c ---- */
void sdkl_open_source(lua_State *L);
int sdkl_source_open(lua_State *L);

#endif
