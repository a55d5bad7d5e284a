/* Opening a connection to an agent that may be stopped or stuck, in a time of the caller's. */
#pragma once

#include <stdint.h>

struct redlock;

/* redlock_connect(), which waits at most `place_ms` for a place in the backlog of the agent's socket, and
 * then `answer_ms` for the reply to HELLO. The latter is the connection's answer time-out from then on. */
int connect_within(const char *socket_path, int64_t place_ms, int64_t answer_ms, struct redlock **ret);
