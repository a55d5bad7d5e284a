/* The events of the world, and what they carry. */
#pragma once

#include "sim.h"

enum event_kind {
    EVENT_CALL,             /* arrives at a node: a call for one name or more */
    EVENT_PROBE,            /* arrives at a node: a probe or a blessing */
    EVENT_PROBED,           /* the answer to a probe arrives at a keeper */
    EVENT_REPLY,            /* the answer to a call arrives at a keeper */
    EVENT_NOSCRIPT,         /* the same: the node lacks the scripts */
    EVENT_LOAD,             /* the scripts arrive at a node */
    EVENT_LOADED,           /* the answer to that arrives at a keeper */
    EVENT_BROKEN,           /* a keeper notices that a connection broke */
    EVENT_CONNECTED,        /* a connection is open again */
    EVENT_SUBSCRIBE,        /* arrives at a node: subscribe to this key's channel, or unsubscribe */
    EVENT_SUBSCRIBED,       /* the answer to that arrives at a keeper */
    EVENT_MESSAGE,          /* a message arrives at a keeper */
    EVENT_PUBSUB_CONNECTED, /* a connection for messages opens, or breaks */
    EVENT_PUBSUB_BROKEN,
    EVENT_ERRAND,   /* mail for a keeper */
    EVENT_BLESS,    /* the same: an operator's word for a node */
    EVENT_DISPATCH, /* mail for a front */
    EVENT_TURN,     /* the turn of a keeper ends */
    EVENT_KEEPER_TIMER,
    EVENT_FRONT_TIMER,
    EVENT_FRONT_SERVES, /* a front has continued the former process's sessions */
    EVENT_CLIENT,       /* takes its next step */
    EVENT_DEADLINE,     /* of a client's lease is near, or has passed: for the observer */
    EVENT_AGENT_START,
    EVENT_AGENT_KILL,
    EVENT_FAULT,
    EVENT_OTHER_LIBRARY,
};

/* The rest of a lock value, behind its digits and the agent's life. */
struct sim_tail {
    uint8_t host;
    uint16_t pid, uid, data; /* 0: empty */
};

/* The request for one name, and the node's reply. */
struct sim_request {
    enum operation operation;
    uint64_t number; /* counts the keeper's requests */
    bool quiet;
    uint32_t ttl_ms;
    uint64_t ticket;
    uint8_t secret[SECRET_BYTES];
    bool has_former; /* another value that may be in the key */
    uint8_t former[SECRET_BYTES];
    uint32_t owner; /* the agent's life: with the secret and the tail, the lock value */
    struct sim_tail tail, former_tail;
    uint32_t predecessors; /* search: bit i is the agent's life i + 1 before this one */
    uint32_t epoch;        /* the epoch that the keeper knows */
    int64_t floor_us;
    uint32_t generation;
    int64_t token, token_last;
    uint32_t fence_skew_ms;
};

struct sim_reply {
    uint64_t ticket;
    enum vote_kind kind;
    int64_t ttl_left_ms;
    enum token_verdict token_verdict;
    int64_t token;
    int64_t time_us;              /* by the node's clock; negative: none */
    uint8_t secret[SECRET_BYTES]; /* of the foreign value, with its owner; 0: another program */
    uint32_t owner;
    struct sim_tail tail;
};

/* A call's names, each once. */
struct sim_tickets {
    uint32_t count;
    uint64_t all[SIM_NAMES];
};

struct event {
    enum event_kind kind;
    int64_t at_ns;
    uint64_t sequence;
    uint8_t agent, keeper, node, client, name;
    uint32_t life;        /* of the agent, or of the connection: events of an earlier life are void */
    bool refused;         /* a call that is repeated after NOSCRIPT */
    bool again;           /* a request that was executed before: a repetition */
    uint32_t process;     /* of the node at the time of sending: a later process never gets the request */
    int64_t sent_ns;      /* of a request and its answer, by the host's clock */
    int64_t true_sent_ns; /* of a call */
    int64_t time_us;      /* of an answer, by the node's clock; negative: none */
    union {
        struct sim_request request;
        struct sim_reply reply;
        struct sim_call {
            struct sim_tickets tickets;
            uint32_t epoch; /* for each of its requests */
            int64_t floor_us;
            uint32_t generation;
            uint8_t names[SIM_NAMES];
            struct sim_request requests[SIM_NAMES];
        } call;
        struct {
            struct sim_tickets tickets;
            struct sim_reply replies[SIM_NAMES];
        } answer;
        struct sim_probe {
            bool bless, amend, leave, disown;
            bool quarantine; /* the asking agent counts only rested nodes */
            uint32_t former; /* the former process, if durable and blessed; 0: none */
            uint64_t mark;
            int64_t withdraw_us;
            uint32_t fleet;
            uint32_t max_ttl_ms, covered_ms;
            uint32_t fence_skew_ms;
            node_set known;
            uint8_t at[SIM_NODES_MAX];    /* the addresses of the agent's nodes */
            uint8_t names[SIM_NODES_MAX]; /* the names by which they are noted */
            unsigned n_nodes;
            uint32_t amended_epoch, amended_generation; /* the amendment and its new values */
            int64_t amended_floor_us;
            struct amendment amendment;
            struct probe answer;
            uint32_t epoch;
        } probe;
        struct {
            bool leave;
        } subscribe;
        struct {
            int64_t due_ns; /* by the host's clock; void if the timer has been set anew since */
        } timer;
        struct {
            struct command command; /* its text is the name and this tail */
            char tail[SIM_TAIL_BYTES];
        } errand;
        struct {
            struct report report;
            char text[SIM_TEXT_BYTES];
        } dispatch;
    } as;
};

void events_reset(void);
void events_add(const struct event *event); /* adds a copy, due at event->at_ns */

/* Postpones an event that was taken. Events postponed to one instant keep their order. */
void events_defer(const struct event *event, int64_t until_ns);
const struct event *events_take(void); /* takes the earliest, until the next call; NULL: there is none */
