/* Stores connections with the service manager for a restart: those with a lease, a waiting request or an
 * observation before the reply, others after a second. */
#pragma once

#include "io/client/conn-state.h"

void conn_store_init(struct conn *conn);
void conn_store_deinit(struct conn *conn);

/* Queues a new connection. Nothing without a store. */
void conn_store_add(struct conn *conn, instant_ns now_ns);

/* Moves the connection to the front of the queue: it has state that would be lost with the connection. */
void conn_store_urge(struct conn *conn);

/* The manager has the socket already, and the page if there is one. */
void conn_store_adopt(struct conn *conn, const struct fd_store_session *stored);

/* The manager closes its copies, and gets the socket again, without a page. */
void conn_store_replace(struct conn *conn);

/* Stores the descriptor of the session's page too, and owns it. */
void conn_store_add_page(struct conn *conn, int page_fd);

/* Stores a connection with state (a lease, a waiting request, an observation) before its client gets the
 * reply. */
void conn_store_before_reply(struct conn *conn, instant_ns now_ns);

/* The session has ended: the manager closes its copies. Returns whether the manager had the socket. */
bool conn_store_remove(struct conn *conn);

/* Stores connections that are due. When to call next; INSTANT_NEVER without a store. */
instant_ns conn_store_tick(struct conn_table *table, instant_ns now_ns);
