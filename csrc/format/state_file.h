/* `sediment.state` of a partition: what must be durable beyond the log's own bytes (docs/format.md 6). Two copies of 512 bytes, written in
** turn, so that a torn write leaves the other; the valid one with the higher sequence counts. No I/O.
*/
#ifndef SDM_FORMAT_STATE_FILE_H
#define SDM_FORMAT_STATE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SDM_STATE_NAME "sediment.state"
#define SDM_STATE_SLOT 512
#define SDM_STATE_BYTES (2 * SDM_STATE_SLOT)

typedef struct sdm_state_file {
  uint64_t sequence;            /* 0: nothing was ever written */
  bool clean;                   /* closed in order: the log ends at `end`, `position` bytes into its last segment */
  int64_t reserved_end;         /* no offset from here on was ever handed out */
  int64_t purge_floor;          /* highest offset of any tombstone removed, -1 */
  int64_t end;
  int64_t position;
  int64_t cleaned_end;          /* segments below were or may have been rewritten by cleaning: their offsets may have gaps */
  int64_t first_append_ms;      /* of the last segment, when clean: its age by the clock; -1: nothing in it */
  int64_t jitter_ms;            /* that its roll drew */
  int64_t log_start;            /* the log starts here at least: what an import was told, until the store's checkpoint has it */
  int64_t foreign_end;          /* records from here on are Sediment's own, which are of no transaction; 0: all are */
  bool damaged;                 /* when read: cut, empty, or a slot has bytes and is not valid, which may have been the newer one */
} sdm_state_file;

/* The better of the two slots; a missing, torn or foreign file reads as nothing written. Returns false when bytes were there and neither
** slot was valid. */
bool sdm_state_decode(const uint8_t *bytes, size_t size, sdm_state_file *out);

/* Writes one slot of SDM_STATE_SLOT bytes; it belongs at position sequence % 2 * SDM_STATE_SLOT. */
void sdm_state_encode(const sdm_state_file *s, uint8_t slot[SDM_STATE_SLOT]);

#endif
