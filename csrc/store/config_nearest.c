/* A setting that does not exist: which one may be meant.
**
** The nearest is the one with the fewest letters to change, add or leave out; what a name has behind what was given counts only among equals, since who
** writes "cleanup" has not gone wrong, but stopped early. One letter in three may be wrong.
*/
#include <string.h>

#include "store/config_parse.h"

enum { NAME_MAX_HERE = 80 };

typedef struct distance {
  size_t typed, whole;                    /* to the nearest beginning of the name; to all of it */
} distance;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Row by row; row[j]: what the first letters given are away from the first j of the name. */
static distance distance_of(const char *given, const char *name) {
  size_t row[NAME_MAX_HERE + 1], n = strlen(name);
  for (size_t j = 0; j <= n; j++) row[j] = j;
  for (const char *g = given; *g; g++) {
    size_t diagonal = row[0]++;
    for (size_t j = 1; j <= n; j++) {
      size_t same = diagonal + ((*g == '_' ? '.' : *g) != name[j - 1]);
      diagonal = row[j];
      row[j] = least(same, 1 + least(row[j], row[j - 1]));
    }
  }
  distance d = { row[n], row[n] };
  for (size_t j = 0; j < n; j++) d.typed = least(d.typed, row[j]);
  return d;
}

const char *sdm_rule_nearest(const sdm_rule *first, size_t stride, size_t count, const char *given) {
  const char *nearest = NULL;
  distance best = { strlen(given) / 3, SIZE_MAX };
  for (size_t i = 0; i < count && *given && strlen(given) <= NAME_MAX_HERE; i++) {
    const char *name = ((const sdm_rule *)(const void *)((const char *)first + i * stride))->name;
    distance d = distance_of(given, name);
    if (d.typed > best.typed || (d.typed == best.typed && d.whole >= best.whole)) continue;
    nearest = name;
    best = d;
  }
  return nearest;
}
