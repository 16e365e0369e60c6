/* A store as one process has it, private to this layer. All handles on one directory share one sdm_store.
**
** Locks, in the order in which they may be taken: the registry's, control->topics_lock (shared by processes), store->lock, and then those of
** log/log.h. store->lock is never held while a log is recovered, cleaned or flushed; a new partition, which is empty, is made under it.
**
** Who is alive: every process that has the store open holds a shared lock on byte ALIVE of `sediment.lock`; the kernel releases it when the process
** ends, however. Who can have it exclusively is alone, and begins a new incarnation: all control pages are taken over and made anew. Byte GATE
** makes opening one at a time. Byte BACKGROUND is held by the process whose thread does the store's background work.
*/
#ifndef SDM_STORE_STORE_H
#define SDM_STORE_STORE_H

#include <stdatomic.h>

#include "cleaner/throttle.h"
#include "log/log.h"
#include "store/config.h"
#include "store/flusher.h"
#include "store/topics_file.h"

#define SDM_LOCK_NAME "sediment.lock"
#define SDM_TOPICS_NAME "sediment.topics"
#define SDM_STORE_CONTROL_NAME "sediment.control"
#define SDM_GROUP_PREFIX "sediment.group-"
#define SDM_CLEAN_SHUTDOWN_NAME ".kafka_cleanshutdown"

enum { SDM_BYTE_ALIVE, SDM_BYTE_GATE, SDM_BYTE_BACKGROUND };

typedef struct sdm_store_control {         /* sediment.control in the root */
  char magic[8];
  uint32_t version, size;
  uint8_t boot_id[SDM_BOOT_ID];
  uint64_t incarnation;
  sdm_shared_mutex checkpoint_lock;        /* the checkpoint files */
  sdm_shared_mutex topics_lock;            /* sediment.topics */
  _Atomic uint64_t topics_generation;      /* of sediment.topics: others look again when it differs from theirs */
  _Atomic uint32_t topics_doubtful;        /* 1: saving it failed, so what it says may not be durable */
} sdm_store_control;

typedef struct sdm_open_log {
  sdm_uuid topic_id;
  sdm_log *log;
} sdm_open_log;

typedef struct sdm_background sdm_background;
typedef struct sdm_roster sdm_roster;

struct sdm_store {
  atomic_int refs;                         /* handles, topics */
  int handles;                             /* guarded by the registry's lock, as `next` */
  sdm_store *next;
  uint64_t device, inode;
  sdm_env env;
  uint32_t fork_count;
  atomic_bool closed;
  sdm_file *lock_file, *control_file, *broker_lock_file;
  sdm_store_control *control;              /* NULL when read-only */
  _Atomic int64_t last_now;                /* for a background thread without a clock of its own */
  bool wall_clock;
  sdm_background *background;
  sdm_throttle throttle;                   /* of all its cleanings */

  sdm_mutex lock;                          /* guards what follows */
  sdm_topics_file topics;
  uint64_t topics_generation;
  sdm_config_set defaults;
  sdm_options options;
  sdm_roster *rosters;                     /* that are open */
  sdm_flusher *flusher;                    /* NULL: nobody has asked for it */
  sdm_open_log *logs;                      /* ascending by topic id, then partition */
  size_t log_count, log_capacity;
};

/* A store on a disk of its own, such as a simulated one. It is not shared within the process: closed by sdm_store_close_on, or, as if the process had
** died, by the last sdm_store_unref. */
int sdm_store_open_on(sdm_fs *fs, const char *path, const sdm_store_options *options, int64_t now, sdm_store **out);
int sdm_store_close_on(sdm_store *s, int64_t now);

int sdm_store_check(const sdm_store *s);                   /* closed, forked */
int sdm_store_check_writable(const sdm_store *s);
void sdm_store_saw(sdm_store *s, int64_t now);             /* remembers the time of a call */
int sdm_store_option(sdm_store *s, const char *name, int64_t *out);     /* as sdm_options_get */
sdm_store *sdm_store_ref(sdm_store *s);
void sdm_store_unref(sdm_store *s);

/* store_topics.c: the topics file */
static inline uint64_t sdm_store_generation(const sdm_store *s) {          /* one load; changes when topics or configs did; 0 when read-only */
  return s->control ? atomic_load_explicit(&s->control->topics_generation, memory_order_acquire) : 0;
}
int sdm_store_refresh(sdm_store *s);                       /* reads the topics file again if it changed */
int sdm_store_topics_hold(sdm_store *s);                   /* control->topics_lock: no topic is made, changed or deleted meanwhile */
void sdm_store_topics_release(sdm_store *s);
int sdm_store_topics_lock(sdm_store *s);                   /* the same, and then store->lock, the file read */
void sdm_store_topics_unlock(sdm_store *s);
int sdm_store_explain(const sdm_store *s, int rc);         /* SDM_NOT_FOUND, where nothing should be missing, is SDM_IO */
int sdm_store_topics_save(sdm_store *s);                   /* under both; others see the change */
int sdm_store_topic_deleted(const char *name);             /* SDM_UNKNOWN_TOPIC, with its message */
int sdm_store_still_lists(sdm_store *s, const char *name, const sdm_uuid *id);         /* 1, 0: the topic was deleted, though there may be another of its name */
int sdm_store_hand_over(sdm_names *list, int rc, char ***names, size_t *count);          /* to a caller of the API, sorted; or rc, and the list is freed */
int sdm_store_topics_settle(sdm_store *s);                 /* before one is relied on: after a save that failed, what is listed is made durable */

int sdm_store_finish_deletions(sdm_store *s, int64_t now); /* topic.c: of topics that are marked as deleted */

/* folders.c: partitions' folders */
int sdm_folders_check_none(sdm_store *s);                  /* SDM_CORRUPT: there are some of ours, so sediment.topics was lost */
int sdm_folder_check_free(sdm_store *s, const char *topic, int32_t from, int32_t to, bool clear);   /* SDM_EXISTS; `clear`, under the topics lock: what is nobody's goes */
int sdm_folders_check_all_listed(sdm_store *s);             /* SDM_EXISTS: a folder with a partition's name is of no topic */
int sdm_folders_drop_unlisted(sdm_store *s);                /* leftovers of imports that died; while nobody imports */
int sdm_folder_ensure(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition);
int sdm_folder_look(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition);       /* 1 there, 0 not made yet; or what is wrong with it */
int sdm_folder_check_id(sdm_fs *fs, const char *dir, const sdm_uuid *id);               /* SDM_EXISTS: it is another topic's; SDM_NOT_FOUND */
int sdm_folder_delete(sdm_store *s, const char *topic, const sdm_uuid *id, int32_t partition, int64_t now, int64_t delay_ms);
int sdm_folders_forget_offsets(sdm_store *s, const char *topic, int32_t partitions);     /* what the checkpoint files have of a topic that is gone */
int sdm_folders_unlink(sdm_store *s, int64_t now, int64_t *count);                      /* deleted ones whose time has come */

/* logs.c: the partitions that this process has open */
int sdm_store_copy_topics(sdm_store *s, sdm_topic_entry **out, size_t *count);          /* as they are listed now; freed with sdm_free */
int sdm_store_log(sdm_store *s, const sdm_topic_entry *topic, int32_t partition, int64_t now, sdm_log **out);   /* a reference */
void sdm_store_add_logs(sdm_store *s, const sdm_uuid *topic_id, sdm_log **logs, size_t count);      /* takes the references; holding store->lock */
void sdm_store_forget_deleted(sdm_store *s);                /* logs of topics that are not live; holding store->lock */
int sdm_store_open_all(sdm_store *s, int64_t now, sdm_failure *first, int64_t *failed);       /* opens, and so recovers, every partition; NULLs: who asks
                                                              for one that cannot be opened is told */
int sdm_store_log_refs(sdm_store *s, sdm_log ***out, size_t *count);
void sdm_logs_unref(sdm_log **logs, size_t count);

/* backup.c: SDM_CORRUPT: the folder is of a backup that did not end, and no store */
int sdm_backup_check_ended(sdm_fs *fs, const char *dir);

/* maintain.c */
int sdm_maintain_log(sdm_store *s, sdm_log *l, int64_t now, sdm_maintain_report *report);
int sdm_store_checkpoint(sdm_store *s);                    /* recovery points and log starts into their files */

/* background.c */
int sdm_background_start(sdm_store *s);
void sdm_background_stop(sdm_store *s);                    /* waits for what is being done */

#endif
