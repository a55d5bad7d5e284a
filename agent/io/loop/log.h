/* Messages for people: standard error with the "<N>" prefixes that the journal reads (sd-daemon(3)).
 * Thread-safe: one write a line. */
#pragma once

#include <stdarg.h>

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Writes one line, cut at 1,024 bytes; control characters in it become '?'. Prefixed only when standard
 * error is not a terminal. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with its arguments as a list. */
void log_write_list(enum log_level level, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
