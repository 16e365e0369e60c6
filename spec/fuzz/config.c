/* The parser of configs. The input is lines "name value", as in sediment.topics; each goes to both tables of settings, as text and as a number.
*/
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "store/config.h"

static void apply(sdm_config_set *set, const char *name, const char *value) {
  sdm_setting given[] = {{name, {.type = SDM_VALUE_STRING, .string = value}}, {name, {.type = SDM_VALUE_INT, .integer = atoll(value)}}};
  sdm_config_set nothing = {0}, read = {0};
  sdm_options options;
  sdm_log_config effective;
  int32_t partitions = 1;
  sdm_options_default(&options);
  for (size_t i = 0; i < 2; i++) {
    if (sdm_config_apply(set, &(sdm_settings){&given[i], 1}, &partitions) == 0) (void)sdm_config_effective(set, &nothing, &effective);
    (void)sdm_options_apply(&options, &(sdm_settings){&given[i], 1});
  }
  (void)sdm_config_decode_line(&read, name, value);
  (void)sdm_config_effective(&read, set, &effective);
}

static void take_line(sdm_config_set *set, char *line) {
  char *blank = strchr(line, ' ');
  if (!blank) return;
  *blank = 0;
  apply(set, line, blank + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  sdm_config_set set = {0}, nothing = {0};
  char *text = malloc(size + 1), *rest = text;
  if (!text) abort();
  if (size) memcpy(text, data, size);
  text[size] = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) take_line(&set, line);
  for (size_t i = 0; i < sdm_config_count(); i++) {
    sdm_described d;
    sdm_config_describe(&set, &nothing, i, &d);
    MUST(d.name != NULL);
  }
  free(text);
  return 0;
}
