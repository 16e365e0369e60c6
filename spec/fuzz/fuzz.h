/* Hostile bytes for the product's own code. Each target is one file with LLVMFuzzerTestOneInput: `make fuzz` links it with libFuzzer, and replay.c makes
** a program of it that goes through files of past inputs.
**
** Checksums stop random changes at the door. So an input says by a bit whether what is summed is to be mended first: half of them get behind it.
*/
#ifndef SPEC_FUZZ_FUZZ_H
#define SPEC_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sediment.h"
#include "sim/disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An oracle of a target: what must hold whatever the bytes are. */
#define MUST(condition) ((condition) ? (void)0 : fuzz_broken(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_broken(const char *file, int line, const char *text);

/* ---- the files of a store ---- */

/* The numbers are in the corpus: new kinds go to the end. */
typedef enum fuzz_kind {
  FUZZ_LOG, FUZZ_INDEX, FUZZ_TIMEINDEX, FUZZ_TXNINDEX, FUZZ_SNAPSHOT, FUZZ_DIGEST, FUZZ_EPOCHS, FUZZ_METADATA, FUZZ_STATE, FUZZ_CONTROL, FUZZ_SWAP,
  FUZZ_LOG_CLEANED, FUZZ_LOG_SWAP, FUZZ_INDEX_SWAP, FUZZ_TIMEINDEX_SWAP, FUZZ_DIGEST_SWAP, FUZZ_TXNINDEX_SWAP, FUZZ_LOG_DELETED, FUZZ_DELETED_MARK,
  FUZZ_TOPICS, FUZZ_ROOT_CONTROL, FUZZ_LOG_START, FUZZ_RECOVERY_POINT, FUZZ_CLEANER_POINT, FUZZ_CLEAN_SHUTDOWN, FUZZ_KINDS,
  FUZZ_TABLE = FUZZ_KINDS                  /* of the target `files` alone: its name has the id of a topic */
} fuzz_kind;

/* Puts right what keeps bytes of this kind from being looked at: lengths and CRCs of batches, checksums, the boot of a control page. */
void fuzz_mend(fuzz_kind kind, sdm_buf *b);
void fuzz_mend_batches(uint8_t *p, size_t size);

/* ---- many files in one input: files one after the other, each kind | folder << 5 | mend << 7 (u8), base offset (i64), length (u24), bytes ---- */

enum { FUZZ_FILE_HEAD = 12, FUZZ_FOLDERS = 4, FUZZ_FILES_MAX = 64 };

typedef struct fuzz_file {
  fuzz_kind kind;
  unsigned folder;
  bool mend;
  int64_t base;
  const uint8_t *bytes;                   /* borrowed */
  size_t size;
} fuzz_file;

bool fuzz_next_file(const uint8_t **p, const uint8_t *end, fuzz_file *out);      /* false: that was the last */
void fuzz_pack_file(sdm_buf *out, const fuzz_file *f);
bool fuzz_name_of(const char *name, fuzz_kind *kind, int64_t *base);             /* of a file in a partition's folder, or of one in the root */
void fuzz_write(sim_disk *d, const char *path, const void *bytes, size_t size);
void fuzz_place(sim_disk *d, const char *root, const char *dir, const fuzz_file *f);        /* writes it, mended if it says so */

/* A control page is its struct and, from 4096 on, the stage; what is between is left out of inputs. */
void fuzz_pack_page(sdm_buf *out, const uint8_t *page, size_t size);

/* ---- reading ---- */

enum { FUZZ_RECORDS_MAX = 20000 };        /* that are read of a log: a small input may unfold to many millions */

void fuzz_read_log(sdm_log *l, int64_t from, unsigned flags);                    /* offsets ascend within the bounds */
void fuzz_ask_log(sdm_log *l, int64_t now);                                      /* all of it, and bounds, times, segments, stats */

#endif
