/* The line in the log of a lease that was lost, with its fields. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "io/loop/log-limit.h"

void loss_log_init(struct log_limit *limit);

/* `reason`: the word of the protocol; `token`: the lease's, or 0. */
void loss_log_write(struct log_limit *limit, const char *name, size_t name_length, const char *reason,
                    int64_t token);
