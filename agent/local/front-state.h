/* The state that all sessions share: registry, policy, the keepers' last reports on the nodes, and the
 * sinks. Owned by the front thread. */
#pragma once

#include "base/histogram.h"
#include "core/event.h"
#include "core/shard.h"
#include "local/cooling.h"
#include "local/fair-queue.h"
#include "local/history.h"
#include "local/observe.h"
#include "local/policy.h"
#include "local/query-share.h"
#include "local/registry.h"

struct session;

struct front_state_node {
    enum node_state node_state;
    instant_ns since_ns;
    char reason[NODE_TROUBLE_BYTES];
};

/* A keeper's measurements of a node, and the node's report of itself. */
struct front_state_node_times {
    uint32_t rtt_us; /* smoothed; 0: unknown, as for the percentiles */
    uint32_t rtt_p50_us, rtt_p99_us;
    uint32_t outstanding;  /* requests without an answer */
    struct histogram rtts; /* since the start */
    int64_t clock_us;      /* ahead of the median of the nodes' clocks; 0: unknown */
    instant_ns until_ns;   /* the end of its quarantine; INSTANT_NEVER: unknown */
    uint64_t evicted_keys; /* since the server's start */
    bool known;            /* the fields below are known */
    bool aof_enabled;
    char version[32];
    char differs[224]; /* how another agent's configuration differs; "": not known to differ */
};

/* One keeper's last reports. */
struct front_state_keeper {
    struct front_state_node nodes[NODES_MAX];
    struct shard_counters counters;
    struct histogram timer_delays; /* of its thread's timer */
    struct front_state_node_times times[NODES_MAX];
};

/* For each label that METRICS shows, Prometheus keeps a time series: a server's texts must not make any
 * number of them. */
enum { TROUBLE_REASONS_MAX = 32 };

/* Why the node did not vote last, or its last error. */
struct front_state_trouble {
    instant_ns at_ns; /* 0: none since the start */
    char reason[NODE_TROUBLE_BYTES];
    uint64_t seen_hashes[TROUBLE_REASONS_MAX]; /* of the first different reasons */
    uint32_t n_seen;
    bool is_one_of_many; /* none of those, so METRICS does not show the reason */
};

struct front_state_identity {
    const char *version;
    const char *agent; /* 8 hex digits, new for each start */
    const char *host;
    uint64_t key_format; /* its hash */
    long pid;
    uid_t uid;
    instant_ns started_ns;
    unsigned n_nodes;
    unsigned n_keepers;
    const char *node_names[NODES_MAX];
    const char *node_addresses[NODES_MAX];
};

struct front_state_sink {
    /* Appends a whole reply or push to the session's output. */
    void (*write)(void *userdata, struct session *session, const char *bytes, size_t length);
    /* LEADER, OBSERVE: sends the query to the name's keeper. */
    void (*query)(void *userdata, uint64_t name_hash, const struct command *command);
    /* Asks all keepers for their counters; listing_counted() follows. */
    void (*survey)(void *userdata);
    /* PAGE: makes the session's page and sends its descriptor with the next byte of output. Returns 0 or a
     * negative errno. */
    int (*page)(void *userdata, struct session *session);
    /* BLESS: lets the node vote for all keepers. */
    void (*bless)(void *userdata, unsigned node);
    void *userdata;
};

enum {
    REPLY_BYTES_MAX = 300 * 1024,
    FRONT_STATE_WORDS = 12, /* error words of the protocol */
};

struct front_state {
    struct registry registry;
    struct observe_table observers;
    struct cooling_table cooling;
    struct history history;
    struct policy policy;
    struct front_state_identity identity;
    struct front_state_sink sink;
    struct front_state_keeper keepers[KEEPERS_MAX];
    struct front_state_trouble troubles[NODES_MAX];
    struct list uncounted; /* sessions that wait for the keepers' counters: listing.h */
    struct query_share queries;
    struct work_share work;
    uid_t users[QUOTA_ACCOUNTS]; /* the latest with a session, of each account but 0 */
    struct fair_queue listings;  /* sessions that wait for their listings */
    uint32_t sessions;
    uint64_t rejections[FRONT_STATE_WORDS]; /* error replies since the start: reply_word_of_slot() */
    struct histogram timer_delays;          /* of the front's timer */
    bool draining;
    char *reply; /* the caller's REPLY_BYTES_MAX bytes, in which replies are composed */
};

/* The caller initialises `registry`, with outcome_deliver() and observe_hint() as its sink, `observers`,
 * `cooling` and `history`. */
void front_state_init(struct front_state *front, const struct policy *policy,
                      const struct front_state_identity *identity, const struct front_state_sink *sink,
                      char *reply, instant_ns now_ns);

/* A keeper's report on a node. */
void front_state_node_report(struct front_state *front, unsigned keeper, const struct report *report,
                             instant_ns now_ns);

/* The node for all keepers: the worst of its states. */
struct front_state_node front_state_node(const struct front_state *front, unsigned node);

/* The longest times of all keepers, and the sums of `outstanding` and `rtts`; but of `until_ns` the
 * earliest: the first keeper that may bless the node blesses it for all. */
struct front_state_node_times front_state_times(const struct front_state *front, unsigned node);

/* The number of nodes that vote for the keeper with the fewest: a quorum if each keeper has one, of whatever
 * nodes. */
unsigned front_state_voting(const struct front_state *front);

/* The states of the agent and of a node, as a word for operators. */
const char *front_state_word(const struct front_state *front);
const char *front_state_node_word(enum node_state state);
