/* Log lines that others can cause: at most LOG_LIMIT_LINES of a kind in LOG_LIMIT_WINDOW_MS, then one line
 * with the number of those that were left out. One for each kind, so that none hides another. Not
 * thread-safe. */
#pragma once

#include "base/instant.h"
#include "io/loop/log.h"

enum { LOG_LIMIT_LINES = 10, LOG_LIMIT_WINDOW_MS = 10 * 1000 };

struct log_limit {
    const char *kind; /* plural, for the count: "sessions that were ended" */
    enum log_level level;
    instant_ns window_ns; /* its begin; 0: none has begun */
    unsigned written, left_out;
};

/* Writes the line, or counts it. */
void log_limit_write(struct log_limit *limit, instant_ns now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tells what was left out, when the window is over; when to call next, INSTANT_NEVER: nothing was. */
instant_ns log_limit_settle(struct log_limit *limit, instant_ns now_ns);
