/* Opening a store with many partitions: its checkpoint files are read once, and each partition gets what is in them. */
#include <unistd.h>

#include "log/offsets.h"
#include "store/store.h"
#include "test.h"

enum { NOW = 1700000000, PARTITIONS = 30 };

static char root[256];
static sdm_fs counting;
static int reads;

static int count_and_open(sdm_fs *fs, const char *path, int flags, sdm_file **out) {
  (void)fs;
  if (flags == SDM_OPEN_READ && strstr(path, "-offset-checkpoint")) reads++;
  return sdm_fs_posix()->open(sdm_fs_posix(), path, flags, out);
}

static void begin(void) {
  const char *folder = getenv("TMPDIR");
  snprintf(root, sizeof root, "%s/sediment-opening.XXXXXX", folder ? folder : "/tmp");
  if (!CHECK(mkdtemp(root))) exit(1);
  counting = *sdm_fs_posix();
  counting.open = count_and_open;
}

static void end(void) {
  char line[300];
  snprintf(line, sizeof line, "rm -rf '%s'", root);
  CHECK_INT(system(line), 0);
}

static sdm_log *log_of(sdm_topic *t, int p) {
  sdm_log *l = NULL;
  CHECK_INT(sdm_topic_log(t, p, NOW, &l), 0);
  return l;
}

/* Partition p has p + 1 records, of which all but the last are deleted. */
static void make_store(void) {
  sdm_store *s;
  sdm_topic *t;
  sdm_setting count = {"partitions", {.type = SDM_VALUE_INT, .integer = PARTITIONS}};
  sdm_record r = {.key = "k", .key_size = 1, .value = "v", .value_size = 1, .timestamp = NOW};
  int64_t offset, start;
  int32_t where;
  CHECK_INT(sdm_store_open(root, &(sdm_store_options){.create = true}, NOW, &s), 0);
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){&count, 1}, NOW, &t), 0);
  for (int p = 0; p < PARTITIONS; p++) {
    for (int i = 0; i <= p; i++) CHECK_INT(sdm_topic_append(t, &r, p, 0, NOW, &offset, &where), 0);
    CHECK_INT(sdm_log_delete_records(log_of(t, p), p, NOW, &start), 0);
  }
  sdm_topic_release(t);
  CHECK_INT(sdm_store_close(s, NOW), 0);
}

static void check_store(sdm_store *s) {
  sdm_topic *t;
  if (!CHECK_INT(sdm_topic_open(s, "t", NULL, NOW, &t), 0)) return;
  for (int p = 0; p < PARTITIONS; p++) {
    int64_t start = -1, latest = -1;
    CHECK_INT(sdm_log_earliest(log_of(t, p), &start), 0);
    CHECK_INT(sdm_log_latest(log_of(t, p), &latest), 0);
    CHECK_INT(start, p);
    CHECK_INT(latest, p + 1);
  }
  sdm_topic_release(t);
}

TEST(each_checkpoint_file_is_read_once_by_the_first_to_open) {
  sdm_store *s = NULL;
  begin();
  make_store();
  reads = 0;
  CHECK_INT(sdm_store_open_on(&counting, root, &(sdm_store_options){0}, NOW, &s), 0);
  CHECK_INT(reads, 3);
  check_store(s);
  sdm_store_unref(s);
  end();
}

/* What is changed while it is remembered is remembered as it was changed, and is in the file; afterwards others' changes are seen again. */
TEST(what_is_set_while_it_is_remembered_holds) {
  sdm_store *s = NULL;
  int64_t offset = -1;
  begin();
  make_store();
  CHECK_INT(sdm_store_open_on(&counting, root, &(sdm_store_options){0}, NOW, &s), 0);
  sdm_offsets_remember(&s->env);
  CHECK_INT(sdm_offsets_find(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5, &offset), 0);
  CHECK_INT(offset, 5);
  CHECK_INT(sdm_offsets_set(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5, 6), 0);
  reads = 0;
  CHECK_INT(sdm_offsets_hint(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5), 6);
  CHECK_INT(sdm_offsets_hint(&s->env, SDM_LOG_START_CHECKPOINT, "t", 6), 6);
  CHECK_INT(reads, 0);
  CHECK_INT(sdm_offsets_get(&counting, root, SDM_LOG_START_CHECKPOINT, "t", 5), 6);
  CHECK_INT(sdm_offsets_remove(&s->env, SDM_LOG_START_CHECKPOINT, "t", PARTITIONS), 0);
  CHECK_INT(sdm_offsets_hint(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5), -1);
  sdm_offsets_forget(&s->env);
  CHECK_INT(sdm_offsets_set(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5, 7), 0);
  CHECK_INT(sdm_offsets_hint(&s->env, SDM_LOG_START_CHECKPOINT, "t", 5), 7);
  sdm_store_unref(s);
  end();
}
