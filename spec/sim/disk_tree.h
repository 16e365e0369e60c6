/* The tree behind a simulated disk: shared by disk.c, what programs do to it, and disk_crash.c, what is left of it. */
#ifndef SPEC_SIM_DISK_TREE_H
#define SPEC_SIM_DISK_TREE_H

#include "sim/disk.h"

typedef struct sim_node sim_node;

typedef struct sim_entry {
  char *name;
  sim_node *node;
} sim_entry;

typedef struct sim_entries {
  sim_entry *items;
  size_t count, capacity;
} sim_entries;

/* One unsynced change. Of a file: a write (bytes), or a new size without bytes. Of a folder: `name` leads to `node` from now on (NULL: to nothing),
** and with `from` that name to nothing, in one step. */
typedef struct sim_change {
  uint64_t number;                        /* in the order of the whole disk */
  uint8_t *bytes;
  size_t position, size;                  /* of the bytes; or the new size */
  int64_t modified;
  char *name, *from;
  sim_node *node;
} sim_change;

struct sim_node {
  int refs;                               /* entries, changes and open files that lead here */
  bool folder, mapped;
  uint64_t inode;
  uint8_t *bytes, *safe;                  /* as seen; as surely on the medium */
  size_t size, capacity, safe_size;
  int64_t modified, safe_modified;
  sim_entries entries, safe_entries;
  sim_change *changes;
  size_t change_count, change_capacity;
  sim_node *copy;                         /* while a crash copies the tree */
  sim_node *next;                         /* of all nodes of the disk */
};

/* What the last sync made safe, as it was before. */
typedef struct sim_last_sync {
  sim_node *node;                         /* NULL: there was none */
  uint8_t *safe;
  size_t safe_size;
  int64_t safe_modified;
  sim_entries safe_entries;
  sim_change *changes;
  size_t change_count;
} sim_last_sync;

struct sim_disk {
  sdm_fs fs;                              /* first: a table is its disk */
  sim_node *root, *nodes;
  uint64_t next_inode, device, boot, changes;
  sim_last_sync last_sync;
  bool reverting;
  sim_hook *hook;
  void *context;
};

sim_node *sim_node_new(sim_disk *d, bool folder);
void sim_node_unref(sim_node *n);
sim_entry *sim_entries_find(const sim_entries *e, const char *name);
void sim_entries_set(sim_entries *e, const char *name, sim_node *node);      /* NULL: takes it out */
void sim_entries_clear(sim_entries *e);
void sim_node_resize(sim_node *n, size_t size);                              /* new bytes are zero */
void sim_change_copy(sim_disk *d, sim_node *n, const sim_change *from, sim_node *node);      /* at the end of n's changes, leading to `node` */
sim_disk *sim_disk_like(const sim_disk *d, bool same_boot);                  /* empty */
void *sim_alloc(void *old, size_t size);                                     /* or the program ends */
char *sim_copy_text(const char *text);

#endif
