/* What names a partition: topic ids, partition.metadata, and the name of its folder. */
#include "format/checkpoint.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* 128 bits are 21 digits of 6 bits and one of 2, whose other 4 bits are 0. */
void sdm_uuid_encode(const sdm_uuid *id, char text[SDM_UUID_TEXT + 1]) {
  unsigned bits = 0;
  int held = 0;
  char *out = text;
  for (int i = 0; i < 16; i++) {
    bits = (bits << 8 | id->bytes[i]) & 0xffff;
    for (held += 8; held >= 6; held -= 6) *out++ = digits[bits >> (held - 6) & 63];
  }
  *out++ = digits[bits << 4 & 63];
  *out = 0;
}

static int digit_value(char c) {
  const char *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

int sdm_uuid_decode(sdm_uuid *id, const char *text, size_t size) {
  static const sdm_uuid zero;
  sdm_uuid result;
  unsigned bits = 0;
  int held = 0, n = 0;
  if (size != SDM_UUID_TEXT) return sdm_fail(SDM_CORRUPT, "topic id has %zu characters instead of %d", size, SDM_UUID_TEXT);
  for (size_t i = 0; i < SDM_UUID_TEXT; i++) {
    int value = digit_value(text[i]);
    if (value < 0) return sdm_fail(SDM_CORRUPT, "topic id: character %zu is not of URL-safe base64", i + 1);
    bits = (bits << 6 | (unsigned)value) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      result.bytes[n++] = (uint8_t)(bits >> held);
    }
  }
  if (bits & 15) return sdm_fail(SDM_CORRUPT, "topic id: its last character stands for more than 128 bits");
  if (memcmp(&result, &zero, sizeof zero) == 0) return sdm_fail(SDM_CORRUPT, "topic id is all zero");
  *id = result;
  return 0;
}

/* Without a final newline, as Kafka writes it. */
int sdm_metadata_encode(sdm_buf *out, const sdm_uuid *topic_id) {
  char text[SDM_UUID_TEXT + 1];
  sdm_uuid_encode(topic_id, text);
  return sdm_buf_printf(out, "version: 0\ntopic_id: %s", text);
}

/* Takes "name:", blanks, a value, and the line's end off the text; the value is *value of *n characters. */
static bool take_field(const char **text, size_t *size, const char *name, const char **value, size_t *n) {
  size_t skip = strlen(name);
  const char *newline = memchr(*text, '\n', *size), *start = *text;
  size_t line = newline ? (size_t)(newline - start) : *size;
  if (line < skip || memcmp(start, name, skip) != 0) return false;
  *text += line + (newline != NULL);
  *size -= line + (newline != NULL);
  while (skip < line && (start[skip] == ' ' || start[skip] == '\t')) skip++;
  while (line > skip && (start[line - 1] == ' ' || start[line - 1] == '\t' || start[line - 1] == '\r')) line--;
  *value = start + skip;
  *n = line - skip;
  return true;
}

int sdm_metadata_decode(sdm_uuid *topic_id, const char *text, size_t size) {
  const char *value;
  size_t n;
  if (size == 0 || !take_field(&text, &size, "version:", &value, &n)) {
    return sdm_fail(SDM_CORRUPT, "partition.metadata does not begin with a version");
  }
  if (n != 1 || *value != '0') return sdm_fail(SDM_CORRUPT, "partition.metadata: version %.*s instead of 0", n > 20 ? 20 : (int)n, value);
  if (size == 0 || !take_field(&text, &size, "topic_id:", &value, &n)) {
    return sdm_fail(SDM_CORRUPT, "partition.metadata: line 2 is not a topic_id");
  }
  int rc = sdm_uuid_decode(topic_id, value, n);
  return rc < 0 ? sdm_fail_within(rc, "partition.metadata: ") : 0;
}

/* Digits of a partition number as it is printed: no sign, no leading zero, at most 2^31-1. Negative: it is not one. */
static int64_t partition_value(const char *text) {
  int64_t value = 0;
  if (*text == 0 || (text[0] == '0' && text[1] != 0)) return -1;
  for (; *text; text++) {
    if (*text < '0' || *text > '9') return -1;
    value = value * 10 + (*text - '0');
    if (value > INT32_MAX) return -1;
  }
  return value;
}

int sdm_partition_name_decode(const char *name, char *topic, int32_t *partition) {
  const char *dash = strrchr(name, '-');
  size_t size = dash ? (size_t)(dash - name) : 0;
  int64_t value = dash ? partition_value(dash + 1) : -1;
  if (size == 0 || size > SDM_TOPIC_NAME_MAX || value < 0) {
    return sdm_fail(SDM_MISUSE, "'%s' is not the name of a partition's folder (topic-number)", name);
  }
  memcpy(topic, name, size);
  topic[size] = 0;
  *partition = (int32_t)value;
  return 0;
}
