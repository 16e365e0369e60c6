/* The message of a thread's last failure.
**
** Invariant: `message` is always NUL-terminated. A new text is put together in a buffer of its own first, because its arguments may point
** into the old one.
*/
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[SDM_MESSAGE_MAX];

static void keep(const char *text) {
  memcpy(message, text, strlen(text) + 1);
}

int sdm_fail(int code, const char *format, ...) {
  char text[SDM_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  keep(text);
  return code;
}

static int errno_code(int error) {
  switch (error) {
    case ENOSPC: case EFBIG: case EDQUOT: return SDM_DISK_FULL;
    case ENOENT: return SDM_NOT_FOUND;
    case ENOMEM: return SDM_NO_MEMORY;
    case EROFS: return SDM_READONLY;
    default: return SDM_IO;
  }
}

/* Adds to the text of `used` characters as much as fits; an ellipsis tells that something did not. */
static void extend(char *text, size_t used, const char *more) {
  static const char ellipsis[] = "...";
  size_t room = SDM_MESSAGE_MAX - 1 - used, size = strlen(more);
  size_t n = size < room ? size : room;
  memcpy(text + used, more, n);
  text[used + n] = 0;
  if (n < size) memcpy(text + SDM_MESSAGE_MAX - sizeof ellipsis, ellipsis, sizeof ellipsis);
}

static size_t format_text(char *text, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
static size_t format_text(char *text, const char *format, va_list args) {
  int n = vsnprintf(text, SDM_MESSAGE_MAX, format, args);
  if (n < 0) n = 0;
  return n < SDM_MESSAGE_MAX ? (size_t)n : SDM_MESSAGE_MAX - 1;
}

int sdm_fail_errno(int error, const char *format, ...) {
  char text[SDM_MESSAGE_MAX], reason[160];
  va_list args;
  va_start(args, format);
  size_t used = format_text(text, format, args);
  va_end(args);
  errno = error;   /* for %m, the one way to an error's text that is safe in threads under every C library here */
  snprintf(reason, sizeof reason, ": %m");
  extend(text, used, reason);
  keep(text);
  return errno_code(error);
}

int sdm_fail_within(int code, const char *format, ...) {
  char text[SDM_MESSAGE_MAX];
  va_list args;
  va_start(args, format);
  size_t used = format_text(text, format, args);
  va_end(args);
  extend(text, used, message);
  keep(text);
  return code;
}

void sdm_failure_note(sdm_failure *f, int code) {
  if (code >= 0 || f->code < 0) return;
  f->code = code;
  memcpy(f->message, message, sizeof message);
}

int sdm_failure_tell(const sdm_failure *f) {
  if (f->code < 0) keep(f->message);
  return f->code;
}

const char *sdm_errmsg(void) {
  return message;
}

const char *sdm_code_name(int code) {
  if (code >= 0) return "ok";
  switch (code) {
#define X(name, value, text) case value: return text;
    SDM_CODE_MAP(X)
#undef X
    default: return "unknown";
  }
}
