/* The resume token ("secret" in the protocol): with it a client resumes its lease at an agent that does not
 * know the lease. It has the random part of the lock value, and the terms; one line of printable ASCII
 * without blanks, opaque to the client.
 *
 * Its possession is the right to the lease, for processes of the same user on the same host. The nodes check
 * the random part. A checksum protects the terms against damage only; they are checked against the policy as
 * those of ACQUIRE are. */
#pragma once

#include <stdbool.h>

#include "local/registry.h"

enum { RESUME_TOKEN_BYTES_MAX = 2 * DATA_BYTES_MAX + 160 };

static_assert((int) RESUME_TOKEN_BYTES_MAX <= (int) REQUEST_ITEM_BYTES_MAX,
              "a resume token fits into a request");

struct resume_token {
    uint8_t value[SECRET_BYTES];
    struct lease_terms terms;     /* in the text: ttl, heartbeat and linger */
    instant_ns hold_until_ns;     /* INSTANT_NEVER: no bound */
    instant_ns cooldown_until_ns; /* 0: no cooldown */
    int64_t token;                /* fencing; 0: none */
    size_t data_length;
    char data[DATA_BYTES_MAX];
};

/* Returns the length. */
size_t resume_token_write(const struct resume_token *token, char text[RESUME_TOKEN_BYTES_MAX]);

/* False: no resume token, or a damaged one. */
bool resume_token_read(const char *text, size_t length, struct resume_token *ret);

/* The resume token of a grant. Returns the length. */
size_t resume_token_of_grant(const struct request *request, const struct request_outcome *outcome,
                             char text[RESUME_TOKEN_BYTES_MAX]);
