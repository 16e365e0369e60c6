/* The last record of each key, for rebuilding state. The part that the cleaner has cleaned holds each key once, so only the keys of the rest are
** mapped: a record of the clean part is a key's last one unless the map knows the key, a record of the rest is if the map has its offset.
*/
#include "base/mem.h"
#include "cleaner/cleanable.h"
#include "cleaner/offset_map.h"
#include "log/reader.h"

typedef struct latest {
  sdm_offset_map map;
} latest;

static bool wants(void *context, const sdm_record *r) {
  latest *l = context;
  if (r->key_size < 0) return false;
  return sdm_offset_map_get(&l->map, sdm_hash128(r->key, (size_t)r->key_size)) <= r->offset;
}

static void free_latest(void *context) {
  latest *l = context;
  sdm_offset_map_free(&l->map);
  sdm_free(l);
}

static int map_keys(sdm_log *log, int64_t from, int64_t to, unsigned flags, latest *l) {
  sdm_reader *r;
  sdm_record record;
  int rc = sdm_reader_open(log, from, to, flags, &r);
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(r, &record)) == 1) {
    if (record.key_size < 0) continue;
    if (!sdm_offset_map_put(&l->map, sdm_hash128(record.key, (size_t)record.key_size), record.offset)) {
      rc = sdm_no_memory();
      break;
    }
  }
  sdm_reader_close(r);
  return rc;
}

int sdm_reader_open_latest(sdm_log *log, int64_t from, int64_t to, unsigned flags, sdm_reader **out) {
  sdm_reader *r = NULL;
  latest *l = sdm_calloc(1, sizeof *l);
  if (!l) return sdm_no_memory();
  int rc = sdm_offset_map_init(&l->map, SIZE_MAX / 4, 0.75);
  int64_t dirty = sdm_first_dirty(log), end;
  if (rc == 0) rc = sdm_log_latest(log, &end);
  if (rc == 0 && to > end) to = end;             /* one end for both readings */
  if (rc == 0) rc = sdm_reader_open(log, from, to, flags, &r);
  if (rc == 0 && dirty < from) dirty = from;
  if (rc == 0 && dirty < to) rc = map_keys(log, dirty, to, flags, l);
  if (rc < 0) {
    sdm_reader_close(r);
    free_latest(l);
    return rc;
  }
  sdm_reader_set_filter(r, &(sdm_reader_filter){.wants = wants, .free = free_latest, .context = l});
  *out = r;
  return 0;
}
