/* The Lua binding: what its files share. One file has one userdata; err.c is the only place where errors of the library become Lua's.
**
** Rules that hold everywhere here
**   - A userdata is complete (metatable, companion) and empty before anything that can fail fills it; every finalizer may run twice.
**   - Whatever allocates may run a finalizer, and that may close anything. So a log or a store is asked for (self, open_self) behind all that
**     is allocated before it is used, and not used behind what is allocated later.
**   - While a C structure points into Lua strings that only a caller's table keeps alive, nothing is called that could run Lua code, not
**     even a step of the collector, whose finalizers could change that table.
**   - Closing a store turns everything that came from it into "use after close", by a flag that all of it can reach.
*/
#ifndef SDM_LUA_SDML_H
#define SDM_LUA_SDML_H

#include "format/snapshot.h"
#include "lua/compat.h"
#include "sediment.h"

/* Names of the classes, of metatables in the registry. Each stands at one address. */
extern const char SDML_STORE[], SDML_TOPIC[], SDML_PARTITION[], SDML_READER[], SDML_ROSTER[], SDML_ERROR[], SDML_HELD[], SDML_SNAPSHOT[],
  SDML_SNAPSHOT_WRITER[];

/* A userdata begins with the address of its class's name, by which it is known: nobody else's can hold that. */
typedef struct sdml_object {
  const char *class;
} sdml_object;

/* Fields of a userdata's companion table. */
enum { SDML_OWNER = 1, SDML_CLOCK = 2, SDML_PATH = 3, SDML_ON_CORRUPT = 4, SDML_LIFE = 5 };

typedef struct sdml_roster sdml_roster;

typedef struct sdml_store {
  sdml_object object;
  bool closed;
  bool has_clock;                         /* companions of the store and its topics have the `clock` function */
  int64_t last_now;                       /* what it said last: finalizers go by it, since they must not call Lua */
  sdm_store *store;
  sdml_roster *rosters;                   /* that came from it: they go when it is closed */
} sdml_store;

typedef struct sdml_gathered {            /* memory for the records of one call; reused. Zeroed is empty and valid */
  sdm_record *records;                    /* of one batch */
  size_t capacity;
  sdm_buf scratch;                        /* encoded headers, and numbers as text */
} sdml_gathered;

typedef struct sdml_topic {
  sdml_object object;
  sdm_topic *topic;                       /* NULL once it is closed */
  sdml_store *store;                      /* kept alive by the companion */
  sdml_gathered gathered;
} sdml_topic;

typedef struct sdml_partition {
  sdml_object object;
  bool closed;
  sdm_log *log;
} sdml_partition;

typedef struct sdml_reader {
  sdml_object object;
  sdm_reader *reader;                     /* NULL after the end, an explicit close, or collection */
  bool skips;                             /* damage; what is to be told of it, if anything, is in the companion */
  bool busy;                              /* a record of it is being pushed */
  bool follows;                           /* waits for more at the end, so long */
  int64_t timeout_ms;
  const bool *closed;                     /* of the store or partition, which the companion keeps alive */
} sdml_reader;

/* ---- err.c ---- */
int sdml_fail(lua_State *L, int code);    /* nil, message, code of the last failure; raises misuse, use after close, lack of memory */
int sdml_throw(lua_State *L, int code);   /* raises it as an error object; misuse and the like as sdml_fail does */
int sdml_error(lua_State *L);             /* core.error(message, code) -> such an object, for iterators that are written in Lua */
int sdml_use_after_close(lua_State *L, const char *what);
int sdml_refuse(lua_State *L, int arg, const char *format, ...) __attribute__((format(printf, 3, 4)));   /* a bad argument; raises */
void sdml_open_error(lua_State *L);

/* ---- args.c ---- */
void *sdml_object_at(lua_State *L, int index, const char *class);          /* the userdata, NULL when it is none of that class */
void *sdml_self(lua_State *L, const char *class);                          /* argument 1 of a method */
const char *sdml_type(lua_State *L, int index);                            /* name of a value's type, for messages */
bool sdml_whole(lua_State *L, int index, int64_t *out);                    /* a whole number within 2^53 */
int64_t sdml_int(lua_State *L, int arg, int index, const char *name);      /* ... or a bad argument `arg` */
bool sdml_bool(lua_State *L, int arg, int index, const char *name);
const char *sdml_text(lua_State *L, int arg, int index, const char *name); /* a string without NUL */
const char *sdml_path(lua_State *L, int arg, const char *name);            /* the same, not empty */
void sdml_show_key(lua_State *L, int index, char *out, size_t size);       /* a table's key for messages: 'name' or [5] */

/* Numbers as bytes of a record. Different numbers have different texts, and a number has the same on both Luas: a whole one its digits (a
** double only within 2^53), another the shortest form that reads back. What is no finite number has a text for messages alone. */
enum { SDML_NUMBER_ROOM = 64 };
typedef enum sdml_number { SDML_WHOLE, SDML_FRACTION, SDML_BEYOND, SDML_NOT_FINITE } sdml_number;
sdml_number sdml_number_text(lua_State *L, int index, char out[SDML_NUMBER_ROOM]);
void sdml_show_number(lua_State *L, int index, char out[SDML_NUMBER_ROOM]);       /* what was given for a number: it, or its type */
int sdml_key(lua_State *L);               /* core.key(number) -> its text | nil, what is refused */
int sdml_number_of_partition(lua_State *L, int arg, int index, int32_t *out);      /* nil is 0; or SDM_UNKNOWN_PARTITION */

/* Walks the option table at `arg` (nil: none) whose keys must be among `names` (NULL ends them): calls `take` for each with the value on
** top of the stack. take returns 0, or a failure, which ends the walk. */
typedef int sdml_take(lua_State *L, int arg, int which, void *into);
int sdml_options(lua_State *L, int arg, const char *const *names, sdml_take *take, void *into);

/* Settings of the table at `index`. Pushes what keeps them and their strings in memory: several values. */
void sdml_settings(lua_State *L, int arg, int index, const char *what, sdm_settings *out);

/* ---- object.c ---- */
void sdml_functions(lua_State *L, const luaL_Reg *functions);              /* into the table on top */
void sdml_class(lua_State *L, const char *name, const luaL_Reg *methods, const luaL_Reg *meta);    /* pushes the table of methods */
typedef struct sdml_held {                /* memory of the library that a Lua error must not leak */
  sdml_object object;
  void *memory;
  void (*release)(void *);
} sdml_held;
sdml_held *sdml_hold(lua_State *L, void (*release)(void *));               /* pushes a holder; the memory goes when it is dropped */
void sdml_drop(sdml_held *h);
int sdml_call_close(lua_State *L);                                         /* a metamethod: calls the method close, which Lua code may have put in place of ours */
void *sdml_new(lua_State *L, size_t size, const char *class, int owner);   /* zeroed but for its class; its companion keeps `owner` (0: nothing) */
int64_t sdml_now(lua_State *L, int index, sdml_store *s);                  /* the clock of the userdata at `index`, which belongs to s */
bool sdml_try_now(lua_State *L, int index, sdml_store *s, int64_t *now);   /* false: *now is the last time, the clock's error is pushed */
int64_t sdml_last_now(const sdml_store *s);                                /* without asking a clock that is the caller's function */
int64_t sdml_when(lua_State *L, int arg, sdml_store *s, bool *force);      /* options {now=, force=}: now, else the clock of argument 1 */
void sdml_set_int(lua_State *L, const char *name, int64_t value);          /* field of the table on top */
int sdml_push_owner(lua_State *L, int index);                              /* what its companion keeps alive; returns 1 */
void sdml_be_owner(lua_State *L, const char *class);                       /* argument 1, and the only one: is it of that class, its owner takes its place */
int sdml_push_life(lua_State *L, bool closed);                             /* of the store at 1, alone on the stack: {closed = boolean}, the same at each call; returns 1 */
void sdml_end_life(lua_State *L);                                          /* of the store at 1: it is closed now. Allocates nothing */

/* ---- library.c ---- */
void sdml_stay_loaded(const void *inside);                                 /* the library that this address lies in, until the process ends */
int sdml_monotonic_ms(lua_State *L);                                       /* core.monotonic_ms() -> milliseconds of a clock that is never set */

/* ---- gather.c ---- */
typedef struct sdml_append_options {
  int32_t partition;                      /* SDM_ANY_PARTITION when left out */
  unsigned flags;                         /* SDM_SYNC */
  sdm_codec codec;                        /* of a batch */
  bool async;                             /* given: on_done is an option, too, which is looked at here and no more */
} sdml_append_options;

/* The record of append(key, value, options), or those of append_batch(records, options), a method's arguments: 0, or a failure's code. Their
** bytes are borrowed: no Lua code may run before they have been used. A batch is gathered by a function that sdml_push_batch_function pushed. */
int sdml_gather_one(lua_State *L, sdml_gathered *t, int64_t now, sdm_record *r, sdml_append_options *o);
int sdml_gather_batch(lua_State *L, sdml_gathered *t, int64_t now, size_t *count, sdml_append_options *o);
void sdml_push_batch_function(lua_State *L, lua_CFunction f, bool with_partition);
bool sdml_wants_partition(lua_State *L);                                   /* in f: what with_partition was */
void sdml_gathered_trim(sdml_gathered *t);                                 /* after a batch: much memory is not kept */
void sdml_gathered_free(sdml_gathered *t);

/* ---- store.c, topic.c, append.c ---- */
void sdml_open_store(lua_State *L);                                        /* each pushes its table of methods */
int sdml_store_open(lua_State *L);
void sdml_open_topic(lua_State *L);
int sdml_store_life(lua_State *L);                                         /* core.life */
sdml_store *sdml_store_check(lua_State *L, int arg);                       /* open; for functions that are no methods */
int sdml_store_topic(lua_State *L);                                        /* store:topic */
sdml_topic *sdml_topic_self(lua_State *L, int64_t *now);                   /* open, and the time; raises use after close */
sdml_topic *sdml_topic_check(lua_State *L, int arg);                       /* open; for functions that are no methods */
int sdml_configs(lua_State *L);                                            /* core.configs */
int sdml_check_topic(lua_State *L);                                        /* core.check_topic */
int sdml_check_topic_name(lua_State *L);                                   /* core.check_topic_name */
int sdml_push_topic_stats(lua_State *L, sdm_topic *topic, int64_t now);    /* pushes {partitions=}: 0; or a failure's code */
int sdml_topic_append(lua_State *L);
int sdml_begin(lua_State *L);                                              /* core.begin */
int sdml_store_of(lua_State *L);                                           /* core.store_of */
void sdml_push_append_batch(lua_State *L, bool with_partition);            /* the method; with the partition as its third result: core.append_batch */

/* ---- partition.c ---- */
void sdml_open_partition(lua_State *L);
int sdml_partition_open(lua_State *L);
sdml_held *sdml_hold_segments(lua_State *L);                               /* pushes what sdml_push_segments needs */
int sdml_push_segments(lua_State *L, sdml_held *held, sdm_log *log);       /* results of segments(): a table, or a failure */
int sdml_push_log_stats(lua_State *L, sdm_log *log, int64_t now);          /* pushes a table: 0; or a failure's code */

/* ---- roster.c ---- */
void sdml_open_roster(lua_State *L);
int sdml_roster_open(lua_State *L);                                        /* core.roster */
void sdml_rosters_close(sdml_store *s);                                    /* all that came from this handle */

/* ---- slices.c ---- */
enum { SDML_NO_TIMEOUT = -1 };
int64_t sdml_timeout(lua_State *L, int arg, int index);                    /* milliseconds, not negative; nil: SDML_NO_TIMEOUT */
int64_t sdml_until(int64_t timeout_ms);                                    /* by the monotonic clock */
int64_t sdml_slice(int64_t until);                                         /* a timeout: so long at a time the signals' handlers can wait */
bool sdml_waits_on(lua_State *L, int rc, int64_t until);                   /* after a slice: whether it is not over. Runs hooks, which may raise or close anything */

/* ---- wait.c ---- */
int sdml_wait_any(lua_State *L);                                           /* core.wait_any */
int sdml_flush_begin(lua_State *L);                                        /* core.flush_begin, core.flush_poll */
int sdml_flush_poll(lua_State *L);
int sdml_push_waited(lua_State *L, int rc, sdm_log *log);                  /* results of wait() after sdm_log_wait */

/* ---- policy.c ---- */
int sdml_store_policy(lua_State *L);
int sdml_check_policy(lua_State *L);                                       /* core.check_policy */
void sdml_policy_install(void);                                            /* from now on the library has policy scripts run in Lua */

/* ---- snapshot.c, value.c ---- */
void sdml_open_snapshot(lua_State *L);                                     /* pushes two tables of methods */
int sdml_snapshot_open(lua_State *L);
int sdml_snapshot_begin(lua_State *L);
int sdml_encode_value(lua_State *L, int index, sdm_buf *out);              /* appended; or SDM_UNSUPPORTED, with what cannot be saved */
void sdml_push_value(lua_State *L, const sdm_snapshot_entry *e);

/* ---- verify.c ---- */
int sdml_digest(lua_State *L);                                             /* digest.c: core.digest */
typedef int sdml_verifier(void *of, const char *topic, sdm_verify_report **out);
int sdml_verify(lua_State *L, sdml_verifier *verify, void *of, const char *topic);         /* results of verify(): a report, or a failure */

/* ---- range.c ---- */
typedef struct sdml_range {               /* options of records() */
  int32_t partition;
  enum { SDML_FROM_EARLIEST, SDML_FROM_LATEST, SDML_FROM_OFFSET, SDML_FROM_TIME } kind;
  int64_t from, to;
  unsigned flags;
  bool skips;                             /* damage; and calls the function on_corrupt of the options, if it is one */
  bool follows;                           /* waits at the end, so long */
  int64_t timeout_ms;
} sdml_range;

int sdml_range_take(lua_State *L, int arg, sdml_range *out);               /* 0 or SDM_UNKNOWN_PARTITION */

/* ---- reader.c ---- */
void sdml_open_reader(lua_State *L);
void sdml_open_held(lua_State *L);
int sdml_reader_of_topic(lua_State *L);
int sdml_reader_load(lua_State *L);
sdml_reader *sdml_new_reader(lua_State *L, const sdml_range *range);       /* pushes it, empty; argument 1 keeps its log alive, 2 are its options */
int sdml_records(lua_State *L, sdml_reader *r, const sdml_range *range, sdm_log *log, const bool *closed);   /* r is on top: results of records() */

#endif
