/* Error codes and the message of the last failure.
**
** Every function of the library that can fail returns an int: 0 (or a count) on success, a negative sdm_code on failure. The text that
** goes with a failure is kept per thread; it is complete ("what, where, what to do") and stays valid until the thread's next failure.
*/
#ifndef SDM_BASE_ERR_H
#define SDM_BASE_ERR_H

/* X(constant, value, name as Lua sees it). The names are API (design: "Codes"); the values are not. */
#define SDM_CODE_MAP(X)                                                                                                            \
  X(OFFSET_OUT_OF_RANGE, -1, "offset_out_of_range")                                                                                \
  X(CORRUPT, -2, "corrupt")                                                                                                        \
  X(DISK_FULL, -3, "disk_full")                                                                                                    \
  X(IO, -4, "io")                                                                                                                  \
  X(CLOSED, -5, "closed")                                                                                                          \
  X(READONLY, -6, "readonly")                                                                                                      \
  X(TOO_LARGE, -7, "too_large")                                                                                                    \
  X(INVALID_RECORD, -8, "invalid_record")                                                                                          \
  X(INVALID_TIMESTAMP, -9, "invalid_timestamp")                                                                                    \
  X(UNKNOWN_TOPIC, -10, "unknown_topic")                                                                                           \
  X(UNKNOWN_PARTITION, -11, "unknown_partition")                                                                                   \
  X(NOT_FOUND, -12, "not_found")                                                                                                   \
  X(EXISTS, -13, "exists")                                                                                                         \
  X(LOCKED, -14, "locked")                                                                                                         \
  X(FORKED, -15, "forked")                                                                                                         \
  X(RESYNC, -16, "resync")                                                                                                         \
  X(POLICY, -17, "policy")                                                                                                         \
  X(BUSY, -18, "busy")                                                                                                             \
  X(UNSUPPORTED, -19, "unsupported")                                                                                               \
  X(NO_MEMORY, -20, "no_memory")                                                                                                   \
  X(FENCED, -22, "fenced")                                                                                                         \
  X(UNAVAILABLE, -23, "unavailable")                                                                                               \
  X(TIMEOUT, -24, "timeout")                                                                                                       \
  X(UNAUTHORIZED, -25, "unauthorized")                                                                                             \
  X(MISUSE, -21, "misuse") /* a wrong argument or config; Lua raises it instead of returning it */

typedef enum sdm_code {
  SDM_OK = 0,
#define X(name, value, text) SDM_##name = value,
  SDM_CODE_MAP(X)
#undef X
} sdm_code;

/* Sets the thread's message and returns `code`, so that a failure is one line: return sdm_fail(SDM_CORRUPT, "..."). */
int sdm_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* The same for a failed system call: chooses the code from errno value `error` (ENOSPC, EDQUOT and EFBIG disk_full, ENOENT not_found, ENOMEM
** no_memory, EROFS readonly, else io) and appends its text. */
int sdm_fail_errno(int error, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

/* Puts text in front of the thread's message ("topic 'a': " + what was there) and returns `code` unchanged. */
int sdm_fail_within(int code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

enum { SDM_MESSAGE_MAX = 2048 };        /* bytes, with the NUL; longer texts are cut */

/* The first failure of many attempts, with its message, which the next ones would replace. */
typedef struct sdm_failure {
  int code;
  char message[SDM_MESSAGE_MAX];
} sdm_failure;

void sdm_failure_note(sdm_failure *f, int code);        /* does nothing for codes >= 0, or when there is one already */
int sdm_failure_tell(const sdm_failure *f);             /* makes it the thread's last failure again; its code, 0 when there is none */

const char *sdm_errmsg(void);           /* the thread's last message, never NULL */
const char *sdm_code_name(int code);    /* "corrupt" for SDM_CORRUPT; "ok" for values >= 0; "unknown" for others */

#endif
