/* The end of a session: its leases are released, left to their deadlines, or linger. */
#pragma once

#include <stdbool.h>

#include "local/session.h"

/* Ends the session: the client has closed the connection, or its process is dead. Waiting requests are
 * withdrawn, leases are released at once, or linger. Idempotent. */
void disconnect_end(struct session *session, instant_ns now_ns);

/* The agent closes the connection while the client's process may live: pushes `lost` for each lease and
 * deletes no key before the lease's deadline. Returns true when leases remain, which disconnect_end() must
 * release when the process dies. */
bool disconnect_expel(struct session *session, const char *reason, instant_ns now_ns);

/* Pushes `draining`: the agent is stopping. */
void disconnect_announce(struct session *session);
