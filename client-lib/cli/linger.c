#include "linger.h"

#include <string.h>

#include "redlock.h"

enum { LINGER_MS_MIN = 100 };

bool linger_shorten(struct redlock_options *options, const struct redlock *connection, int error) {
    bool is_refused = error == REDLOCK_BAD_ARGUMENT || error == REDLOCK_DENIED; /* by a rule */

    if (!is_refused || options->linger_ms <= LINGER_MS_MIN ||
        !strstr(redlock_error_text(connection), "LINGER"))
        return false;
    options->linger_ms = options->linger_ms / 2 > LINGER_MS_MIN ? options->linger_ms / 2 : LINGER_MS_MIN;
    return true;
}
