/* Trust in the nodes of a shard: decides which nodes get requests. Reports each change to the leases.
 *
 * A node is trusted after a probe that finds its epoch key in order (core/node-epoch.h); before that it is
 * marked, waits out its quarantine (core/quarantine.h) and is blessed. Three things end the trust: the
 * connection breaks, a request finds another epoch, or an answer shows that the node's clock was set. Trust,
 * and its end, are reported to the front, and passed on to the leases and leader queries that wait for the
 * node.
 *
 * A clock that was set. A node's clock and ours disagree: one of them was set, or ours stopped. The next
 * answers of the other nodes decide. If at least as many of them agree with our clock as disagree, the
 * clocks of those that disagree were set: their blessings are withdrawn. Otherwise ours stopped, and all
 * leases are lost, since every deadline is later than the keys' end. */
#pragma once

#include "core/shard-state.h"

/* The node is connected, and its scripts are loaded: probes the node, which votes once it is trusted. */
void node_trust_ready(struct shard *shard, unsigned node, instant_ns now_ns);

/* The node is not connected (any more), for this reason. The votes of requests under way come before. */
void node_trust_gone(struct shard *shard, unsigned node, enum node_state state, const char *reason,
                     instant_ns now_ns);

/* An inspection shows that a trusted node takes no new keys, for this reason; NULL: that it does, as far as
 * inspections show. Requests go on, since the node extends the keys that it has, but it is reported as
 * failed. */
void node_trust_refuses(struct shard *shard, unsigned node, const char *reason, instant_ns now_ns);

/* A node that refused writes has executed one. */
void node_trust_wrote(struct shard *shard, unsigned node);

/* The answer to a probe, a blessing or an amendment. */
void node_trust_probed(struct shard *shard, unsigned node, const struct probe *probe, instant_ns now_ns);

/* True if requests may carry the epoch of the node's last answer. Otherwise they carry none that a node can
 * have: a node must not accept a request that was made before the answer, in the same turn, under an epoch
 * that does not suffice. */
static inline bool node_trust_holds(const struct shard *shard, unsigned node) {
    return shard->nodes[node].trust == NODE_TRUSTED;
}

/* A request was rejected: the epoch is another one, or the node answered with an error. */
void node_trust_rejected(struct shard *shard, unsigned node, const struct vote *vote, instant_ns now_ns);

/* A request was answered, or cut off. True: node_trust_recovered() is due once the vote is counted. */
static inline bool node_trust_answered(struct shard *shard, unsigned index, const struct vote *vote,
                                       instant_ns now_ns) {
    struct node *node = &shard->nodes[index];
    bool recovered = node_answered(node, vote->kind != VOTE_CUT, now_ns) == NODE_RECOVERED;

    if (vote->kind == VOTE_EPOCH || vote->kind == VOTE_REFUSED)
        node_trust_rejected(shard, index, vote, now_ns);
    else if (vote->kind != VOTE_CUT && node->trust == NODE_TRUSTED && !node->refuses && !node->slow &&
             !node->barred)
        node->trouble[0] = '\0'; /* otherwise the text is why the node does not vote */
    return recovered;
}

/* A trusted node answers (again): it votes, unless a node belongs to another fleet. */
void node_trust_recovered(struct shard *shard, unsigned node, instant_ns now_ns);

/* The node's TIME in an answer to a request of `sent_ns`. Comes before the votes in that answer. */
void node_trust_time(struct shard *shard, unsigned node, int64_t time_us, instant_ns sent_ns,
                     instant_ns now_ns);

/* To be called when the nodes get requests anyway: sends probes that are due within `early_ns`. */
void node_trust_probe_early(struct shard *shard, int64_t early_ns, instant_ns now_ns);

/* An operator's BLESS: the node has forgotten no lease that counts. */
void node_trust_bless(struct shard *shard, unsigned node, instant_ns now_ns);

/* When the node's quarantine ends, as far as known; INSTANT_NEVER otherwise. */
instant_ns node_trust_until_ns(const struct shard *shard, unsigned node);

/* This agent grants leases of up to this ttl from now on. */
void node_trust_outgrow(struct shard *shard, uint32_t ttl_ms);

/* Does what is due: silent and slow nodes, probes, blessings. */
void node_trust_tick(struct shard *shard, instant_ns now_ns);
instant_ns node_trust_due_ns(const struct shard *shard);
