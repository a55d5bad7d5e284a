/* The struct of a shard, which the files of core share, and what all of them ask of it. core/shard.h is its
 * face. */
#pragma once

#include "base/list.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/shared-string.h"
#include "base/timer-queue.h"
#include "core/event.h"
#include "core/lease-state.h"
#include "core/lock-value.h"
#include "core/node.h"
#include "core/quorum.h"

struct leader_query;

struct shard_config {
    unsigned nodes;
    uint32_t requests_max;         /* commands' request numbers modulo this are unique among the living */
    const char *const *node_names; /* must outlive the shard */
    uint32_t max_ttl_ms;           /* the longest that a command to contend asks for */
    uint32_t fence_skew_ms;        /* how far a token may be from a node's clock */
    bool quarantine; /* nodes that lost their memory rest for that long; otherwise they vote at once */
    uint64_t seed;   /* for delays and jitter */
};

struct shard_sink {
    /* Ask these nodes. */
    void (*send)(void *userdata, const struct send *send);
    /* Tell the front. */
    void (*report)(void *userdata, const struct report *report);
    /* Ask the node whether its epoch key names its process, and if not whether this mark of ours stands, or
     * to leave it; or bless it if the mark stands. node_trust_probed() has the answer. */
    void (*probe)(void *userdata, unsigned node, const struct inquiry *inquiry);
    void (*bless)(void *userdata, unsigned node, const struct blessing *blessing);
    /* Change its epoch, if that is the one that was found last. The same has the answer. */
    void (*amend)(void *userdata, unsigned node, const struct amendment *amendment);
    /* Give the connection to this silent node up. */
    void (*cut)(void *userdata, unsigned node);
    /* Fresh random bytes for a lock value: from getrandom(2), except in a simulation. */
    void (*secret)(void *userdata, uint8_t secret[SECRET_BYTES]);
    /* Listen on all nodes for the end of this name's keys, or no more; shard_listening() tells where that
     * stands, shard_freed() what is heard. */
    void (*listen)(void *userdata, uint64_t request, const struct shared_string *name, bool wanted);
    void *userdata;
};

/* Totals since the start, for people. */
struct shard_counters {
    uint64_t grants, releases, losses, extensions, extensions_failed;
    int64_t extension_late_ns;          /* the latest that an extension was sent after it was due */
    uint32_t extension_margin_permille; /* of the ttl that was left at the closest extension */
    uint32_t held;
};

/* The state of core/extension-schedule.h. */
struct shard_schedule {
    uint32_t names;     /* extended in this turn */
    bool in_turn;       /* among them one that was due: not only tries after a failure, and hand-overs */
    int64_t turn_lag;   /* from an extension to the next one, for the names of this turn */
    int64_t lag;        /* the same for the turn that comes next, at turn_ns */
    instant_ns turn_ns; /* when this turn began */
    bool crowd;         /* a crowd's turns are being laid */
};

/* The process of this agent before this one, which was killed: core/foreign-key.h. */
struct shard_predecessor {
    struct lock_value_identity identity; /* of length 0: there was none */
    instant_ns from_ns;                  /* until then some of its keys may be those of lost leases */
    instant_ns until_ns;                 /* by then its last key has ended */
};

struct shard {
    struct shard_config config;
    struct shard_sink sink;
    struct random random;
    struct node nodes[NODES_MAX];
    struct pool leases;
    struct pool queries;
    struct timer_queue due;     /* leases, then queries */
    uint32_t *lease_of_request; /* by request modulo requests_max: slot + 1 */
    struct shared_string_pool texts;
    struct list ending; /* leases whose keys are about to be deleted: lost, or the front waits for the end */
    struct list owing;  /* the same, but for nobody: the oldest gives way to a request, see core/window.h */
    struct list backlog;                 /* releases that are held back */
    uint32_t attempts_max, releases_max; /* names under way to a node: NODE_…_MAX; a test may have less */
    instant_ns place_ns;                 /* the last place in the queue of what is held back */
    bool judging;                        /* a clock was set, and it is not known whose */
    struct shard_schedule schedule;
    struct shard_predecessor predecessor;
    int64_t token_high;  /* the largest token granted here */
    uint32_t max_ttl_ms; /* the longest lease here: as configured, or resumed with a longer ttl */
    bool barred;         /* a node is of another fleet: none is asked */
    uint32_t waiting;    /* leases in LEASE_WAITING: spreads their retries */
    int64_t trip_ns;     /* how long an attempt takes, smoothed; 0: none yet */
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

static inline void shard_report(struct shard *shard, const struct report *report) {
    shard->sink.report(shard->sink.userdata, report);
}

/* Reports about a lease, if the front waits for reports. */
static inline void shard_report_reason(struct shard *shard, const struct lease *lease, enum report_kind kind,
                                       enum reason reason) {
    if (lease->request != 0)
        shard_report(shard, &(struct report){.kind = kind,
                                             .reason = reason,
                                             .request = lease->request,
                                             .deadline_ns = lease->deadline_ns,
                                             .token = lease->token});
}

static inline void shard_report_lease(struct shard *shard, const struct lease *lease,
                                      enum report_kind kind) {
    shard_report_reason(shard, lease, kind, (enum reason) 0);
}
