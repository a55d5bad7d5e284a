#include "duration.h"

#include <inttypes.h>
#include <stdio.h>

const char *duration_text(int64_t ms, char buffer[DURATION_BYTES]) {
    if (ms < 1000)
        (void) snprintf(buffer, DURATION_BYTES, "%" PRId64 " ms", ms);
    else if (ms < INT64_C(120) * 1000)
        (void) snprintf(buffer, DURATION_BYTES, "%.1f s", (double) ms / 1000);
    else if (ms < INT64_C(120) * 60 * 1000)
        (void) snprintf(buffer, DURATION_BYTES, "%" PRId64 " min", ms / 60000);
    else if (ms < INT64_C(48) * 3600 * 1000)
        (void) snprintf(buffer, DURATION_BYTES, "%" PRId64 " h", ms / 3600000);
    else
        (void) snprintf(buffer, DURATION_BYTES, "%" PRId64 " d", ms / 86400000);
    return buffer;
}

const char *duration_option(int64_t ms, char buffer[DURATION_BYTES]) {
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    size_t i = ms == 0 ? 3 : 0; /* "0s" */

    while (ms % units[i].ms != 0)
        i++;
    (void) snprintf(buffer, DURATION_BYTES, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
    return buffer;
}

const char *duration_milliseconds(int64_t us, char buffer[DURATION_BYTES]) {
    if (us <= 0)
        return "-";
    (void) snprintf(buffer, DURATION_BYTES, us < 10000 ? "%.2f" : "%.0f", (double) us / 1000);
    return buffer;
}
