/* The clock of deadlines, and waiting by it. */

#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

int64_t cli_now_ns(void) {
    struct timespec now;

    (void) clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t) now.tv_sec * NS_PER_S + now.tv_nsec;
}

int cli_poll(struct pollfd *fds, unsigned long n_fds, int64_t until_ns) {
    int64_t left_ns = until_ns == INT64_MAX ? INT64_MAX : until_ns - cli_now_ns();

    left_ns = left_ns > 0 ? left_ns : 0;
    const struct timespec timeout = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    return ppoll(fds, n_fds, until_ns == INT64_MAX ? NULL : &timeout, NULL);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool cli_duration_ms(const char *text, int64_t *ret) {
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"", 1e3},     {"ms", 1},     {"s", 1e3},    {"m", 60e3},
                 {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    char *end;

    if (!is_digit(text[0]) && !(text[0] == '.' && is_digit(text[1])))
        return false; /* strtod() would take blanks, signs, "inf" and "nan" */
    double number = strtod(text, &end);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].unit) != 0)
            continue;
        double ms = number * units[i].ms;
        if (!(ms <= INT32_MAX) || memchr(text, 'x', (size_t) (end - text)) ||
            memchr(text, 'X', (size_t) (end - text)))
            return false;
        *ret = (int64_t) (ms + 0.5);
        return true;
    }
    return false;
}

bool cli_read_duration(const char *what, const char *text, int64_t *ret) {
    if (cli_duration_ms(text, ret))
        return true;
    cli_complain("%s %s: expected a time such as 500ms, 10s or 2m", what, text);
    return false;
}
