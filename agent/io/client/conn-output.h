/* The output of a connection: replies and pushes, sent at the end of the loop's turn. With a ledger, each
 * send is recorded there (see local/recovery/ledger.h). */
#pragma once

#include "io/client/conn-state.h"
#include "local/recovery/ledger.h"

void conn_output_init(struct conn *conn);
void conn_output_deinit(struct conn *conn);

/* Appends a whole reply or push. */
void conn_output_write(struct session *session, const char *bytes, size_t length);

size_t conn_output_unsent_bytes(const struct conn *conn);

/* Whether the client has read its output up to the position `written` (of session->written, then). If more
 * was written since, it counts as read once it is sent: a working client may leave pushes unread. */
enum registry_reading conn_output_reading(struct session *session, uint32_t written);

/* Queues the output again: the socket takes bytes. */
void conn_output_unblock(struct conn *conn);

/* Queues delayed output whose delay is over; when to call next. */
void conn_output_end_delays(struct conn_table *table, instant_ns now_ns);
instant_ns conn_output_due_ns(const struct conn_table *table);

/* Whether the output may wait for more: a `waiting` reply that the grant may follow at once. Then the
 * connection is moved from unsent to delayed. */
bool conn_output_delay(struct conn *conn, instant_ns now_ns);

/* Sends the output, as far as the socket takes it. */
void conn_output_flush(struct conn *conn);

/* Drops the output for good. The session is ended at the end of the turn. */
void conn_output_fail(struct conn *conn, int error);

/* The reason for which the session must end (its output can't be sent, or is too long), or NULL. */
const char *conn_output_failure(const struct conn *conn);

/* The session's state that the client knows once all output is sent. */
struct ledger_state conn_output_state(const struct conn *conn);
