/* Sediment: an embedded log store with Apache Kafka's storage semantics and Kafka's bytes on disk. The public C API.
**
** Conventions
**   - A function that can fail returns an int: 0 or a count on success, a negative code on failure; sdm_errmsg() then has the text and
**     sdm_code_name() the code's name. Results go through the last parameters and are untouched on failure.
**   - SDM_MISUSE is a mistake of the caller (a wrong name, config or argument); every other code is a fact about the data or the machine.
**     SDM_NO_MEMORY may come from any function that can fail.
**   - Times are milliseconds since the epoch. `now` is the caller's clock: nothing here asks the machine for the time, except the
**     background thread of a store whose `now` has always been the wall clock's.
**   - Handles are reference counted and may be released in any order. A handle may be used by one thread at a time; different handles on
**     one store, topic or partition may be used by different threads, and by different processes, at once.
**   - After fork, handles that were opened before refuse work in the child with SDM_FORKED; releasing them there is safe.
**   - nginx: everything here may block on the disk, and on another process that is inside an append for as long as that lasts (about a
**     microsecond; the write of one batch at most). Only sdm_topic_compact, sdm_topic_retain, sdm_store_maintain, sdm_store_backup,
**     sdm_store_verify, sdm_topic_flush and appends with SDM_SYNC take longer.
**
** Durability: an append has returned when every other process can read it and it survives the death of any process. With SDM_SYNC, or
** after sdm_topic_flush, it survives the loss of power.
*/
#ifndef SEDIMENT_H
#define SEDIMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "format/batch.h"   /* sdm_record, sdm_header: records as they are given and taken */

#define SDM_VERSION "0.1.0"

typedef struct sdm_store sdm_store;
typedef struct sdm_topic sdm_topic;
typedef struct sdm_log sdm_log;           /* one partition */
typedef struct sdm_reader sdm_reader;

/* ---- settings: configs of topics, options of a store ---- */

typedef enum sdm_value_type { SDM_VALUE_STRING, SDM_VALUE_INT, SDM_VALUE_DOUBLE, SDM_VALUE_BOOL } sdm_value_type;

typedef struct sdm_value {
  sdm_value_type type;
  const char *string;                     /* NUL-terminated; for SDM_VALUE_STRING */
  int64_t integer;                        /* for SDM_VALUE_INT and SDM_VALUE_BOOL */
  double number;                          /* for SDM_VALUE_DOUBLE */
} sdm_value;

/* `name` may have dots or underscores. A string value for a numeric setting may carry a unit (ms s m h d; B KiB MiB GiB TiB KB MB GB TB). */
typedef struct sdm_setting {
  const char *name;
  sdm_value value;
} sdm_setting;

typedef struct sdm_settings {
  const sdm_setting *items;
  size_t count;
} sdm_settings;

/* ---- stores ---- */

typedef struct sdm_store_options {
  bool readonly;                          /* never writes; appends and the like answer SDM_READONLY */
  bool create;                            /* make the directory when it is missing */
  bool background;                        /* a thread does retention, cleaning, flushing, delayed deletion (one process of a store) */
  bool wall_clock;                        /* `now` is the machine's time; else the background thread goes by the last `now` it saw */
  sdm_settings defaults;                  /* topic configs for topics that do not set them; of this process, as a broker's config file is of the
                                          ** broker: every process that opens the store should give the same */
  sdm_settings options;                   /* broker settings: log.cleaner.dedupe.buffer.size, ... */
} sdm_store_options;

/* Opens or joins the store in directory `path`. All handles of one process on one directory share one store.
** SDM_NOT_FOUND (missing, create off), SDM_IO (also: the file system lacks the locks), SDM_DISK_FULL, SDM_READONLY (file system), SDM_LOCKED
** (another version, or a broker, has it open),
** SDM_CORRUPT (the topics file), SDM_MISUSE (a bad setting). When nobody else has the store open, every partition is put right first: what
** was acknowledged and not yet in its file is sealed. */
int sdm_store_open(const char *path, const sdm_store_options *options, int64_t now, sdm_store **out);

/* Closes a handle: the last one of the process seals, checkpoints and stops the thread. Topics and readers opened through it answer
** SDM_CLOSED from then on when it was the last. The handle is gone in any case; the result tells whether everything reached its file. */
int sdm_store_close(sdm_store *s, int64_t now);

bool sdm_store_readonly(const sdm_store *s);

/* Names of the topics, sorted; *names is one allocation, to be freed with sdm_names_free. */
int sdm_store_topics(sdm_store *s, char ***names, size_t *count);
void sdm_names_free(char **names);

/* SDM_UNKNOWN_TOPIC unless if_exists. The bytes are gone from view at once, from the disk after file.delete.delay.ms. */
int sdm_store_delete_topic(sdm_store *s, const char *name, bool if_exists, int64_t now);

typedef struct sdm_import_options {
  int32_t partition;
  bool abort_open;                        /* ends transactions that are open in it with a marker, as Kafka's coordinator does when their producer is gone */
} sdm_import_options;

typedef struct sdm_import_report {
  int64_t log_end;
  int64_t left_out;                       /* bytes of a torn end, behind the last valid batch */
} sdm_import_report;

/* Adopts a copy of the bare Kafka partition directory `dir` as a partition of the topic: segments, offsets, batches, leader epochs and delete
** horizons as they are, with the log start offset and the cleaner's checkpoint that the checkpoint files beside `dir` name. `dir` is only read. A topic
** that is missing is created with the store's defaults; one with fewer partitions gets more, those in between empty.
** The copy is verified and durable before the topic shows it; after a failure, whatever it is, nothing was imported.
** SDM_READONLY. SDM_EXISTS: the partition has or had records; a folder of its name is not ours. SDM_NOT_FOUND: no partition directory. SDM_CORRUPT: damage
** in it (what follows the last valid batch of the last segment is left out, as recovery does), a segment that is missing or was cut. SDM_UNSUPPORTED: a message format before Kafka 0.11, a codec
** that is not built in. SDM_BUSY: a store has `dir` open, or did not close it in order. SDM_DISK_FULL, SDM_IO. */
int sdm_store_import(sdm_store *s, const char *topic, const char *dir, const sdm_import_options *options, int64_t now, sdm_import_report *out);

typedef struct sdm_maintain_report {
  int64_t rolled, sealed;                 /* segments rolled by age; stages sealed */
  int64_t segments, bytes;                /* that retention took */
  int64_t cleaned, tombstones_removed, corrupt, expired;   /* partitions cleaned; as in sdm_compact_report */
  int64_t uncleanable;                    /* compacted partitions that could not be cleaned, for damage (in `corrupt`, too) or a failure (in `failed`, too) */
  int64_t files_deleted;                  /* whose delay was over */
  int64_t flushed;                        /* partitions made durable (flush.ms) */
  int64_t failed;                         /* partitions on which a job failed; sdm_errmsg has the last reason */
} sdm_maintain_report;

/* Everything that is due at `now`: seal, roll by age, cleaning, retention, delayed deletion, flush. One partition's failure does not stop
** the others: it is counted. */
int sdm_store_maintain(sdm_store *s, int64_t now, sdm_maintain_report *out);

/* ---- backup ---- */

/* Makes the folder `path`, which must be missing or empty, into a store of its own: a copy of this one as it stands, durable on return, with every record that
** was acknowledged before the call. Appends, retention and cleaning, in any process, go on. Each partition is copied as it is at one moment of its own. Closed
** segments are shared by hard links where `path` is on the same file system, and copied else. A handle that only reads will do.
** What fails leaves nothing there; what is killed leaves a folder that no sdm_store_open takes for a store (SDM_CORRUPT).
** SDM_EXISTS: the folder is not empty. SDM_MISUSE: it lies in the store. SDM_BUSY (segments kept changing; not open anywhere and not closed in order), SDM_IO,
** SDM_DISK_FULL, SDM_NOT_FOUND (the folder that it would be in). */
int sdm_store_backup(sdm_store *s, const char *path, int64_t now);

/* ---- verification ---- */

typedef enum sdm_harm {
  SDM_HARM_DATA,                          /* records: they are lost, or cannot be read for now */
  SDM_HARM_DERIVED                        /* an index or another side file, which an opening makes anew */
} sdm_harm;

typedef struct sdm_problem {
  const char *topic;                      /* "": a file of the store's own */
  int32_t partition;                      /* -1: the same */
  const char *file;                       /* its path */
  int64_t position, offset;               /* of a byte in it; where records are affected, from which offset on. -1: none */
  int code;                               /* a sdm_code */
  sdm_harm harm;
  const char *message;
} sdm_problem;

enum { SDM_PROBLEMS_MAX = 1000 };         /* so many are listed, and the rest counted */

typedef struct sdm_verify_report {
  int64_t topics, partitions, segments, batches, records, bytes;      /* that were looked at; bytes of batches */
  sdm_problem *problems;                  /* none: all is well */
  size_t problem_count;
  int64_t dropped;                        /* problems beyond those */
} sdm_verify_report;

/* Reads every batch of topic `topic` (NULL: of all) as it is at this moment, its records too, and holds indexes and other side files against them. It never
** writes, and holds no lock; appends, retention and cleaning, in any process, go on and are no findings. Damage does not end it. *out is to be freed with
** sdm_verify_report_free. SDM_UNKNOWN_TOPIC, SDM_BUSY (segments kept changing), SDM_CLOSED, SDM_FORKED. */
int sdm_store_verify(sdm_store *s, const char *topic, sdm_verify_report **out);
void sdm_verify_report_free(sdm_verify_report *r);         /* NULL is fine */

/* ---- topics ---- */

/* Opens topic `name`. With `config` (even an empty one) the topic is created when missing ("partitions" sets their number, default 1),
** and the configs are applied to an existing one. Without (NULL): SDM_UNKNOWN_TOPIC when it is missing.
** SDM_POLICY: fewer partitions than there are. SDM_EXISTS: a folder of that name is there and not ours. SDM_MISUSE: bad name or config. */
int sdm_topic_open(sdm_store *s, const char *name, const sdm_settings *config, int64_t now, sdm_topic **out);
void sdm_topic_release(sdm_topic *t);     /* NULL is fine */
const char *sdm_topic_name(const sdm_topic *t);

/* Tells it from other topics that had or will have its name. */
#define SDM_TOPIC_ID_BYTES 16
void sdm_topic_id(const sdm_topic *t, uint8_t out[SDM_TOPIC_ID_BYTES]);
int sdm_topic_partitions(sdm_topic *t);   /* how many; SDM_UNKNOWN_TOPIC when the topic was deleted since */

/* The partition's log, borrowed: valid as long as the topic handle. SDM_UNKNOWN_PARTITION, SDM_UNKNOWN_TOPIC, and what recovery says. */
int sdm_topic_log(sdm_topic *t, int32_t partition, int64_t now, sdm_log **out);

int sdm_topic_alter(sdm_topic *t, const sdm_settings *set, const char *const *reset, size_t reset_count, int64_t now);

/* Whether sdm_topic_open would make the topic so, or sdm_topic_alter change the one that is there: fails as they do, and changes nothing. */
int sdm_topic_check_change(sdm_store *s, const char *name, const sdm_settings *set, const char *const *reset, size_t reset_count);

typedef enum sdm_source { SDM_SOURCE_DEFAULT, SDM_SOURCE_STORE, SDM_SOURCE_TOPIC } sdm_source;

typedef struct sdm_described {
  const char *name;                       /* dotted; lives as long as the library */
  sdm_value value;                        /* effective; a string lives until `storage` goes */
  sdm_source source;
  char storage[64];
} sdm_described;

size_t sdm_config_count(void);            /* how many topic configs there are */
int sdm_topic_describe(sdm_topic *t, size_t i, sdm_described *out);   /* i < sdm_config_count(); by name, ascending */

enum { SDM_SYNC = 1 };                    /* flag of an append: durable on return */
#define SDM_ANY_PARTITION (-1)

/* Appends one record (its offset field is ignored). SDM_ANY_PARTITION: by the key's murmur2 as a Kafka producer does; a record without key
** goes round robin. The results say where it went.
** SDM_TOO_LARGE, SDM_INVALID_RECORD, SDM_INVALID_TIMESTAMP, SDM_UNKNOWN_PARTITION, SDM_UNKNOWN_TOPIC, SDM_READONLY, SDM_DISK_FULL,
** SDM_IO, SDM_CLOSED, SDM_FORKED, SDM_UNSUPPORTED (compression.type is a codec that is not built in): nothing was appended. The one exception: SDM_IO or SDM_DISK_FULL of the *sync* that
** SDM_SYNC or flush.messages asked for. Then the record is in the log, not known to be on the disk, and the partition takes no more until reopened. */
int sdm_topic_append(sdm_topic *t, const sdm_record *r, int32_t partition, unsigned flags, int64_t now, int64_t *offset, int32_t *where);

/* Appends a batch of its own, all or nothing; `where` is its partition. With SDM_ANY_PARTITION all keys must belong to one (SDM_INVALID_RECORD).
** `codec` counts when compression.type is `producer`. SDM_UNSUPPORTED: a codec that is not built in. */
int sdm_topic_append_batch(sdm_topic *t, const sdm_record *records, size_t count, int32_t partition, sdm_codec codec, unsigned flags,
                           int64_t now, int64_t *first, int64_t *last, int32_t *where);

/* ---- policy scripts ---- */

/* A topic's config policy.script names a script that the store keeps. Retention asks it about each closed segment, compaction about each key. The library knows no
** language: who embeds it says how a script is run; the Lua module does so for Lua. What a script cannot decide, for an error or for want of an engine, is
** kept, and the retention or compaction fails with SDM_POLICY. Whatever a script says: the active segment stays, segments go from the oldest on without a gap, and a
** key's last record stays unless it says DELETE. Then the key gets a tombstone at the end of the log, unless it has a newer record by then. */
typedef enum sdm_verdict {
  SDM_VERDICT_NONE,                       /* as the topic's configs say */
  SDM_VERDICT_KEEP,                       /* segment: neither deleted nor compacted; key: so many of its last records stay */
  SDM_VERDICT_DELETE,
  SDM_VERDICT_COMPACT                     /* segment: not deleted, may be compacted; key: only its last record stays */
} sdm_verdict;

typedef struct sdm_ruling {
  sdm_verdict verdict;
  int64_t versions;                       /* of KEEP for a key: how many records; INT64_MAX: all */
} sdm_ruling;

typedef struct sdm_policy_segment {       /* a closed segment */
  const char *topic;
  int32_t partition;
  int64_t now;
  int64_t base_offset, next_offset, records, size;         /* next_offset: base of the one after it; size: bytes of the .log */
  int64_t first_timestamp, max_timestamp; /* -1: no record has one */
  int64_t age;                            /* now - its largest timestamp, or its file's time where no record has one */
  int64_t index, segments, log_size;      /* it is so manyth of the closed segments, from 1 for the oldest; bytes of all of those */
  bool clean;                             /* it was compacted */
} sdm_policy_segment;

typedef struct sdm_policy_key {
  const char *topic;
  int32_t partition;
  int64_t now;
  const void *key;
  size_t key_size;
  int64_t records, bytes;                 /* in the log now, the active segment included; bytes of keys and values */
  int64_t offset, timestamp;              /* of the last one; -1: it has no timestamp */
  bool tombstone;                         /* the last one is a tombstone */
} sdm_policy_key;

enum { SDM_POLICY_ASKS_SEGMENTS = 1, SDM_POLICY_ASKS_KEYS = 2 };

/* All return 0 or SDM_POLICY, with a message that names the script and its line (or SDM_NO_MEMORY, or for `open` SDM_UNSUPPORTED). A script is used by one thread
** at a time, of any. */
typedef struct sdm_policy_engine {
  int (*open)(const char *name, const char *text, size_t size, void **script, unsigned *asks);
  int (*segment)(void *script, const sdm_policy_segment *s, sdm_ruling *out);
  int (*key)(void *script, const sdm_policy_key *k, sdm_ruling *out);
  void (*close)(void *script);
} sdm_policy_engine;

/* For the whole process, before it opens a store; `engine` must stay. */
void sdm_policy_engine_set(const sdm_policy_engine *engine);

/* Puts a script there, in place of one of the same name, durable on return; it holds from the next retention or compaction on, in every process.
** SDM_MISUSE (the name), SDM_POLICY (the engine refuses it, or there is none), SDM_TOO_LARGE (over 64 KiB), SDM_READONLY, SDM_DISK_FULL, SDM_IO. */
int sdm_store_policy_set(sdm_store *s, const char *name, const char *text, size_t size);
int sdm_store_policy_check(const char *name, const char *text, size_t size, unsigned *asks);       /* whether that would take it; SDM_POLICY_ASKS_* */

/* SDM_NOT_FOUND; SDM_POLICY: a topic names it. */
int sdm_store_policy_remove(sdm_store *s, const char *name);

/* *text is to be freed with sdm_policy_text_free. SDM_NOT_FOUND, SDM_CORRUPT, SDM_IO. */
int sdm_store_policy_get(sdm_store *s, const char *name, char **text, size_t *size);
void sdm_policy_text_free(char *text);    /* NULL is fine */

/* The names of all, sorted; as sdm_store_topics. */
int sdm_store_policies(sdm_store *s, char ***names, size_t *count);

/* ---- retention and compaction ---- */

typedef struct sdm_retain_report { int64_t segments, bytes; } sdm_retain_report;

/* SDM_POLICY: the topic's policy script failed; nothing more was deleted than what lies before the log start. */
int sdm_topic_retain(sdm_topic *t, int64_t now, sdm_retain_report *out);

typedef struct sdm_compact_report {
  int64_t partitions;                     /* cleaned */
  int64_t records_read, records_written, bytes_read, bytes_written;
  int64_t tombstones_removed;
  int64_t keyless_dropped;                /* records without a key that the cleaner met and dropped, as Kafka does */
  int64_t corrupt;                        /* batches with a bad CRC: their partition is left as it was */
  int64_t expired;                        /* keys that a policy script deleted: tombstones appended */
  double seconds;
} sdm_compact_report;

/* SDM_POLICY when cleanup.policy lacks compact, or the topic's policy script failed. `force`: whatever the dirty ratio. min.compaction.lag.ms always holds. */
int sdm_topic_compact(sdm_topic *t, bool force, int64_t now, sdm_compact_report *out);

/* ---- partitions ---- */

/* A bare Kafka partition directory, read only: nothing is written, created or locked in it. */
int sdm_log_open_bare(const char *dir, sdm_log **out);
void sdm_log_release(sdm_log *l);         /* only for sdm_log_open_bare */

int sdm_log_earliest(sdm_log *l, int64_t *offset);     /* log start offset */
int sdm_log_latest(sdm_log *l, int64_t *offset);       /* log end offset: the next to be written */
int sdm_log_offset_for_time(sdm_log *l, int64_t ms, int64_t *offset);          /* first record with timestamp >= ms; 1 found, 0 none */
int sdm_log_delete_records(sdm_log *l, int64_t before, int64_t now, int64_t *start);
int sdm_log_roll(sdm_log *l, int64_t now, int64_t *base_offset);
int sdm_log_flush(sdm_log *l, int64_t now, int64_t *durable);

/* As sdm_store_verify, of one partition. */
int sdm_log_verify(sdm_log *l, sdm_verify_report **out);

typedef enum sdm_segment_state { SDM_SEGMENT_CLEAN, SDM_SEGMENT_DIRTY, SDM_SEGMENT_ACTIVE } sdm_segment_state;

typedef struct sdm_segment_info {
  int64_t base_offset, size, records, max_timestamp;
  sdm_segment_state state;
  const char *path;                       /* of the .log; lives as long as the array */
} sdm_segment_info;

int sdm_log_segments(sdm_log *l, sdm_segment_info **out, size_t *count);       /* freed with sdm_segments_free */
void sdm_segments_free(sdm_segment_info *segments);

typedef struct sdm_log_stats {
  int64_t log_start_offset, log_end_offset, durable_offset, size, segments;
  int64_t last_stable_offset;             /* where read_committed readers end: the log end, or the first record of a transaction that is open */
  int64_t clean_offset;                   /* first dirty offset: where the next cleaning begins */
  double dirty_ratio;
  int64_t purge_floor;                    /* highest offset of any tombstone that was removed, -1: none was */
  int64_t rewritten_end;                  /* no record has gone for a newer one of its key at or above it; told before any goes */
  int64_t truncated_bytes;                /* cut from the tail at the last opening, left out by import; of a bare partition: not read, for it is no whole batch */
  int64_t corrupt_batches;                /* times that recovery, since the opening, or cleaning met a damaged one; reading does not count */
  int64_t keyless_dropped;                /* by cleaning, since the opening */
  int uncleanable;                        /* why the last cleaning failed, SDM_CORRUPT, SDM_DISK_FULL, ...; 0: it did not. Ends with a cleaning that does not fail, and
                                          ** when all processes have closed the store */
  int retention_failed;                   /* the same of the last retention */
  int64_t cleaned_ms;                     /* the clock's time at the last cleaning that did not fail, whether it found anything to do or not; -1: none since then */
} sdm_log_stats;

int sdm_log_get_stats(sdm_log *l, int64_t now, sdm_log_stats *out);

/* What those who keep a state go by, as far as a reader of committed records comes, in a few loads from memory: what is imported counts as rewritten, but nothing from
** the last stable offset on is cleaned. */
typedef struct sdm_log_bounds {
  int64_t log_start_offset, log_end_offset, purge_floor, rewritten_end;
} sdm_log_bounds;

int sdm_log_get_bounds(sdm_log *l, sdm_log_bounds *out);

/* A flush for callers that must not wait, such as event loops: a thread of the process does it (started here; so not before a fork). *ticket is for
** sdm_topic_flush_poll: 1 and the durable offset, 0 while it is not done, or why it failed, with the codes of sdm_log_flush. Any thread may poll, any number of
** times; what was appended before the beginning is durable then. SDM_IO: no thread. */
int sdm_topic_flush_begin(sdm_topic *t, int32_t partition, int64_t now, uint64_t *ticket);
int sdm_topic_flush_poll(sdm_topic *t, int32_t partition, uint64_t ticket, int64_t *durable);
/* The same for who may wait, so long at most. */
int sdm_topic_flush_wait(sdm_topic *t, int32_t partition, uint64_t ticket, int64_t timeout_ms, int64_t *durable);

/* ---- waiting ---- */

enum { SDM_INTERRUPTED = 2, SDM_ENDED = 3 };

/* Waits until the log has a record at `offset` or behind it: its end is larger. 1: it is, at once where it was. 0: not within timeout_ms (by the monotonic clock;
** negative: no limit). SDM_INTERRUPTED: a signal handler ran; the caller does what that asks for, and waits again. Else as sdm_log_latest, also when the
** store is closed or the topic deleted meanwhile. Blocks this thread, and nobody else. */
int sdm_log_wait(sdm_log *l, int64_t offset, int64_t timeout_ms);

/* The same for several logs, each at its offset: until one of them has more. A failure of any ends it. Up to 128 cost what one does. */
typedef struct sdm_awaited {
  sdm_log *log;
  int64_t offset;
} sdm_awaited;

int sdm_logs_wait(const sdm_awaited *of, size_t count, int64_t timeout_ms);

/* ---- reading ---- */

enum { SDM_READ_UNCOMMITTED = 1 };        /* flags of sdm_reader_open */
#define SDM_TO_END INT64_MAX

/* Records with offsets in [from, min(to, log end at this call)), in order; gaps are normal. Control records never appear.
** SDM_OFFSET_OUT_OF_RANGE (both bounds in the message) when `from` is below the log start or above the log end. The reader holds the file
** it stands in: retention or cleaning does not break it. */
int sdm_reader_open(sdm_log *l, int64_t from, int64_t to, unsigned flags, sdm_reader **out);

/* 1: *out is the next record; its bytes are valid until the next call on this reader. 0: the end. SDM_CORRUPT (file and position in the
** message), SDM_IO, SDM_UNSUPPORTED (a codec), SDM_OFFSET_OUT_OF_RANGE (overtaken by deletion), SDM_CLOSED. */
int sdm_reader_next(sdm_reader *r, sdm_record *out);
int64_t sdm_reader_position(const sdm_reader *r);      /* offset that the next record has at least */

/* After SDM_CORRUPT: goes on behind the damage, at the next batch that is whole and where it belongs. 0: no record with an offset in [*from, *to) comes any
** more, those that were given before left aside. A failure: the reader stands where it stood (SDM_CORRUPT: the list of segments itself is damaged). */
int sdm_reader_skip(sdm_reader *r, int64_t *from, int64_t *to);

/* At the end: waits for records that are appended then. 1: sdm_reader_next goes on. 0: none within timeout_ms (negative: no limit). SDM_ENDED: `to` is reached.
** Else as sdm_log_wait. */
int sdm_reader_wait(sdm_reader *r, int64_t timeout_ms);
void sdm_reader_close(sdm_reader *r);                  /* NULL is fine */

/* Like sdm_reader_open, but of each key only its last record in [from, to) comes, in the order of offsets, and no keyless record. For
** rebuilding state. Reads the part that the cleaner has cleaned once, the rest twice; memory 24 bytes or so per key of the dirty part.
** A record that goes meanwhile for one above the end does not come, as from any reader: whoever needs every key reads on until it stands at
** or above the rewritten_end that it is told after the reading. */
int sdm_reader_open_latest(sdm_log *l, int64_t from, int64_t to, unsigned flags, sdm_reader **out);

#endif
