/* The lease of `redlock run`: requested, watched and released by the guard. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "redlock.h"

struct cli;
struct run_options;

struct guard_lease {
    const struct cli *cli;
    const struct run_options *run;
    struct redlock_options options;
    struct redlock *connection;
    struct redlock_lease *lease; /* requested or held */
    int64_t asked_ns;            /* when the first request was sent; 0: not yet */
    bool granted;
    int error;               /* of the failed request; REDLOCK_OK: none */
    bool at_risk;            /* as the agent reported last: no majority of the nodes extends it */
    bool is_lost;            /* as the agent reported */
    bool has_max_hold_ended; /* the option's or the agent's */
    bool is_given_up;        /* by the guard: the reason stays */
    int64_t given_up_ns;     /* the deadline then: a later extension does not count */
    int64_t max_hold_end_ns;
    char reason[320]; /* of the risk or the loss */
};

/* 0; or the exit status, reported. */
int guard_lease_connect(struct guard_lease *lease);

/* With --grace but without --ttl: compares the grace with the ttl that the agent uses for this name, and
 * requests that ttl, which then stays if another agent or configuration comes while the command waits. 0; or
 * the exit status, reported. */
int guard_lease_check_grace(struct guard_lease *lease);

/* Requests the lease, and waits until it is granted or refused: true; or until the process at the other end
 * of `channel` has ended: false. */
bool guard_lease_ask(struct guard_lease *lease, int channel);

/* The exit status for a refusal, reported. */
int guard_lease_refused(const struct guard_lease *lease);

/* Gives the lease up: from now on the reason of the loss and the deadline stay. */
void guard_lease_give_up(struct guard_lease *lease, int64_t deadline_ns);

/* Whether it was extended after that. */
bool guard_lease_is_extended(const struct guard_lease *lease);

void guard_lease_release(struct guard_lease *lease);

/* Without a quorum a release changes nothing, and would hide the loss from the agent's log and counters:
 * waits until the agent has reported the loss, or has extended the lease after all. */
void guard_lease_await_loss(struct guard_lease *lease);
