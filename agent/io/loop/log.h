/* Messages to the operator. Thread-safe.
 *
 * If standard error is the journal, a message is sent there with fields (log_open()): priority, and an
 * event's id and subject. Elsewhere it is one line on standard error, written with one write(2),
 * with the "<N>" prefix that the journal reads as the priority (sd-daemon(3)); a terminal gets no prefix.
 *
 * Names and other data within a message cannot forge a second line or other fields, nor control a terminal:
 * control characters, characters that change the direction of text, and bytes that are not UTF-8 become '?'.
 * A message is cut at LOG_LINE_BYTES_MAX bytes. errno stays as it was.
 *
 * No thread waits for the reader: if the journal, or what reads standard error, stands still, messages are
 * dropped, and their number is logged when it reads again. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_LINE_BYTES_MAX = 1024 };

enum log_level {
    LOG_LEVEL_ERROR = 3,
    LOG_LEVEL_WARNING = 4,
    LOG_LEVEL_NOTICE = 5,
    LOG_LEVEL_INFO = 6,
};

/* What programs watch for: each has a word (REDLOCK_EVENT=), a MESSAGE_ID= and an entry of the catalog
 * (units/redlockd.catalog). */
enum log_event {
    LOG_EVENT_NONE,
    LOG_EVENT_SERVING,
    LOG_EVENT_STOPPING,
    LOG_EVENT_CONTINUED,
    LOG_EVENT_RELOADED,
    LOG_EVENT_RELOAD_FAILED,
    LOG_EVENT_NODE_STATE,
    LOG_EVENT_NODE_BLESSED,
    LOG_EVENT_LEASE_LOST,
    LOG_EVENT_FOREIGN_VALUE,
    LOG_EVENT_QUOTA,
    LOG_EVENT_COUNT
};

/* Fields of an event. What is NULL or 0 is left out. */
struct log_fields {
    enum log_event event;
    const char *name; /* REDLOCK_NAME= */
    size_t name_length;
    const char *node;   /* REDLOCK_NODE= */
    const char *state;  /* REDLOCK_STATE= */
    const char *reason; /* REDLOCK_REASON= */
    int64_t fence;      /* REDLOCK_FENCE= */
};

/* Before any thread starts: sends messages to the journal if $JOURNAL_STREAM says that standard error is its
 * stream, and the journal can be reached. */
void log_open(void);

void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void log_event_list(enum log_level level, const struct log_fields *fields, const char *format,
                    va_list arguments) __attribute__((format(printf, 3, 0)));

#define log_write(level, ...) log_event((level), NULL, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_notice(...) log_write(LOG_LEVEL_NOTICE, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
