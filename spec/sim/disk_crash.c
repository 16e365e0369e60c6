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
  bool garbage;                           /* what was not written is noise, not zeros */
} crash;

static uint64_t next(crash *c) { return test_random_next(&c->random); }

static bool lucky(crash *c) { return next(c) % 8 < c->odds; }

static void fill_unwritten(crash *c, uint8_t *p, size_t size) {
  for (size_t i = 0; i < size; i++) p[i] = c->garbage ? (uint8_t)next(c) : 0;
}

/* ---- files ---- */

static void grow(crash *c, sim_node *n, size_t size) {
  size_t before = n->size;
  sim_node_resize(n, size);
  if (size > before) fill_unwritten(c, n->bytes + before, size - before);
}

/* Whether a folder's or size's change is on the medium. */
static bool is_there(crash *c, const sim_change *h) { return c->profile == SIM_ANY ? lucky(c) : h->number <= c->moment; }

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
  bool in_time = h->number <= c->moment, extends = h->position + h->size > n->size;
  if (c->profile == SIM_PREFIX && !in_time) return;
  bool exposed = c->profile == SIM_PREFIX || (extends && is_there(c, h));
  if (exposed) grow(c, n, h->position + h->size > n->size ? h->position + h->size : n->size);
  apply_sectors(c, n, h, c->profile == SIM_PREFIX || (c->profile == SIM_ORDERED && exposed));
}

static void copy_file(crash *c, const sim_node *from, sim_node *to) {
  sim_node_resize(to, from->safe_size);
  if (from->safe_size) memcpy(to->bytes, from->safe, from->safe_size);
  to->modified = from->safe_modified;
  for (size_t i = 0; i < from->change_count; i++) {
    const sim_change *h = &from->changes[i];
    if (h->bytes) {
      apply_write(c, to, h);
    } else if (is_there(c, h)) {
      grow(c, to, h->size);
      to->modified = h->modified;
    }
  }
}

/* A page of a mapping may have been written at any time; only its last content is known here, and that it was nothing at first. */
static void copy_mapping(crash *c, const sim_node *from, sim_node *to) {
  sim_node_resize(to, from->size);
  for (size_t at = 0; at < from->size; at += PAGE) {
    size_t size = from->size - at < PAGE ? from->size - at : PAGE;
    if (lucky(c)) memcpy(to->bytes + at, from->bytes + at, size);
    else if (c->garbage) fill_unwritten(c, to->bytes + at, size < 256 ? size : 256);
  }
}

/* ---- the tree ---- */

static sim_node *copy_of(crash *c, sim_node *from);

static void copy_entry(crash *c, sim_node *to, const char *name, sim_node *node) { sim_entries_set(&to->entries, name, node ? copy_of(c, node) : NULL); }

static void copy_folder(crash *c, const sim_node *from, sim_node *to) {
  for (size_t i = 0; i < from->safe_entries.count; i++) copy_entry(c, to, from->safe_entries.items[i].name, from->safe_entries.items[i].node);
  for (size_t i = 0; i < from->change_count; i++) {
    const sim_change *h = &from->changes[i];
    if (!is_there(c, h)) continue;
    copy_entry(c, to, h->name, h->node);
    if (h->from) copy_entry(c, to, h->from, NULL);
  }
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

sim_disk *sim_power_loss(const sim_disk *d, sim_profile profile, uint64_t seed) {
  static const unsigned odds[] = {0, 1, 4, 7, 8};
  crash c = {.out = sim_disk_like(d, false), .profile = profile, .random = {seed}};
  c.odds = odds[next(&c) % 5];
  c.garbage = profile == SIM_ANY && next(&c) % 4 == 0;
  c.moment = some_moment(&c, d);
  for (sim_node *n = d->nodes; n; n = n->next) n->copy = NULL;
  c.out->root = copy_of(&c, d->root);
  c.out->root->refs = 1;
  return c.out;
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
