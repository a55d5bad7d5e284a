/* What a client keeps of its lease so that it can resume it at an agent which knows nothing of it: the
 * random part of the lock value, and the terms. One line of printable ASCII without blanks, opaque to the
 * client. Pure.
 *
 * It is the right to the lease: who has it, on the same host and of the same user, can take the lease over.
 * The nodes tell whether the lock value is the right one; the terms are only guarded against damage, by a
 * sum over the text, and are checked against the policy like those of ACQUIRE. */
#pragma once

#include <stdbool.h>

#include "local/registry.h"

enum { RESUME_TOKEN_BYTES_MAX = 2 * DATA_BYTES_MAX + 160 };

static_assert((int) RESUME_TOKEN_BYTES_MAX <= (int) REQUEST_ITEM_BYTES_MAX, "a secret fits into a request");

struct resume_token {
    uint8_t value[SECRET_BYTES];
    struct lease_terms terms; /* of which the text has ttl, heartbeat and linger */
    instant_ns hold_until_ns; /* INSTANT_NEVER: no bound */
    int64_t token;            /* fencing; 0: none */
    size_t data_length;
    char data[DATA_BYTES_MAX];
};

/* Returns the length. */
size_t resume_token_write(const struct resume_token *secret, char text[RESUME_TOKEN_BYTES_MAX]);

/* False when it is no secret, or a damaged one. */
bool resume_token_read(const char *text, size_t length, struct resume_token *ret);

/* The secret of a request that is being granted. Returns the length. */
size_t resume_token_of_grant(const struct request *request, const struct request_outcome *outcome,
                             char text[RESUME_TOKEN_BYTES_MAX]);
