/* Errors in words. */

#include "redlock.h"

__attribute__((visibility("default"))) const char *redlock_strerror(int error) {
    static const char *const texts[] = {
        [-REDLOCK_OK] = "success",
        [-REDLOCK_BUSY] = "held by another",
        [-REDLOCK_TIMED_OUT] = "waited as long as asked",
        [-REDLOCK_NO_QUORUM] = "no quorum of the Redis nodes",
        [-REDLOCK_DENIED] = "not allowed",
        [-REDLOCK_QUOTA] = "a limit of the agent is reached",
        [-REDLOCK_BAD_NAME] = "not a name",
        [-REDLOCK_BAD_ARGUMENT] = "an argument is out of its range",
        [-REDLOCK_LOST] = "the lease is no longer held",
        [-REDLOCK_DRAINING] = "the agent is about to stop",
        [-REDLOCK_AGENT_AWAY] = "the agent is not reachable",
        [-REDLOCK_NO_ANSWER] = "the agent does not answer",
        [-REDLOCK_PROTOCOL] = "the agent speaks another protocol",
        [-REDLOCK_FORKED] = "the connection belongs to the parent process",
        [-REDLOCK_NO_MEMORY] = "out of memory",
        [-REDLOCK_SYSTEM] = "a system call failed",
        [-REDLOCK_IN_USE] = "another call on the connection is not over",
    };

    if (error > 0)
        error = 0;
    if (error < REDLOCK_IN_USE)
        return "unknown error";
    return texts[-error];
}
