/* One setting: its rule (type, unit, range, default) and the reading of a given value by it. Topic configs and store options share this.
**
** A value is given as a number or as text. Text may carry a unit when the rule has one; the result must be an integer inside the range.
*/
#ifndef SDM_STORE_CONFIG_PARSE_H
#define SDM_STORE_CONFIG_PARSE_H

#include "sediment.h"

typedef enum sdm_rule_kind { SDM_RULE_INT, SDM_RULE_DOUBLE, SDM_RULE_BOOL, SDM_RULE_WORD, SDM_RULE_POLICY, SDM_RULE_SCRIPT } sdm_rule_kind;
typedef enum sdm_rule_unit { SDM_UNIT_NONE, SDM_UNIT_MS, SDM_UNIT_BYTES } sdm_rule_unit;

typedef struct sdm_word {
  const char *text;                       /* NULL ends a list of words */
  int64_t value;
} sdm_word;

typedef struct sdm_rule {
  const char *name;                       /* dotted */
  sdm_rule_kind kind;
  sdm_rule_unit unit;
  int64_t initial, min, max;              /* default and range of an int; the default alone for a bool, a word, a policy */
  double initial_number, max_number;      /* of a double, whose range begins at 0 */
  const sdm_word *words;
  bool never_zero;                        /* an int that may be anything in its range but 0 */
} sdm_rule;

/* What a setting was read as: `number` for a double, `text` for a script, else `integer`. */
typedef struct sdm_setting_value {
  int64_t integer;
  double number;
  const char *text;                       /* what was given, or what a set holds */
} sdm_setting_value;

/* Whether `given` names the rule: the same text, with any dot written as an underscore. */
bool sdm_rule_named(const sdm_rule *r, const char *given);

/* Index of the rule of that name, or -1. */
ptrdiff_t sdm_rule_find(const sdm_rule *rules, size_t count, const char *given);

/* The name, of rules that are `stride` bytes apart, that may be meant by one that none has; NULL: none is near. Names have up to 80 characters. */
const char *sdm_rule_nearest(const sdm_rule *first, size_t stride, size_t count, const char *given);

/* 0, or SDM_MISUSE naming the setting, the value and what is expected; *out is then untouched. `what` is "config" or "option". */
int sdm_rule_parse(const sdm_rule *r, const char *what, const sdm_value *given, sdm_setting_value *out);

/* The word of a value of an SDM_RULE_WORD or SDM_RULE_POLICY setting. */
const char *sdm_rule_word(const sdm_rule *r, int64_t value);

#endif
