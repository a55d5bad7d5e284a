#include "io/loop/log.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/utf8.h"

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

enum {
    FIELDS_MAX = 12,
    FIELD_BYTES_MAX = 640,
    LINE_BYTES_MAX = LOG_LINE_BYTES_MAX + sizeof("<7>"),
    SEND_BUFFER_BYTES = 1024 * 1024, /* for a burst of messages */
};

static int journal_fd = -1; /* set before threads start; -1: messages are lines on standard error */

static struct {
    pthread_mutex_t mutex;
    uint64_t dropped; /* since the last message that was taken */
} output = {.mutex = PTHREAD_MUTEX_INITIALIZER};

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
    static const int bytes = SEND_BUFFER_BYTES;
    const char *stream = getenv("JOURNAL_STREAM");

    if (!stream || !is_stream(stream) || access(JOURNAL_SOCKET, W_OK) < 0)
        return;
    journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (journal_fd >= 0)
        (void) setsockopt(journal_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)); /* as far as allowed */
}

/* The ids never change, nor are used again. */
static const struct {
    const char *word, *message_id;
} event_words[] = {
    {NULL, NULL}, /* LOG_EVENT_NONE */
    {"serving", "14a442da9c120739d5df5dc32cda5386"},
    {"stopping", "d56a5e27e079fb0c98d44e321bc75054"},
    {"continued", "cec24ae2c92810c5fd70643b4743dcb0"},
    {"reloaded", "4190a6303760334c0d1b10a01e2dbf61"},
    {"reload-failed", "59e614f3cd4e38bf08be0203f08e0dd1"},
    {"node-state", "ef662e1ac1d2aafd3067f98ba922babc"},
    {"node-blessed", "7a69c13cf3a7f45d4d39d15924eba3db"},
    {"lease-lost", "9539ccf29bef59289daa11c8260a9de3"},
    {"foreign-value", "5f324878c4d07d909b5896b9c5808fbc"},
    {"quota", "ceb625f89613a2c790fd73b1b07865c3"},
};

static_assert(sizeof(event_words) / sizeof(event_words[0]) == LOG_EVENT_COUNT, "each event has its words");

/* --- the journal's native protocol: lines KEY=value in one datagram (systemd.io/JOURNAL_NATIVE_PROTOCOL)
 * --- */

struct datagram {
    char text[FIELDS_MAX * FIELD_BYTES_MAX + LOG_LINE_BYTES_MAX];
    size_t length;
};

static void add(struct datagram *datagram, const char *key, const char *value, size_t length) {
    char *field = datagram->text + datagram->length;

    if (!value)
        return;
    assert(datagram->length <= sizeof(datagram->text) - FIELD_BYTES_MAX);
    int prefix = snprintf(field, FIELD_BYTES_MAX, "%s=", key);
    size_t room = FIELD_BYTES_MAX - 2 - (size_t) prefix, taken = length < room ? length : room;
    memcpy(field + prefix, value, taken);
    taken = (size_t) prefix + utf8_make_printable(field + prefix, taken);
    field[taken] = '\n';
    datagram->length += taken + 1;
}

static void add_text(struct datagram *datagram, const char *key, const char *value) {
    add(datagram, key, value, value ? strlen(value) : 0);
}

static void add_number(struct datagram *datagram, const char *key, int64_t value) {
    char number[24];

    (void) snprintf(number, sizeof(number), "%lld", (long long) value);
    add_text(datagram, key, number);
}

static void add_event(struct datagram *datagram, const struct log_fields *event) {
    assert(event->event != LOG_EVENT_NONE);

    add_text(datagram, "MESSAGE_ID", event_words[event->event].message_id);
    add_text(datagram, "REDLOCK_EVENT", event_words[event->event].word);
    add(datagram, "REDLOCK_NAME", event->name, event->name_length);
    add_text(datagram, "REDLOCK_NODE", event->node);
    add_text(datagram, "REDLOCK_STATE", event->state);
    add_text(datagram, "REDLOCK_REASON", event->reason);
    if (event->fence != 0)
        add_number(datagram, "REDLOCK_FENCE", event->fence);
}

/* 0, or a negative errno: -EAGAIN if the journal is behind. */
static int send_to_journal(enum log_level level, const struct log_fields *event, const char *message,
                           size_t length) {
    static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
    struct datagram datagram = {.length = 0};

    add_number(&datagram, "PRIORITY", (int) level);
    add_text(&datagram, "SYSLOG_IDENTIFIER", "redlockd");
    if (event)
        add_event(&datagram, event);
    int n = snprintf(datagram.text + datagram.length, sizeof(datagram.text) - datagram.length,
                     "MESSAGE=%.*s\n", (int) length, message);
    datagram.length += (size_t) n;
    ssize_t sent = sendto(journal_fd, datagram.text, datagram.length, MSG_NOSIGNAL,
                          (const struct sockaddr *) &address, sizeof(address));
    return sent < 0 ? -errno : 0;
}

/* --- standard error --- */

/* A pipe that poll(2) calls writable has room for a line, and only redlockd's threads write to it. */
static int write_line(enum log_level level, const char *text, size_t length) {
    char line[LINE_BYTES_MAX];
    int prefix = isatty(STDERR_FILENO) ? 0 : snprintf(line, sizeof(line), "<%d>", (int) level);
    size_t room = LOG_LINE_BYTES_MAX - 1 - (size_t) prefix, taken = length < room ? length : room;
    struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

    memcpy(line + prefix, text, taken);
    /* The cut may have split a character. */
    taken = (size_t) prefix + utf8_make_printable(line + prefix, taken);
    line[taken++] = '\n';
    if (poll(&fd, 1, 0) == 0)
        return -EAGAIN;
    return write(STDERR_FILENO, line, taken) < 0 ? -errno : 0;
}

/* --- messages --- */

static int write_message(enum log_level level, const struct log_fields *fields, const char *message,
                         size_t length) {
    int error = journal_fd < 0 ? -ENOTCONN : send_to_journal(level, fields, message, length);

    return error == 0 || error == -EAGAIN ? error : write_line(level, message, length);
}

/* A thread that waits for a reader extends no lease: what the reader does not take now is dropped. */
static void write_or_drop(enum log_level level, const struct log_fields *fields, const char *message,
                          size_t length) {
    char lost[LOG_LINE_BYTES_MAX];

    (void) pthread_mutex_lock(&output.mutex);
    if (output.dropped > 0) {
        int n = snprintf(lost, sizeof(lost),
                         "%llu messages are missing here: the reader of redlockd's log did not take them",
                         (unsigned long long) output.dropped);
        if (write_message(LOG_LEVEL_WARNING, NULL, lost, (size_t) n) != -EAGAIN)
            output.dropped = 0;
    }
    if (write_message(level, fields, message, length) == -EAGAIN)
        output.dropped++;
    (void) pthread_mutex_unlock(&output.mutex);
}

void log_event_list(enum log_level level, const struct log_fields *fields, const char *format,
                    va_list arguments) {
    char message[LOG_LINE_BYTES_MAX];
    int saved_errno = errno; /* for %m */

    if (vsnprintf(message, LOG_LINE_BYTES_MAX, format, arguments) < 0)
        message[0] = '\0';
    size_t length = utf8_make_printable(message, strlen(message));
    write_or_drop(level, fields, message, length);
    errno = saved_errno;
}

void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    log_event_list(level, fields, format, arguments);
    va_end(arguments);
}
