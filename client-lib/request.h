/* The words of an ACQUIRE request, and the check of its options. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "redlock.h"
#include "resp.h"

enum {
    REQUEST_NUMBERS = 6,                                 /* options that are numbers */
    REQUEST_ITEMS_MAX = 2 + 2 * REQUEST_NUMBERS + 2 + 2, /* ACQUIRE name, numbers, DATA, RESUMABLE ASYNC */
    REQUEST_NUMBER_BYTES = 24,
};

struct request_acquire {
    struct resp_token items[REQUEST_ITEMS_MAX];
    size_t n_items;
    char numbers[REQUEST_NUMBERS][REQUEST_NUMBER_BYTES];
    size_t n_numbers;
};

/* Fills a zeroed request. Its items point to the name, to the data and into the request itself. */
void request_compose(struct request_acquire *request, const char *name,
                     const struct redlock_options *options, bool async);

/* REDLOCK_OK, or REDLOCK_BAD_NAME with a static text in *ret_text. Each name is checked by this before it is
 * sent: a request of more than 1 MiB ends the session, and its leases with it. */
int request_name(const char *name, const char **ret_text);

/* Copies the caller's options, which may be of an older or newer version, or NULL; absent members are 0.
 * REDLOCK_OK, or REDLOCK_BAD_NAME or REDLOCK_BAD_ARGUMENT with a static text in *ret_text. */
int request_options(const struct redlock_options *given, const char *name, struct redlock_options *ret,
                    const char **ret_text);
