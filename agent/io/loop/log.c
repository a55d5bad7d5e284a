#define SD_JOURNAL_SUPPRESS_LOCATION

#include "io/loop/log.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "base/utf8.h"

enum { FIELDS_MAX = 12, FIELD_BYTES_MAX = 640 };

static bool to_journal; /* set before threads start */

/* $JOURNAL_STREAM names standard error, see systemd.exec(5). */
static bool is_stream(const char *device_and_inode) {
    char text[64];
    struct stat status;

    if (fstat(STDERR_FILENO, &status) < 0)
        return false;
    (void) snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long) status.st_dev,
                    (unsigned long long) status.st_ino);
    return strcmp(device_and_inode, text) == 0;
}

void log_open(void) {
    const char *stream = getenv("JOURNAL_STREAM");

    to_journal = stream && is_stream(stream) && access("/run/systemd/journal/socket", W_OK) == 0;
}

/* --- events --- */

struct event_words {
    const char *word, *message_id;
};

/* A switch: the compiler rejects an event without its words. The ids never change, nor are used again. */
static struct event_words words_of(enum log_event event) {
    switch (event) {
    case LOG_EVENT_SERVING:
        return (struct event_words){"serving", "14a442da9c120739d5df5dc32cda5386"};
    case LOG_EVENT_STOPPING:
        return (struct event_words){"stopping", "d56a5e27e079fb0c98d44e321bc75054"};
    case LOG_EVENT_CONTINUED:
        return (struct event_words){"continued", "cec24ae2c92810c5fd70643b4743dcb0"};
    case LOG_EVENT_RELOADED:
        return (struct event_words){"reloaded", "4190a6303760334c0d1b10a01e2dbf61"};
    case LOG_EVENT_RELOAD_FAILED:
        return (struct event_words){"reload-failed", "59e614f3cd4e38bf08be0203f08e0dd1"};
    case LOG_EVENT_NODE_STATE:
        return (struct event_words){"node-state", "ef662e1ac1d2aafd3067f98ba922babc"};
    case LOG_EVENT_NODE_BLESSED:
        return (struct event_words){"node-blessed", "7a69c13cf3a7f45d4d39d15924eba3db"};
    case LOG_EVENT_LEASE_LOST:
        return (struct event_words){"lease-lost", "9539ccf29bef59289daa11c8260a9de3"};
    case LOG_EVENT_FOREIGN_VALUE:
        return (struct event_words){"foreign-value", "5f324878c4d07d909b5896b9c5808fbc"};
    case LOG_EVENT_QUOTA:
        return (struct event_words){"quota", "ceb625f89613a2c790fd73b1b07865c3"};
    case LOG_EVENT_NONE:
    case LOG_EVENT_COUNT:
        break;
    }
    assert(false);
    return (struct event_words){"", ""};
}

/* --- text --- */

static bool is_printable(uint32_t character) {
    if (character < 0x20 || (character >= 0x7f && character < 0xa0))
        return false; /* control characters, those of eight bits too */
    return !(character == 0x061c || character == 0x200e || character == 0x200f ||
             (character >= 0x2028 && character <= 0x202e) || (character >= 0x2066 && character <= 0x2069) ||
             character == 0xfeff);
}

/* In place; returns the new length. */
static size_t make_printable(char *text, size_t length) {
    size_t out = 0;

    for (size_t at = 0; at < length;) {
        uint32_t character;
        size_t bytes = utf8_decode(text + at, length - at, &character);
        if (bytes > 0 && is_printable(character)) {
            memmove(text + out, text + at, bytes);
            out += bytes;
        } else {
            text[out++] = '?';
        }
        at += bytes > 0 ? bytes : 1;
    }
    text[out] = '\0';
    return out;
}

/* --- the journal --- */

struct fields {
    char text[FIELDS_MAX][FIELD_BYTES_MAX];
    struct iovec parts[FIELDS_MAX + 1];
    int n;
};

static void add(struct fields *fields, const char *key, const char *value, size_t length) {
    char *text = fields->text[fields->n];

    if (!value)
        return;
    assert(fields->n < FIELDS_MAX);
    int prefix = snprintf(text, FIELD_BYTES_MAX, "%s=", key);
    size_t room = FIELD_BYTES_MAX - 1 - (size_t) prefix, taken = length < room ? length : room;
    memcpy(text + prefix, value, taken);
    taken = make_printable(text + prefix, taken);
    fields->parts[fields->n++] = (struct iovec){.iov_base = text, .iov_len = (size_t) prefix + taken};
}

static void add_text(struct fields *fields, const char *key, const char *value) {
    add(fields, key, value, value ? strlen(value) : 0);
}

static void add_number(struct fields *fields, const char *key, int64_t value) {
    char number[24];

    (void) snprintf(number, sizeof(number), "%lld", (long long) value);
    add_text(fields, key, number);
}

static void add_event(struct fields *fields, const struct log_fields *event) {
    const struct event_words words = words_of(event->event);

    add_text(fields, "MESSAGE_ID", words.message_id);
    add_text(fields, "REDLOCK_EVENT", words.word);
    add(fields, "REDLOCK_NAME", event->name, event->name_length);
    add_text(fields, "REDLOCK_NODE", event->node);
    add_text(fields, "REDLOCK_STATE", event->state);
    add_text(fields, "REDLOCK_REASON", event->reason);
    if (event->fence != 0)
        add_number(fields, "REDLOCK_FENCE", event->fence);
}

static bool send_to_journal(enum log_level level, const struct log_fields *event, char *message,
                            size_t length) {
    struct fields fields = {.n = 0};

    add_number(&fields, "PRIORITY", (int) level);
    add_text(&fields, "SYSLOG_IDENTIFIER", "redlockd");
    if (event)
        add_event(&fields, event);
    fields.parts[fields.n++] = (struct iovec){.iov_base = message, .iov_len = length};
    return sd_journal_sendv(fields.parts, fields.n) >= 0;
}

/* --- standard error --- */

static void write_line(enum log_level level, const char *text, size_t length) {
    char line[LOG_LINE_BYTES_MAX + 1];
    int prefix = isatty(STDERR_FILENO) ? 0 : snprintf(line, sizeof(line), "<%d>", (int) level);
    size_t room = LOG_LINE_BYTES_MAX - 1 - (size_t) prefix, taken = length < room ? length : room;

    memcpy(line + prefix, text, taken);
    taken = (size_t) prefix + make_printable(line + prefix, taken); /* the cut may have split a character */
    line[taken++] = '\n';
    while (write(STDERR_FILENO, line, taken) < 0 && errno == EINTR)
        ;
}

void log_event_list(enum log_level level, const struct log_fields *fields, const char *format,
                    va_list arguments) {
    static const char key[] = "MESSAGE=";
    char text[sizeof(key) + LOG_LINE_BYTES_MAX];
    char *message = text + sizeof(key) - 1;
    int saved_errno = errno; /* for %m */

    memcpy(text, key, sizeof(key));
    if (vsnprintf(message, LOG_LINE_BYTES_MAX, format, arguments) < 0)
        message[0] = '\0';
    size_t length = make_printable(message, strlen(message));
    if (!to_journal || !send_to_journal(level, fields, text, sizeof(key) - 1 + length))
        write_line(level, message, length);
    errno = saved_errno;
}

void log_write(enum log_level level, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    log_event_list(level, NULL, format, arguments);
    va_end(arguments);
}

void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    log_event_list(level, fields, format, arguments);
    va_end(arguments);
}
