/* The agents: a front, keepers and their connections. */
#pragma once

#include "core/reload-queue.h"
#include "events.h"
#include "node.h"
#include "sim.h"

struct sim_epoch {
    uint32_t process, generation;
    int64_t floor_us;
};

struct sim_connection {
    bool up;
    uint32_t life;
    struct sim_epoch epoch;       /* of the node, as the last probe found it */
    struct sim_epoch trusted;     /* the same, which requests carry; none while it is not trusted */
    uint32_t blessed_process;     /* the process that it last found blessed */
    int64_t request_ns, reply_ns; /* requests and replies keep their order */
    bool silent;                  /* the host is gone: nothing arrives, and neither end knows */
    int64_t true_unanswered_ns;   /* the first request since then; 0: none */
    struct sim_tickets outstanding[SIM_OUTSTANDING_MAX];
    unsigned first, count;
    struct reload_queue reloads;    /* calls that the node has refused for want of the scripts */
    uint64_t last_asked[SIM_NAMES]; /* the request's number */
    uint64_t last_executed[SIM_NAMES];
};

/* A connection for messages. */
struct sim_subscription {
    bool open; /* connected, or connecting */
    bool connected;
    uint32_t life;
    int64_t request_ns, reply_ns;
};

/* A request of a turn. */
struct sim_asked {
    uint8_t name;
    node_set left;   /* nodes still to be sent to */
    uint64_t number; /* counts all requests of the keeper */
    struct sim_request request;
};

struct sim_keeper {
    struct sim_agent *agent;
    unsigned index;
    struct shard shard;
    void *memory;
    struct sim_connection connections[SIM_NODES_MAX];
    struct sim_subscription subscriptions[SIM_NODES_MAX];
    struct wakeup wakeup;
    void *wakeup_memory;
    int64_t unsubscribed[SIM_NAMES]; /* since when a lease waits without all subscriptions; 0: none does */
    node_set to_cut;
    uint64_t mark; /* left on nodes */
    bool in_turn;  /* requests are sent when the turn ends */
    struct call_plan_turn turn;
    struct call_plan_item items[SIM_TURN_MAX];
    struct sim_asked asked[SIM_TURN_MAX]; /* the same requests */
    uint64_t n_asked;
    struct {
        uint64_t ticket;
        int64_t due_ns; /* by the host's clock: answers count until then */
        node_set answered;
    } observations[SIM_NAMES]; /* the last query of each name for observers */
    bool hashes_meet;          /* all keys have one hash */
    struct {
        unsigned node;
        struct sim_tickets tickets;
    } bounced[SIM_OUTSTANDING_MAX]; /* sent while the connection broke */
    unsigned n_bounced;
    int64_t timer_ns; /* by the host's clock: when the timer fires */
    int64_t paused_until_ns;
    int64_t errand_ns, dispatch_ns; /* mail keeps its order */
};

struct sim_agent {
    unsigned index;
    bool quarantine;     /* its setting */
    uint32_t max_ttl_ms; /* the same */
    unsigned set;        /* of nodes */
    unsigned n_nodes;
    uint8_t at[SIM_NODES_MAX];    /* the nodes' indices in the world */
    uint8_t names[SIM_NODES_MAX]; /* the agent's names for them */
    bool running;
    uint32_t life;
    struct clock clock;
    unsigned host;
    char id[9];
    uint32_t fence_skew_ms;
    struct policy policy;
    struct policy_rule rules[SIM_RULES_MAX]; /* of the policy */
    uid_t rule_users[SIM_RULES_MAX];
    uint32_t requests_max; /* it has room for so many leases and waiters */
    uint32_t quota_max;    /* its limit of both, which users share; 0: none */
    uint32_t slots;        /* of its registry and of each shard */
    bool surveyed;         /* the keepers' counters are asked for */
    struct front_state front;
    void *memory, *observe_memory, *cooling_memory; /* of registry, observers and cooling names */
    struct sim_keeper keepers[SIM_KEEPERS_MAX];
    int64_t timer_ns;
    int64_t paused_until_ns; /* of the front */
    int64_t halted_until_ns; /* true: its host was halted, with its clock; 0: never */
    int64_t halted_clock_ns; /* what its clock showed then */
    bool halted_alone;       /* and no other fault or delay since */

    /* Its processes: */
    bool with_ledger; /* the next process continues the sessions */
    struct sim_ledger {
        struct ledger ledger;
        void *memory;
    } ledgers[2];
    unsigned former; /* 1 + the ledger that the next process reads; 0: there is none */
    struct shard_predecessors predecessors;
    unsigned steps_left;            /* of the front until the process is killed; 0: it is not */
    unsigned dies_with;             /* while so many leases are held */
    bool frozen;                    /* the front hangs within a step until the process is killed */
    bool serves;                    /* the front takes requests */
    int64_t stopped_ns, started_ns; /* true time: of the former process, and of this one */
    int64_t served_ns;              /* the same: since then it takes requests */
};

extern struct sim_agent sim_agents[SIM_AGENTS_MAX];
extern unsigned sim_n_agents, sim_n_keepers;

/* An agent's node. */
static inline struct sim_node *agent_node(const struct sim_agent *agent, unsigned node) {
    return &sim_nodes[agent->at[node]];
}

/* The agent's index of this node, or SIM_NODES_MAX. */
static inline unsigned agent_index_of(const struct sim_agent *agent, unsigned node) {
    unsigned i = 0;

    while (i < agent->n_nodes && agent->at[i] != node)
        i++;
    return i < agent->n_nodes ? i : SIM_NODES_MAX;
}

/* The fleet of the agent's node, as the agent has it. */
static inline uint32_t agent_fleet(const struct sim_agent *agent, unsigned node) {
    return agent->set * SIM_NODES_MAX + node;
}

void agents_allocate(void); /* once */
void *agents_map(size_t bytes);
void agents_clear_through(void *memory, const struct shared_string_pool *texts);
void agent_start(struct sim_agent *agent);
void agent_kill(struct sim_agent *agent);
void agent_event(struct sim_agent *agent, const struct event *event);
void agent_secret(void *userdata, uint8_t secret[SECRET_BYTES]); /* random bytes: a sink's function */
void agent_silence(struct sim_agent *agent, unsigned keeper, unsigned node);
void agent_check_silent(const struct sim_agent *agent);                  /* at the end of a run */
void agent_cut(struct sim_agent *agent, unsigned keeper, unsigned node); /* breaks a connection */
void agent_command(struct sim_agent *agent, uint64_t name_hash, const struct command *command);
void agent_bless(struct sim_agent *agent, unsigned node); /* an operator's word */
bool agent_is_idle(const struct sim_agent *agent);        /* and all nodes vote */

/* A majority of the nodes accepts a token. */
bool agent_has_tokens(const struct sim_agent *agent);

/* The agent runs, all nodes vote, and no message between them is late. */
bool agent_is_untroubled(const struct sim_agent *agent);
