#include "store/snapshot_file.h"

#include <string.h>

#include "base/mem.h"
#include "store/snapshot.h"

static const char PREFIX[] = SDM_SNAPSHOT_PREFIX;
static const char UNFINISHED[] = ".tmp";
enum { PREFIX_SIZE = sizeof PREFIX - 1 };

int sdm_snapshot_name_check(const char *name) {
  static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  if (strlen(name) <= SDM_SNAPSHOT_NAME_MAX && name[strspn(name, allowed)] == '\0') return 0;
  return sdm_fail(SDM_MISUSE, "a snapshot's name is up to %d of a-z A-Z 0-9 _ -, got '%.80s'", SDM_SNAPSHOT_NAME_MAX, name);
}

char *sdm_snapshot_path(const sdm_topic *t, const char *name, const char *suffix) {
  char id[SDM_UUID_TEXT + 1];
  sdm_uuid_encode(&t->entry.id, id);
  return sdm_format("%s/%s%s%s%s%s", t->store->env.root, PREFIX, id, *name ? "-" : "", name, suffix);
}

/* Whose file it is that has this name; NULL: it is no snapshot. */
static const char *id_in(const char *name) {
  return strncmp(name, PREFIX, PREFIX_SIZE) == 0 && strlen(name) >= PREFIX_SIZE + SDM_UUID_TEXT ? name + PREFIX_SIZE : NULL;
}

static int remove_file(sdm_store *s, const char *name) {
  char *path = sdm_format("%s/%s", s->env.root, name);
  int rc = path ? s->env.fs->unlink(s->env.fs, path) : sdm_no_memory();
  sdm_free(path);
  return rc;
}

/* One that cannot go does not keep the others. */
static int remove_all(sdm_store *s, bool (*goes)(const sdm_store *s, const char *name, const void *context), const void *context) {
  sdm_names names = {0};
  sdm_failure first = {0};
  sdm_failure_note(&first, s->env.fs->list(s->env.fs, s->env.root, &names));
  for (size_t i = 0; i < names.count; i++) {
    if (id_in(names.items[i]) && goes(s, names.items[i], context)) sdm_failure_note(&first, remove_file(s, names.items[i]));
  }
  sdm_names_clear(&names);
  return sdm_failure_tell(&first);
}

static bool is_of(const sdm_store *s, const char *name, const void *id) {
  (void)s;
  return memcmp(id_in(name), id, SDM_UUID_TEXT) == 0;
}

int sdm_snapshots_remove(sdm_store *s, const sdm_uuid *topic_id) {
  char id[SDM_UUID_TEXT + 1];
  sdm_uuid_encode(topic_id, id);
  return remove_all(s, is_of, id);
}

static bool is_left_over(const sdm_store *s, const char *name, const void *context) {
  size_t size = strlen(name), suffix = sizeof UNFINISHED - 1;
  (void)context;
  if (size > suffix && strcmp(name + size - suffix, UNFINISHED) == 0) return true;
  for (size_t i = 0; i < s->topics.count; i++) {
    char id[SDM_UUID_TEXT + 1];
    sdm_uuid_encode(&s->topics.entries[i]->id, id);
    if (is_of(s, name, id)) return false;
  }
  return true;
}

void sdm_snapshots_drop_unlisted(sdm_store *s) { remove_all(s, is_left_over, NULL); }
