/* What is left of a disk. Bytes that were never synced may be there, by the sector, or not; where a size was saved and its bytes were not, there are zeros
** or whatever stood on the medium before.
*/
#define TEST_HELPER
#include <stdlib.h>
#include <string.h>

#include "c/test.h"
#include "sim/disk_tree.h"

enum { SECTOR = 512, PAGE = 4096 };

typedef struct crash {
  sim_disk *out;
  sim_profile profile;
  test_random random;
  uint64_t moment;                        /* changes with a higher number came too late: prefix and ordered */
  unsigned odds;                          /* of 8: that a change which may be there is */
  enum { ZEROS, NOISE, STALE } unwritten; /* what stands where nothing was written */
  const uint64_t *kept;                   /* the numbers of the changes that are there, and nothing else is; NULL: by profile */
  size_t kept_count;
  const sim_last_sync *lie;               /* of a disk that lied about its last sync; its node NULL: it did not */
  const sim_node *folder;                 /* whose entries are being copied */
} crash;

static uint64_t next(crash *c) { return test_random_next(&c->random); }

static bool lucky(crash *c) { return next(c) % 8 < c->odds; }

/* A file that may have had these blocks before. Of the same folder: a batch of another partition could have the very offsets that fit, and nothing in Kafka's
** format would tell it from a right one; no file system shows such blocks unless it was told to (docs/reliability.md).
*/
static const sim_node *some_file(crash *c) {
  const sim_entries *e = &c->folder->entries;
  const sim_node *n = e->count ? e->items[next(c) % e->count].node : NULL;
  return n && !n->folder && !n->mapped ? n : NULL;
}

static void fill_unwritten(crash *c, sim_node *n, size_t from, size_t to) {
  const sim_node *old = c->unwritten == STALE ? some_file(c) : NULL;
  for (size_t at = from; at < to; at++) {
    n->bytes[at] = c->unwritten == NOISE ? (uint8_t)next(c) : old && at < old->size ? old->bytes[at] : 0;
  }
}

/* ---- files ---- */

static void grow(crash *c, sim_node *n, size_t size) {
  size_t before = n->size;
  sim_node_resize(n, size);
  if (size > before) fill_unwritten(c, n, before, size);
}

static bool by_itself(const crash *c) { return c->profile == SIM_ANY || c->profile == SIM_LYING; }
static bool in_order(const crash *c) { return c->profile == SIM_PREFIX || c->profile == SIM_COPYING; }

static bool is_kept(const crash *c, const sim_change *h) {
  for (size_t i = 0; i < c->kept_count; i++) {
    if (c->kept[i] == h->number) return true;
  }
  return false;
}

static bool in_time(const crash *c, const sim_change *h) { return c->kept ? is_kept(c, h) : h->number <= c->moment; }

/* Whether a change of a size is on the medium. */
static bool is_there(crash *c, const sim_change *h) { return by_itself(c) ? lucky(c) : in_time(c, h); }

/* The sectors of a write that are there, as far as the file reaches. */
static void apply_sectors(crash *c, sim_node *n, const sim_change *h, bool all) {
  for (size_t at = h->position; at < h->position + h->size;) {
    size_t end = (at / SECTOR + 1) * SECTOR, limit = h->position + h->size;
    if (end > limit) end = limit;
    if (end > n->size) end = n->size;
    if (end <= at) break;
    if (all || lucky(c)) memcpy(n->bytes + at, h->bytes + (at - h->position), end - at);
    else if (next(c) % 16 == 0) memcpy(n->bytes + at, h->bytes + (at - h->position), next(c) % (end - at));
    at = (at / SECTOR + 1) * SECTOR;
  }
}

static void apply_write(crash *c, sim_node *n, const sim_change *h) {
  bool extends = h->position + h->size > n->size;
  if (in_order(c) && !in_time(c, h)) return;
  bool exposed = in_order(c) || (extends && is_there(c, h));
  if (exposed) grow(c, n, h->position + h->size > n->size ? h->position + h->size : n->size);
  apply_sectors(c, n, h, in_order(c) || (c->profile == SIM_ORDERED && exposed));
}

static void apply_changes(crash *c, sim_node *to, const sim_change *changes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const sim_change *h = &changes[i];
    if (h->bytes) {
      apply_write(c, to, h);
    } else if (is_there(c, h)) {
      grow(c, to, h->size);
      to->modified = h->modified;
    }
  }
}

static void copy_file(crash *c, const sim_node *from, sim_node *to) {
  bool lied = from == c->lie->node;
  size_t size = lied ? c->lie->safe_size : from->safe_size;
  uint64_t moment = c->moment;
  sim_node_resize(to, size);
  if (size) memcpy(to->bytes, lied ? c->lie->safe : from->safe, size);
  to->modified = lied ? c->lie->safe_modified : from->safe_modified;
  if (c->profile == SIM_COPYING && from->change_count) c->moment = from->changes[next(c) % from->change_count].number - next(c) % 2;
  if (lied) apply_changes(c, to, c->lie->changes, c->lie->change_count);
  apply_changes(c, to, from->changes, from->change_count);
  c->moment = moment;
}

/* A page of a mapping may have been written at any time; only its last content is known here, and that it was nothing at first. */
static void copy_mapping(crash *c, const sim_node *from, sim_node *to) {
  sim_node_resize(to, from->size);
  for (size_t at = 0; at < from->size; at += PAGE) {
    size_t size = from->size - at < PAGE ? from->size - at : PAGE;
    if (lucky(c)) memcpy(to->bytes + at, from->bytes + at, size);
    else fill_unwritten(c, to, at, at + (size < 256 ? size : 256));
  }
}

/* ---- the tree ---- */

static sim_node *copy_of(crash *c, sim_node *from);

static void copy_entry(crash *c, sim_node *to, const char *name, sim_node *node) { sim_entries_set(&to->entries, name, node ? copy_of(c, node) : NULL); }

static void change_entries(crash *c, sim_node *to, const sim_change *changes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const sim_change *h = &changes[i];
    if (c->profile == SIM_COPYING ? !lucky(c) : !is_there(c, h)) continue;
    copy_entry(c, to, h->name, h->node);
    if (h->from) copy_entry(c, to, h->from, NULL);
  }
}

static void copy_folder(crash *c, const sim_node *from, sim_node *to) {
  bool lied = from == c->lie->node;
  const sim_node *around = c->folder;
  const sim_entries *safe = lied ? &c->lie->safe_entries : &from->safe_entries;
  c->folder = from;
  for (size_t i = 0; i < safe->count; i++) copy_entry(c, to, safe->items[i].name, safe->items[i].node);
  if (lied) change_entries(c, to, c->lie->changes, c->lie->change_count);
  change_entries(c, to, from->changes, from->change_count);
  c->folder = around;
}

/* What is found is all that the new disk has: it is safe, however it came there. */
static void settle(sim_node *n) {
  n->safe = sim_alloc(n->safe, n->size);
  if (n->size) memcpy(n->safe, n->bytes, n->size);
  n->safe_size = n->size;
  n->safe_modified = n->modified;
  for (size_t i = 0; i < n->entries.count; i++) sim_entries_set(&n->safe_entries, n->entries.items[i].name, n->entries.items[i].node);
}

static sim_node *copy_of(crash *c, sim_node *from) {
  if (from->copy) return from->copy;
  sim_node *to = from->copy = sim_node_new(c->out, from->folder);
  to->refs++;                             /* until all is copied: one that its first folder has lost may be found in another */
  to->inode = from->inode;
  if (from->folder) copy_folder(c, from, to);
  else if (from->mapped) copy_mapping(c, from, to);
  else copy_file(c, from, to);
  settle(to);
  return to;
}

static uint64_t some_moment(crash *c, const sim_disk *d) {
  uint64_t least = d->changes, unsynced = 0;
  for (const sim_node *n = d->nodes; n; n = n->next) {
    if (n->change_count && n->changes[0].number <= least) least = n->changes[0].number - 1;
    unsynced += n->change_count;
  }
  return unsynced ? least + next(c) % (d->changes - least + 1) : d->changes;
}

const char *sim_profile_name(sim_profile p) {
  static const char *const names[] = {"prefix", "ordered", "any", "copying", "lying"};
  return names[p];
}

static const sim_last_sync truth;         /* of a disk that did not lie */

static sim_disk *crashed(crash *c, const sim_disk *d) {
  for (sim_node *n = d->nodes; n; n = n->next) n->copy = NULL;
  c->out->root = copy_of(c, d->root);
  c->out->root->refs++;
  for (sim_node *n = c->out->nodes; n; n = n->next) sim_node_unref(n);
  return c->out;
}

size_t sim_unsynced(const sim_disk *d) {
  size_t count = 0;
  for (const sim_node *n = d->nodes; n; n = n->next) count += n->mapped ? 0 : n->change_count;
  return count;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

sim_disk *sim_power_loss_but(const sim_disk *d, uint64_t which) {
  uint64_t all[SIM_UNSYNCED_MAX], kept[SIM_UNSYNCED_MAX];
  size_t count = 0;
  crash c = {.out = sim_disk_like(d, false), .profile = SIM_PREFIX, .random = {which}, .lie = &truth, .kept = kept};
  if (sim_unsynced(d) > SIM_UNSYNCED_MAX) abort();
  for (const sim_node *n = d->nodes; n; n = n->next) {
    for (size_t i = 0; !n->mapped && i < n->change_count; i++) all[count++] = n->changes[i].number;
  }
  qsort(all, count, sizeof *all, by_number);
  for (size_t i = 0; i < count; i++) {
    if (which >> i & 1) kept[c.kept_count++] = all[i];
  }
  c.odds = 4;                              /* of the pages of mappings */
  return crashed(&c, d);
}

sim_disk *sim_power_loss(const sim_disk *d, sim_profile profile, uint64_t seed) {
  static const unsigned odds[] = {0, 1, 4, 7, 8};
  crash c = {.out = sim_disk_like(d, false), .profile = profile, .random = {seed}};
  c.lie = profile == SIM_LYING ? &d->last_sync : &truth;
  c.odds = odds[next(&c) % 5];
  uint64_t draw = next(&c) % 8;
  if (by_itself(&c)) c.unwritten = draw == 0 ? NOISE : draw == 1 ? STALE : ZEROS;
  c.moment = some_moment(&c, d);
  return crashed(&c, d);
}

sim_disk *sim_reboot(const sim_disk *d) {
  crash c = {.out = sim_disk_like(d, false), .profile = SIM_PREFIX, .moment = UINT64_MAX, .odds = 8, .lie = &truth};
  return crashed(&c, d);
}

/* ---- all processes dead, the machine alive ---- */

static sim_node *same(sim_disk *out, sim_node *from) {
  if (from->copy) return from->copy;
  sim_node *to = from->copy = sim_node_new(out, from->folder);
  to->inode = from->inode;
  sim_node_resize(to, from->size);
  if (from->size) memcpy(to->bytes, from->bytes, from->size);
  to->safe = sim_alloc(NULL, from->safe_size);
  if (from->safe_size) memcpy(to->safe, from->safe, from->safe_size);
  to->safe_size = from->safe_size;
  to->modified = from->modified;
  to->safe_modified = from->safe_modified;
  for (size_t i = 0; i < from->entries.count; i++) sim_entries_set(&to->entries, from->entries.items[i].name, same(out, from->entries.items[i].node));
  for (size_t i = 0; i < from->safe_entries.count; i++) sim_entries_set(&to->safe_entries, from->safe_entries.items[i].name, same(out, from->safe_entries.items[i].node));
  for (size_t i = 0; i < from->change_count; i++) sim_change_copy(out, to, &from->changes[i], from->changes[i].node ? same(out, from->changes[i].node) : NULL);
  return to;
}

sim_disk *sim_death(const sim_disk *d) {
  sim_disk *out = sim_disk_like(d, true);
  out->changes = d->changes;
  for (sim_node *n = d->nodes; n; n = n->next) n->copy = NULL;
  out->root = same(out, d->root);
  out->root->refs = 1;
  return out;
}
