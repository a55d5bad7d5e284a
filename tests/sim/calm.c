/* The calm: no more faults. Since when names are free, agents untroubled and nodes without a vote, by what
 * the nodes have and by the agents' state; and each node that agents reach votes again in time. */

#include <string.h>

#include "agent.h"
#include "calm.h"
#include "node.h"
#include "pubsub.h"

enum {
    CHECK_MS = 50,          /* between two looks */
    QUARANTINE_MS = 14000,  /* beyond the longest ttl: a node that agents reach votes again */
    MARKED_MS = 4000,       /* the same since an agent's mark, if the other nodes vote */
    LAST_ARRIVAL_MS = 6000, /* messages from before the calm have arrived */
};

/* In true time: true at each look since then; 0: not at the last look. */
static int64_t free_since_ns[SIM_NAMES];            /* a majority has no key, and there was no grant */
static int64_t untroubled_since_ns[SIM_AGENTS_MAX]; /* nothing keeps the agent from a quorum */
static int64_t barred_since_ns[SIM_NODES_MAX];      /* agents reach the node, and it does not vote */
static int64_t marked_since_ns[SIM_NODES_MAX];      /* the same, with a mark, and enough others vote */
static int64_t next_look_ns;

void calm_reset(void) {
    memset(free_since_ns, 0, sizeof(free_since_ns));
    memset(untroubled_since_ns, 0, sizeof(untroubled_since_ns));
    memset(barred_since_ns, 0, sizeof(barred_since_ns));
    memset(marked_since_ns, 0, sizeof(marked_since_ns));
    next_look_ns = 0;
}

void calm_granted(unsigned name) {
    free_since_ns[name] = 0;
}

int64_t calm_since_ns(unsigned name, unsigned agent) {
    bool holds = free_since_ns[name] != 0 && untroubled_since_ns[agent] != 0;

    return holds ? instant_max(free_since_ns[name], untroubled_since_ns[agent]) : 0;
}

bool calm_is_untroubled_since(unsigned agent, int64_t true_ns) {
    return untroubled_since_ns[agent] != 0 && untroubled_since_ns[agent] <= true_ns;
}

static void note(int64_t *since_ns, bool holds) {
    if (!holds)
        *since_ns = 0;
    else if (*since_ns == 0)
        *since_ns = sim_now_ns;
}

static bool is_free(unsigned name) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += !sim_nodes[i].data.keys[name].set || node_key_left_ns(&sim_nodes[i], name) <= 0;
    return count >= quorum_of(sim_n_nodes);
}

/* Clocks of other nodes, whose answers count in a quarantine, are odd; or a mark may come, of an agent that
 * has ended or starts later. */
static bool are_quarantines_disturbed(void) {
    bool disturbed = pubsub_is_disturbed() || sim_now_ns < sim_calm_ns + LAST_ARRIVAL_MS * NS_PER_MS;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        disturbed |= sim_now_ns < sim_nodes[i].odd_until_ns;
    for (unsigned i = 0; i < sim_n_agents; i++)
        disturbed |= !sim_agents[i].running;
    return disturbed;
}

static bool votes(unsigned node) {
    const struct node_data *data = &sim_nodes[node].data;

    return data->epoch == sim_nodes[node].process && (data->rested || !sim_quarantine);
}

/* So many other nodes vote that their epochs prove the longest possible lease. */
static bool enough_others_vote(void) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += votes(i);
    return count > sim_n_nodes - quorum_of(sim_n_nodes);
}

/* With the drift of two clocks. */
static int64_t longest_ms(void) {
    return (int64_t) sim_longest_ttl_ms + sim_longest_ttl_ms / 50;
}

/* A quarantine lasts as long as the longest lease, and not much longer: without the other nodes' epochs
 * until all agents have noticed the loss. */
static void check_votes(unsigned node) {
    bool barred = !votes(node) && !are_quarantines_disturbed();

    note(&barred_since_ns[node], barred);
    note(&marked_since_ns[node], barred && sim_nodes[node].data.marked_ms > 0 && enough_others_vote());
    if (barred_since_ns[node] != 0 &&
        sim_now_ns > barred_since_ns[node] + (longest_ms() + QUARANTINE_MS) * NS_PER_MS)
        violation("node %u does not vote, and nothing hinders it", node);
    if (marked_since_ns[node] != 0 &&
        sim_now_ns > marked_since_ns[node] + (longest_ms() + MARKED_MS) * NS_PER_MS)
        violation("node %u is in quarantine for too long", node);
}

bool calm_look(void) {
    if (sim_now_ns < next_look_ns || sim_sets_differ)
        return false;
    next_look_ns = sim_now_ns + CHECK_MS * NS_PER_MS;
    for (unsigned i = 0; i < sim_n_agents; i++)
        note(&untroubled_since_ns[i],
             agent_has_tokens(&sim_agents[i]) && agent_is_untroubled(&sim_agents[i]));
    for (unsigned i = 0; i < SIM_NAMES; i++)
        note(&free_since_ns[i], is_free(i));
    for (unsigned i = 0; i < sim_n_nodes; i++)
        check_votes(i);
    return true;
}
