/* The options of commands. Each command has a table of its options, from which follow how a request is
 * parsed, how many arguments it may have, and the error for a wrong one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call;

enum option_kind {
    OPTION_FLAG,         /* the word alone */
    OPTION_MILLISECONDS, /* the word and a number */
    OPTION_BYTES,        /* the word and at most DATA_BYTES_MAX bytes */
};

/* As a bound: the agent's max_ttl. */
enum { OPTION_MAX_TTL = -2 };

struct option {
    const char *word; /* in capitals */
    enum option_kind kind;
    int64_t low, high; /* of OPTION_MILLISECONDS */
};

struct option_value {
    bool given;
    int64_t ms; /* unchanged when the option is not given */
    const char *bytes;
    size_t length;
};

/* The number of arguments of a request with all options. */
size_t option_arguments_max(const struct option *options, size_t n_options);

/* Parses the call's arguments behind the first `n_skipped`: options in any order, each at most once.
 * `values` are in the table's order. False: an option is wrong, and the session has got the error. */
bool option_read(const struct call *call, size_t n_skipped, const struct option *options, size_t n_options,
                 struct option_value *values);
