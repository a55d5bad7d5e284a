/* Messages to the operator: standard error, with the "<N>" prefix that the journal reads as the priority
 * (sd-daemon(3)). Thread-safe: one write(2) a line. */
#pragma once

#include <stdarg.h>

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
    LOG_LEVEL_DEBUG = 7
};

/* Writes one line, cut at 1,024 bytes; control characters become '?'. A terminal gets no prefix. errno stays
 * as it was. */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_write_list(enum log_level level, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
