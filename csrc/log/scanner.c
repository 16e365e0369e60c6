/* Invariant: window.data[0 .. window.size) are the bytes of the file at window_start. */
#include "log/scanner.h"

#include <string.h>

#include "base/bytes.h"

enum {
  WINDOW = 256 * 1024,
  OLD_MESSAGE = 26,                        /* bytes of the shortest message before Kafka 0.11, its offset and size included */
};

void sdm_scanner_start(sdm_scanner *s, sdm_file *file, int64_t position, int64_t limit) {
  s->file = file;
  s->position = position;
  s->limit = limit;
  s->torn = s->doubtful = s->unsure = false;
  s->spent = 0;
  s->window_start = position;
  s->window.size = 0;
  s->digest = NULL;
  s->checked_from = s->checked_to = s->bad_from = s->bad_to = 0;
}

void sdm_scanner_free(sdm_scanner *s) { sdm_buf_free(&s->window); }

static bool holds(const sdm_scanner *s, int64_t need) {
  return s->position >= s->window_start && s->position + need <= s->window_start + (int64_t)s->window.size;
}

/* Moves the window so that it begins at `position` and holds `need` bytes if the file has them before the limit. */
static int fill(sdm_scanner *s, int64_t need, int64_t want) {
  size_t keep = 0, got;
  int64_t end = s->window_start + (int64_t)s->window.size;
  if (s->position >= s->window_start && s->position < end) keep = (size_t)(end - s->position);
  if (want < need) want = need;
  if (want > s->limit - s->position) want = s->limit - s->position;
  if (s->window.capacity < (size_t)want) {
    size_t before = s->window.size;
    int rc = sdm_buf_reserve(&s->window, (size_t)want > before ? (size_t)want - before : 0);
    if (rc < 0) return rc;
  }
  if (keep) memmove(s->window.data, s->window.data + (s->position - s->window_start), keep);
  s->window_start = s->position;
  s->window.size = keep;
  if ((int64_t)keep >= want) return 0;
  int rc = s->file->fs->read(s->file, s->window.data + keep, (size_t)want - keep, s->position + (int64_t)keep, &got);
  if (rc < 0) return rc;
  s->window.size = keep + got;
  return 0;
}

/* 1: `need` bytes from `position` on are in the window. 0: there are fewer before the limit. */
static int look(sdm_scanner *s, int64_t need, int64_t want) {
  if (s->limit - s->position < need) return 0;
  if (!holds(s, need)) {
    int rc = fill(s, need, want);
    if (rc < 0) return rc;
  }
  return holds(s, need) ? 1 : 0;
}

static const uint8_t *here(const sdm_scanner *s) { return s->window.data + (s->position - s->window_start); }

static int corrupt(const sdm_scanner *s, const sdm_batch *b) {
  return sdm_fail(SDM_CORRUPT, "%s: the batch at position %lld (%d bytes, offsets %lld to %lld) fails its CRC", s->file->path,
                  (long long)s->position, b->size, (long long)b->base_offset, (long long)sdm_batch_last_offset(b));
}

static uint32_t crc32_of(const uint8_t *p, size_t size) {       /* of the formats before Kafka 0.11; met once, then refused */
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) {
    crc ^= p[i];
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

/* The magic is that of an old format. Only a message whose own CRC holds is one; else it is the front of a batch whose rest reads as zeros. */
static int refuse_old(sdm_scanner *s, int rc) {
  enum { CRC = 12, CRC_FROM = 16 };
  int64_t size = SDM_BATCH_PREFIX + (int64_t)sdm_get32(here(s) + 8);
  int have = size <= CRC_FROM ? 0 : look(s, size, size);
  if (have < 0) return have;
  if (have == 1 && sdm_get32(here(s) + CRC) == crc32_of(here(s) + CRC_FROM, (size_t)size - CRC_FROM)) return rc;
  return sdm_fail(SDM_CORRUPT, "neither a batch nor a whole message of an old format");
}

static int at_position(const sdm_scanner *s, int rc) { return sdm_fail_within(rc, "%s at position %lld: ", s->file->path, (long long)s->position); }

/* What is shorter than a header is torn, or a message of an old format, which can be shorter. */
static int peek_short(sdm_scanner *s, sdm_batch *b) {
  int64_t left = s->limit - s->position;
  uint8_t padded[SDM_BATCH_HEADER] = {0};
  s->torn = true;
  if (left < OLD_MESSAGE || look(s, left, left) != 1) return 0;
  memcpy(padded, here(s), (size_t)left);
  int rc = sdm_batch_decode(padded, sizeof padded, b);
  if (rc == SDM_UNSUPPORTED && refuse_old(s, rc) == rc) return at_position(s, rc);
  return 0;
}

static int peek_any(sdm_scanner *s, sdm_batch *b, int64_t want) {
  s->torn = false;
  if (s->position >= s->limit) return 0;
  int rc = look(s, SDM_BATCH_HEADER, want);
  if (rc < 0) return rc;
  if (rc == 0) return peek_short(s, b);
  rc = sdm_batch_decode(here(s), SDM_BATCH_HEADER, b);
  if (rc == SDM_UNSUPPORTED) rc = refuse_old(s, rc);
  if (rc < 0) return at_position(s, rc);
  if (b->size <= s->limit - s->position) return 1;
  s->torn = true;
  return 0;
}

/* ---- the digest ---- */

enum { CHUNK_BATCHES = SDM_DIGEST_CHUNK / SDM_BATCH_HEADER + 1 };

typedef struct chunk {
  int64_t from, to;                        /* positions: of its first batch, of the one behind it */
  uint32_t hash;                           /* as it should be */
  int64_t positions[CHUNK_BATCHES], bases[CHUNK_BATCHES];
  int32_t sizes[CHUNK_BATCHES];
  size_t count;
} chunk;

/* False: no batch that the digest knows begins there or before. */
static bool find_chunk(const sdm_digest *d, int64_t position, chunk *c) {
  size_t low = 0, high = d->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (d->entries[middle].position <= position) low = middle + 1;
    else high = middle;
  }
  if (low == 0) return false;
  c->from = d->entries[low - 1].position;
  c->hash = d->entries[low - 1].hash;
  c->to = low < d->count ? d->entries[low].position : d->size;
  return true;
}

/* 1: its headers lead from one to the next, to its end. 0: a size is damaged, which the CRC of that batch tells. */
static int read_chunk(sdm_scanner *s, chunk *c) {
  sdm_batch b;
  int rc = 1;
  int64_t most = s->limit - c->from < SDM_DIGEST_CHUNK + SDM_BATCH_HEADER ? s->limit - c->from : SDM_DIGEST_CHUNK + SDM_BATCH_HEADER;
  s->position = c->from;
  if (most > 0 && (rc = look(s, most, WINDOW)) < 0) return rc;
  for (c->count = 0; s->position < c->to && c->count < CHUNK_BATCHES; c->count++) {
    if ((rc = peek_any(s, &b, SDM_BATCH_HEADER)) != 1) break;
    c->positions[c->count] = s->position;
    c->bases[c->count] = b.base_offset;
    c->sizes[c->count] = b.size;
    s->position += b.size;
  }
  return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : s->position == c->to;
}

static uint32_t hash_from(const chunk *c, size_t i, uint64_t hash, int64_t first_base) {
  for (size_t k = i; k < c->count; k++) hash = sdm_digest_chain(hash, k == i ? first_base : c->bases[k], c->sizes[k]);
  return (uint32_t)hash;
}

/* Which one batch it is whose base offset, with one bit the other way, would give the hash; c->count: none. */
static size_t locate(const chunk *c) {
  uint64_t before = 0;
  for (size_t i = 0; i < c->count; i++) {
    for (int bit = 0; bit < 64; bit++) {
      if (hash_from(c, i, before, (int64_t)((uint64_t)c->bases[i] ^ (uint64_t)1 << bit)) == c->hash) return i;
    }
    before = sdm_digest_chain(before, c->bases[i], c->sizes[i]);
  }
  return c->count;
}

/* Whether the CRCs of all of them hold: one that does not has the chunk's damage, perhaps in its size. 1, 0, or a failure. */
static int crcs_hold(sdm_scanner *s, const chunk *c) {
  sdm_batch b;
  int rc = 1;
  for (size_t i = 0; rc == 1 && i < c->count; i++) {
    s->position = c->positions[i];
    if ((rc = look(s, c->sizes[i], WINDOW)) == 1) rc = sdm_batch_decode(here(s), SDM_BATCH_HEADER, &b) == 0 && sdm_batch_crc_ok(here(s), &b);
  }
  return rc;
}

/* Which batches of the chunk, whose headers are as they are, the digest denies. */
static int find_bad(sdm_scanner *s, const chunk *c) {
  int rc = crcs_hold(s, c);
  if (rc <= 0) return rc;
  size_t i = locate(c);
  s->unsure = s->unsure || i == c->count;
  s->bad_from = i < c->count ? c->positions[i] : c->from;
  s->bad_to = i < c->count ? c->positions[i] + c->sizes[i] : c->to;
  return 0;
}

/* Holds the batches of the chunk around `position` against the digest. */
static int check_chunk(sdm_scanner *s) {
  chunk c;
  int64_t at = s->position;
  if (!find_chunk(s->digest, at, &c)) return 0;
  int rc = read_chunk(s, &c);
  s->position = at;
  if (rc < 0) return rc;
  s->checked_from = c.from;
  s->checked_to = c.to;
  s->bad_from = s->bad_to = 0;
  if (rc == 0 || c.count == 0 || hash_from(&c, 0, 0, c.bases[0]) == c.hash) return 0;
  rc = find_bad(s, &c);
  s->position = at;
  return rc;
}

static int check_digest(sdm_scanner *s) {
  int rc = s->position >= s->checked_from && s->position < s->checked_to ? 0 : check_chunk(s);
  if (rc < 0 || s->position < s->bad_from || s->position >= s->bad_to) return rc;
  return sdm_fail(SDM_CORRUPT, "%s at position %lld: the base offset of a batch is not what it was when the segment was closed", s->file->path,
                  (long long)s->position);
}

static int end_of_file(const sdm_scanner *s) {
  if (!s->digest || !s->digest->cut) return 0;
  return sdm_fail(SDM_CORRUPT, "%s ends at position %lld; it had %lld bytes when the segment was closed, with offsets up to %lld", s->file->path,
                  (long long)s->limit, (long long)s->digest->size, (long long)s->digest->next_offset - 1);
}

static int peek(sdm_scanner *s, sdm_batch *b, int64_t want) {
  s->torn = false;
  if (s->position >= s->limit) return end_of_file(s);
  int rc = s->digest ? check_digest(s) : 0;
  return rc < 0 ? rc : peek_any(s, b, want);
}

int sdm_scan_batch(sdm_scanner *s, sdm_batch *b, const uint8_t **bytes) {
  int rc = peek(s, b, WINDOW);
  if (rc <= 0) return rc;
  rc = look(s, b->size, WINDOW);
  if (rc <= 0) {
    s->torn = rc == 0;
    return rc;
  }
  if (!sdm_batch_crc_ok(here(s), b)) return corrupt(s, b);
  *bytes = here(s);
  s->position += b->size;
  return 1;
}

int sdm_scan_header(sdm_scanner *s, sdm_batch *b) {
  int rc = peek(s, b, SDM_BATCH_HEADER);
  if (rc > 0) s->position += b->size;
  return rc;
}

/* The header of the batch that follows b, which was scanned last; 0: none can be read there. `*bytes` (if not NULL) stays those of b. */
static int peek_behind(sdm_scanner *s, const sdm_batch *b, sdm_batch *next, const uint8_t **bytes) {
  int64_t behind = s->position;
  bool torn = s->torn;
  int rc = peek(s, next, SDM_BATCH_HEADER), have = 1;
  s->position = behind - b->size;
  if (bytes && (have = look(s, b->size, WINDOW)) == 1) *bytes = here(s);
  s->position = behind;
  s->torn = torn;
  if (have < 0) return have;
  return rc == SDM_IO || rc == SDM_NO_MEMORY ? rc : rc == 1;
}

int sdm_scan_displaced(sdm_scanner *s, const sdm_batch *b, int64_t expected, const uint8_t **bytes) {
  sdm_batch next;
  int64_t last = sdm_batch_last_offset(b);
  if (b->base_offset <= expected) return 0;
  int rc = peek_behind(s, b, &next, bytes);
  return rc == 1 ? next.base_offset > expected + b->last_offset_delta && next.base_offset <= last : rc;
}

int sdm_scan_joins(sdm_scanner *s, const sdm_batch *b, const uint8_t **bytes) {
  sdm_batch next;
  int rc = peek_behind(s, b, &next, bytes);
  return rc == 1 ? next.base_offset == sdm_batch_last_offset(b) + 1 : rc < 0 ? rc : 1;
}

enum { MAGIC_AT = 16, MAGIC = 2 };

/* Whether a valid batch with a base offset above `offset` begins at `position`: what is damaged had at least one. */
static int valid_here(sdm_scanner *s, int64_t offset, sdm_batch *b) {
  int rc = look(s, SDM_BATCH_HEADER, WINDOW);
  if (rc <= 0) return rc;
  const uint8_t *p = here(s);
  if (p[MAGIC_AT] != MAGIC || (int64_t)sdm_get64(p) <= offset || sdm_batch_decode(p, SDM_BATCH_HEADER, b) < 0) return 0;
  if (b->size > s->limit - s->position || (rc = look(s, b->size, WINDOW)) <= 0) return rc < 0 ? rc : 0;
  s->spent += b->size;
  if (!sdm_batch_crc_ok(here(s), b)) return 0;
  if (s->digest && (rc = check_digest(s)) < 0) return rc == SDM_CORRUPT ? 0 : rc;
  return 1;
}

static bool all_zeros(const uint8_t *p, size_t n) {
  while (n > 0 && p[n - 1] == 0) n--;
  return n == 0;
}

enum { ANYWHERE = -1 };

/* Whether sizes lead on from `first`, which is at `position`, to `to`; ANYWHERE: past what a record can hold, or to an end: that of the file, a batch that is
** cut there, or zeros. In a record they come to other bytes. */
static int leads_on(sdm_scanner *s, const sdm_batch *first, int64_t to) {
  enum { FAR = 2 << 20 };
  sdm_batch b = *first;
  int64_t at = s->position, far = to == ANYWHERE ? at + FAR : to;
  int rc = 1;
  for (s->position += b.size; s->position < far && s->limit - s->position >= SDM_BATCH_HEADER; s->position += b.size) {
    if ((rc = look(s, SDM_BATCH_HEADER, SDM_BATCH_HEADER)) != 1 || all_zeros(here(s), SDM_BATCH_HEADER)) break;
    rc = sdm_batch_decode(here(s), SDM_BATCH_HEADER, &b) == 0;
    if (rc == 0 || b.size > s->limit - s->position) break;
    s->spent += SDM_BATCH_HEADER;
  }
  if (to != ANYWHERE && rc == 1) rc = s->position == to;
  s->position = at;
  return rc;
}

/* Where the sizes of headers lead whose checksums fail: 1: to a valid batch, and `position` is there; *sure: offsets say so as well, so that no size can be
** damaged. */
static int follow_sizes(sdm_scanner *s, int64_t offset, bool *sure) {
  enum { STEPS = 16 };
  sdm_batch b, found;
  int rc = 0;
  *sure = true;
  for (int i = 0; rc == 0 && i < STEPS; i++) {
    if ((rc = look(s, SDM_BATCH_HEADER, WINDOW)) != 1) return rc;
    if (sdm_batch_decode(here(s), SDM_BATCH_HEADER, &b) != 0 || b.size > s->limit - s->position) return 0;
    if (b.base_offset < offset && ((rc = look(s, b.size, WINDOW)) != 1 || !sdm_batch_crc_ok(here(s), &b))) return rc < 0 ? rc : 0;
    s->position += b.size;
    rc = valid_here(s, offset, &found);
    *sure = *sure && rc == 1 && i == 0 && found.base_offset == sdm_batch_last_offset(&b) + 1;
  }
  return rc;
}

/* Moves on to the next place where a batch's magic would stand right, as far as the window reaches. False: there is none in it. */
static bool skip_to_magic(sdm_scanner *s) {
  const uint8_t *from = here(s) + MAGIC_AT, *end = s->window.data + s->window.size;
  const uint8_t *found = from < end ? memchr(from, MAGIC, (size_t)(end - from)) : NULL;
  s->position += found ? found - from : end - from > 0 ? end - from : 1;
  return found != NULL;
}

/* At each byte from `position` on, up to `to`, for one that leads there. */
static int search(sdm_scanner *s, int64_t offset, int64_t to) {
  enum { LOOKS = 16 };                     /* times the file may be read for checksums: forged headers must not make it endless */
  sdm_batch b;
  for (; s->limit - s->position >= SDM_BATCH_HEADER && (to == ANYWHERE || s->position < to); s->position++) {
    int rc = look(s, SDM_BATCH_HEADER, WINDOW);
    if (rc <= 0) return rc;
    if (!skip_to_magic(s)) {
      s->position--;
      continue;
    }
    if (s->spent > s->limit * LOOKS + WINDOW) {
      s->doubtful = true;
      return 0;
    }
    if ((rc = valid_here(s, offset, &b)) == 1 && (rc = leads_on(s, &b, to)) == 0) s->doubtful = true;
    if (rc != 0) return rc;
  }
  return 0;
}

int sdm_scan_resync(sdm_scanner *s, int64_t offset) {
  int64_t damaged = s->position;
  bool sure;
  s->doubtful = false;
  int led = follow_sizes(s, offset, &sure);
  if (led < 0 || (led == 1 && sure)) return led;
  int64_t to = led == 1 ? s->position : ANYWHERE;
  s->position = damaged + 1;
  int rc = search(s, offset, to);
  if (rc == 0) s->position = led == 1 ? to : damaged;
  return rc == 0 ? led : rc;
}

/* ---- what is no batch ---- */

static size_t up_to_last_nonzero(const uint8_t *p, size_t n) {
  while (n > 0 && p[n - 1] == 0) n--;
  return n;
}

int64_t sdm_scan_rest(sdm_scanner *s) {
  int64_t from = s->position, rest = 0;
  int rc = 0;
  while (s->position < s->limit && (rc = look(s, 1, WINDOW)) == 1) {
    size_t have = s->window.size - (size_t)(s->position - s->window_start), used = up_to_last_nonzero(here(s), have);
    if (used > 0) rest = s->position - from + (int64_t)used;
    s->position += (int64_t)have;
  }
  s->position = from;
  return rc < 0 ? rc : rest;
}

int sdm_scan_padding(sdm_scanner *s) {
  int64_t left = s->limit - s->position, rest = sdm_scan_rest(s);
  if (left <= 0) return !(s->digest && s->digest->cut);
  if (s->digest && s->position < s->digest->size) return rest < 0 ? (int)rest : 0;         /* there were batches when it was closed */
  return rest < 0 ? (int)rest : rest == 0 && left >= SDM_BATCH_HEADER;
}

/* Whether the first bytes of a header, of which `have` are there, can be those of a batch in a segment with this base offset. */
static bool header_begins(const uint8_t *p, size_t have, int64_t segment_base) {
  uint8_t least[SDM_BATCH_HEADER] = {0}, most[8];
  sdm_batch b;
  memcpy(least, p, have);
  memset(most, 0xff, sizeof most);
  memcpy(most, p, have < 8 ? have : 8);
  if ((int64_t)sdm_get64(most) < segment_base || (int64_t)sdm_get64(least) - segment_base > INT32_MAX) return false;
  if (have >= SDM_BATCH_PREFIX && sdm_get32(p + 8) < SDM_BATCH_HEADER - SDM_BATCH_PREFIX) return false;
  if (have > MAGIC_AT && p[MAGIC_AT] != MAGIC) return false;
  return have < SDM_BATCH_HEADER || sdm_batch_decode(p, have, &b) == 0;
}

int sdm_scan_unfinished(sdm_scanner *s, int64_t segment_base) {
  enum { UNWRITTEN = 8 };                  /* zeros at the end of a batch that are no chance: it mostly ends with one, for the number of headers */
  sdm_batch b;
  int64_t rest = sdm_scan_rest(s);
  if (rest <= 0) return rest < 0 ? (int)rest : 1;
  size_t have = rest < SDM_BATCH_HEADER ? (size_t)rest : SDM_BATCH_HEADER;
  int rc = look(s, (int64_t)have, WINDOW);
  if (rc <= 0 || !header_begins(here(s), have, segment_base)) return rc < 0 ? rc : 0;
  if (have < SDM_BATCH_HEADER || sdm_batch_decode(here(s), have, &b) != 0) return 1;
  return b.size > s->limit - s->position || rest + UNWRITTEN <= b.size;
}

int sdm_scan_past_damage(sdm_scanner *s, int64_t offset, sdm_batch *b, const uint8_t **bytes) {
  int rc;
  while ((rc = bytes ? sdm_scan_batch(s, b, bytes) : sdm_scan_header(s, b)) == SDM_CORRUPT) {
    if ((rc = sdm_scan_resync(s, offset)) != 1) break;
  }
  return rc;
}
