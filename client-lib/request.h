/* ACQUIRE as it goes out. */
#pragma once

#include <stdbool.h>

#include "client.h"

enum {
    ACQUIRE_NUMBERS = 5,                                 /* options that are numbers */
    ACQUIRE_ITEMS_MAX = 2 + 2 * ACQUIRE_NUMBERS + 2 + 2, /* ACQUIRE name, these, DATA, RESUMABLE ASYNC */
    NUMBER_BYTES = 24,
};

struct acquire_request {
    struct resp_token items[ACQUIRE_ITEMS_MAX];
    size_t n_items;
    char numbers[ACQUIRE_NUMBERS][NUMBER_BYTES];
    size_t n_numbers;
};

/* Fills the empty request; it points to the name, the data and itself. */
void request_compose(struct acquire_request *request, const char *name,
                     const struct redlock_options *options, bool async);

/* What a caller built against an older header gave, with what came later at its default. REDLOCK_OK, or an
 * error with its text. */
int request_options(struct client *client, const struct redlock_options *given, const char *name,
                    struct redlock_options *ret);
