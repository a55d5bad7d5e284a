#include "journal.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "printable.h"

static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};

/* The ids never change, nor are used again. */
static const struct {
    const char *word, *message_id;
} events[JOURNAL_EVENT_COUNT] = {
    {"lead-begun", "c13ba19d68aeef31c47460a4ff9672d4"},
    {"lead-ended", "f16dd2a96e5dcf659994c1fddd80b761"},
    {"leader-changed", "965b7880f3664d53ef2c1dcf28837d50"},
};

static int journal_fd = -1;

/* $JOURNAL_STREAM has the device and inode of the journal's stream, see systemd.exec(5). */
static bool is_stream(const char *device_and_inode) {
    char text[64];
    struct stat status;

    if (fstat(STDERR_FILENO, &status) < 0)
        return false;
    (void) snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long) status.st_dev,
                    (unsigned long long) status.st_ino);
    return strcmp(device_and_inode, text) == 0;
}

bool journal_open(void) {
    const char *stream = getenv("JOURNAL_STREAM");

    if (!stream || !is_stream(stream) || access(address.sun_path, W_OK) < 0)
        return false;
    journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return journal_fd >= 0;
}

void journal_close(void) {
    if (journal_fd >= 0)
        (void) close(journal_fd);
    journal_fd = -1;
}

/* Fields are lines KEY=value in one datagram (systemd.io/JOURNAL_NATIVE_PROTOCOL): a value is one line. */
bool journal_send(enum journal_event event, const char *name, uint64_t fence, const char *line) {
    char datagram[4096], token[48] = "";

    if (journal_fd < 0)
        return false;
    if (fence != 0)
        (void) snprintf(token, sizeof(token), "REDLOCK_FENCE=%" PRIu64 "\n", fence);
    int length = snprintf(datagram, sizeof(datagram),
                          "PRIORITY=6\nSYSLOG_IDENTIFIER=redlock\nMESSAGE_ID=%s\nREDLOCK_EVENT=%s\n"
                          "REDLOCK_NAME=%.600s\n%sMESSAGE=redlock: %.2000s\n",
                          events[event].message_id, events[event].word, printable_text(name, strlen(name)),
                          token, printable_text(line, strlen(line)));
    ssize_t sent = sendto(journal_fd, datagram, (size_t) length, MSG_NOSIGNAL,
                          (const struct sockaddr *) &address, sizeof(address));
    return sent == length;
}
