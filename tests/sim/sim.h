/* A deterministic world for the agent's pure layers: virtual time, network, nodes, agents and clients, all
 * from one seed. The registry and the shards are the object files that ship.
 *
 * The world runs on true time, which no host or node can read. Every host and every node has a clock of its
 * own, with a rate and an offset. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/call-plan.h"
#include "core/shard.h"
#include "core/wakeup.h"
#include "local/front-state.h"
#include "local/recovery/ledger.h"

enum {
    SIM_NODES_MAX = 5,
    SIM_AGENTS_MAX = 3,
    SIM_KEEPERS_MAX = 2,
    SIM_CLIENTS_MAX = 12,
    SIM_READER = SIM_CLIENTS_MAX, /* a session behind those of the clients: reader.c */
    SIM_USERS,                    /* of sessions: clients and reader */
    SIM_SESSIONS = 2 * SIM_USERS,
    SIM_NAMES = 2,
    SIM_MOVED = 6, /* leases that a node remembers as resumed */
    SIM_RULES_MAX = 2,
    SIM_AGENT_UID = 1000, /* of the agents, and of some clients */
    SIM_REQUESTS_MAX = 64,
    SIM_FEW_SLOTS = 8, /* so that releases under way fill a shard */
    SIM_OUTSTANDING_MAX = 4096,
    SIM_TURN_MAX = 1024, /* requests */
    SIM_ADDRESSES = 8,
    SIM_FLEETS = 32,       /* a set of nodes, and which of them it is */
    SIM_TEXT_BYTES = 96,   /* of a report; longer ones are cut */
    SIM_TAIL_BYTES = 32,   /* "pid:uid:data" of a lock value */
    SIM_TOKEN_BYTES = 256, /* of a resume token */
    SIM_RESTART_MS = 5,    /* a process that continues a former one takes requests by then */
};

/* --- time and chance --- */

struct clock {
    double rate; /* its seconds in one true second */
    int64_t offset_ns;
};

int64_t clock_read(const struct clock *clock); /* the clock now */
int64_t clock_true_ns(const struct clock *clock,
                      int64_t at_ns); /* the true instant at which the clock shows this time */

extern int64_t sim_now_ns; /* true time */
extern struct random sim_random;
extern bool sim_calm;       /* no more faults but that of fault_last() */
extern int64_t sim_calm_ns; /* since then */
extern bool sim_closed;     /* and no new requests: everything must end */

int64_t pick(int64_t low, int64_t high);
bool chance(unsigned percent);
int64_t network_delay_ns(void);

/* A line of the trace, if tracing. */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An invariant is broken: prints it, with the seed. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern bool sim_violated;
extern bool sim_quarantine;  /* the agents' setting */
extern bool sim_sets_differ; /* the agents have different sets of nodes */
extern uint32_t sim_scale;   /* all ttls of the run are so many times as long */
extern uint32_t sim_longest_ttl_ms;
extern bool sim_steps;                /* clocks are set */
extern bool sim_hosts_halt;           /* hosts stop for a while, and their clocks with them */
extern bool sim_repeats;              /* a relay before the nodes may send a request twice */
extern bool sim_durable;              /* a node that restarts keeps all of its data, or none */
extern unsigned sim_last_blessed;     /* the node that was blessed last */
extern node_set sim_blessed;          /* the nodes that an operator has blessed */
extern bool sim_fencing;              /* the nodes', too */
extern bool sim_tokens_grow;          /* in this run tokens must grow */
extern bool sim_tokens_agree;         /* in this run a majority must accept a token */
extern int64_t sim_blessing_until_ns; /* a node is blessed by an operator: no node loses its memory */
extern int64_t sim_stepped_until_ns;  /* no agent starts before: a node's clock was set */
extern int64_t sim_turn_us;           /* the longest turn of a keeper */
extern int64_t sim_dark_from_ns, sim_dark_until_ns; /* no node answers; once in a run */

struct sim_counts {
    uint64_t events, calls, shared_calls, requests, grants, losses, releases, refusals, extensions, cuts,
        silences, pauses, kills, stops, amnesias, old_data, blackouts, overwrites, steps, raises, resumes,
        resumed, moves, handoffs, refreshes, inheritances, repeats, messages, fulls, amendments, sets,
        restored, other_locks, slow, blessings, flushes, reloads;
};
extern struct sim_counts sim_counts;
