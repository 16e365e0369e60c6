/* The control file of a partition, `sediment.control`, mapped by every process that has the partition open.
**
** It holds the lock of the partition, what readers need to know without a lock, and the stage: records that were acknowledged and are not
** yet in the segment's file. It belongs to one incarnation of the store (a boot of the machine, a run of overlapping processes) and is made
** anew by the first process of the next one, after that has taken over what the old one held.
**
** The end of the log is described by two slots of which `commit` names the valid one (commit & 1). A change is prepared in the other slot
** and published by one store to `commit`; a writer that dies before has changed nothing. Appending to the stage changes the valid slot in
** place, and the store to `staged_count` publishes it; what the other staged_* fields should then be follows from the records
** (sdm_stage_repair). So after the death of a writer at any instruction: what was published counts, what lies past it is nobody's.
*/
#ifndef SDM_LOG_CONTROL_H
#define SDM_LOG_CONTROL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "format/batch.h"
#include "os/fs.h"
#include "os/host.h"
#include "os/thread.h"

#define SDM_CONTROL_NAME "sediment.control"
#define SDM_STAGE_BYTES 65536            /* the stage with room for a batch header: the largest batch.size */
#define SDM_CONTROL_BYTES (4096 + SDM_STAGE_BYTES)

typedef struct sdm_end {                 /* where the log ends, and what the active segment is like */
  int64_t active_base;                   /* base offset of the active segment */
  int64_t position;                      /* bytes of its .log that count: the sealed end */
  int64_t sealed_end;                    /* offset after the last sealed record */
  int64_t max_timestamp;                 /* in the sealed part of the active segment, -1: none */
  int64_t max_timestamp_offset;          /* last offset of the batch that has it */
  int64_t first_timestamp;               /* largest of the first append to the segment: rolling goes by it; -1: none */
  int64_t created_ms;                    /* when the segment came to be, or this incarnation found it */
  int64_t first_append_ms;               /* clock at the first append to the segment, -1: none yet */
  int64_t modified_ms;                   /* clock at the last append, or at creation */
  int64_t jitter_ms;                     /* drawn once for the segment */
  int64_t bytes_since_index;
  int64_t index_entries, timeindex_entries;
  int64_t indexed_timestamp;             /* of the last time index entry, -1: none */
  int64_t last_tombstone;                /* highest offset of one in the sealed part, -1: none, -2: not known */
  int64_t records;                       /* in the sealed part, -1: not known */

  _Atomic uint32_t staged_count;         /* records in the stage: published last */
  _Atomic uint32_t staged_bytes;         /* that they take, without the header */
  uint32_t staged_crc;                   /* CRC-32C of those bytes */
  uint32_t staged_append_time;           /* 1: a LogAppendTime batch */
  int64_t staged_timestamp;              /* base timestamp of the batch */
  int64_t staged_max_timestamp;
  int64_t staged_tombstone;              /* highest offset of one, -1 */
  int64_t staged_since_ms;               /* clock at the first record */
} sdm_end;

/* With its topic; by an import, which has put another folder in its place, or is just at it under `lock`, unless it has died: then the folders tell. */
enum { SDM_GONE_NOT, SDM_GONE_DELETED, SDM_GONE_REPLACED, SDM_GONE_REPLACING };

typedef struct sdm_control {
  char magic[8];
  uint32_t version, size;
  uint8_t boot_id[SDM_BOOT_ID];
  _Atomic uint64_t incarnation;          /* stored last when the page is made */

  sdm_shared_mutex lock;                 /* appends and changes of the segment set */
  sdm_shared_mutex maintenance;          /* one retention or cleaning at a time; taken before `lock` */
  sdm_shared_mutex syncing;              /* one flush at a time, for all who wait for it; taken after `maintenance`, before `lock` */

  _Atomic uint64_t generation;           /* of the segment set: roll, retention, swap raise it */
  _Atomic int64_t log_start, log_end;    /* log_end repeats what the valid slot says: one load for those who ask for news */
  _Atomic int64_t durable_end;           /* everything below survives power loss */
  _Atomic int64_t reserved_end;          /* offsets below are durably reserved (sediment.state) */
  int64_t reserve_step;                  /* how many to reserve next; under `lock`, as the next two */
  uint64_t state_sequence;               /* of the slot written last to sediment.state */
  int64_t clean_end;                     /* what that slot says when it is clean, -1 otherwise */
  _Atomic int64_t purge_floor;
  _Atomic int64_t cleaned_end;           /* segments with a base below may have gaps; above, each batch begins where the one before ended */
  _Atomic int64_t clean_offset;          /* the cleaner's checkpoint, -1: none */
  _Atomic int32_t uncleanable;           /* a sdm_code: why the last cleaning failed; 0: it did not, or there was none */
  _Atomic uint32_t clean_failures;       /* in a row, the last of them at */
  _Atomic int64_t clean_failed_ms, clean_failed_start;     /* the log start then: what was damaged may have left since */
  _Atomic int64_t cleaned_ms;            /* clock at the last cleaning that did not fail, whether it found anything or not; -1: none */
  _Atomic int64_t dirty_since_ms;        /* clock at the first append after the last flush, -1 */
  _Atomic int64_t truncated_bytes, corrupt_batches, keyless_dropped;
  _Atomic int32_t failed;                /* a sdm_code: a flush failed, the partition is read-only until reopened */
  _Atomic uint32_t news, awaited;        /* futex: moves at an append when somebody has set `awaited`, which it takes back */
  _Atomic uint32_t synced, sync_awaited; /* the same at the end of a flush */
  _Atomic uint32_t deleted;              /* SDM_GONE_*: this folder is no longer the partition's */
  _Atomic uint32_t unfinished;           /* 1: a change of the files failed past its point of no return: the next to lock finishes it */
  _Atomic int32_t leader_epoch;          /* that batches written from now on carry */

  _Atomic uint64_t commit;
  sdm_end slots[2];

  _Atomic int64_t foreign_end;           /* records from here on are of no transaction: Sediment appended them */
  int64_t retired_ms;                    /* time that a segment was retired with last; under `lock` */
  _Atomic int32_t retention_failed;      /* as uncleanable, of the last retention */
  int64_t least_end;                     /* the log goes on here at least: what an unfinished recovery knew and had not done yet */
} sdm_control;

/* The store's own page, `sediment.control` in its root, begins with the same fields and this magic. Its incarnation is that of all pages that count. */
#define SDM_STORE_PAGE_MAGIC "SDMSTORE"
uint64_t sdm_root_incarnation(sdm_fs *fs, const char *root, const uint8_t boot_id[SDM_BOOT_ID]);   /* 0: the store is closed, or there is none */

/* Maps the control file of partition directory `dir`, made and its blocks reserved when writable, whatever it holds. */
int sdm_control_map(sdm_fs *fs, const char *dir, bool writable, sdm_file **file, sdm_control **out);
void sdm_control_unmap(sdm_fs *fs, sdm_file *file, sdm_control *c);

/* Whether the page was made under this boot by a version we understand. Nothing in it may be believed otherwise. */
bool sdm_control_valid(const sdm_control *c, const uint8_t boot_id[SDM_BOOT_ID]);

/* Makes the page anew for an incarnation; only while nobody else can use it. Its slots are empty; sdm_control_publish comes next. */
int sdm_control_reset(sdm_control *c, const uint8_t boot_id[SDM_BOOT_ID]);

/* The same of a page that can be believed: what a slot says, and the numbers beside it, stay until sdm_control_publish. So at any moment a death leaves one that
** can be believed. */
int sdm_control_renew(sdm_control *c);

static inline uint8_t *sdm_control_stage(sdm_control *c) { return (uint8_t *)c + 4096; }

/* The valid slot, for those who hold the lock. */
static inline sdm_end *sdm_control_end(sdm_control *c) { return &c->slots[atomic_load_explicit(&c->commit, memory_order_relaxed) & 1]; }

/* A copy of the valid slot to change; the stage in it is empty. */
void sdm_control_prepare(sdm_control *c, sdm_end *next);

/* Publishes it: one atomic step empties the stage and moves the end. Holds the lock. */
void sdm_control_publish(sdm_control *c, const sdm_end *next);

/* For readers without the lock: a consistent copy of the end, and the number of the commit it belongs to. */
uint64_t sdm_control_read(sdm_control *c, sdm_end *out);

/* Copies the staged records of that commit (count of them or more, into room for SDM_STAGE_BYTES), of which `have` bytes are there already; false when the stage was
** sealed since. */
bool sdm_control_read_stage(sdm_control *c, uint64_t commit, uint32_t have, uint8_t *out, uint32_t *bytes);

static inline int64_t sdm_end_offset(const sdm_end *e) { return e->sealed_end + (int64_t)atomic_load_explicit(&e->staged_count, memory_order_acquire); }

#endif
