#include "io/loop/loss-log.h"

#include "base/bytes.h"
#include "core/limits.h"
#include "io/loop/clock.h"
#include "local/reply.h"

void loss_log_init(struct loss_log *log) {
    *log = (struct loss_log){
        .by_holders = {.kind = "leases that slow holders lost", .level = LOG_LEVEL_WARNING},
        .others = {.kind = "leases that were lost", .level = LOG_LEVEL_WARNING},
    };
}

static bool is_by_holder(enum reason reason) {
    return reason == REASON_HEARTBEAT || reason == REASON_MAX_HOLD || reason == REASON_CLOSED ||
           reason == REASON_UNREAD;
}

void loss_log_write(struct loss_log *log, const char *name, size_t name_length, enum reason reason,
                    int64_t token) {
    struct log_limit *limit = is_by_holder(reason) ? &log->by_holders : &log->others;
    const char *word = reply_reason_word(reason);
    char text[4 * NAME_BYTES_MAX + 1];
    const struct log_fields fields = {.event = LOG_EVENT_LEASE_LOST,
                                      .name = name,
                                      .name_length = name_length,
                                      .reason = word,
                                      .fence = token};

    if (!log_limit_take(limit, clock_now_ns())) /* first: very many may be lost at once */
        return;
    (void) bytes_escape(name, name_length, text, sizeof(text));
    if (token != 0)
        log_event(limit->level, &fields, "lease %s: lost: %s; its fencing token was %lld", text, word,
                  (long long) token);
    else
        log_event(limit->level, &fields, "lease %s: lost: %s", text, word);
}

instant_ns loss_log_settle(struct loss_log *log, instant_ns now_ns) {
    return instant_min(log_limit_settle(&log->by_holders, now_ns), log_limit_settle(&log->others, now_ns));
}
