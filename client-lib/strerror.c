/* The texts of enum redlock_error. */

#include "redlock.h"

__attribute__((visibility("default"))) const char *redlock_strerror(int error) {
    static const char *const texts[] = {
        [-REDLOCK_OK] = "success",
        [-REDLOCK_BUSY] = "another holder has the lease",
        [-REDLOCK_TIMED_OUT] = "timed out waiting for the lease",
        [-REDLOCK_NO_QUORUM] = "no quorum of the Redis nodes",
        [-REDLOCK_DENIED] = "not allowed to this user",
        [-REDLOCK_QUOTA] = "a limit of the agent is reached",
        [-REDLOCK_BAD_NAME] = "the name is invalid",
        [-REDLOCK_BAD_ARGUMENT] = "an argument is out of range",
        [-REDLOCK_LOST] = "the lease is no longer held",
        [-REDLOCK_DRAINING] = "the agent is stopping",
        [-REDLOCK_AGENT_AWAY] = "the agent is not reachable",
        [-REDLOCK_NO_ANSWER] = "the agent does not answer",
        [-REDLOCK_PROTOCOL] = "the agent's reply violates the protocol",
        [-REDLOCK_FORKED] = "the connection belongs to the parent process",
        [-REDLOCK_NO_MEMORY] = "out of memory",
        [-REDLOCK_SYSTEM] = "a system call failed",
        [-REDLOCK_IN_USE] = "another call on the connection is in progress",
    };

    if (error > 0)
        error = 0;
    if (error < REDLOCK_IN_USE)
        return "unknown error";
    return texts[-error];
}
