/* Reading the value of one setting. All failures are SDM_MISUSE and say what would have been right.
**
** Numbers are read digit by digit, so that 2^63-1 is exact and "1.5h" is an integer or refused; amounts beyond 2^63-1 mean 2^63-1, which
** the settings that can hold it take as "for ever".
*/
#include "store/config_parse.h"

#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/log_config.h"

typedef struct scale {
  const char *text;
  int64_t factor;
  sdm_rule_unit unit;
} scale;

static const scale SCALES[] = {
  { "", 1, SDM_UNIT_NONE },
  { "ms", 1, SDM_UNIT_MS },
  { "s", 1000, SDM_UNIT_MS },
  { "m", 60000, SDM_UNIT_MS },
  { "h", 3600000, SDM_UNIT_MS },
  { "d", 86400000, SDM_UNIT_MS },
  { "B", 1, SDM_UNIT_BYTES },
  { "KB", 1000, SDM_UNIT_BYTES },
  { "MB", 1000000, SDM_UNIT_BYTES },
  { "GB", 1000000000, SDM_UNIT_BYTES },
  { "TB", 1000000000000, SDM_UNIT_BYTES },
  { "KiB", 1024, SDM_UNIT_BYTES },
  { "MiB", 1048576, SDM_UNIT_BYTES },
  { "GiB", 1073741824, SDM_UNIT_BYTES },
  { "TiB", 1099511627776, SDM_UNIT_BYTES },
};

static const double TWO_63 = 9223372036854775808.0;

bool sdm_rule_named(const sdm_rule *r, const char *given) {
  const char *p = r->name;
  for (; *p && *given; p++, given++) {
    if (*p != *given && !(*p == '.' && *given == '_')) return false;
  }
  return *p == *given;
}

ptrdiff_t sdm_rule_find(const sdm_rule *rules, size_t count, const char *given) {
  for (size_t i = 0; i < count; i++) {
    if (sdm_rule_named(&rules[i], given)) return (ptrdiff_t)i;
  }
  return -1;
}

/* ---- messages ---- */

static const char *expectation(const sdm_rule *r) {
  if (r->kind == SDM_RULE_BOOL) return "true or false";
  if (r->kind == SDM_RULE_POLICY) return "a list made of \"compact\" and \"delete\"";
  if (r->kind == SDM_RULE_SCRIPT) return "the name of a policy script in the store, of at most 63 of the characters a-z A-Z 0-9 _ -, or empty";
  if (r->unit == SDM_UNIT_MS) return "a number of milliseconds such as 604800000, \"7d\" or \"30s\"";
  if (r->unit == SDM_UNIT_BYTES) return "a number of bytes such as 1073741824, \"512MiB\" or \"64KB\"";
  return r->kind == SDM_RULE_DOUBLE ? "a number" : "an integer";
}

static void show(const sdm_value *v, char *out, size_t size) {
  switch (v->type) {
    case SDM_VALUE_STRING: snprintf(out, size, "'%.80s'", v->string); break;
    case SDM_VALUE_INT: snprintf(out, size, "%" PRId64, v->integer); break;
    case SDM_VALUE_DOUBLE: snprintf(out, size, "%.17g", v->number); break;
    default: snprintf(out, size, "%s", v->integer ? "true" : "false"); break;
  }
}

static int refuse(const sdm_rule *r, const char *what, const sdm_value *v) {
  char text[100];
  show(v, text, sizeof text);
  return sdm_fail(SDM_MISUSE, "%s '%s': %s is not %s", what, r->name, text, expectation(r));
}

static int refuse_word(const sdm_rule *r, const char *what, const sdm_value *v) {
  char words[160] = "", text[100];
  size_t n = 0;
  for (const sdm_word *w = r->words; w->text; w++) {
    n += (size_t)snprintf(words + n, sizeof words - n, "%s%s", n ? ", " : "", w->text);
    if (n >= sizeof words) break;
  }
  show(v, text, sizeof text);
  return sdm_fail(SDM_MISUSE, "%s '%s': %s is not one of %s", what, r->name, text, words);
}

/* ---- numbers ---- */

/* Digits at *p as an integer, 2^63-1 when it is more; *p moves on. */
static int64_t take_digits(const char **p) {
  int64_t n = 0;
  for (; **p >= '0' && **p <= '9'; (*p)++) {
    int digit = **p - '0';
    n = n > (INT64_MAX - digit) / 10 ? INT64_MAX : n * 10 + digit;
  }
  return n;
}

static bool take_scale(const char *text, sdm_rule_unit unit, int64_t *factor) {
  for (size_t i = 0; i < sizeof SCALES / sizeof *SCALES; i++) {
    if (strcmp(SCALES[i].text, text) != 0) continue;
    *factor = SCALES[i].factor;
    return SCALES[i].unit == SDM_UNIT_NONE || SCALES[i].unit == unit;
  }
  return false;
}

/* [-]digits[.digits][unit] that is an integer in the end. */
static bool parse_amount(const char *text, sdm_rule_unit unit, int64_t *out) {
  const char *p = text + (*text == '-');
  const char *digits = p;
  int64_t whole = take_digits(&p), factor, fraction = 0, power = 1, product;
  if (p == digits) return false;
  if (*p == '.') {
    const char *first = ++p;
    fraction = take_digits(&p);
    if (p == first || p - first > 18) return false;
    for (const char *q = first; q < p; q++) power *= 10;
  }
  if (!take_scale(p, unit, &factor)) return false;
  __int128 part = (__int128)fraction * factor;
  if (part % power != 0) return false;
  bool over = __builtin_mul_overflow(whole, factor, &product) || __builtin_add_overflow(product, (int64_t)(part / power), &product);
  if (over) product = INT64_MAX;
  *out = *text == '-' ? -product : product;
  return true;
}

/* Decimal notation whatever the program's locale. */
static bool parse_double(const char *text, double *out) {
  char copy[64];
  size_t n = strlen(text);
  if (n == 0 || n >= sizeof copy || strspn(text, "0123456789.+-eE") != n) return false;
  memcpy(copy, text, n + 1);
  char *dot = strchr(copy, '.'), *end;
  if (dot) *dot = *localeconv()->decimal_point;
  *out = strtod(copy, &end);
  return *end == '\0';
}

static bool integral(double d, int64_t *out) {
  if (!(d >= -TWO_63)) return false;
  *out = d >= TWO_63 ? INT64_MAX : (int64_t)d;
  return d >= TWO_63 || (double)*out == d;
}

static int parse_int(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  int64_t n = v->integer;
  bool good = v->type == SDM_VALUE_INT || (v->type == SDM_VALUE_DOUBLE && integral(v->number, &n)) ||
              (v->type == SDM_VALUE_STRING && parse_amount(v->string, r->unit, &n));
  if (!good) return refuse(r, what, v);
  if (n < r->min || n > r->max || (n == 0 && r->never_zero)) {
    char text[100];
    show(v, text, sizeof text);
    return sdm_fail(SDM_MISUSE, "%s '%s': %s is outside [%" PRId64 ", %" PRId64 "]%s", what, r->name, text, r->min, r->max,
                    r->never_zero ? " or is 0" : "");
  }
  out->integer = n;
  return 0;
}

static int parse_number(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  double d = v->number;
  int64_t n;
  bool good = v->type == SDM_VALUE_DOUBLE || (v->type == SDM_VALUE_STRING && parse_double(v->string, &d));
  if (v->type == SDM_VALUE_INT) {
    d = (double)v->integer;
    good = true;
  } else if (!good && v->type == SDM_VALUE_STRING && parse_amount(v->string, r->unit, &n)) {
    d = (double)n;
    good = true;
  }
  if (!good) return refuse(r, what, v);
  if (!(d >= 0 && d <= r->max_number)) {
    char text[100];
    show(v, text, sizeof text);
    return sdm_fail(SDM_MISUSE, "%s '%s': %s is outside [0, %g]", what, r->name, text, r->max_number);
  }
  out->number = d;
  return 0;
}

/* ---- words ---- */

static int parse_bool(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  if (v->type == SDM_VALUE_BOOL) out->integer = v->integer != 0;
  else if (v->type == SDM_VALUE_STRING && strcmp(v->string, "true") == 0) out->integer = 1;
  else if (v->type == SDM_VALUE_STRING && strcmp(v->string, "false") == 0) out->integer = 0;
  else return refuse(r, what, v);
  return 0;
}

static int parse_word(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  for (const sdm_word *w = r->words; v->type == SDM_VALUE_STRING && w->text; w++) {
    if (strcmp(v->string, w->text) != 0) continue;
    out->integer = w->value;
    return 0;
  }
  return refuse_word(r, what, v);
}

/* Words with commas between; blanks around a word are fine; an empty text is no policy at all. */
static int parse_policy(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  if (v->type != SDM_VALUE_STRING) return refuse(r, what, v);
  int64_t bits = 0;
  const char *p = v->string + strspn(v->string, " ");
  while (*p) {
    size_t n = strcspn(p, ", ");
    if (n == 7 && memcmp(p, "compact", n) == 0) bits |= SDM_POLICY_COMPACT;
    else if (n == 6 && memcmp(p, "delete", n) == 0) bits |= SDM_POLICY_DELETE;
    else return refuse(r, what, v);
    p += n;
    p += strspn(p, " ");
    if (!*p) break;
    if (*p++ != ',') return refuse(r, what, v);
    p += strspn(p, " ");
    if (!*p) return refuse(r, what, v);
  }
  out->integer = bits;
  return 0;
}

/* An empty name is none at all. */
static int parse_script(const sdm_rule *r, const char *what, const sdm_value *v, sdm_setting_value *out) {
  bool good = v->type == SDM_VALUE_STRING && (*v->string == '\0' || sdm_policy_name_check(v->string) == 0);
  if (!good) return refuse(r, what, v);
  out->text = v->string;
  return 0;
}

int sdm_rule_parse(const sdm_rule *r, const char *what, const sdm_value *given, sdm_setting_value *out) {
  switch (r->kind) {
    case SDM_RULE_INT: return parse_int(r, what, given, out);
    case SDM_RULE_DOUBLE: return parse_number(r, what, given, out);
    case SDM_RULE_BOOL: return parse_bool(r, what, given, out);
    case SDM_RULE_WORD: return parse_word(r, what, given, out);
    case SDM_RULE_SCRIPT: return parse_script(r, what, given, out);
    default: return parse_policy(r, what, given, out);
  }
}

const char *sdm_rule_word(const sdm_rule *r, int64_t value) {
  static const char *const policies[] = { "", "delete", "compact", "compact,delete" };
  if (r->kind == SDM_RULE_POLICY) return policies[value & 3];
  for (const sdm_word *w = r->words; w->text; w++) {
    if (w->value == value) return w->text;
  }
  return "";
}
