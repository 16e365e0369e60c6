/* Checkpoint files: a version, a count, and one line an entry.
**
** Invariant: entries are in order of topic (as bytes) and partition, and no two are of the same partition. Kafka's files are in any order.
*/
#include "format/checkpoint.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/* ---- the array ---- */

static int compare(const sdm_checkpoint_entry *e, const char *topic, int32_t partition) {
  int order = strcmp(e->topic, topic);
  return order ? order : (e->partition > partition) - (e->partition < partition);
}

/* Where the partition's entry is (*found) or belongs. */
static size_t locate(const sdm_checkpoint *c, const char *topic, int32_t partition, bool *found) {
  size_t low = 0, high = c->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (compare(&c->entries[middle], topic, partition) < 0) low = middle + 1;
    else high = middle;
  }
  *found = low < c->count && compare(&c->entries[low], topic, partition) == 0;
  return low;
}

const sdm_checkpoint_entry *sdm_checkpoint_find(const sdm_checkpoint *c, const char *topic, int32_t partition) {
  bool found;
  size_t i = locate(c, topic, partition, &found);
  return found ? &c->entries[i] : NULL;
}

static int insert(sdm_checkpoint *c, size_t i, const char *topic, int32_t partition, int64_t offset) {
  sdm_checkpoint_entry *entries = sdm_grown(c->entries, c->count, &c->capacity, sizeof *entries);
  if (!entries) return sdm_no_memory();
  c->entries = entries;
  sdm_checkpoint_entry *e = &entries[i];
  memmove(e + 1, e, (c->count - i) * sizeof *e);
  *e = (sdm_checkpoint_entry){ .partition = partition, .offset = offset };
  memcpy(e->topic, topic, strlen(topic));
  c->count++;
  return 0;
}

int sdm_checkpoint_set(sdm_checkpoint *c, const char *topic, int32_t partition, int64_t offset) {
  bool found;
  if (strlen(topic) > SDM_TOPIC_NAME_MAX) return sdm_fail(SDM_MISUSE, "topic name '%s' is longer than %d", topic, SDM_TOPIC_NAME_MAX);
  size_t i = locate(c, topic, partition, &found);
  if (!found) return insert(c, i, topic, partition, offset);
  c->entries[i].offset = offset;
  return 0;
}

void sdm_checkpoint_remove(sdm_checkpoint *c, const char *topic, int32_t first, int32_t end) {
  bool found;
  size_t from = locate(c, topic, first, &found), to = locate(c, topic, end, &found);
  if (to > from) memmove(&c->entries[from], &c->entries[to], (c->count - to) * sizeof *c->entries);
  c->count -= to - from;
}

void sdm_checkpoint_free(sdm_checkpoint *c) {
  sdm_free(c->entries);
  *c = (sdm_checkpoint){ 0 };
}

/* ---- the text ---- */

typedef struct span {
  const char *text;
  size_t size;
} span;

typedef struct lines {
  const char *p, *end;
  int number;                 /* of the line taken last */
} lines;

/* The next line without its end ("\n" or "\r\n"); the last line may lack it. */
static bool take_line(lines *in, span *line) {
  if (in->p == in->end) return false;
  const char *newline = memchr(in->p, '\n', (size_t)(in->end - in->p));
  const char *stop = newline ? newline : in->end;
  line->text = in->p;
  line->size = (size_t)(stop - in->p);
  if (line->size > 0 && stop[-1] == '\r') line->size--;
  in->p = newline ? newline + 1 : in->end;
  in->number++;
  return true;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* Takes the next run of non-blanks off the line. */
static bool take_word(span *line, span *word) {
  while (line->size > 0 && is_blank(*line->text)) line->text++, line->size--;
  word->text = line->text;
  while (line->size > 0 && !is_blank(*line->text)) line->text++, line->size--;
  word->size = (size_t)(line->text - word->text);
  return word->size > 0;
}

static bool take_number(span *line, int64_t max, int64_t *out) {
  span word;
  int64_t value = 0;
  if (!take_word(line, &word)) return false;
  for (size_t i = 0; i < word.size; i++) {
    char c = word.text[i];
    if (c < '0' || c > '9') return false;
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, c - '0', &value)) return false;
  }
  *out = value;
  return value <= max;
}

static bool at_end(span *line) {
  span word;
  return !take_word(line, &word);
}

static int refuse(const lines *in, const char *why) {
  return sdm_fail(SDM_CORRUPT, "checkpoint, line %d: %s", in->number, why);
}

static int decode_number_line(lines *in, int64_t max, const char *why, int64_t *out) {
  span line = { 0 };
  if (!take_line(in, &line)) {
    in->number++;
    return refuse(in, "missing");
  }
  return take_number(&line, max, out) && at_end(&line) ? 0 : refuse(in, why);
}

static int decode_entry(sdm_checkpoint *c, const lines *in, span *line) {
  char topic[SDM_TOPIC_NAME_MAX + 1];
  span name;
  int64_t partition, offset;
  bool found;
  if (memchr(line->text, 0, line->size)) return refuse(in, "a NUL");
  if (!take_word(line, &name) || name.size > SDM_TOPIC_NAME_MAX) return refuse(in, "no topic name");
  if (!take_number(line, INT32_MAX, &partition)) return refuse(in, "no partition number");
  if (!take_number(line, INT64_MAX, &offset)) return refuse(in, "no offset");
  if (!at_end(line)) return refuse(in, "more than topic, partition and offset");
  memcpy(topic, name.text, name.size);
  topic[name.size] = 0;
  size_t i = locate(c, topic, (int32_t)partition, &found);
  if (found) return refuse(in, "a partition for the second time");
  return insert(c, i, topic, (int32_t)partition, offset);
}

static int decode(sdm_checkpoint *c, lines *in) {
  span line;
  int64_t version = 0, count = 0;
  int rc = decode_number_line(in, 0, "the version is not 0", &version);
  if (rc < 0) return rc;
  rc = decode_number_line(in, INT64_MAX, "not a number of entries", &count);
  while (rc == 0 && take_line(in, &line)) rc = decode_entry(c, in, &line);
  if (rc < 0) return rc;
  if ((uint64_t)count == c->count) return 0;
  return sdm_fail(SDM_CORRUPT, "checkpoint, line 2: it says %lld entries and there are %zu", (long long)count, c->count);
}

int sdm_checkpoint_decode(sdm_checkpoint *c, const char *text, size_t size) {
  sdm_checkpoint result = { 0 };
  lines in = { text, text + size, 0 };
  int rc = size > 0 ? decode(&result, &in) : 0;
  if (rc < 0) {
    sdm_checkpoint_free(&result);
    return rc;
  }
  sdm_checkpoint_free(c);
  *c = result;
  return 0;
}

int sdm_checkpoint_encode(const sdm_checkpoint *c, sdm_buf *out) {
  int rc = sdm_buf_printf(out, "0\n%zu\n", c->count);
  for (size_t i = 0; i < c->count && rc == 0; i++) {
    const sdm_checkpoint_entry *e = &c->entries[i];
    rc = sdm_buf_printf(out, "%s %d %lld\n", e->topic, e->partition, (long long)e->offset);
  }
  return rc;
}
