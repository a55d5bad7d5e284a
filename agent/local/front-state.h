/* What all sessions share: the registry, the policy, what the keepers last told about the nodes, and the way
 * out. Pure, owned by the front thread. */
#pragma once

#include "core/event.h"
#include "core/shard.h"
#include "local/recovery/ledger.h"
#include "local/observe.h"
#include "local/policy.h"
#include "local/registry.h"

struct session;

struct front_state_node {
    enum standing standing;
    instant_ns since_ns;
    char reason[NODE_TROUBLE_BYTES];
};

/* What a keeper's connection to a node has measured, and what the node says of itself. */
struct front_state_node_times {
    uint32_t rtt_us; /* smoothed; like the percentiles 0 when unknown */
    uint32_t rtt_p50_us, rtt_p99_us;
    int64_t clock_us;      /* ahead of the median of the nodes' clocks; 0 when unknown */
    instant_ns until_ns;   /* when its quarantine ends; INSTANT_NEVER: not known */
    uint64_t evicted_keys; /* since the server's start */
    bool known;            /* the node has told what follows */
    bool aof_enabled;
    char version[32];
    char differs[224]; /* how another agent is configured differently; "" if none is known to be */
};

/* One keeper's last word. */
struct front_state_keeper {
    struct front_state_node nodes[NODES_MAX];
    struct shard_counters counters;
    struct front_state_node_times figures[NODES_MAX];
};

struct front_state_identity {
    const char *version;
    const char *agent; /* 8 hex digits, new for each start */
    const char *host;
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
    /* LEADER, OBSERVE: ask the name's keeper. `request` comes back in the report. */
    void (*look)(void *userdata, uint64_t name_hash, const struct command *command);
    /* Ask all keepers for their counters; listing_counted() follows. */
    void (*survey)(void *userdata);
    /* PAGE: makes the session's page, and sends its descriptor with the first byte that is written next. 0,
     * or a negative errno. */
    int (*page)(void *userdata, struct session *session);
    /* BLESS: tell all keepers that this node may vote. */
    void (*bless)(void *userdata, unsigned node);
    void *userdata;
};

enum { REPLY_BYTES_MAX = 300 * 1024 };

struct front_state {
    struct registry registry;
    struct observe_table observers;
    struct policy policy;
    struct front_state_identity identity;
    struct front_state_sink sink;
    struct front_state_keeper keepers[KEEPERS_MAX];
    struct list listings; /* sessions that wait for the keepers' counters: listing.h */
    uint32_t sessions;
    struct ledger *ledger; /* NULL: nothing is kept for a successor */
    bool draining;
    char *reply; /* REPLY_BYTES_MAX, where replies are composed; the caller's */
};

/* The registry and the observatory are initialised by the caller, with outcome_deliver() and observe_hint()
 * as the registry's sink. */
void front_state_init(struct front_state *front, const struct policy *policy,
                      const struct front_state_identity *identity, const struct front_state_sink *sink,
                      char *reply, instant_ns now_ns);

/* A keeper's word about a node. */
void front_state_node_report(struct front_state *front, unsigned keeper, const struct report *report,
                             instant_ns now_ns);

/* A node as the keepers together see it: the least good standing among them. */
struct front_state_node front_state_node(const struct front_state *front, unsigned node);

/* And its figures: the longest times of all keepers; but the first of them that may bless it does it for
 * all. */
struct front_state_node_times front_state_figures(const struct front_state *front, unsigned node);

/* How many nodes vote for every keeper. */
unsigned front_state_voting(const struct front_state *front);
