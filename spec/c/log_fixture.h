/* A partition's log in a folder of its own, for the tests of csrc/log: opened, crashed and reopened at will, by an injected clock.
**
** The fixture keeps every record that was acknowledged (`model`), so that what is read back can be held against it.
*/
#ifndef SPEC_C_LOG_FIXTURE_H
#define SPEC_C_LOG_FIXTURE_H

#include "log/log.h"
#include "log/reader.h"

#define FIXTURE_TOPIC "t"
#define FIXTURE_T0 1700000000000          /* where the clock begins */

typedef struct fixture_record {
  int64_t offset, timestamp;
  int32_t key_size, value_size;           /* -1: none */
  uint32_t seed;                          /* the bytes of key and value follow from it */
} fixture_record;

typedef struct fixture {
  char root[256], dir[300];
  sdm_fs fs;                              /* the table that the log uses: a copy of the real one, with faults */
  sdm_env env;
  sdm_shared_mutex *checkpoint_lock;
  sdm_log_config cfg;
  sdm_log *log;                           /* NULL while it is down */
  int64_t now;
  sdm_buf scratch;
  fixture_record *model;                  /* ascending */
  size_t count, capacity;
} fixture;

/* Faults of the disk, for all fixtures of the program; zeroed by fixture_begin. */
extern struct fixture_faults {
  int write_code, sync_code;              /* what writes and syncs answer; 0: the truth */
  int64_t write_limit;                    /* with write_code: bytes that a write still gets onto the disk, never all */
  const char *only;                       /* only files whose path contains this; NULL: all */
  int yields;                             /* so often a directory's sync lets others run, as a slow disk would */
  int skip;                               /* so many of the calls that would fail succeed first */
} fixture_faults;

void fixture_defaults(sdm_log_config *cfg);      /* Kafka's, with the policy delete */
void fixture_begin(fixture *f);                  /* an empty folder, default configs, nothing open */
bool fixture_open(fixture *f);                   /* opens the log; false after a failed check */
void fixture_crash(fixture *f);                  /* all processes die */
void fixture_power_loss(fixture *f);             /* the same, and the machine boots again; nothing of the files is lost by that alone */
bool fixture_close(fixture *f);                  /* an orderly close of the last process */
void fixture_end(fixture *f);                    /* removes it all */

/* One record through the stage, its bytes following from `seed`; entered in the model when it was acknowledged. The result is the log's. */
int fixture_put(fixture *f, uint32_t seed, int32_t key_size, int32_t value_size, int64_t timestamp);
int fixture_add(fixture *f, uint32_t seed);                      /* the same with key, value and the clock's time: a usual record */
int fixture_put_batch(fixture *f, uint32_t seed, size_t count, int32_t value_size, int64_t timestamp);   /* seeds and times count up */
void fixture_note(fixture *f, int64_t offset, uint32_t seed, int32_t key_size, int32_t value_size, int64_t timestamp);
void fixture_forget(fixture *f, int64_t offset);                 /* takes the model's records from `offset` on out */

void fixture_fill(uint8_t *out, uint32_t seed, int32_t size, int salt);    /* key: salt 0; value: 1 */
bool fixture_is(const sdm_record *r, const fixture_record *expected);

/* Reads from `from` to the end and holds it against the model; answers whether all was as expected. */
bool fixture_check_from(fixture *f, sdm_log *l, int64_t from);
bool fixture_check_all(fixture *f);                              /* from every offset on that the log has */
bool fixture_check_rest(fixture *f, sdm_reader *r);              /* what a reader still gives, from its position on */

/* Retention and cleaning, as far as the log layer sees them. */
void fixture_retire(fixture *f, int64_t base);                   /* segments below: log start raised, files waiting for deletion */
void fixture_swap(fixture *f, int64_t from, int64_t to);         /* a cleaning that drops nothing: the segments of [from, to) in one */
int64_t fixture_base(fixture *f, size_t i);                      /* base offset of segment i, or of the last one */

/* Files by name, relative to the partition's folder. */
uint8_t *fixture_read(const fixture *f, const char *name, size_t *size);   /* to be freed with free; NULL: missing */
/* At position; -1: in place of the whole file. */
void fixture_write(const fixture *f, const char *name, const void *bytes, size_t size, int64_t position);
int64_t fixture_size(const fixture *f, const char *name);                  /* -1: missing */
void fixture_remove(const fixture *f, const char *name);
void fixture_rename(const fixture *f, const char *from, const char *to);
void fixture_truncate(const fixture *f, const char *name, int64_t size);
char *fixture_names(const fixture *f, const char *suffix);                 /* those that end so, with blanks between; to be freed */
uint64_t fixture_digest(const fixture *f);                                 /* of all segment files: names and bytes */

/* Walks the batches of a .log by the format layer alone; answers how many. */
typedef struct fixture_batch {
  int64_t position;
  sdm_batch b;
} fixture_batch;
size_t fixture_batches(const fixture *f, const char *name, fixture_batch *out, size_t room);

/* Holds both indexes of a closed segment (final: with the closing time entry) against a plain model of reference section 2. */
bool fixture_check_indexes(const fixture *f, int64_t base, int64_t interval, bool final);

/* What Kafka's dump tool checks of them: each entry tells the truth about a batch, and they ascend. */
bool fixture_check_entries(const fixture *f, int64_t base);

#endif
