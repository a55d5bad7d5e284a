/* Another lock library, without an agent, that uses the same names by the common dialect: SET NX with a
 * random value, extension and deletion if the value is its own. It knows neither quarantine nor tokens. So
 * its lock counts for the invariant only if it was set on all nodes while all of them were trusted: then no
 * lease that a node has forgotten can be valid. */

#include <string.h>

#include "agent.h"
#include "client.h"
#include "events.h"
#include "node.h"
#include "other-library.h"

enum { LONGEST_TTL_MS = 500 /* the smallest max_ttl of an agent */ };

static struct {
    bool sets;  /* it has set keys */
    bool holds; /* until the deadline */
    unsigned name;
    uint32_t ttl_ms;
    int64_t true_deadline_ns;
    uint8_t secret[SECRET_BYTES];
} lock;

static bool enabled;

static void step_later(void) {
    events_add(&(struct event){.kind = EVENT_OTHER_LIBRARY, .at_ns = sim_now_ns + pick(2, 300) * NS_PER_MS});
}

void other_library_reset(void) {
    lock.sets = lock.holds = false;
    enabled = !sim_steps && !sim_sets_differ && sim_quarantine && chance(25);
    for (unsigned i = 0; enabled && i < sim_n_agents; i++)
        enabled &= sim_agents[i].quarantine;
    if (enabled)
        step_later();
}

bool other_library_holds(unsigned name) {
    return lock.holds && lock.name == name && sim_now_ns < lock.true_deadline_ns;
}

/* As the libraries compute it. */
static int64_t deadline_ns(void) {
    int64_t ttl_ns = (int64_t) lock.ttl_ms * NS_PER_MS;

    return sim_now_ns + ttl_ns - ttl_ns / 100 - 2 * NS_PER_MS;
}

static bool is_trusted(const struct sim_node *node) {
    return node->data.epoch == node->process && node->data.rested;
}

static void release(void) {
    trace("another library: releases name %u", lock.name);
    for (unsigned i = 0; i < sim_n_nodes; i++)
        if (sim_now_ns >= sim_nodes[i].stopped_until_ns)
            node_other_delete(&sim_nodes[i], lock.name, lock.secret);
    lock.sets = lock.holds = false;
}

static void acquire(void) {
    unsigned count = 0;

    lock.name = (unsigned) pick(0, SIM_NAMES - 1);
    lock.ttl_ms = (uint32_t) pick(20, LONGEST_TTL_MS);
    lock.sets = true;
    lock.true_deadline_ns = deadline_ns();
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        lock.secret[i] = (uint8_t) random_next(&sim_random);
    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += sim_now_ns >= sim_nodes[i].stopped_until_ns && is_trusted(&sim_nodes[i]) &&
                 node_other_set(&sim_nodes[i], lock.name, lock.secret, lock.ttl_ms);
    lock.holds = count == sim_n_nodes;
    if (!lock.holds) {
        release();
        return;
    }
    sim_counts.other_locks++;
    trace("another library: holds name %u for %u ms", lock.name, lock.ttl_ms);
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (sim_clients[i].name == lock.name && exclusion_holds(&sim_clients[i]))
            violation("another library gets name %u, which client %u holds", lock.name, i);
}

static void extend(void) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += sim_now_ns >= sim_nodes[i].stopped_until_ns &&
                 node_other_extend(&sim_nodes[i], lock.name, lock.secret, lock.ttl_ms);
    if (count < quorum_of(sim_n_nodes))
        return;
    lock.true_deadline_ns = deadline_ns();
    trace("another library: extends its lock of name %u", lock.name);
}

void other_library_step(void) {
    if (sim_calm) {
        release();
        return;
    }
    if (!lock.sets)
        acquire();
    else if (sim_now_ns < lock.true_deadline_ns && chance(40))
        extend();
    else if (chance(70))
        release();
    else
        lock.sets = lock.holds = false; /* its process has died: the keys expire */
    step_later();
}
