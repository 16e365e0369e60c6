#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh.h"
#include "os/host.h"
#include "sim/disk_tree.h"

/* ---- memory ---- */

void *sim_alloc(void *old, size_t size) {
  void *p = realloc(old, size ? size : 1);
  if (!p) abort();
  return p;
}

char *sim_copy_text(const char *text) {
  char *copy = sim_alloc(NULL, strlen(text) + 1);
  return strcpy(copy, text);
}

static void free_changes(sim_change *changes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    free(changes[i].bytes);
    free(changes[i].name);
    free(changes[i].from);
    sim_node_unref(changes[i].node);
  }
}

static void drop_changes(sim_node *n) {
  free_changes(n->changes, n->change_count);
  n->change_count = 0;
}

sim_node *sim_node_new(sim_disk *d, bool folder) {
  sim_node *n = sim_alloc(NULL, sizeof *n);
  memset(n, 0, sizeof *n);
  n->folder = folder;
  n->inode = ++d->next_inode;
  n->next = d->nodes;
  d->nodes = n;
  return n;
}

/* A node without references stays among the disk's nodes until the disk goes, but its memory goes now. */
void sim_node_unref(sim_node *n) {
  if (!n || --n->refs > 0) return;
  drop_changes(n);
  sim_entries_clear(&n->entries);
  sim_entries_clear(&n->safe_entries);
  free(n->bytes);
  free(n->safe);
  free(n->changes);
  n->bytes = n->safe = NULL;
  n->changes = NULL;
  n->size = n->capacity = n->safe_size = n->change_capacity = 0;
}

/* ---- folders ---- */

sim_entry *sim_entries_find(const sim_entries *e, const char *name) {
  for (size_t i = 0; i < e->count; i++) {
    if (strcmp(e->items[i].name, name) == 0) return &e->items[i];
  }
  return NULL;
}

void sim_entries_set(sim_entries *e, const char *name, sim_node *node) {
  sim_entry *at = sim_entries_find(e, name);
  if (node) node->refs++;
  if (at) {
    sim_node *old = at->node;
    at->node = node;
    if (!node) {
      free(at->name);
      *at = e->items[--e->count];
    }
    sim_node_unref(old);
    return;
  }
  if (!node) return;
  if (e->count == e->capacity) e->items = sim_alloc(e->items, (e->capacity = 2 * e->capacity + 8) * sizeof *e->items);
  e->items[e->count++] = (sim_entry){sim_copy_text(name), node};
}

void sim_entries_clear(sim_entries *e) {
  for (size_t i = 0; i < e->count; i++) {
    free(e->items[i].name);
    sim_node_unref(e->items[i].node);
  }
  free(e->items);
  *e = (sim_entries){0};
}

/* The folder that holds the last part of `path`, and that part. NULL: there is no such folder. */
static sim_node *parent_of(sim_disk *d, const char *path, const char **name) {
  sim_node *n = d->root;
  if (strncmp(path, SIM_ROOT "/", sizeof SIM_ROOT) != 0) return NULL;
  for (path += sizeof SIM_ROOT;;) {
    const char *slash = strchr(path, '/');
    if (!slash) break;
    char part[300];
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    sim_entry *e = sim_entries_find(&n->entries, part);
    if (!e || !e->node->folder) return NULL;
    n = e->node;
    path = slash + 1;
  }
  *name = path;
  return n;
}

static sim_node *find(sim_disk *d, const char *path) {
  const char *name;
  if (strcmp(path, SIM_ROOT) == 0) return d->root;
  sim_node *parent = parent_of(d, path, &name);
  sim_entry *e = parent ? sim_entries_find(&parent->entries, name) : NULL;
  return e ? e->node : NULL;
}

/* ---- changes ---- */

static sim_change *note(sim_disk *d, sim_node *n) {
  if (n->change_count == n->change_capacity) n->changes = sim_alloc(n->changes, (n->change_capacity = 2 * n->change_capacity + 8) * sizeof *n->changes);
  sim_change *c = &n->changes[n->change_count++];
  *c = (sim_change){.number = ++d->changes, .modified = n->modified};
  return c;
}

void sim_change_copy(sim_disk *d, sim_node *n, const sim_change *from, sim_node *node) {
  sim_change *c = note(d, n);
  *c = *from;
  c->name = from->name ? sim_copy_text(from->name) : NULL;
  c->from = from->from ? sim_copy_text(from->from) : NULL;
  c->bytes = from->bytes ? sim_alloc(NULL, from->size) : NULL;
  if (c->bytes) memcpy(c->bytes, from->bytes, from->size);
  c->node = node;
  if (node) node->refs++;
}

static void enter(sim_disk *d, sim_node *folder, const char *name, sim_node *node, const char *from) {
  sim_change *c = note(d, folder);
  c->name = sim_copy_text(name);
  c->from = from ? sim_copy_text(from) : NULL;
  c->node = node;
  if (node) node->refs++;
  sim_entries_set(&folder->entries, name, node);
  if (from) sim_entries_set(&folder->entries, from, NULL);
}

void sim_node_resize(sim_node *n, size_t size) {
  if (size > n->capacity) {
    if (n->mapped) abort();               /* its address is known to somebody */
    n->capacity = size + size / 2;
    n->bytes = sim_alloc(n->bytes, n->capacity);
  }
  if (size > n->size) memset(n->bytes + n->size, 0, size - n->size);
  n->size = size;
}

static int call(sim_disk *d, sim_call c, const char *path, size_t *partial) {
  return d->hook ? d->hook(d->context, c, path, partial) : 0;
}

/* ---- the table ---- */

typedef struct sim_file {
  sdm_file file;
  sim_node *node;
  bool writable;
} sim_file;

static sim_disk *disk_of(const sdm_fs *fs) { return (sim_disk *)(uintptr_t)fs; }
static sim_node *node_of(const sdm_file *f) { return ((const sim_file *)f)->node; }

static int missing(const char *path) { return sdm_fail(SDM_NOT_FOUND, "open %s: No such file or directory", path); }

static void set_size(sim_disk *d, sim_node *n, size_t size) {
  if (size == n->size) return;
  sim_node_resize(n, size);
  note(d, n)->size = size;
}

static int sim_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  sim_disk *d = disk_of(fs);
  const char *name;
  sim_node *parent = parent_of(d, path, &name);
  sim_entry *e = parent ? sim_entries_find(&parent->entries, name) : NULL;
  int rc = call(d, parent && !e && (flags & SDM_OPEN_CREATE) ? SIM_CREATE : SIM_OPEN, path, NULL);
  if (rc < 0) return rc;
  if (!parent || (!e && !(flags & SDM_OPEN_CREATE))) return missing(path);
  if (e && e->node->folder) return sdm_fail(SDM_IO, "%s is a directory", path);
  sim_file *f = sdm_calloc(1, sizeof *f);
  char *copy = sdm_strdup(path);
  if (!f || !copy) {
    sdm_free(f);
    sdm_free(copy);
    return sdm_no_memory();
  }
  sim_node *n = e ? e->node : sim_node_new(d, false);
  if (!e) enter(d, parent, name, n, NULL);
  if (flags & SDM_OPEN_FRESH) set_size(d, n, 0);
  n->refs++;
  *f = (sim_file){{fs, copy}, n, flags & SDM_OPEN_WRITE};
  *out = &f->file;
  return 0;
}

static void sim_close(sdm_file *f) {
  if (!f) return;
  sim_node_unref(node_of(f));
  sdm_free(f->path);
  sdm_free(f);
}

static int sim_read(sdm_file *f, void *bytes, size_t size, int64_t position, size_t *got) {
  sim_node *n = node_of(f);
  int rc = call(disk_of(f->fs), SIM_READ, f->path, NULL);
  if (rc < 0) return rc;
  size_t left = position < (int64_t)n->size ? n->size - (size_t)position : 0;
  *got = size < left ? size : left;
  if (*got) memcpy(bytes, n->bytes + position, *got);
  return 0;
}

static void put(sim_disk *d, sim_node *n, const void *bytes, size_t size, size_t position) {
  if (size == 0) return;
  if (position + size > n->size) sim_node_resize(n, position + size);
  memcpy(n->bytes + position, bytes, size);
  sim_change *c = note(d, n);
  c->bytes = sim_alloc(NULL, size);
  memcpy(c->bytes, bytes, size);
  c->position = position;
  c->size = size;
}

static int sim_write(sdm_file *f, const void *bytes, size_t size, int64_t position) {
  size_t partial = 0;
  if (!((sim_file *)f)->writable) abort();
  int rc = call(disk_of(f->fs), SIM_WRITE, f->path, &partial);
  if (rc == 0 || partial > 0) put(disk_of(f->fs), node_of(f), bytes, rc == 0 ? size : partial < size ? partial : size / 2, (size_t)position);
  return rc;
}

static void forget_last_sync(sim_disk *d) {
  sim_last_sync *last = &d->last_sync;
  free_changes(last->changes, last->change_count);
  free(last->changes);
  free(last->safe);
  sim_entries_clear(&last->safe_entries);
  sim_node_unref(last->node);
  *last = (sim_last_sync){0};
}

/* Moves what a sync is to replace to where a disk that lied finds it. */
static void keep_last_sync(sim_disk *d, sim_node *n) {
  forget_last_sync(d);
  d->last_sync = (sim_last_sync){n, n->safe, n->safe_size, n->safe_modified, n->safe_entries, n->changes, n->change_count};
  n->refs++;
  n->safe = NULL;
  n->safe_entries = (sim_entries){0};
  n->changes = NULL;
  n->change_count = n->change_capacity = 0;
}

static void make_safe(sim_disk *d, sim_node *n) {
  keep_last_sync(d, n);
  n->safe = sim_alloc(NULL, n->size);
  if (n->size) memcpy(n->safe, n->bytes, n->size);
  n->safe_size = n->size;
  n->safe_modified = n->modified;
}

/* What the medium never had reads as zeros. */
static void revert(sim_node *n) {
  size_t kept = n->safe_size < n->size ? n->safe_size : n->size;
  if (kept) memcpy(n->bytes, n->safe, kept);
  if (n->size > kept) memset(n->bytes + kept, 0, n->size - kept);
}

/* After a failure the changes count as written, as Linux has it: what programs see and what the medium has differ for good. */
static int sim_sync(sdm_file *f) {
  sim_disk *d = disk_of(f->fs);
  int rc = call(d, SIM_SYNC, f->path, NULL);
  if (rc == 0) make_safe(d, node_of(f));
  else drop_changes(node_of(f));
  if (rc < 0 && d->reverting && !node_of(f)->mapped) revert(node_of(f));
  return rc;
}

static int sim_truncate(sdm_file *f, int64_t size) {
  int rc = call(disk_of(f->fs), SIM_TRUNCATE, f->path, NULL);
  if (rc == 0) set_size(disk_of(f->fs), node_of(f), (size_t)size);
  return rc;
}

static int sim_allocate(sdm_file *f, int64_t size) {
  int rc = call(disk_of(f->fs), SIM_ALLOCATE, f->path, NULL);
  if (rc == 0 && (size_t)size > node_of(f)->size) set_size(disk_of(f->fs), node_of(f), (size_t)size);
  return rc;
}

static uint64_t names_of(const sim_disk *d, const sim_node *n) {
  uint64_t count = 0;
  for (const sim_node *folder = d->nodes; folder; folder = folder->next) {
    for (size_t i = 0; folder->refs > 0 && i < folder->entries.count; i++) count += folder->entries.items[i].node == n;
  }
  return count;
}

static void fill_info(const sim_disk *d, const sim_node *n, sdm_file_info *out) {
  *out = (sdm_file_info){.size = (int64_t)n->size, .modified_ms = n->modified, .device = d->device, .inode = n->inode, .directory = n->folder};
  out->links = n->folder ? 1 : names_of(d, n);
}

static int sim_info(sdm_file *f, sdm_file_info *out) {
  fill_info(disk_of(f->fs), node_of(f), out);
  return 0;
}

static int sim_set_modified(sdm_file *f, int64_t ms) {
  int rc = call(disk_of(f->fs), SIM_SET_MODIFIED, f->path, NULL);
  if (rc < 0) return rc;
  node_of(f)->modified = ms < 0 ? 0 : ms;
  note(disk_of(f->fs), node_of(f))->size = node_of(f)->size;
  return 0;
}

static int sim_lock(sdm_file *f, int64_t byte, sdm_lock_mode mode, bool wait) {
  (void)f, (void)byte, (void)mode, (void)wait;
  return 0;
}

static int sim_map(sdm_file *f, size_t size, bool writable, void **out) {
  sim_node *n = node_of(f);
  (void)writable;
  int rc = call(disk_of(f->fs), SIM_MAP, f->path, NULL);
  if (rc < 0) return rc;
  if (n->size < size) return sdm_fail(SDM_IO, "%s is shorter than its map", f->path);
  n->mapped = true;
  n->refs++;                              /* for good: a mapping outlives its file */
  *out = n->bytes;
  return 0;
}

static int sim_map_sync(sdm_file *f, void *map, size_t size) {
  (void)map, (void)size;
  return sim_sync(f);
}

static void sim_unmap(sdm_fs *fs, void *map, size_t size) { (void)fs, (void)map, (void)size; }

static int sim_path_info(sdm_fs *fs, const char *path, sdm_file_info *out) {
  sim_node *n = find(disk_of(fs), path);
  if (!n) return missing(path);
  fill_info(disk_of(fs), n, out);
  return 0;
}

static int sim_rename(sdm_fs *fs, const char *from, const char *to) {
  sim_disk *d = disk_of(fs);
  const char *from_name, *to_name;
  int rc = call(d, SIM_RENAME, from, NULL);
  if (rc < 0) return rc;
  sim_node *folder = parent_of(d, from, &from_name), *to_folder = parent_of(d, to, &to_name);
  sim_entry *e = folder ? sim_entries_find(&folder->entries, from_name) : NULL, *there = to_folder ? sim_entries_find(&to_folder->entries, to_name) : NULL;
  if (!e || !to_folder) return missing(from);
  if (folder != to_folder) abort();       /* the product renames within a folder */
  if (there && there->node->folder && there->node->entries.count) return sdm_fail(SDM_IO, "rename %s to %s: Directory not empty", from, to);
  if (e->node != (there ? there->node : NULL)) enter(d, folder, to_name, e->node, from_name);
  return 0;
}

static int sim_link(sdm_fs *fs, const char *from, const char *to) {
  sim_disk *d = disk_of(fs);
  const char *name;
  int rc = call(d, SIM_LINK, from, NULL);
  if (rc < 0) return rc;
  sim_node *n = find(d, from), *folder = parent_of(d, to, &name);
  if (!n || !folder) return missing(n ? to : from);
  if (n->folder || sim_entries_find(&folder->entries, name)) return sdm_fail(SDM_IO, "link %s to %s: File exists", from, to);
  enter(d, folder, name, n, NULL);
  return 0;
}

/* Takes an entry out of its folder, if it is there and of that kind. */
static int take_out(sim_disk *d, sim_call c, const char *path, bool folder) {
  const char *name;
  int rc = call(d, c, path, NULL);
  if (rc < 0) return rc;
  sim_node *parent = parent_of(d, path, &name);
  sim_entry *e = parent ? sim_entries_find(&parent->entries, name) : NULL;
  if (!e) return 0;
  if (e->node->folder != folder || e->node->entries.count) return sdm_fail(SDM_IO, "%s %s: not empty, or of another kind", sim_call_name(c), path);
  enter(d, parent, name, NULL, NULL);
  return 0;
}

static int sim_unlink(sdm_fs *fs, const char *path) { return take_out(disk_of(fs), SIM_UNLINK, path, false); }
static int sim_remove_dir(sdm_fs *fs, const char *path) { return take_out(disk_of(fs), SIM_REMOVE_DIR, path, true); }

static int sim_make_dir(sdm_fs *fs, const char *path) {
  sim_disk *d = disk_of(fs);
  const char *name;
  int rc = call(d, SIM_MAKE_DIR, path, NULL);
  if (rc < 0) return rc;
  if (find(d, path)) return 0;
  sim_node *folder = parent_of(d, path, &name);
  if (!folder) return missing(path);
  enter(d, folder, name, sim_node_new(d, true), NULL);
  return 0;
}

static int sim_list(sdm_fs *fs, const char *path, sdm_names *out) {
  int rc = call(disk_of(fs), SIM_LIST, path, NULL);
  if (rc < 0) return rc;
  sim_node *n = find(disk_of(fs), path);
  if (!n) return missing(path);
  for (size_t i = 0; rc == 0 && i < n->entries.count; i++) rc = sdm_names_add(out, n->entries.items[i].name);
  if (rc < 0) sdm_names_clear(out);
  else sdm_names_sort(out);
  return rc;
}

static int sim_sync_dir(sdm_fs *fs, const char *path, bool *lost) {
  sim_disk *d = disk_of(fs);
  int rc = call(d, SIM_SYNC_DIR, path, NULL);
  sim_node *n = find(d, path);
  if (rc < 0 && lost) *lost = true;
  if (rc < 0) return rc;
  if (!n) return missing(path);
  keep_last_sync(d, n);
  for (size_t i = 0; i < n->entries.count; i++) sim_entries_set(&n->safe_entries, n->entries.items[i].name, n->entries.items[i].node);
  return 0;
}

static int sim_boot_id(sdm_fs *fs, uint8_t id[SDM_BOOT_ID]) {
  memset(id, 0, SDM_BOOT_ID);
  memcpy(id, &disk_of(fs)->boot, sizeof(uint64_t));
  return 0;
}

static const sdm_fs table = {
  .open = sim_open, .close = sim_close, .read = sim_read, .write = sim_write, .sync = sim_sync, .truncate = sim_truncate,
  .allocate = sim_allocate, .info = sim_info, .set_modified = sim_set_modified, .lock = sim_lock, .map = sim_map, .map_sync = sim_map_sync,
  .unmap = sim_unmap, .path_info = sim_path_info, .rename = sim_rename, .link = sim_link, .unlink = sim_unlink, .make_dir = sim_make_dir,
  .remove_dir = sim_remove_dir, .list = sim_list, .sync_dir = sim_sync_dir, .boot_id = sim_boot_id,
};

/* ---- disks ---- */

static uint64_t devices;                  /* tells the stores of this program apart */

static sim_disk *empty_disk(uint64_t boot) {
  sim_disk *d = sim_alloc(NULL, sizeof *d);
  memset(d, 0, sizeof *d);
  d->fs = table;
  d->device = ++devices;
  d->boot = boot;
  return d;
}

sim_disk *sim_new(void) {
  sim_disk *d = empty_disk(1);
  d->root = sim_node_new(d, true);
  d->root->refs = 1;
  return d;
}

/* Its files have the numbers of the ones that they were. */
sim_disk *sim_disk_like(const sim_disk *d, bool same_boot) {
  sim_disk *like = empty_disk(same_boot ? d->boot : d->boot + 1);
  like->next_inode = d->next_inode;
  return like;
}

void sim_free(sim_disk *d) {
  if (!d) return;
  forget_last_sync(d);
  for (sim_node *n = d->nodes; n; n = n->next) n->refs++;      /* so that none goes while another lets go of it */
  for (sim_node *n = d->nodes; n; n = n->next) {
    drop_changes(n);
    sim_entries_clear(&n->entries);
    sim_entries_clear(&n->safe_entries);
  }
  for (sim_node *n = d->nodes, *next; n; n = next) {
    next = n->next;
    free(n->bytes);
    free(n->safe);
    free(n->changes);
    free(n);
  }
  free(d);
}

sdm_fs *sim_fs(sim_disk *d) { return &d->fs; }

void sim_set_hook(sim_disk *d, sim_hook *hook, void *context) {
  d->hook = hook;
  d->context = context;
}

void sim_set_reverting(sim_disk *d, bool reverting) { d->reverting = reverting; }

bool sim_changed(const sim_disk *d, uint64_t *mark) {
  bool changed = *mark != d->changes;
  *mark = d->changes;
  return changed;
}

const char *sim_call_name(sim_call c) {
  static const char *const names[] = {"open", "create", "read", "write", "sync", "truncate", "allocate", "set_modified", "map", "rename", "link", "unlink",
                                      "make_dir", "remove_dir", "list", "sync_dir"};
  return names[c];
}

/* ---- looking at it ---- */

static int by_name(const void *a, const void *b) { return strcmp(((const sim_entry *)a)->name, ((const sim_entry *)b)->name); }

static uint64_t digest(const sim_node *n, bool (*leave_out)(const char *name)) {
  uint64_t sum = sdm_hash64(n->bytes, n->folder ? 0 : n->size);
  if (n->entries.count > 1) qsort(n->entries.items, n->entries.count, sizeof *n->entries.items, by_name);
  for (size_t i = 0; i < n->entries.count; i++) {
    const sim_entry *e = &n->entries.items[i];
    if (leave_out(e->name)) continue;
    uint64_t both[3] = {sum, sdm_hash64(e->name, strlen(e->name)), digest(e->node, leave_out)};
    sum = sdm_hash64(both, sizeof both);
  }
  return sum;
}

uint64_t sim_digest(const sim_disk *d, bool (*leave_out)(const char *name)) { return digest(d->root, leave_out); }

static void each_file(const sim_node *n, const char *path, void (*f)(void *context, const char *path, int64_t size), void *context) {
  for (size_t i = 0; i < n->entries.count; i++) {
    const sim_entry *e = &n->entries.items[i];
    char below[1024];
    if (snprintf(below, sizeof below, "%s/%s", path, e->name) >= (int)sizeof below) abort();
    if (e->node->folder) each_file(e->node, below, f, context);
    else f(context, below, (int64_t)e->node->size);
  }
}

void sim_each_file(const sim_disk *d, void (*f)(void *context, const char *path, int64_t size), void *context) { each_file(d->root, SIM_ROOT, f, context); }

static void print(const sim_node *n, int depth) {
  for (size_t i = 0; i < n->entries.count; i++) {
    const sim_entry *e = &n->entries.items[i];
    printf("  %*s%s %zu\n", 2 * depth, "", e->name, e->node->size);
    if (e->node->folder) print(e->node, depth + 1);
  }
}

void sim_print(const sim_disk *d) { print(d->root, 0); }
