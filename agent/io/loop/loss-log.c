#include "io/loop/loss-log.h"

#include "base/bytes.h"
#include "core/limits.h"
#include "io/loop/clock.h"

void loss_log_init(struct log_limit *limit) {
    *limit = (struct log_limit){.kind = "leases that were lost", .level = LOG_LEVEL_WARNING};
}

void loss_log_write(struct log_limit *limit, const char *name, size_t name_length, const char *reason,
                    int64_t token) {
    char text[4 * NAME_BYTES_MAX + 1];
    const struct log_fields fields = {.event = LOG_EVENT_LEASE_LOST,
                                      .name = name,
                                      .name_length = name_length,
                                      .reason = reason,
                                      .fence = token};

    (void) bytes_escape(name, name_length, text, sizeof(text));
    if (token != 0)
        log_limit_event(limit, clock_now_ns(), &fields, "lease %s: lost: %s; its fencing token was %lld",
                        text, reason, (long long) token);
    else
        log_limit_event(limit, clock_now_ns(), &fields, "lease %s: lost: %s", text, reason);
}
