/* Released leases: no other agent may give one a majority of keys again, at which it was before a RESUME. */

#include <string.h>

#include "events.h"
#include "node.h"
#include "released.h"

enum { RELEASED_MAX = 16 };

static struct released {
    uint8_t lease[SECRET_LEASE_BYTES];
    unsigned agent;
    int64_t true_ns;
    node_set set_again; /* nodes where a key was set by a request that was sent later */
} all[RELEASED_MAX];
static unsigned next;

void released_reset(void) {
    memset(all, 0, sizeof(all));
    next = 0;
}

void released_note(unsigned agent, const uint8_t secret[SECRET_BYTES]) {
    all[next] = (struct released){.agent = agent, .true_ns = sim_now_ns};
    memcpy(all[next].lease, secret, SECRET_LEASE_BYTES);
    next = (next + 1) % RELEASED_MAX;
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
