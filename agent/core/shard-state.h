/* The struct of a shard, which the files of core share, and the queries that all of them need. The public
 * interface is core/shard.h. */
#pragma once

#include "base/histogram.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/shared-string.h"
#include "base/timer-queue.h"
#include "core/event.h"
#include "core/foreign-contender.h"
#include "core/lease-state.h"
#include "core/lock-value.h"
#include "core/node.h"
#include "core/poll-share.h"
#include "core/quorum.h"
#include "core/round-trace.h"

struct leader_query;

struct shard_config {
    unsigned nodes;
    uint32_t requests_max;         /* request numbers modulo this are unique among the present requests */
    const char *const *node_names; /* must outlive the shard */
    uint32_t max_ttl_ms;           /* the longest ttl of an acquisition */
    uint32_t fence_skew_ms;        /* how far a token may be from a node's clock */
    bool quarantine;               /* nodes that lost their memory wait before they vote */
    uint64_t seed;                 /* for delays and jitter */
    struct lock_value_identity identity; /* of this agent */
};

struct shard_sink {
    /* Send a request to its nodes. */
    void (*send)(void *userdata, const struct send *send);
    /* Pass a report to the front. */
    void (*report)(void *userdata, const struct report *report);
    /* Ask the node whether its epoch key names its process; if not, whether our mark is present, or leave
     * the mark. Or bless the node, if the mark is present. node_trust_probed() takes the answer. */
    void (*probe)(void *userdata, unsigned node, const struct inquiry *inquiry);
    void (*bless)(void *userdata, unsigned node, const struct blessing *blessing);
    /* Change the node's epoch, if it is still the last one that was found. node_trust_probed() takes the
     * answer. */
    void (*amend)(void *userdata, unsigned node, const struct amendment *amendment);
    /* Close the connection to this silent node. */
    void (*cut)(void *userdata, unsigned node);
    /* Fresh random bytes for a lock value: from getrandom(2), except in simulations. */
    void (*secret)(void *userdata, uint8_t secret[SECRET_BYTES]);
    /* Subscribe on all nodes to the end of this name's keys, or unsubscribe. shard_subscribed() takes each
     * subscription, shard_freed() each message. */
    void (*listen)(void *userdata, uint64_t request, const struct shared_string *name, bool wanted);
    void *userdata;
};

/* Counters since the start, for people. */
struct shard_counters {
    uint64_t grants, releases, extensions, extensions_failed;
    struct histogram extension_delays;         /* of extensions that were sent, after they were due */
    struct histogram_shares extension_margins; /* shares of the ttl that were left at extensions */
    int64_t extension_late_ns;                 /* the longest of these delays */
    uint32_t extension_margin_permille;        /* the least of these shares */
    uint32_t held;
};

/* The state of core/extension-schedule.h. */
struct shard_schedule {
    uint32_t names;     /* extensions of this turn */
    bool in_turn;       /* one of them was due: not only retries and refreshes */
    int64_t turn_lag;   /* from an extension of this turn to the next one */
    int64_t lag;        /* where the next turn is placed, from turn_ns on */
    instant_ns turn_ns; /* when this turn began */
    bool crowd;         /* the turns of a crowd are being placed */
};

/* A process before this one, which was killed: core/foreign-key.h. */
struct shard_predecessor {
    struct lock_value_identity identity;
    bool spared;         /* its keys may be of a lease that this process does not know: none is deleted */
    instant_ns until_ns; /* by then its last key has expired */
};

struct shard_predecessors {
    struct shard_predecessor all[PREDECESSORS_MAX]; /* the latest first */
    unsigned count;
    instant_ns from_ns; /* until then some of their keys may be of lost leases */
};

struct shard {
    struct shard_config config;
    struct shard_sink sink;
    struct random random;
    struct node nodes[NODES_MAX];
    struct pool leases;
    struct pool queries;
    struct timer_queue due;           /* slots of leases, then of queries */
    uint32_t *lease_of_request;       /* by request modulo requests_max: slot + 1 */
    uint32_t *ending_chains;          /* lost and releasing leases by a hash of their secret: slot + 1 */
    struct round_trace_place *traces; /* ROUND_TRACES */
    struct shared_string_pool texts;
    struct list lost;                    /* in LEASE_LOST */
    struct list ending;                  /* releasing, and the front waits */
    struct list owing;                   /* releasing, and the front does not wait (window.h) */
    struct list backlog;                 /* releases that are held back (window.h) */
    uint32_t attempts_max, releases_max; /* names under way to a node: NODE_…_MAX; a test may have less */
    instant_ns place_ns;                 /* the last place in the queue (window.h) */
    bool judging;                        /* a clock was set, and it is unknown which (node-trust.h) */
    struct shard_schedule schedule;
    struct shard_predecessors predecessors;
    bool met_foreign_contender; /* a place below was ever used */
    struct foreign_contender foreign_contenders[FOREIGN_CONTENDERS_MAX];
    int64_t token_high;      /* the largest token granted here */
    uint32_t max_ttl_ms;     /* the longest ttl: as configured, or of a resumed lease */
    instant_ns withdrawn_ns; /* when a withdrawn proposal was last noticed, on any node */
    bool barred;             /* a node belongs to another fleet: none is asked */
    uint32_t released;       /* leases of LEASE_LOST, in this tick */
    struct poll_share polls; /* of leases in LEASE_WAITING */
    int64_t trip_ns;         /* the time of an attempt, smoothed; 0: unknown */
    struct shard_counters counters;
};

/* Nodes that can be asked now. */
static inline node_set shard_askable(const struct shard *shard) {
    node_set set = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (node_can_be_asked(&shard->nodes[i]))
            set |= node_set_of(i);
    return set;
}

static inline bool shard_is_majority(const struct shard *shard, node_set nodes) {
    return node_set_count(nodes) >= quorum_of(shard->config.nodes);
}

/* A majority can be asked now. */
static inline bool shard_has_quorum(const struct shard *shard) {
    return shard_is_majority(shard, shard_askable(shard));
}

/* No majority can be asked now, but with the nodes that were never examined there may be one. */
static inline bool shard_may_gain_quorum(const struct shard *shard) {
    unsigned quorum = quorum_of(shard->config.nodes), askable = node_set_count(shard_askable(shard));
    unsigned unknown = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        unknown += !shard->nodes[i].known;
    return askable < quorum && askable + unknown >= quorum;
}

/* The nodes whose changed epochs are being read. */
static inline unsigned shard_count_doubted(const struct shard *shard) {
    unsigned doubted = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        doubted += shard->nodes[i].doubted;
    return doubted;
}

/* No majority can be asked now, but there is one with these nodes. */
static inline bool shard_lacks_doubted_nodes(const struct shard *shard) {
    unsigned quorum = quorum_of(shard->config.nodes), askable = node_set_count(shard_askable(shard));

    return askable < quorum && askable + shard_count_doubted(shard) >= quorum;
}

static inline void shard_report(struct shard *shard, const struct report *report) {
    shard->sink.report(shard->sink.userdata, report);
}

/* Reports about a lease, if the front waits for reports. */
static inline void shard_report_lease(struct shard *shard, const struct lease *lease,
                                      enum report_kind kind) {
    if (lease->request != 0)
        shard_report(shard, &(struct report){.kind = kind,
                                             .request = lease->request,
                                             .deadline_ns = lease->deadline_ns,
                                             .token = lease->token});
}
