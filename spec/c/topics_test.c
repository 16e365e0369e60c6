/* Topics that others delete, at moments and with numbers that specs cannot reach. The other handle stands for another process's. */
#include "store/topic.h"

#include <stdlib.h>
#include <unistd.h>

#include "test.h"

enum { NOW = 1700000000 };

typedef struct fixture {
  char root[256];
  sdm_store *store;
  sdm_topic *topic;                        /* of the topic "t" */
} fixture;

static sdm_topic *open_topic(sdm_store *s) {
  sdm_topic *t = NULL;
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){0}, NOW, &t), 0);
  return t;
}

static void begin(fixture *f) {
  const char *folder = getenv("TMPDIR");
  snprintf(f->root, sizeof f->root, "%s/sediment-topics.XXXXXX", folder ? folder : "/tmp");
  if (!CHECK(mkdtemp(f->root))) exit(1);
  CHECK_INT(sdm_store_open(f->root, &(sdm_store_options){.create = true}, NOW, &f->store), 0);
  f->topic = open_topic(f->store);
}

static void end(fixture *f) {
  char line[300];
  sdm_topic_release(f->topic);
  CHECK_INT(sdm_store_close(f->store, NOW), 0);
  snprintf(line, sizeof line, "rm -rf '%s'", f->root);
  CHECK_INT(system(line), 0);
}

static int64_t retention_ms(sdm_topic *t) {
  CHECK_INT(sdm_topic_check(t), 0);
  return t->config.retention_ms;
}

/* The topic is deleted and made anew just behind the look at it with which the call begins. */
TEST(a_topic_that_was_made_anew_is_not_altered) {
  fixture f;
  begin(&f);
  CHECK_INT(sdm_store_delete_topic(f.store, "t", false, NOW), 0);
  sdm_topic *anew = open_topic(f.store);
  int64_t before = retention_ms(anew);
  f.topic->generation = sdm_store_generation(f.store);
  sdm_setting item = {"retention.ms", {.type = SDM_VALUE_INT, .integer = 1}};
  CHECK_INT(sdm_topic_alter(f.topic, &(sdm_settings){&item, 1}, NULL, 0, NOW), SDM_UNKNOWN_TOPIC);
  CHECK_INT(retention_ms(anew), before);
  sdm_topic_release(anew);
  end(&f);
}
