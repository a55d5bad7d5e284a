#include "io/loop/log-limit.h"

#include <stdarg.h>

static instant_ns window_end_ns(const struct log_limit *limit) {
    return limit->window_ns + LOG_LIMIT_WINDOW_MS * NS_PER_MS;
}

instant_ns log_limit_settle(struct log_limit *limit, instant_ns now_ns) {
    if (limit->suppressed == 0)
        return INSTANT_NEVER;
    if (now_ns < window_end_ns(limit))
        return window_end_ns(limit);
    log_write(limit->level, "%u more messages about %s were suppressed in %lld s", limit->suppressed,
              limit->kind, (long long) ((now_ns - limit->window_ns) / NS_PER_S));
    limit->window_ns = now_ns;
    limit->written = limit->suppressed = 0;
    return INSTANT_NEVER;
}

bool log_limit_take(struct log_limit *limit, instant_ns now_ns) {
    (void) log_limit_settle(limit, now_ns);
    if (limit->window_ns == 0 || now_ns >= window_end_ns(limit)) {
        limit->window_ns = now_ns;
        limit->written = 0;
    }
    if (limit->written == LOG_LIMIT_LINES) {
        limit->suppressed++;
        return false;
    }
    limit->written++;
    return true;
}

void log_limit_event(struct log_limit *limit, instant_ns now_ns, const struct log_fields *fields,
                     const char *format, ...) {
    va_list arguments;

    if (!log_limit_take(limit, now_ns))
        return;
    va_start(arguments, format);
    log_event_list(limit->level, fields, format, arguments);
    va_end(arguments);
}
