/* Client connections: sockets, sessions, and the processes behind them. Owned by the front thread. The owner
 * of conn-input (requests), conn-output (replies) and conn-store (descriptors kept for a restart). An idle
 * connection holds no buffers. */
#pragma once

#include <sys/socket.h>

#include "io/client/conn-state.h"

/* The lists alone, all empty: enough for conn_table_deinit(). */
void conn_table_clear(struct conn_table *table);

/* For at most `slots` connections. 0 or a negative errno. */
int conn_table_init(struct conn_table *table, struct poller *poller, struct front_state *local,
                    uint32_t slots);

/* True: no slot is free. Sessions that were ended keep theirs until their leases have ended. */
bool conn_table_is_full(const struct conn_table *table);

/* Closes and frees all connections without ending the sessions: the agent stops. */
void conn_table_deinit(struct conn_table *table);

/* `peer` and `pid_fd`: see peer-cred.h. Owns the descriptors in any case. 0, -EUSERS when all slots are
 * taken, or another negative errno. */
int conn_new(struct conn_table *table, int fd, int pid_fd, const struct ucred *peer);

/* The same for a slot that is taken already, which is given back on failure: for conn-adopt.c. */
int conn_make(struct conn_table *table, int fd, int pid_fd, const struct ucred *peer, uint32_t index,
              uint32_t generation, struct conn **ret);

/* Replies with an error and closes the connection. Owns the descriptor. */
void conn_reject(struct conn_table *table, int fd, const char *error);

/* Reads the units of clients' processes from this slot on, as far as a turn has the time: then
 * conn_find_rules() need not. True: more are left. */
bool conn_read_units(struct conn_table *table, uint32_t *slot);

/* Finds the rules that are for the peer, at the beginning and when the rules have changed. */
void conn_find_rules(struct session *session);

/* The session with this id, or NULL. */
struct session *conn_find(struct conn_table *table, uint64_t id);

/* Calls the function for each session with a socket. */
void conn_for_each(struct conn_table *table, void (*function)(struct session *session, void *userdata),
                   void *userdata);

/* Makes the session's deadline page, and attaches the client's descriptor to the next byte of output. 0 or a
 * negative errno. */
int conn_make_page(struct session *session);

/* The session may send requests again. */
void conn_ready(struct session *session);

/* Ends the pause: the oldest requests are served first, also those of processes that have ended since. */
void conn_serve(struct conn_table *table);

/* Takes requests from ready connections for a bounded time: users in turns, a few requests each. */
void conn_work(struct conn_table *table, instant_ns now_ns);

/* When conn_work() has work; 0: now; INSTANT_NEVER: none. */
instant_ns conn_work_due_ns(struct conn_table *table, instant_ns now_ns);

/* Sends unsent output, as far as the sockets take it, and ends sessions that can't be replied to. */
void conn_flush(struct conn_table *table, instant_ns now_ns);

/* Frees closed connections, and from time to time closes expelled ones whose leases have ended. */
void conn_sweep(struct conn_table *table, instant_ns now_ns);

/* Closes lingering sockets and logs suppressed lines that are due. When this or conn_sweep() is due next. */
instant_ns conn_tick(struct conn_table *table, instant_ns now_ns);
