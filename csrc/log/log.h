/* A partition's log: its segments, its control page, and what the operations on it share. Private to the layers log, cleaner and store.
**
** Locks, in the order in which they may be taken: control->maintenance, control->lock, log->lock, segment->lock. control->lock (shared by
** processes) guards the end of the log and every change of the segment set; log->lock guards this process's list of segments. Files are
** renamed, created and cut only under control->lock; reading needs none but, for a moment, log->lock.
*/
#ifndef SDM_LOG_LOG_H
#define SDM_LOG_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "format/state_file.h"
#include "log/control.h"
#include "log/log_config.h"
#include "log/segment.h"
#include "sediment.h"

/* What the logs of a store have in common. */
typedef struct sdm_env {
  sdm_fs *fs;
  char *root;                              /* the store's folder */
  bool writable;
  uint8_t boot_id[SDM_BOOT_ID];
  uint64_t incarnation;                    /* control pages of other incarnations are taken over and made anew */
  sdm_shared_mutex *checkpoint_lock;       /* guards the checkpoint files of the root; NULL when not writable */
  struct sdm_offsets_memory *offsets;      /* what they hold, for a while in which nobody else can change them (offsets.h); else NULL */
  sdm_file *lock_file;                     /* in which each process that has a partition open holds a byte; NULL: nobody else can have it open */
  atomic_bool reserve_used;                /* the disk was full: reserve.h */
  atomic_bool stopping;                    /* the store is about to close: long work ends early */
  _Atomic int64_t linger_ms, batch_size;   /* read at each append, changed by a later opening in the same process */
} sdm_env;

struct sdm_transactions;                   /* transactions.h */

struct sdm_log {
  atomic_int refs;
  bool warm;                               /* warm.c: in the list of logs whose active segment has files open, between these */
  sdm_log *warmer, *colder;
  sdm_env *env;                            /* NULL: a bare directory */
  sdm_fs *fs;
  char *dir;
  char topic[256];
  int32_t partition;
  bool writable;
  uint32_t fork_count;
  atomic_bool closed;                      /* the store was closed: readers stop */
  sdm_file *control_file;
  sdm_control *control;                    /* NULL: bare */
  uint64_t control_inode;                  /* of the page's file */

  sdm_mutex sync_lock;                     /* of threads that sync files: taken before control->lock */
  atomic_bool flusher_stuck;               /* who flushes for all did not come back in time */
  sdm_mutex lock;                          /* guards what follows */
  sdm_segment **segments;                  /* ascending; the last is the active one */
  size_t count, capacity;
  _Atomic uint64_t generation;             /* control->generation that the list corresponds to */
  sdm_segment *active;                     /* the active one, also under control->lock alone; a reference of its own */
  struct sdm_transactions *transactions;   /* as the segments stood at that generation; NULL: not asked for yet */
  uint64_t transactions_generation;
  sdm_log_config config;                   /* the topic's, as of the last use by this process */
  int64_t bare_start;
  atomic_bool bare_stale;                  /* a file of a segment was gone: the folder is to be looked at anew */
  sdm_end bare_end;                        /* without a control page: what the last look found */
  int64_t bare_stop, bare_size;            /* where that look met something that is no batch, with none behind it, in a file of that size; -1: it met nothing */
  int64_t bare_left_out;                   /* bytes from there on, but for padding */
  sdm_state_file bare_state;               /* what sediment.state said at that look; all zero: there is none */
  _Atomic int64_t bare_cleaned_end;        /* as the page's, from that file; INT64_MAX: nothing tells where there are no gaps */
  uint64_t incarnation;                    /* of the page, for those who only read it */
  bool opened;                             /* by a writer: the page was made, or found, to be of the store's incarnation */
};

/* ---- log.c: life ---- */

/* Opens a partition of a store, recovering it if this incarnation has not yet. Its folder must be there. */
int sdm_log_open(sdm_env *env, const char *topic, int32_t partition, const sdm_log_config *cfg, int64_t now, sdm_log **out);
sdm_log *sdm_log_ref(sdm_log *l);
void sdm_log_unref(sdm_log *l);

/* The topic's configs, for operations that are given none. */
void sdm_log_set_config(sdm_log *l, const sdm_log_config *cfg);
void sdm_log_get_config(sdm_log *l, sdm_log_config *out);

/* ---- warm.c: descriptors ---- */
void sdm_log_warm(sdm_log *l);             /* its active segment's files are about to be used: others' may be closed instead. Holding no lock but control->lock */
void sdm_log_cold(sdm_log *l);             /* it is about to go */
void sdm_log_warm_none(void);              /* after a fork: all are the parent's */

/* ---- guard.c ---- */

/* Before an operation: closed, forked, deleted, failed. */
int sdm_log_check(sdm_log *l);
int sdm_log_check_writable(sdm_log *l);
int sdm_log_check_going(sdm_log *l);        /* within long work on it, as sdm_log_check_writable: SDM_CLOSED once its store is about to close */

int sdm_log_lock(sdm_log *l);              /* control->lock, with the state put right when its last owner died */
void sdm_log_unlock(sdm_log *l);
int sdm_log_topic_deleted(const sdm_log *l);           /* SDM_UNKNOWN_TOPIC, with its message */
int sdm_log_out_of_range(sdm_log *l, int64_t offset, int64_t end);     /* SDM_OFFSET_OUT_OF_RANGE, with both bounds */
int sdm_log_in_place(const sdm_log *l);                /* 1: the page that is mapped is the one in the partition's folder; 0: it is not */
bool sdm_log_is_replaced(const sdm_log *l);            /* an import has put another folder in its place: the partition is to be opened anew */

/* ---- segment_list.c ---- */

/* The list, brought up to date; holding control->lock. */
int sdm_log_sync_locked(sdm_log *l);

/* References on the segments with base < `below`, ascending, in a fresh array (sdm_segments_unref). Brings the list up to date. */
int sdm_log_segment_refs(sdm_log *l, int64_t below, sdm_segment ***out, size_t *count);
void sdm_segments_unref(sdm_segment **segments, size_t count);
int sdm_log_list(sdm_log *l, sdm_segment ***out, size_t *count);       /* all of them, as the list stands */

/* A reference on the segment that holds `offset` (greatest base <= offset), NULL when all lie above; *next_base: of the one after it,
** INT64_MAX when it is the last. */
int sdm_log_find(sdm_log *l, int64_t offset, sdm_segment **out, int64_t *next_base);

/* After SDM_NOT_FOUND for a segment's file, time number `attempt`: somebody is just changing the set, or died doing so. Waits until that is over;
** then the list, asked for anew, is right. Not under control->lock. */
enum { SDM_AWAIT_MAX = 50 };
void sdm_log_await_change(sdm_log *l, int attempt);
int sdm_log_tell_deleted(const sdm_log *l, int rc);    /* what came of it: SDM_NOT_FOUND because the topic was deleted is SDM_UNKNOWN_TOPIC */
int sdm_log_explain(const sdm_log *l, int rc);         /* the same at the end of an operation: in a partition that is open nothing else should be missing, SDM_IO */

/* Takes the segments with from <= base < to out of the list and puts `fresh` in (its reference is taken over; NULL: none), holding
** control->lock; raises the generation, so that other processes look again. Fails only before it has changed anything. */
int sdm_log_edit_segments(sdm_log *l, int64_t from, int64_t to, sdm_segment *fresh);

/* Consistent end of the log; for bare directories a fresh look at the tail. *commit (may be NULL) is for sdm_control_read_stage. */
int sdm_log_read_end(sdm_log *l, sdm_end *out, uint64_t *commit);
int64_t sdm_log_start(sdm_log *l);
void sdm_log_last_end(sdm_log *l, sdm_end *out);       /* the same without a look at a bare directory: what the last one found */

/* Bytes of the segment that count now. */
int sdm_log_segment_limit(sdm_log *l, sdm_segment *s, int64_t *limit);

/* ---- write.c, roll.c; holding control->lock ---- */
int sdm_log_seal_locked(sdm_log *l, const sdm_log_config *cfg);                       /* the stage becomes a batch in the file */
int sdm_log_roll_locked(sdm_log *l, const sdm_log_config *cfg, int64_t base, int64_t now);
int sdm_log_trim_locked(sdm_log *l, const sdm_end *e);                                /* the active files end where e says, the .log's time is the last append's */
void sdm_log_finish_indexes_locked(sdm_log *l);                                       /* the closing time index entry; l->active is current */
int sdm_log_write_locked(sdm_log *l, const sdm_log_config *cfg, uint8_t *batch, const sdm_batch *b, int64_t tombstone, int64_t now);
bool sdm_log_should_roll(const sdm_end *e, const sdm_log_config *cfg, int64_t bytes, int64_t max_timestamp, int64_t last_offset, int64_t now);
sdm_codec sdm_log_codec_for(const sdm_log_config *cfg, sdm_codec asked);              /* compression.type overrides `asked`, unless it is producer */
int sdm_log_level_for(const sdm_log_config *cfg, sdm_codec codec);

/* ---- wait.c ---- */

/* Wakes those who wait for records, if there are any. After control->lock was let go, so that they find it free. */
void sdm_log_tell_news(sdm_control *c);

/* Wakes those who wait on `word`, or are about to. */
void sdm_log_wake(_Atomic uint32_t *word, _Atomic uint32_t *awaited);

/* Waits on `word` until it is woken, unless it has moved from what it was before `done` was asked and denied. false: a signal handler ran. */
bool sdm_log_sleep(sdm_log *l, _Atomic uint32_t *word, _Atomic uint32_t *awaited, bool (*done)(sdm_log *l, int64_t offset), int64_t offset, int64_t timeout_ms);

/* ---- append.c ---- */

typedef struct sdm_append {
  const sdm_record *records;
  size_t count;
  bool own_batch;                          /* append_batch: not through the stage */
  sdm_codec codec;
  unsigned flags;
  sdm_buf *scratch;                        /* for encoding, reused */
  const int64_t *only_at;                  /* own_batch alone: the log must end there, else SDM_BUSY and nothing is appended; NULL: anywhere */
} sdm_append;

int sdm_log_append(sdm_log *l, const sdm_log_config *cfg, const sdm_append *a, int64_t now, int64_t *first, int64_t *last);

/* ---- flush.c ---- */
int sdm_log_flush_to_disk(sdm_log *l, const sdm_log_config *cfg, int64_t now, int64_t *durable);
int sdm_log_flush_closed(sdm_log *l, int64_t below);                                  /* all segments before the one that begins at `below`; no seal */

/* Makes sure that offsets up to `end` are durably reserved and sediment.state says "in use"; holding control->lock. */
int sdm_log_reserve_locked(sdm_log *l, int64_t end);
int sdm_log_raise_floor(sdm_log *l, int64_t floor);                                   /* the purge floor, durable on return */
int sdm_log_raise_cleaned_locked(sdm_log *l, int64_t end);                            /* before segments below `end` are rewritten; durable */
bool sdm_log_is_dense(const sdm_log *l, const sdm_segment *s);                        /* no gaps between its batches: never cleaned, and ours */

/* Runs f again for as long as a segment that it looked at was taken away or replaced meanwhile. */
int sdm_log_steadily(sdm_log *l, int (*f)(sdm_log *l, void *context), void *context);
int64_t sdm_draw_jitter(const sdm_log_config *cfg);                                   /* roll.c: once for a segment */
int sdm_log_close_clean(sdm_log *l, const sdm_log_config *cfg, int64_t now);          /* seal, flush, mark as closed */

/* ---- start.c ---- */
int sdm_log_set_start(sdm_log *l, int64_t start);                                     /* raises the log start offset, durable on return */

/* The same when a segment begins there and all before it are about to go: on a disk that has no room for the checkpoint, that is what tells. */
int sdm_log_set_start_at_segment(sdm_log *l, int64_t start);

/* ---- segment_stats.c: what is known of a segment, looked up when needed ---- */
int sdm_log_largest_timestamp(sdm_log *l, sdm_segment *s, int64_t *out);              /* max timestamp, else the file's time */
int sdm_log_max_timestamp(sdm_log *l, sdm_segment *s, int64_t *out);                  /* -1: none */
int sdm_log_first_timestamp(sdm_log *l, sdm_segment *s, int64_t *out);                /* of the first batch, -1 */
int sdm_first_batch_timestamp(sdm_segment *s, int64_t limit, int64_t *out);           /* the same from the file, `limit` bytes of it */
int sdm_log_count_segment(sdm_log *l, sdm_segment *s, int64_t *records, int64_t *last_tombstone);

#endif
