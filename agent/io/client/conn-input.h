/* The input of a connection: received, parsed, and given to the session request by request. With a ledger,
 * unanswered requests are recorded there (see local/recovery/ledger.h). */
#pragma once

#include "io/client/conn-state.h"

/* More than any connection's share of a turn. */
enum { CONN_INPUT_REQUESTS_PER_TURN = 64 };

enum conn_input_outcome {
    CONN_INPUT_OK,
    CONN_INPUT_END,       /* the client has closed its sending side */
    CONN_INPUT_ERROR,     /* of the socket */
    CONN_INPUT_MALFORMED, /* an error reply is written: the session must be ended */
};

void conn_input_deinit(struct conn *conn);

/* Keeps received bytes for later. */
void conn_input_keep(struct conn *conn, const char *bytes, size_t length);

/* Whether the session takes requests, and the client reads replies. */
bool conn_input_may_take(struct conn *conn);

/* Takes kept requests, then requests from the socket, at most *budget, which is reduced. */
enum conn_input_outcome conn_input_take(struct conn *conn, unsigned *budget, instant_ns now_ns);

/* Whether conn_input_take() would take more now; `budget` is what the last call left. */
bool conn_input_has_more(struct conn *conn, unsigned budget);
