/* The observer of the agents' outcomes and of their requests to nodes. It knows what each client asked and
 * was answered, and what each node has. */
#pragma once

#include "answer.h"
#include "rules.h"
#include "sim.h"

struct event;
struct sim_agent;
struct sim_keeper;

/* A request, as its client sent it. */
struct sim_ask {
    struct lease_terms options; /* of ACQUIRE; 0: not given */
    struct lease_terms terms;   /* with those of the rule */
    int64_t wait_ms;
    bool resumes, resumable, async;
    bool pushes, paged; /* the client gets pushes, or sees deadlines in its page */
    struct sim_rule rule;
    bool denied; /* by the rule */
};

void observer_reset(void);
void observer_asked(unsigned client, unsigned agent, unsigned name, const struct sim_ask *ask);
/* The text of an error shows the client who holds the name, or that the name cools. Without the right
 * `leader` that must be a lease of its own user. */
void observer_check_shown(unsigned client);

void observer_granted(unsigned client, int64_t deadline_ns, const uint8_t secrets[2][SECRET_BYTES]);
void observer_extended(unsigned client, int64_t deadline_ns);
void observer_reported(unsigned client, enum answer_kind kind, const char *word);
void observer_released(unsigned client, int64_t answer); /* the answer to RELEASE */
/* A client asks another agent for its lease. Its former agent notices with the next extension. */
void observer_moved(unsigned agent, unsigned name, uint32_t ttl_ms);
void observer_beat(unsigned client);
void observer_releases(unsigned client);
void observer_died(unsigned client);                           /* its session ended */
void observer_crossed(unsigned client, enum answer_kind kind); /* a push, with its RELEASE */
void observer_restarted(const struct sim_agent *agent);
void observer_unreported(unsigned client); /* its grant, when the process was killed */
void observer_gone(unsigned client);       /* its agent ended, or closed the session */
void observer_deadline(const struct event *event);
void observer_blessed(unsigned node); /* after its quarantine, not by an operator */
void observer_check(void);            /* after an event of the calm */
/* A node's answer to the request with this ticket: the key has another value. */
void observer_voted_foreign(const struct sim_keeper *keeper, unsigned node, uint64_t ticket);
void observer_sent(const struct sim_keeper *keeper, unsigned name, const struct send *send);

/* How long a majority of the nodes still has the keys of the lease that the client has held since that time.
 * False: that is not certain. */
bool observer_left_ns(unsigned client, unsigned name, int64_t since_ns, int64_t *ret_left_ns);

/* The keeper reports about the lease with this value, before its deadline. */
void observer_mailed(const struct sim_agent *agent, const uint8_t secret[SECRET_BYTES], int64_t arrives_ns);
bool observer_is_at_risk(unsigned client);   /* for another reason than the lack of a quorum */
void observer_check_series(unsigned client); /* it gets a lease by hand-off */
bool observer_cools(unsigned name);          /* no client gets the name yet */
void observer_deleted(unsigned name, const uint8_t secret[SECRET_BYTES]); /* call before the deletion */
