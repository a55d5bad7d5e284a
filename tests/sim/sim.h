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
    SIM_OUTSTANDING_MAX = 4096,
    SIM_TURN_MAX = 1024, /* requests */
    SIM_LONGEST_TTL_MS = 2000,
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
extern bool sim_calm;       /* no more faults */
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
extern bool sim_quarantine;           /* the agents' setting */
extern bool sim_sets_differ;          /* the agents have different sets of nodes */
extern bool sim_steps;                /* clocks are set */
extern bool sim_hosts_halt;           /* hosts stop for a while, and their clocks with them */
extern bool sim_repeats;              /* a relay before the nodes may send a request twice */
extern bool sim_durable;              /* a node that restarts keeps all of its data, or none */
extern unsigned sim_last_blessed;     /* the node that was blessed last */
extern bool sim_fencing;              /* the nodes', too */
extern bool sim_tokens_grow;          /* in this run tokens must grow */
extern bool sim_tokens_agree;         /* in this run a majority must accept a token */
extern int64_t sim_blessing_until_ns; /* a node is blessed by an operator: no node loses its memory */
extern int64_t sim_turn_us;           /* the longest turn of a keeper */
extern int64_t sim_dark_from_ns, sim_dark_until_ns; /* no node answers; once in a run */

/* --- events --- */

enum event_kind {
    EVENT_CALL,             /* arrives at a node: a call for one name or more */
    EVENT_PROBE,            /* arrives at a node: a probe or a blessing */
    EVENT_PROBED,           /* the answer to a probe arrives at a keeper */
    EVENT_REPLY,            /* the answer to a call arrives at a keeper */
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

/* --- nodes --- */

/* A note of an address. */
struct sim_note {
    int64_t at_us; /* by the node's clock; 0: none */
    bool known;    /* noted as a node of the fleet */
};

struct node_data {
    uint32_t epoch;   /* the process that the epoch key names; 0: none */
    int64_t floor_us; /* the rest of the epoch */
    uint32_t max_ttl_ms, proposed_ms, fleet, generation;
    bool rested;
    uint32_t marked_ms;                  /* the longest max_ttl of the agents that left marks */
    int64_t fleet_marked_us[SIM_FLEETS]; /* when each fleet left its mark, by the node's clock; 0: never */
    struct sim_note notes[SIM_NODES_MAX]
                         [SIM_ADDRESSES]; /* the addresses at which agents reach each of their nodes */
    struct {
        uint64_t number;
        uint32_t process;
    } marks[SIM_AGENTS_MAX * SIM_KEEPERS_MAX];
    struct sim_key {
        bool set;
        uint8_t secret[SECRET_BYTES];
        uint32_t owner;
        struct sim_tail tail;
        int64_t expires_ns; /* by the node's clock */
        int64_t token;      /* the largest accepted token; 0: none */
        int64_t own_token;  /* the holder's, behind it */
        bool released;      /* released, and not set since */
    } keys[SIM_NAMES];
    struct {
        uint8_t lease[SECRET_LEASE_BYTES];
        uint16_t number;    /* of its last RESUME */
        uint32_t owner;     /* which set that number */
        int64_t expires_ns; /* by the node's clock */
    } moved[SIM_MOVED];     /* resumed leases; the last one first */
};

struct sim_node {
    struct clock clock;
    int64_t stopped_until_ns;
    int64_t refuses_until_ns;          /* most writes, like a server that is full or read-only */
    int64_t slow_until_ns, slow_us;    /* each answer is late by up to so much */
    uint32_t process;                  /* the run_id: another one after each restart */
    int64_t lost_ns;                   /* when it last lost data */
    int64_t overwritten_ns;            /* when another program last set a key */
    int64_t set_back_ns;               /* by how much its clock was set back in all */
    int64_t odd_from_ns, odd_until_ns; /* true time: its clock stops, or runs backwards */
    bool reversed;
    uint32_t subscribers[SIM_AGENTS_MAX][SIM_KEEPERS_MAX][SIM_NAMES]; /* lives of their connections */
    struct node_data data, saved; /* its data, and the data of its last write to disk */
};

extern struct sim_node sim_nodes[SIM_NODES_MAX];
extern unsigned sim_n_nodes;

void node_reset(struct sim_node *node, int64_t clock_offset_ns);
void node_bless(struct sim_node *node, uint32_t max_ttl_ms, uint32_t fleet, bool rested,
                uint32_t fence_skew_ms);
bool node_is_rested(const struct sim_node *node); /* votes, after a quarantine */
void node_forget(struct sim_node *node);          /* drops everything, like FLUSHALL */
void node_restart(struct sim_node *node);         /* starts another process */
void node_save(struct sim_node *node);
void node_load(struct sim_node *node); /* loads its saved data */
void node_set_clock(struct sim_node *node, int64_t by_ns);
void node_freeze_clock(struct sim_node *node, int64_t until_ns, bool reversed);
void node_probe(struct sim_node *node, struct event *probe); /* replaces it by its answer */
int64_t node_clock_us(const struct sim_node *node);
int64_t node_key_left_ns(const struct sim_node *node, unsigned name); /* of a key that is set */

void node_overwrite(struct sim_node *node, unsigned name, uint32_t ttl_ms); /* by another program */

/* The dialect of another library: SET NX, and extension and deletion of its own value. */
bool node_other_set(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                    uint32_t ttl_ms);
bool node_other_extend(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES],
                       uint32_t ttl_ms);
void node_other_delete(struct sim_node *node, unsigned name, const uint8_t secret[SECRET_BYTES]);

/* Executes the request. Returns the reply. */
struct sim_reply node_execute(struct sim_node *node, unsigned name, const struct sim_request *request);
bool node_has_keys(const struct sim_node *node);

/* --- agents --- */

struct sim_connection {
    bool up;
    uint32_t life;
    uint32_t epoch; /* of the node, as the last probe found it */
    uint32_t generation;
    uint32_t blessed_process; /* the process that it last found blessed */
    int64_t floor_us;
    int64_t request_ns, reply_ns; /* requests and replies keep their order */
    struct sim_tickets outstanding[SIM_OUTSTANDING_MAX];
    unsigned first, count;
    uint64_t last_asked[SIM_NAMES]; /* the request's number */
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
    uint32_t requests_max; /* its limit of leases and waiters */
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
    bool frozen;                    /* the front stands still within a step, until the process is killed */
    bool serves;                    /* the front takes requests */
    int64_t stopped_ns, started_ns; /* true time: of the former process, and of this one */
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
void agent_cut(struct sim_agent *agent, unsigned keeper, unsigned node); /* breaks a connection */
void agent_command(struct sim_agent *agent, uint64_t name_hash, const struct command *command);
void agent_bless(struct sim_agent *agent, unsigned node); /* an operator's word */
bool agent_is_idle(const struct sim_agent *agent);        /* and all nodes vote */

/* The agent runs, all nodes vote, and no message between them is late. */
bool agent_is_untroubled(const struct sim_agent *agent);

/* --- calls --- */

void calls_reset(struct sim_keeper *keeper);
void calls_add(struct sim_keeper *keeper, const struct send *send);
bool calls_pending(const struct sim_keeper *keeper);
void calls_send(struct sim_keeper *keeper);               /* all requests that were added */
void calls_bounce(struct sim_keeper *keeper);             /* calls that could not be sent */
void calls_cut(struct sim_keeper *keeper, unsigned node); /* calls under way */
void calls_answered(struct sim_keeper *keeper, const struct event *event);

/* --- messages --- */

void pubsub_init(struct sim_keeper *keeper);
void pubsub_cut(struct sim_keeper *keeper, unsigned node); /* breaks a connection */
void pubsub_event(struct sim_keeper *keeper, const struct event *event);
void pubsub_deliver(const struct event *event); /* the node executes it */

/* The node publishes that the name's key is deleted. */
void pubsub_publish(const struct sim_node *node, unsigned name);

void pubsub_reset(void);
void pubsub_check(void);
extern int64_t sim_keyed_ns[SIM_NAMES]; /* a node's key was last set or removed */

bool pubsub_is_delayed(const struct sim_agent *agent); /* something is in the way to a node */
bool pubsub_is_disturbed(void);                        /* a fault from before the calm continues */

/* --- the front of an agent, and its sessions (front.c) --- */

void front_allocate(struct sim_agent *agent); /* once */
void front_start(struct sim_agent *agent);
void front_event(struct sim_agent *agent, const struct event *event); /* mail, or its timer */
bool front_is_idle(const struct sim_agent *agent);
void front_kill(struct sim_agent *agent);
void front_continue(struct sim_agent *agent); /* continues the sessions of the former process */
bool front_serves(const struct sim_agent *agent);

/* The process may be killed at this point, is killed there, or will be soon. */
void front_may_die(struct sim_agent *agent);
void front_die(struct sim_agent *agent) __attribute__((noreturn));
bool front_is_dying(const struct sim_agent *agent);
const struct request *front_request(const struct sim_agent *agent, uint64_t id); /* NULL: none */
bool front_has_holder(const struct sim_agent *agent, unsigned name);

/* Each client has one session. What its agent sends it goes to client_answer_read(). */
void front_connect(struct sim_agent *agent, unsigned client);
void front_receive(unsigned client, const char *bytes, size_t length);
void front_hang_up(unsigned client); /* the client closes its session, or dies */
bool front_may_hang_up(unsigned client);
void front_expel(unsigned client); /* the agent closes it */
void front_exit(unsigned client);  /* the process of a session that the agent closed dies */
bool front_is_connected(unsigned client);
const void *front_page(unsigned client); /* that is the client's */

/* The values of the lease with this id: that of its client, and the one in the keys. */
void front_values(const struct sim_agent *agent, uint64_t id, uint8_t ret[2][SECRET_BYTES]);

/* --- the rules of its configuration (rules.c) --- */

/* What redlockd.conf(5) says of a client and a name. */
struct sim_rule {
    unsigned number; /* 0: no rule */
    bool may_acquire, may_resume;
    uint32_t default_ttl_ms, max_ttl_ms;
    uint32_t max_hold_ms; /* 0: no bound */
    bool fencing;
    unsigned max_leases, max_waiters; /* of the client's user under this rule; 0: no bound */
};

void rules_choose(struct sim_agent *agent);
void rules_apply(struct sim_agent *agent); /* to a process that starts */
struct sim_rule rules_of(const struct sim_agent *agent, unsigned client, unsigned name);

/* --- the ledger (restart.c) --- */

struct client_session;

void restart_allocate(struct sim_agent *agent); /* once */
void restart_begin(struct sim_agent *agent);    /* a ledger for this process */
void restart_continue(struct sim_agent *agent);
void restart_disconnect(struct client_session *of);

/* --- what a client reads (answer.c) --- */

enum answer_kind {
    ANSWER_OTHER, /* to HELLO and the like */
    ANSWER_INTEGER,
    ANSWER_NIL,
    ANSWER_ERROR,
    ANSWER_WAITING,
    ANSWER_GRANT, /* a reply or a push */
    ANSWER_LEADER,
    ANSWER_FAILED, /* the rest are pushes */
    ANSWER_LOST,
    ANSWER_AT_RISK,
    ANSWER_EXTENDED,
    ANSWER_OBSERVED,
};

struct answer {
    enum answer_kind kind;
    bool push;
    uint64_t id;
    int64_t integer;
    int64_t validity_ms, deadline_ns, fence, slot, since_ms;
    char word[16]; /* of an error, of a reason, or of a state */
    char name[8], holder[40], data[16];
    char token[SIM_TOKEN_BYTES]; /* for RESUME; "": none */
};

/* Returns the length of the first whole reply or push; 0: there is none. */
size_t answer_read(const char *bytes, size_t length, struct answer *ret);

/* What the page shows in this slot: 0, or the deadline of the lease with this id. */
int64_t answer_page_deadline(const void *page, int64_t slot, uint64_t id);

/* --- clients (client.c, client-step.c, client-answer.c) --- */

void clients_reset(unsigned count);
void clients_give_up(void);
void clients_halt(const struct sim_agent *agent, int64_t for_ns); /* those of the agent */
void client_step(unsigned client);
bool client_relies(unsigned client); /* on its lease: not after CHECK has said 0 */
bool client_has_read(unsigned client);
unsigned client_uid(unsigned client);
unsigned client_pid(unsigned client); /* of its present process */
unsigned client_of_pid(unsigned pid);
bool client_process_is_dead(unsigned pid);
void client_disconnected(unsigned client);             /* its session ends, and the client did not end it */
void clients_restarted(const struct sim_agent *agent); /* another process takes requests soon */

/* From its agent; and from the agent that the client has left. */
void client_answer_read(unsigned client, const struct answer *answer);
void client_answer_read_former(unsigned client, const struct answer *answer);

/* At each turn of the agent: its clients may look at their pages at any time. */
void client_answer_read_pages(const struct sim_agent *agent);

/* Call before a key with this value is deleted. */
void clients_check_deletion(unsigned name, const struct sim_key *deleted);
void clients_check_end(void);
bool clients_are_idle(void);

/* --- leases that were released (released.c) --- */

void released_reset(void);
void released_note(unsigned agent, const uint8_t secret[SECRET_BYTES]); /* released at this agent */

/* The node has set a missing key of the lease, by a request that this agent sent at that instant. */
void released_set_again(unsigned agent, unsigned node, const struct sim_request *request,
                        int64_t true_sent_ns);

/* --- who asks what the agents know (reader.c) --- */

void reader_reset(void);
void reader_step(void);

/* Returns the length of the first whole answer or push; 0: there is none. */
size_t reader_reads(const char *bytes, size_t length);

void reader_granted(unsigned client, bool in_calm); /* a new lease */

/* All nodes have answered an observers' query of this agent in time. */
void reader_all_answered(const struct sim_agent *agent, unsigned name);

/* --- another lock library (other-library.c) --- */

void other_library_reset(void);
void other_library_step(void);
bool other_library_holds(unsigned name);

/* --- the observer of the agents' outcomes and of their requests to nodes (observer.c) --- */

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
void observer_granted(unsigned client, int64_t deadline_ns, const uint8_t secrets[2][SECRET_BYTES]);
void observer_extended(unsigned client, int64_t deadline_ns);
void observer_reported(unsigned client, enum answer_kind kind, const char *word);
void observer_released(unsigned client, int64_t answer); /* the answer to RELEASE */
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

/* --- the calm, for the observer (calm.c) --- */

void calm_reset(void);
void calm_granted(unsigned name);

/* After an event of the calm. True: the instants below are those of now. */
bool calm_look(void);

/* Since when the name is free, and nothing keeps the agent from a quorum; 0: not now. */
int64_t calm_since_ns(unsigned name, unsigned agent);

/* --- faults (fault.c) --- */

extern struct sim_faults {
    bool kills;       /* agents are killed more often */
    bool losses;      /* nodes lose their memory */
    bool far_clocks;  /* the nodes' clocks are far apart */
    bool deaf_agents; /* agents lose messages in the calm */
    bool bad_starts;  /* a restarted agent's searches are late, and it is often killed again */
    bool slow_starts; /* its uplink is down at first; holders send heartbeats meanwhile */
    int64_t gap_ms;   /* the longest pause between faults */
} sim_faults;         /* of this run */

void fault(void); /* and the next one later */

struct sim_counts {
    uint64_t events, calls, shared_calls, requests, grants, losses, releases, refusals, extensions, cuts,
        pauses, kills, stops, amnesias, old_data, blackouts, overwrites, steps, raises, resumes, resumed,
        moves, handoffs, refreshes, inheritances, repeats, messages, fulls, amendments, sets, restored,
        other_locks, slow, blessings;
};
extern struct sim_counts sim_counts;
