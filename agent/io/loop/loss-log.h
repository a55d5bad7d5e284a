/* The line in the log of a lease that was lost, with its fields. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/event.h"
#include "io/loop/log-limit.h"

/* A client can lose any number of leases by its own doing. These lines must not suppress the others. */
struct loss_log {
    struct log_limit by_holders, others;
};

void loss_log_init(struct loss_log *log);

/* `token`: the lease's, or 0. */
void loss_log_write(struct loss_log *log, const char *name, size_t name_length, enum reason reason,
                    int64_t token);

/* As log_limit_settle(). */
instant_ns loss_log_settle(struct loss_log *log, instant_ns now_ns);
