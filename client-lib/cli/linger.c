#include "linger.h"

#include <string.h>

#include "redlock.h"

enum { LINGER_MS_MIN = 100 };

bool linger_shorten(struct redlock_options *options, const struct redlock *connection, int error) {
    const char *text = redlock_error_text(connection);
    bool is_refused = (error == REDLOCK_BAD_ARGUMENT && strstr(text, "LINGER")) ||
                      (error == REDLOCK_DENIED && strstr(text, "allows LINGER")); /* by a rule */

    if (!is_refused || options->linger_ms <= LINGER_MS_MIN)
        return false;
    options->linger_ms = options->linger_ms / 2 > LINGER_MS_MIN ? options->linger_ms / 2 : LINGER_MS_MIN;
    return true;
}
