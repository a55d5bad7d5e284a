/* The bytes that a connection buffers, in its user's quota: input that makes no whole request yet, and
 * output that the client has not read. They count once they outlast a turn, so a client that sends whole
 * requests and reads replies pays nothing. */
#pragma once

#include "io/client/conn-state.h"

/* Counts what the connection buffers now. False: its user has no more, and the session must be ended; the
 * error reply is written. */
bool conn_bytes_charge(struct conn *conn);

/* The buffers are gone. */
void conn_bytes_refund(struct conn *conn);

/* With more unsent output than this, no requests are taken: with little, when half of the user's quota is
 * used. So only pushes and half requests take the rest. */
size_t conn_bytes_pause(const struct conn *conn);

/* At most so many bytes are received at a time: few, because requests beyond the work of a turn would be
 * kept, and moved in each turn, and a client that sends far too much would fill its socket again. But as
 * many as are kept of a long request, so that its work grows with its length and not with the square; unless
 * half of the user's quota is used, because requests are kept while the client does not read. */
size_t conn_bytes_receive_room(const struct conn *conn);
