/* Messages on standard error, and the exit status of an error. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "duration.h"
#include "options.h"
#include "printable.h"
#include "utf8.h"

enum {
    COMPLAINT_BYTES = 8192, /* a path and a name of full length, and the reason */
    NAME_SHOWN_BYTES = 60,
};

static bool is_quiet, is_verbose, never_waits;
static const char *ttl_name = "--ttl";

void cli_be_quiet(void) {
    is_quiet = true;
}

void cli_be_verbose(void) {
    is_verbose = true;
}

void cli_never_wait_for_reader(void) {
    sigset_t set;

    never_waits = true;
    (void) sigemptyset(&set);
    (void) sigaddset(&set, SIGPIPE);
    (void) sigaddset(&set, SIGTTOU); /* of a terminal with `stty tostop`, in the background */
    (void) sigprocmask(SIG_BLOCK, &set, NULL);
}

void cli_name_ttl(const char *name) {
    ttl_name = name;
}

/* Prints what standard error has room for. After a poll(2), another program may fill the pipe first, and a
 * terminal may have room for a part only: so O_NONBLOCK is needed. All programs with the inherited
 * descriptor would get that flag, so a pipe or terminal is opened anew for the line. A file needs no
 * reader. */
static void print_if_ready(const char *line, size_t length) {
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct stat status;
    ssize_t n = send(STDERR_FILENO, line, length, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n >= 0 || errno != ENOTSOCK || fstat(STDERR_FILENO, &status) < 0)
        return;
    bool has_reader = S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode);
    int fd = has_reader ? open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
    if (fd >= 0)
        n = write(fd, line, length);
    else if (!has_reader ||
             (poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT)) /* or another user's pipe */
        n = write(STDERR_FILENO, line, length);
    (void) n;
    if (fd >= 0)
        (void) close(fd);
}

__attribute__((format(printf, 1, 0))) static void print_line(const char *format, va_list arguments) {
    static const char prefix[] = "redlock: ";
    char line[COMPLAINT_BYTES + sizeof(prefix)], *text = line + sizeof(prefix) - 1; /* with the newline */

    memcpy(line, prefix, sizeof(prefix));
    (void) vsnprintf(text, COMPLAINT_BYTES, format, arguments);
    printable_clean(text, strlen(text));
    memcpy(text + strlen(text), "\n", sizeof("\n"));
    if (never_waits)
        print_if_ready(line, strlen(line));
    else
        (void) fputs(line, stderr);
}

void cli_complain(const char *format, ...) {
    va_list arguments;

    if (is_quiet)
        return;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
}

void cli_report(const char *format, ...) {
    va_list arguments;

    if (!is_verbose)
        return;
    va_start(arguments, format);
    print_line(format, arguments);
    va_end(arguments);
}

int cli_flush(int status) {
    bool failed = fflush(stdout) != 0 || ferror(stdout);

    if (!failed || (status != STATUS_DONE && status != STATUS_HELD))
        return status;
    cli_complain("can't write to standard output: %s", strerror(errno));
    return STATUS_SYSTEM;
}

bool cli_flush_to_reader(void) {
    if (fflush(stdout) == 0)
        return !ferror(stdout);
    if (errno == EPIPE)
        _exit(STATUS_DONE);
    return false;
}

int cli_status_of(int error) {
    switch ((enum redlock_error) error) {
    case REDLOCK_OK:
        return STATUS_DONE;
    case REDLOCK_BUSY:
        return STATUS_HELD;
    case REDLOCK_TIMED_OUT:
        return STATUS_TIMED_OUT;
    case REDLOCK_NO_QUORUM:
    case REDLOCK_QUOTA:
        return STATUS_NO_QUORUM;
    case REDLOCK_DENIED:
        return STATUS_DENIED;
    case REDLOCK_BAD_NAME:
    case REDLOCK_BAD_ARGUMENT:
        return STATUS_USAGE;
    case REDLOCK_LOST:
        return STATUS_LOST;
    case REDLOCK_DRAINING:
    case REDLOCK_AGENT_AWAY:
    case REDLOCK_NO_ANSWER:
    case REDLOCK_PROTOCOL:
        return STATUS_NO_AGENT;
    case REDLOCK_FORKED:
    case REDLOCK_NO_MEMORY:
    case REDLOCK_IN_USE:
    case REDLOCK_SYSTEM:
        return STATUS_SYSTEM;
    }
    return STATUS_SYSTEM;
}

/* Quotes the first characters of an invalid name. */
static void complain_of_name(const char *what, const char *text) {
    size_t length = strlen(what), shown = 0, bytes = 0;

    while (shown < length &&
           shown + (bytes = utf8_sequence(what + shown, length - shown)) <= NAME_SHOWN_BYTES)
        shown += bytes;
    cli_complain("'%.*s%s': not a name: %s", (int) shown, what, shown < length ? "..." : "", text);
}

/* "--ttl: expected a time from 100ms to 1m" for the agent's "TTL wants milliseconds from 100 to 60000" */
static void complain_of_range(const char *what, const char *option, int64_t low_ms, int64_t high_ms) {
    char low[DURATION_BYTES], high[DURATION_BYTES];

    cli_complain(
        "%s: %s: expected a time from %s to %s", what, option, duration_option(low_ms, low),
        duration_option(high_ms < OPTIONS_DURATION_MS_MAX ? high_ms : OPTIONS_DURATION_MS_MAX, high));
}

/* "LOW to HIGH" behind these words; false: the text is another. */
static bool read_range(const char *text, int64_t *ret_low_ms, int64_t *ret_high_ms) {
    static const char words[] = "wants milliseconds from ", to[] = " to ";
    char *end;

    if (strncmp(text, words, sizeof(words) - 1) != 0)
        return false;
    *ret_low_ms = strtoll(text + sizeof(words) - 1, &end, 10);
    if (strncmp(end, to, sizeof(to) - 1) != 0)
        return false;
    *ret_high_ms = strtoll(end + sizeof(to) - 1, &end, 10);
    return *end == '\0';
}

/* With the option's name for the protocol's. */
static bool complain_of_argument(const char *what, const char *text) {
    const struct {
        const char *word, *option;
    } known[] = {
        {"TTL ", ttl_name},
        {"LINGER ", "--linger"},
        {"MAXHOLD ", "--max-hold"},
        {"COOLDOWN ", "--min-hold"},
        {"options.data_length ", "the length of --data"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length = strlen(known[i].word);
        int64_t low_ms, high_ms;
        if (strncmp(text, known[i].word, length) != 0)
            continue;
        if (read_range(text + length, &low_ms, &high_ms))
            complain_of_range(what, known[i].option, low_ms, high_ms);
        else
            cli_complain("%s: %s %s", what, known[i].option, text + length);
        return true;
    }
    return false;
}

int cli_failed(const struct redlock *connection, int error, const char *what) {
    static const char again[] = "; connect again", cools[] = "the name cools: ";
    const char *text = connection ? redlock_error_text(connection) : "";
    size_t length = strlen(text);

    if (error == REDLOCK_BAD_NAME)
        complain_of_name(what, text);
    else if (error == REDLOCK_BUSY && strncmp(text, cools, sizeof(cools) - 1) == 0)
        cli_complain("%s: %s: try again then, or wait (without -n)", what, text);
    else if (error == REDLOCK_AGENT_AWAY && length >= sizeof(again) &&
             strcmp(text + length - (sizeof(again) - 1), again) == 0)
        cli_complain("%s: %s: %.*s; is redlockd running?", what, redlock_strerror(error),
                     (int) (length - (sizeof(again) - 1)), text);
    else if (error == REDLOCK_BAD_ARGUMENT && complain_of_argument(what, text))
        return cli_status_of(error);
    else if (text[0] != '\0')
        cli_complain("%s: %s: %s", what, redlock_strerror(error), text);
    else
        cli_complain("%s: %s", what, redlock_strerror(error));
    return cli_status_of(error);
}
