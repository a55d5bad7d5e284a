/* The input of a connection: received, parsed, and given to the session request by request. With a ledger,
 * unanswered requests are recorded there (see local/recovery/ledger.h). */
#pragma once

#include "io/client/conn-state.h"

/* The work (units of local/work-share.h) for a connection before other users have their turn. */
enum { CONN_INPUT_WORK_MAX = 16 };

enum conn_input_outcome {
    CONN_INPUT_OK,
    CONN_INPUT_END,       /* the client has closed its sending side */
    CONN_INPUT_ERROR,     /* the client is gone */
    CONN_INPUT_NO_MEMORY, /* to receive or keep a request: the session must be ended */
    CONN_INPUT_MALFORMED, /* an error reply is written: the session must be ended */
};

void conn_input_deinit(struct conn *conn);

/* Keeps received bytes for later. 0, or -ENOMEM: they are lost. */
int conn_input_keep(struct conn *conn, const char *bytes, size_t length);

/* Takes kept requests, then requests from the socket, and adds to *work, until that is
 * CONN_INPUT_WORK_MAX. */
enum conn_input_outcome conn_input_take(struct conn *conn, unsigned *work, instant_ns now_ns);

/* Whether conn_input_take() would take more now; `work` is that of the last call. */
bool conn_input_has_more(struct conn *conn, unsigned work);
