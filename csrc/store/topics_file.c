/* `sediment.topics`: the text of it. docs/format.md 5 has an example.
**
**   sediment-topics 1
**   topic NAME ID PARTITIONS live|deleted
**     CONFIG VALUE
**   checksum <16 hex digits: XXH3-64 of every byte before this line>
**
** Every line ends with a newline and the checksum is the last one. The text is read line by line and nothing in it is trusted before the
** checksum was compared: a decoded file is either whole or refused.
*/
#include "store/topics_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/xxh.h"

#define HEAD "sediment-topics 1"
#define LINE_MAX_BYTES 512

typedef struct parser {
  const char *text, *end, *next;          /* next: where the next line begins */
  const char *start;                      /* of the current line */
  int line;                               /* its number, from 1 */
  char copy[LINE_MAX_BYTES];              /* the current line, NUL-terminated, without its newline */
  sdm_topics_file file;
  bool summed;                            /* the checksum line was met and right */
} parser;

static int bad(const parser *p, const char *why) {
  return sdm_fail(SDM_CORRUPT, "sediment.topics: line %d: %s; restore the file from a backup", p->line, why);
}

/* 1: p->copy is the next line. 0: the text is over. */
static int take_line(parser *p) {
  if (p->next == p->end) return 0;
  p->line++;
  p->start = p->next;
  const char *newline = memchr(p->next, '\n', (size_t)(p->end - p->next));
  if (!newline) return bad(p, "it is cut off");
  size_t n = (size_t)(newline - p->start);
  if (n >= LINE_MAX_BYTES) return bad(p, "it is too long");
  if (memchr(p->start, '\0', n)) return bad(p, "it has a NUL");
  memcpy(p->copy, p->start, n);
  p->copy[n] = '\0';
  p->next = newline + 1;
  return 1;
}

/* Cuts the word at *p off and moves on past the one blank behind it; NULL when there is none. */
static char *take_word(char **p) {
  char *word = *p, *blank = word ? strchr(word, ' ') : NULL;
  if (!word) return NULL;
  if (blank) *blank = '\0';
  *p = blank ? blank + 1 : NULL;
  return word;
}

static bool parse_count(const char *text, int32_t *out) {
  int64_t n = 0;
  size_t size = strlen(text);
  if (size == 0 || size > 9 || text[0] == '0' || strspn(text, "0123456789") != size) return false;
  for (; *text; text++) n = n * 10 + (*text - '0');
  *out = (int32_t)n;
  return true;
}

static bool clashes(const sdm_topics_file *f, const sdm_topic_entry *e) {
  for (size_t i = 0; i < f->count; i++) {
    if (memcmp(&f->entries[i]->id, &e->id, sizeof e->id) == 0) return true;
  }
  return e->state == SDM_TOPIC_LIVE && sdm_topics_find(f, e->name) != NULL;
}

static int take_topic(parser *p, char *rest) {
  sdm_topic_entry e;
  memset(&e, 0, sizeof e);
  const char *name = take_word(&rest), *id = take_word(&rest), *count = take_word(&rest), *state = take_word(&rest);
  if (!state || rest) return bad(p, "a topic has four fields: name, id, partitions, live or deleted");
  if (sdm_topic_name_check(name) < 0) return bad(p, "it has a bad topic name");
  if (sdm_uuid_decode(&e.id, id, strlen(id)) < 0) return bad(p, "it has a bad topic id");
  if (!parse_count(count, &e.partitions)) return bad(p, "it has a bad number of partitions");
  if (strcmp(state, "live") != 0 && strcmp(state, "deleted") != 0) return bad(p, "a topic is live or deleted");
  e.state = strcmp(state, "live") == 0 ? SDM_TOPIC_LIVE : SDM_TOPIC_DELETED;
  memcpy(e.name, name, strlen(name) + 1);
  if (clashes(&p->file, &e)) return bad(p, "the topic stands there twice");
  return sdm_topics_add(&p->file, &e);
}

static int take_config(parser *p, char *rest) {
  const char *name = take_word(&rest);
  if (p->file.count == 0) return bad(p, "a config stands before the first topic");
  if (!rest) return bad(p, "a config has a name and a value");
  int rc = sdm_config_decode_line(&p->file.entries[p->file.count - 1]->config, name, rest);
  return rc < 0 ? sdm_fail_within(rc, "sediment.topics: line %d: ", p->line) : 0;
}

static bool parse_hex(const char *text, uint64_t *out) {
  if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
  *out = 0;
  for (; *text; text++) *out = *out << 4 | (uint64_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
  return true;
}

static int take_checksum(parser *p, const char *rest) {
  uint64_t sum;
  if (!parse_hex(rest, &sum)) return bad(p, "the checksum is not 16 hexadecimal digits");
  if (sum != sdm_hash64(p->text, (size_t)(p->start - p->text))) return bad(p, "the checksum does not match");
  p->summed = true;
  return 0;
}

static int take_any(parser *p) {
  if (p->summed) return bad(p, "it follows the checksum");
  if (p->line == 1) return strcmp(p->copy, HEAD) == 0 ? 0 : bad(p, "it is not \"" HEAD "\"");
  if (strncmp(p->copy, "topic ", 6) == 0) return take_topic(p, p->copy + 6);
  if (strncmp(p->copy, "  ", 2) == 0) return take_config(p, p->copy + 2);
  if (strncmp(p->copy, "checksum ", 9) == 0) return take_checksum(p, p->copy + 9);
  return bad(p, "it is neither a topic, nor a config, nor the checksum");
}

int sdm_topics_decode(sdm_topics_file *f, const char *text, size_t size) {
  parser p;
  memset(&p, 0, sizeof p);
  p.text = p.next = text;
  p.end = text + size;
  int rc;
  while ((rc = take_line(&p)) == 1) {
    rc = take_any(&p);
    if (rc < 0) break;
  }
  if (rc == 0 && !p.summed) rc = bad(&p, "the checksum is missing after it");
  if (rc < 0) {
    sdm_topics_free(&p.file);
    return rc;
  }
  sdm_topics_free(f);
  *f = p.file;
  return 0;
}

static int encode_entry(const sdm_topic_entry *e, sdm_buf *out) {
  char id[SDM_UUID_TEXT + 1];
  sdm_uuid_encode(&e->id, id);
  int rc = sdm_buf_printf(out, "topic %s %s %" PRId32 " %s\n", e->name, id, e->partitions, e->state == SDM_TOPIC_LIVE ? "live" : "deleted");
  return rc < 0 ? rc : sdm_config_encode(&e->config, out, "  ");
}

int sdm_topics_encode(const sdm_topics_file *f, sdm_buf *out) {
  size_t start = out->size;
  int rc = sdm_buf_printf(out, "%s\n", HEAD);
  for (size_t i = 0; rc >= 0 && i < f->count; i++) rc = encode_entry(f->entries[i], out);
  if (rc < 0) return rc;
  uint64_t sum = sdm_hash64(out->data + start, out->size - start);
  return sdm_buf_printf(out, "checksum %016" PRIx64 "\n", sum);
}

/* ---- the entries ---- */

sdm_topic_entry *sdm_topics_find(const sdm_topics_file *f, const char *name) {
  for (size_t i = 0; i < f->count; i++) {
    sdm_topic_entry *e = f->entries[i];
    if (e->state == SDM_TOPIC_LIVE && strcmp(e->name, name) == 0) return e;
  }
  return NULL;
}

sdm_topic_entry *sdm_topics_find_this(const sdm_topics_file *f, const char *name, const sdm_uuid *id) {
  sdm_topic_entry *e = sdm_topics_find(f, name);
  return e && memcmp(&e->id, id, sizeof *id) == 0 ? e : NULL;
}

int sdm_topics_add(sdm_topics_file *f, const sdm_topic_entry *e) {
  sdm_topic_entry **entries = sdm_grown(f->entries, f->count, &f->capacity, sizeof *entries);
  if (!entries) return sdm_no_memory();
  f->entries = entries;
  sdm_topic_entry *copy = sdm_malloc(sizeof *copy);
  if (!copy) return sdm_no_memory();
  *copy = *e;
  f->entries[f->count++] = copy;
  return 0;
}

void sdm_topics_remove(sdm_topics_file *f, sdm_topic_entry *e) {
  for (size_t i = 0; i < f->count; i++) {
    if (f->entries[i] != e) continue;
    sdm_free(e);
    memmove(&f->entries[i], &f->entries[i + 1], (f->count - i - 1) * sizeof *f->entries);
    f->count--;
    return;
  }
}

void sdm_topics_free(sdm_topics_file *f) {
  for (size_t i = 0; i < f->count; i++) sdm_free(f->entries[i]);
  sdm_free(f->entries);
  memset(f, 0, sizeof *f);
}

int sdm_topic_name_check(const char *name) {
  static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  size_t n = strlen(name);
  if (n > SDM_TOPIC_NAME_MAX) return sdm_fail(SDM_MISUSE, "topic name '%.80s...': it has %zu characters; %d are the most", name, n, SDM_TOPIC_NAME_MAX);
  if (n == 0 || strspn(name, legal) != n || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
    return sdm_fail(SDM_MISUSE, "topic name '%.80s': 1 to %d of the characters a-z A-Z 0-9 . _ - are expected, not \".\" or \"..\"", name,
                    SDM_TOPIC_NAME_MAX);
  }
  return 0;
}
