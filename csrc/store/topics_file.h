/* `sediment.topics`: which topics a store has, their ids, partitions and configs. Text, one version line, a checksum at the end
** (docs/format.md 5). Bytes in, bytes out: the store reads and replaces the file.
*/
#ifndef SDM_STORE_TOPICS_FILE_H
#define SDM_STORE_TOPICS_FILE_H

#include "format/checkpoint.h"
#include "store/config.h"

typedef enum sdm_topic_state { SDM_TOPIC_LIVE, SDM_TOPIC_DELETED } sdm_topic_state;

/* A deleted topic stays listed until its folders are renamed, so that a crash in between leaves no ghost. */
typedef struct sdm_topic_entry {
  char name[SDM_TOPIC_NAME_MAX + 1];
  sdm_uuid id;
  int32_t partitions;
  sdm_topic_state state;
  sdm_config_set config;
} sdm_topic_entry;

typedef struct sdm_topics_file {
  sdm_topic_entry **entries;              /* each its own allocation: pointers stay valid while others come and go */
  size_t count, capacity;
} sdm_topics_file;                        /* zero-initialised is empty */

int sdm_topics_decode(sdm_topics_file *f, const char *text, size_t size);      /* SDM_CORRUPT with line number */
int sdm_topics_encode(const sdm_topics_file *f, sdm_buf *out);
sdm_topic_entry *sdm_topics_find(const sdm_topics_file *f, const char *name);  /* the live one of that name, or NULL */
sdm_topic_entry *sdm_topics_find_this(const sdm_topics_file *f, const char *name, const sdm_uuid *id);       /* and not another of its name; NULL */
int sdm_topics_add(sdm_topics_file *f, const sdm_topic_entry *e);              /* copies */
void sdm_topics_remove(sdm_topics_file *f, sdm_topic_entry *e);
void sdm_topics_free(sdm_topics_file *f);

/* 0, or SDM_MISUSE with the rule: 1-249 of [a-zA-Z0-9._-], not "." or "..". */
int sdm_topic_name_check(const char *name);

#endif
