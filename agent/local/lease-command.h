/* Commands for leases: ACQUIRE, RELEASE, CHECK and BEAT. */
#pragma once

#include "local/option.h"
#include "local/registry.h"

struct call;

enum lease_command_option {
    LEASE_COMMAND_TTL,
    LEASE_COMMAND_WAIT,
    LEASE_COMMAND_HEARTBEAT,
    LEASE_COMMAND_MAX_HOLD,
    LEASE_COMMAND_LINGER,
    LEASE_COMMAND_COOLDOWN,
    LEASE_COMMAND_DATA,
    LEASE_COMMAND_RESUMABLE,
    LEASE_COMMAND_ASYNC,
    LEASE_COMMAND_OPTIONS,
};

/* Of ACQUIRE. */
extern const struct option lease_command_options[LEASE_COMMAND_OPTIONS];

void lease_command_acquire(const struct call *call);
void lease_command_release(const struct call *call);
void lease_command_check(const struct call *call);
void lease_command_beat(const struct call *call);

/* Makes the request and starts it: for ACQUIRE and RESUME. The session waits for the outcome, or gets
 * "waiting" with ASYNC, or an error. */
void lease_command_ask(const struct call *call, const struct registry_ask *ask);
