/* Log lines that clients or nodes can cause without end: at most LOG_LIMIT_LINES of a kind are written in
 * LOG_LIMIT_WINDOW_MS, and then one line with the number of suppressed ones. Each kind has its own limit, so
 * that none suppresses another. Not thread-safe. */
#pragma once

#include <stdbool.h>

#include "base/instant.h"
#include "io/loop/log.h"

enum { LOG_LIMIT_LINES = 10, LOG_LIMIT_WINDOW_MS = 10 * 1000 };

struct log_limit {
    const char *kind; /* plural, for the count: "ended sessions" */
    enum log_level level;
    instant_ns window_ns; /* begin of the window; 0: none */
    unsigned written, suppressed;
};

/* True: the caller writes one line. Otherwise the line is counted. */
bool log_limit_take(struct log_limit *limit, instant_ns now_ns);

/* Writes the line, or counts it. */
void log_limit_event(struct log_limit *limit, instant_ns now_ns, const struct log_fields *fields,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
#define log_limit_write(limit, now_ns, ...) log_limit_event((limit), (now_ns), NULL, __VA_ARGS__)

/* Writes the count when the window has ended. When to call next; INSTANT_NEVER: no line is suppressed. */
instant_ns log_limit_settle(struct log_limit *limit, instant_ns now_ns);
