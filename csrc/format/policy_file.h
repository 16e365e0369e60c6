/* `sediment.policy-NAME` in the root of a store: a policy script, which a topic's config policy.script names (docs/format.md 15). Its text is the script's, behind a
** first line that is a comment to Lua and has the text's checksum: a damaged script must not decide what is deleted. No I/O.
*/
#ifndef SDM_FORMAT_POLICY_FILE_H
#define SDM_FORMAT_POLICY_FILE_H

#include <stddef.h>

#include "base/buf.h"

#define SDM_POLICY_PREFIX "sediment.policy-"

enum { SDM_POLICY_NAME_MAX = 63, SDM_POLICY_TEXT_MAX = 1 << 16 };      /* characters of a name; bytes of a script: a compiler's time may grow with their square */

/* SDM_MISUSE: it is empty, too long, or has other characters than a-z A-Z 0-9 _ - */
int sdm_policy_name_check(const char *name);

/* The path of the script of that name in a store; freed with sdm_free, NULL without memory. */
char *sdm_policy_path(const char *root, const char *name);

/* The name that a file's name has in it; NULL: it is no policy script's. */
const char *sdm_policy_name_in(const char *file);

int sdm_policy_encode(const char *text, size_t size, sdm_buf *out);

/* The script in the file's bytes, which *text points into. SDM_CORRUPT. */
int sdm_policy_decode(const char *bytes, size_t size, const char **text, size_t *text_size);

#endif
