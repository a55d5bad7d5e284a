/* The input of a connection: received, parsed, and given to the session request by request. With a ledger,
 * unanswered requests are recorded there (see local/recovery/ledger.h). */
#pragma once

#include "io/client/conn-state.h"

/* The work of a connection before other users have their turn: a request costs 1, and 1 for each so many
 * bytes of its reply. */
enum { CONN_INPUT_BUDGET = 16, CONN_INPUT_COST_BYTES = 2048 };

enum conn_input_outcome {
    CONN_INPUT_OK,
    CONN_INPUT_END,       /* the client has closed its sending side */
    CONN_INPUT_ERROR,     /* of the socket */
    CONN_INPUT_NO_MEMORY, /* for what was received: the session must be ended */
    CONN_INPUT_MALFORMED, /* an error reply is written: the session must be ended */
};

void conn_input_deinit(struct conn *conn);

/* Keeps received bytes for later. 0, or -ENOMEM: they are lost. */
int conn_input_keep(struct conn *conn, const char *bytes, size_t length);

/* Takes kept requests, then requests from the socket, until *budget is 0. */
enum conn_input_outcome conn_input_take(struct conn *conn, unsigned *budget, instant_ns now_ns);

/* Whether conn_input_take() would take more now; `budget` is what the last call left. */
bool conn_input_has_more(struct conn *conn, unsigned budget);
