/* Retention that passes a reader while it finds out which transactions it must hide: what it gives is what was committed, or it is told that it is too late. */
#include <stdlib.h>
#include <string.h>

#include "log/reader.h"
#include "store/store.h"
#include "test.h"

static const int64_t NOW = 1900000000000;

static sdm_fs hooked;
static sdm_topic *topic;
static int countdown = -1;                 /* reads until retention strikes; -1: it does not */

static int read_and_retain(sdm_file *f, void *bytes, size_t size, int64_t position, size_t *got) {
  if (countdown >= 0 && strstr(f->path, ".log") && countdown-- == 0) {
    sdm_retain_report report;
    CHECK_INT(sdm_topic_retain(topic, NOW, &report), 0);
  }
  return sdm_fs_posix()->read(f, bytes, size, position, got);
}

/* A broker's partition with committed, aborted and open transactions. */
static sdm_store *import(const char *root) {
  char line[1000], dir[400];
  sdm_store *s;
  sdm_import_report report;
  snprintf(line, sizeof line, "rm -rf '%s' && mkdir -p '%s/from' && tar xzf spec/data/kafka/transactions.tar.gz -C '%s/from'", root, root, root);
  snprintf(dir, sizeof dir, "%s/from/txn-0", root);
  CHECK_INT(system(line), 0);
  snprintf(line, sizeof line, "%s/store", root);
  CHECK_INT(sdm_store_open(line, &(sdm_store_options){.create = true}, NOW, &s), 0);
  sdm_setting keep = {.name = "retention.ms", .value = {.type = SDM_VALUE_INT, .integer = -1}};
  CHECK_INT(sdm_topic_open(s, "t", &(sdm_settings){&keep, 1}, NOW, &topic), 0);
  CHECK_INT(sdm_store_import(s, "t", dir, &(sdm_import_options){0}, NOW, &report), 0);
  return s;
}

/* What a reader of committed records gives, as bits. */
static int64_t read_all(sdm_log *l, uint64_t *out) {
  sdm_reader *r;
  sdm_record record;
  int64_t rc = sdm_reader_open(l, 0, SDM_TO_END, 0, &r);
  *out = 0;
  if (rc < 0) return rc;
  while ((rc = sdm_reader_next(r, &record)) == 1) *out |= UINT64_C(1) << record.offset;
  sdm_reader_close(r);
  return rc;
}

TEST(retention_passes_a_reader_as_it_opens) {
  char root[300];
  const char *folder = getenv("TMPDIR");
  uint64_t whole, got;
  bool struck = true;
  int told = 0;
  snprintf(root, sizeof root, "%s/sediment-transactions", folder ? folder : "/tmp");
  for (int n = 0; struck; n++) {
    sdm_log *l;
    sdm_store *s = import(root);
    CHECK_INT(sdm_topic_log(topic, 0, NOW, &l), 0);
    CHECK_INT(read_all(l, &whole), 0);
    CHECK(whole != 0);
    sdm_setting shorter = {.name = "retention.ms", .value = {.type = SDM_VALUE_INT, .integer = 1}};
    CHECK_INT(sdm_topic_alter(topic, &(sdm_settings){&shorter, 1}, NULL, 0, NOW), 0);
    CHECK_INT(sdm_topic_log(topic, 0, NOW, &l), 0);
    hooked = *sdm_fs_posix();
    hooked.read = read_and_retain;
    CHECK_INT(sdm_store_close(s, NOW), 0);           /* so that the transactions are looked for anew, through the hook */
    sdm_topic_release(topic);
    snprintf(root + strlen(root), sizeof root - strlen(root), "/store");
    CHECK_INT(sdm_store_open_on(&hooked, root, &(sdm_store_options){.create = true}, NOW, &s), 0);
    *strrchr(root, '/') = 0;
    CHECK_INT(sdm_topic_open(s, "t", NULL, NOW, &topic), 0);
    CHECK_INT(sdm_topic_log(topic, 0, NOW, &l), 0);
    countdown = n;
    int64_t rc = read_all(l, &got);
    struck = countdown < 0;
    countdown = -1;
    told += rc == SDM_OFFSET_OUT_OF_RANGE;
    if (rc == 0) CHECK_INT((int64_t)got, (int64_t)whole);
    else CHECK_INT(rc, SDM_OFFSET_OUT_OF_RANGE);
    sdm_topic_release(topic);
    CHECK_INT(sdm_store_close_on(s, NOW), 0);
  }
  CHECK(told > 0);
}
