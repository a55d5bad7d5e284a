/* Released leases: no other agent may give one a majority of keys again, at which it was before a RESUME;
 * and no node that can be reached keeps its key. */

#include <string.h>

#include "agent.h"
#include "calm.h"
#include "events.h"
#include "node.h"
#include "released.h"

enum {
    RELEASED_MAX = 16,
    AGAIN_MS = 1500, /* beyond a node time-out: releases are sent again each second */
};

static struct released {
    uint8_t lease[SECRET_LEASE_BYTES];
    unsigned agent, name;
    uint32_t life;        /* of the agent */
    int64_t true_gone_ns; /* when the nodes that can be reached have no key; 0: they may, it cools */
    int64_t true_asked_ns, true_ns; /* of RELEASE, and of the reply */
    node_set set_again;             /* nodes where a key was set by a request that was sent later */
} all[RELEASED_MAX];
static unsigned next;

void released_reset(void) {
    memset(all, 0, sizeof(all));
    next = 0;
}

void released_note(const struct view *view) {
    int64_t gone_ns = sim_now_ns + ((int64_t) view->terms.node_timeout_ms + AGAIN_MS) * NS_PER_MS;

    all[next] = (struct released){.agent = view->agent,
                                  .name = view->name,
                                  .life = view_agent(view)->life,
                                  .true_asked_ns = view->true_released_ns,
                                  .true_ns = sim_now_ns,
                                  .true_gone_ns = view->terms.cooldown_ms > 0 ? 0 : gone_ns};
    memcpy(all[next].lease, view->secrets[0], SECRET_LEASE_BYTES);
    next = (next + 1) % RELEASED_MAX;
}

/* A late extension or a relay's repetition may set a key again: the agent does not know that. A full shard
 * forgets its oldest release: the keys expire. */
void released_look(void) {
    for (unsigned i = 0; i < RELEASED_MAX; i++) {
        const struct released *released = &all[i];
        const struct sim_agent *agent = &sim_agents[released->agent];
        int64_t took_ns = released->true_gone_ns - released->true_ns;
        if (agent->slots < SIM_REQUESTS_MAX || released->true_gone_ns == 0 ||
            sim_now_ns < released->true_gone_ns || released->life != agent->life ||
            !calm_is_untroubled_since(released->agent, sim_now_ns - took_ns))
            continue;
        for (unsigned j = 0; j < sim_n_nodes; j++) {
            const struct sim_key *key = &sim_nodes[j].data.keys[released->name];
            bool has = key->set && !key->repeated && key->true_set_ns < released->true_asked_ns &&
                       key->owner == (agent->index << 24 | agent->life) &&
                       memcmp(key->secret, released->lease, SECRET_LEASE_BYTES) == 0;
            if (has && node_key_left_ns(&sim_nodes[j], released->name) > 0)
                violation("node %u has a key of name %u, which was released at agent %u at %.3f ms", j,
                          released->name, agent->index, (double) released->true_ns / NS_PER_MS);
        }
    }
}

/* The agent of the release may have handed the lease on. A node that lost its data, or whose clock was set,
 * has forgotten the RESUME. When a request is executed a ttl after it was sent, its agent has lost the
 * lease, and extends nothing. */
void released_set_again(unsigned agent, unsigned node, const struct sim_request *request,
                        int64_t true_sent_ns) {
    if (sim_steps || sim_now_ns >= true_sent_ns + request->ttl_ms * NS_PER_MS)
        return;
    for (unsigned i = 0; i < RELEASED_MAX; i++) {
        struct released *released = &all[i];
        if (released->true_ns == 0 || released->agent == agent || true_sent_ns < released->true_ns ||
            memcmp(released->lease, request->secret, SECRET_LEASE_BYTES) != 0 ||
            sim_nodes[node].lost_ns > released->true_ns - sim_longest_ttl_ms * NS_PER_MS)
            continue;
        released->set_again |= node_set_of(node);
        if (node_set_count(released->set_again) >= quorum_of(sim_n_nodes))
            violation("a lease that was released at agent %u at %.3f ms has a majority again, by agent %u "
                      "at %.3f ms",
                      released->agent, (double) released->true_ns / NS_PER_MS, agent,
                      (double) true_sent_ns / NS_PER_MS);
    }
}
