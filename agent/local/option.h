/* The options of commands: a table for each command says which there are, and from it follow how a request
 * is read, how many arguments it may have, and what is said of a wrong one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_token;
struct front_state;
struct session;

enum option_kind {
    OPTION_FLAG,         /* the word alone */
    OPTION_MILLISECONDS, /* a number behind it */
    OPTION_BYTES,        /* at most DATA_BYTES_MAX behind it */
};

/* In place of a bound: the agent's max_ttl. */
enum { OPTION_MAX_TTL = -2 };

struct option {
    const char *word; /* in capitals */
    enum option_kind kind;
    int64_t low, high; /* of OPTION_MILLISECONDS */
};

struct option_value {
    bool given;
    int64_t ms; /* untouched when it is not given */
    const char *bytes;
    size_t length;
};

/* As many as a request of the most options has arguments. */
size_t option_arguments_max(const struct option *options, size_t n_options);

/* Reads options in any order, each at most once, into `values`, which are in the table's order. False when
 * one is wrong: the session has got the error. */
bool option_read(struct session *session, struct front_state *service, const struct option *options,
                 size_t n_options, const struct resp_token *arguments, size_t n_arguments,
                 struct option_value *values);
