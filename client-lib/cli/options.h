/* The options of a subcommand, as a table with a row for each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum options_kind {
    OPTIONS_FLAG,     /* bool: becomes true; NULL: accepted without effect */
    OPTIONS_ZERO,     /* int64_t: becomes 0 */
    OPTIONS_TEXT,     /* const char * or const void * */
    OPTIONS_DURATION, /* int64_t, in ms, up to OPTIONS_DURATION_MS_MAX: ".5", "1.5", "500ms", "10s", "2m",
                         "1h"; a bare number is seconds */
    OPTIONS_STATUS,   /* int: an exit status */
    OPTIONS_NUMBER,   /* uint64_t from 1 to 2^53-1: an id */
    OPTIONS_TOKEN,    /* the same: a fencing token */
    OPTIONS_COUNT,    /* the same: how many */
};

enum { OPTIONS_ROWS_MAX = 24, OPTIONS_DURATION_MS_MAX = 24 * 86400000 /* the protocol has 2^31-1 */ };

/* Rows with the same value are names of the same option. */
struct options_row {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum options_kind kind;
    void *value;
};

/* The rows of commands that acquire a lease as flock(1) acquires a lock. */
#define OPTIONS_ACQUIRE_ROWS(request, conflict_status, quiet)                                            \
    {"nonblock", 'n', OPTIONS_ZERO, &(request)->wait_ms}, {"nb", 0, OPTIONS_ZERO, &(request)->wait_ms},  \
        {"wait", 'w', OPTIONS_DURATION, &(request)->wait_ms},                                            \
        {"timeout", 0, OPTIONS_DURATION, &(request)->wait_ms},                                           \
        {"conflict-exit-code", 'E', OPTIONS_STATUS, (conflict_status)},                                  \
        {"ttl", 't', OPTIONS_DURATION, &(request)->ttl_ms}, {"data", 0, OPTIONS_TEXT, &(request)->data}, \
        {"quiet", 'q', OPTIONS_FLAG, (quiet)}, {"exclusive", 'x', OPTIONS_FLAG, NULL}, {                 \
        "exclusive", 'e', OPTIONS_FLAG, NULL                                                             \
    }

/* Reads all options of argv; with `mixed` also those behind other arguments. Adds -h and --help, which print
 * `usage`. 0, and optind is the index of the first other argument; or 1 + the exit status to end with, a
 * mistake reported. */
int options_read(const struct options_row *rows, size_t n_rows, bool mixed, const char *usage, int argc,
                 char **argv);

/* True if at most `arguments_max` arguments follow the options; else the first of the others is reported. */
bool options_end(int argc, char **argv, int arguments_max);

/* A duration from elsewhere, such as an environment variable; `what` names it in the message about a
 * mistake. */
bool options_duration(const char *what, const char *text, int64_t *ret_ms);

/* True if the grace is at most half of this time, or the time is 0: the agent's; else the mistake is
 * reported, with what the time is. */
bool options_grace_fits(int64_t grace_ms, const char *what, int64_t time_ms);
