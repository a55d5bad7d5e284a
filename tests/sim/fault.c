/* Faults of the network, of nodes and of agents: one now and then, until the calm. What fault_last() begins
 * goes on in the calm. */

#include <assert.h>

#include "agent.h"
#include "clients.h"
#include "events.h"
#include "fault.h"
#include "node.h"
#include "pubsub.h"
#include "trust.h"

enum {
    KILL_STEPS_MAX = 20,
    SLOW_MS_MAX = 150,
    ALONE_MS = 1700,
    STEP_MARGIN_MS = 1000,
    NOTICE_MS = 11000, /* protocol.md: by then connected agents have noticed a loss */
};

static void break_node_connections(unsigned node) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++)
            if (agent_index_of(&sim_agents[i], node) != SIM_NODES_MAX)
                agent_cut(&sim_agents[i], j, agent_index_of(&sim_agents[i], node));
}

static void fault_pause(void) {
    struct sim_agent *agent = &sim_agents[pick(0, sim_n_agents - 1)];
    int64_t until_ns = sim_now_ns + pick(1, 3000) * NS_PER_MS;
    unsigned who = (unsigned) pick(0, sim_n_keepers + 1);

    trace("fault: agent %u pauses (%u) until %.3f ms", agent->index, who, (double) until_ns / 1e6);
    sim_counts.pauses++;
    /* Never shortened: later events would overtake the postponed ones. */
    if (who >= sim_n_keepers)
        agent->paused_until_ns = instant_max(agent->paused_until_ns, until_ns);
    for (unsigned i = 0; i < sim_n_keepers; i++)
        if (who == i || who > sim_n_keepers)
            agent->keepers[i].paused_until_ns = instant_max(agent->keepers[i].paused_until_ns, until_ns);
}

static struct sim_agent *longest_agent(void) {
    struct sim_agent *agent = &sim_agents[0];

    for (unsigned i = 1; i < sim_n_agents; i++)
        if (sim_agents[i].max_ttl_ms > agent->max_ttl_ms)
            agent = &sim_agents[i];
    return agent;
}

/* An agent with the longest leases does not notice what happens to a node now. */
static void pause_longest(int64_t for_ms) {
    struct sim_agent *agent = longest_agent();
    int64_t until_ns = sim_now_ns + for_ms * NS_PER_MS;

    trace("fault: agent %u pauses until %.3f ms", agent->index, (double) until_ns / 1e6);
    sim_counts.pauses++;
    agent->paused_until_ns = instant_max(agent->paused_until_ns, until_ns);
    for (unsigned i = 0; i < sim_n_keepers; i++)
        agent->keepers[i].paused_until_ns = instant_max(agent->keepers[i].paused_until_ns, until_ns);
}

/* An agent must notice a step only if it knew the clock before: all of them run, and none starts soon. */
static bool clock_is_known(unsigned node) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++)
            if (!sim_agents[i].running || sim_agents[i].frozen ||
                !sim_agents[i].keepers[j].shard.nodes[node].offset.known)
                return false;
    return true;
}

/* What the node's keys were set for has ended by then: what an agent that starts then does not know of the
 * clock, it need not know. */
static void note_step(int64_t until_ns) {
    sim_stepped_until_ns =
        instant_max(sim_stepped_until_ns, until_ns + (sim_longest_ttl_ms + STEP_MARGIN_MS) * NS_PER_MS);
}

static void set_clock(unsigned node, int64_t by_ns) {
    trace("fault: the clock of node %u is set by %lld ms", node, (long long) (by_ns / NS_PER_MS));
    sim_counts.steps++;
    node_set_clock(&sim_nodes[node], by_ns);
    note_step(sim_now_ns);
    trust_clock_set(node);
}

/* Stops all nodes for longer than an agent takes to send `unknown` to observers. */
static void fault_darkness(void) {
    sim_dark_from_ns = sim_now_ns;
    sim_dark_until_ns = sim_now_ns + pick(9000, 12000) * NS_PER_MS;
    trace("fault: all nodes stop until %.3f ms", (double) sim_dark_until_ns / 1e6);
    for (unsigned i = 0; i < sim_n_nodes; i++)
        sim_nodes[i].stopped_until_ns = instant_max(sim_nodes[i].stopped_until_ns, sim_dark_until_ns);
}

static void fault_node(void) {
    unsigned index = (unsigned) pick(0, sim_n_nodes - 1);
    struct sim_node *node = &sim_nodes[index];

    if (sim_dark_until_ns == 0 && chance(2)) {
        fault_darkness();
        return;
    }
    if (chance(25)) {
        node->refuses_until_ns = sim_now_ns + pick(1, 6000) * NS_PER_MS;
        trace("fault: node %u refuses most until %.3f ms", index, (double) node->refuses_until_ns / 1e6);
        sim_counts.fulls++;
        return;
    }
    if (chance(15)) {
        trace("fault: node %u loses the scripts", index);
        node->lacks_scripts = true;
        sim_counts.flushes++;
        return;
    }
    if (chance(20)) {
        node->slow_until_ns = sim_now_ns + pick(100, 10000) * NS_PER_MS;
        node->slow_us = pick(1, SLOW_MS_MAX) * 1000;
        trace("fault: node %u is slow, by up to %lld ms, until %.3f ms", index,
              (long long) node->slow_us / 1000, (double) node->slow_until_ns / 1e6);
        sim_counts.slow++;
        return;
    }
    int64_t before_ns = node->stopped_until_ns;
    node->stopped_until_ns = instant_max(before_ns, sim_now_ns + pick(1, 3000) * NS_PER_MS);
    sim_counts.stops++;
    if (chance(50)) {
        trace("fault: node %u stops until %.3f ms", index, (double) node->stopped_until_ns / 1e6);
        return;
    }
    bool losses = sim_faults.losses && sim_now_ns >= sim_blessing_until_ns;
    if (losses && chance(20)) {
        pause_longest(pick(500, 5000));
        node->stopped_until_ns = before_ns; /* the others examine the node at once */
    }
    if (chance(20) && losses) {
        trace("fault: node %u is flushed", index);
        node_forget(node);
        trust_lost(index);
        sim_counts.amnesias++;
        return;
    }
    break_node_connections(index);
    node_restart(node);
    trust_restarted(index);
    int64_t kind = losses ? pick(1, 100) : 1;
    if (kind <= 40 || (sim_durable && kind <= 50)) {
        trace("fault: node %u restarts with its data", index);
        if (sim_steps && sim_durable && chance(80) && clock_is_known(index))
            set_clock(index, pick(2500, 10000) * NS_PER_MS);
    } else if (kind <= 60 && !sim_durable) {
        trace("fault: node %u restarts with old data", index);
        node_load(node);
        trust_lost(index);
        sim_counts.old_data++;
    } else {
        trace("fault: node %u restarts empty", index);
        node_forget(node);
        trust_lost(index);
        sim_counts.amnesias++;
    }
}

static bool may_forget(void) {
    return sim_faults.losses && sim_now_ns >= sim_blessing_until_ns;
}

/* The power fails: all nodes restart at once. Durable ones have all that they have confirmed. */
static void blackout(bool forget) {
    trace("fault: all nodes restart %s", forget ? "empty" : "with their data");
    sim_counts.blackouts++;
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        break_node_connections(i);
        node_restart(&sim_nodes[i]);
        trust_restarted(i);
        if (forget) {
            node_forget(&sim_nodes[i]);
            trust_lost(i);
        }
    }
}

static void fault_blackout(void) {
    bool forget = may_forget() && !(sim_durable && chance(70));

    if (forget || sim_durable)
        blackout(forget);
}

static void delay(int64_t *next_ns, int64_t until_ns) {
    *next_ns = instant_max(*next_ns, until_ns);
}

static void fault_connection(void) {
    struct sim_agent *agent = &sim_agents[pick(0, sim_n_agents - 1)];
    unsigned keeper = (unsigned) pick(0, sim_n_keepers - 1), node = (unsigned) pick(0, agent->n_nodes - 1);
    struct sim_connection *connection = &agent->keepers[keeper].connections[node];

    if (chance(20)) {
        trace("fault: agent %u loses its connection for messages to node %u", agent->index, node);
        pubsub_cut(&agent->keepers[keeper], node);
        return;
    }
    if (chance(50)) {
        trace("fault: agent %u loses its connection to node %u", agent->index, node);
        sim_counts.cuts++;
        agent_cut(agent, keeper, node);
        return;
    }
    if (chance(20)) {
        trace("fault: agent %u and node %u: nothing arrives, and neither knows", agent->index, node);
        sim_counts.silences++;
        agent_silence(agent, keeper, node);
        return;
    }
    int64_t until_ns = sim_now_ns + pick(1, 6000) * NS_PER_MS;
    if (chance(25)) {
        trace("fault: no request of agent %u arrives until %.3f ms", agent->index, (double) until_ns / 1e6);
        for (unsigned i = 0; i < agent->n_nodes; i++)
            delay(&agent->keepers[keeper].connections[i].request_ns, until_ns);
        return;
    }
    trace("fault: agent %u and node %u don't reach each other for a while", agent->index, node);
    delay(chance(50) ? &connection->request_ns : &connection->reply_ns, until_ns);
}

/* Another program's lock replaces ours, on some nodes or all. It lives longer than our leases: otherwise no
 * rule applies. */
static void fault_overwrite(void) {
    unsigned name = (unsigned) pick(0, SIM_NAMES - 1), percent = (unsigned) pick(10, 100);

    trace("fault: name %u is overwritten on some nodes", name);
    sim_counts.overwrites++;
    for (unsigned i = 0; i < sim_n_nodes; i++)
        if (chance(percent))
            node_overwrite(&sim_nodes[i], name, 2 * sim_longest_ttl_ms);
}

/* A virtual machine is paused: its agents, its clients and its clock stop for a while, and none of them
 * notices the pause. */
static void fault_halt(void) {
    unsigned host = sim_agents[pick(0, sim_n_agents - 1)].host;
    int64_t for_ns = pick(2500, 10000) * NS_PER_MS, until_ns = sim_now_ns + for_ns;

    trace("fault: host %u is halted until %.3f ms", host, (double) until_ns / 1e6);
    sim_counts.steps++;
    for (unsigned i = 0; i < sim_n_agents; i++) {
        struct sim_agent *agent = &sim_agents[i];
        if (agent->host != host || agent->halted_until_ns != 0)
            continue;
        agent->halted_alone = agent_is_untroubled(agent) && !pubsub_is_delayed(agent);
        agent->halted_clock_ns = clock_read(&agent->clock);
        agent->halted_until_ns = until_ns;
        /* Rounded as clock_read() does, so that the clock does not go back by a nanosecond. */
        agent->clock.offset_ns += (int64_t) ((double) sim_now_ns * agent->clock.rate) -
                                  (int64_t) ((double) until_ns * agent->clock.rate);
        agent->paused_until_ns = instant_max(agent->paused_until_ns, until_ns);
        for (unsigned j = 0; j < sim_n_keepers; j++)
            agent->keepers[j].paused_until_ns = instant_max(agent->keepers[j].paused_until_ns, until_ns);
        clients_halt(agent, for_ns);
    }
}

/* By more than the longest round trip whose vote counts: a smaller step need not be noticed. */
static void fault_clock(void) {
    /* other agents in the same quarantine will soon bless it, too */
    unsigned index = chance(50) ? sim_last_blessed : (unsigned) pick(0, sim_n_nodes - 1);
    int64_t by_ns = pick(2500, 10000) * NS_PER_MS;

    if (!clock_is_known(index))
        return;
    if (chance(30)) {
        bool reversed = chance(50);
        trace("fault: the clock of node %u %s for %lld ms", index, reversed ? "runs backwards" : "stops",
              (long long) (by_ns / NS_PER_MS));
        sim_counts.steps++;
        node_freeze_clock(&sim_nodes[index], sim_now_ns + by_ns, reversed);
        note_step(sim_now_ns + by_ns);
        trust_clock_set(index);
        return;
    }
    if (chance(30)) /* keys last longer then: a small step backwards harms nobody */
        by_ns = -(chance(50) ? by_ns : pick(20, 300) * NS_PER_MS);
    set_clock(index, by_ns);
}

/* The largest token that a node would accept now, as if it had been granted: the choice of the next proposal
 * must not matter. */
static void fault_hurried_tokens(void) {
    struct sim_agent *agent = &sim_agents[pick(0, sim_n_agents - 1)];
    unsigned keeper = (unsigned) pick(0, sim_n_keepers - 1), node = (unsigned) pick(0, agent->n_nodes - 1);
    int64_t token =
        clock_read(&agent_node(agent, node)->clock) / NS_PER_US + pick(0, agent->fence_skew_ms) * 1000;

    trace("fault: agent %u proposes tokens of the future", agent->index);
    agent->keepers[keeper].shard.token_high = token;
}

/* In the calm of some runs: an agent loses all its connections for messages, and nothing else. */
static void fault_subscriptions(void) {
    struct sim_agent *agent = &sim_agents[pick(0, sim_n_agents - 1)];

    if (!sim_faults.deaf_agents)
        return;
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++)
        for (unsigned j = 0; j < agent->n_nodes; j++)
            pubsub_cut(&agent->keepers[i], j);
    if (!sim_closed)
        events_add(&(struct event){.kind = EVENT_FAULT, .at_ns = sim_now_ns + pick(400, 1500) * NS_PER_MS});
}

/* At once, or within the next steps of the front. */
static void fault_kill(struct sim_agent *agent) {
    sim_counts.kills++;
    if (agent->running && chance(80)) {
        agent->steps_left = (unsigned) pick(1, KILL_STEPS_MAX);
        agent->dies_with = chance(70);
    } else {
        agent_kill(agent);
    }
    trace("fault: agent %u is killed%s", agent->index, agent->steps_left > 0 ? " soon" : "");
}

/* A host is halted, or was shortly before. No other fault happens then, so that the nodes' answers show the
 * halt in time. */
static bool is_halt_alone(void) {
    bool alone = false;

    for (unsigned i = 0; i < sim_n_agents; i++)
        alone |= sim_agents[i].halted_until_ns != 0 &&
                 sim_now_ns < sim_agents[i].halted_until_ns + ALONE_MS * NS_PER_MS;
    return alone;
}

static void add_next(void) {
    events_add(
        &(struct event){.kind = EVENT_FAULT, .at_ns = sim_now_ns + pick(5, sim_faults.gap_ms) * NS_PER_MS});
}

/* Kills the agent that fault_last() has chosen, once all nodes have its marks. */
static void kill_marked(void) {
    struct sim_agent *agent = &sim_agents[sim_faults.next_killed - 1];
    bool marked = true;

    for (unsigned i = 0; i < agent->n_nodes; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++)
            marked = marked && node_has_mark(agent_node(agent, i), agent->index, j);
    if (marked) {
        trace("fault: agent %u is killed", agent->index);
        sim_counts.kills++;
        agent_kill(agent);
        sim_faults.next_killed = 0;
    }
    add_next();
}

void fault(void) {
    int64_t kind = pick(1, 100);

    if (sim_faults.next_killed > 0) {
        kill_marked();
        return;
    }
    if (sim_calm) {
        fault_subscriptions();
        return;
    }
    if (is_halt_alone()) {
        add_next();
        return;
    }
    if (kind <= 35) {
        fault_connection();
    } else if (kind <= 55) {
        fault_node();
    } else if (kind <= (sim_faults.kills ? 62 : 80)) {
        if (sim_hosts_halt && chance(40))
            fault_halt();
        else
            fault_pause();
    } else if (kind <= (sim_faults.kills ? 72 : 87) && sim_steps) {
        fault_clock();
    } else if (kind <= 85) {
        struct sim_agent *agent = &sim_agents[pick(0, sim_n_agents - 1)];
        fault_kill(agent);
    } else if (kind <= 90 && sim_faults.far_clocks) {
        fault_hurried_tokens();
    } else if (kind <= 90) {
        fault_overwrite();
    } else if (kind <= (sim_faults.far_clocks ? 93 : 91)) {
        fault_blackout();
    } else {
        node_save(&sim_nodes[pick(0, sim_n_nodes - 1)]);
    }
    add_next();
}

/* --- the last fault --- */

/* The agent has read of leases as long in the epoch of each node. */
static bool has_read_of(const struct sim_agent *agent, uint32_t max_ttl_ms) {
    for (unsigned i = 0; i < sim_n_keepers; i++)
        for (unsigned j = 0; j < agent->n_nodes; j++) {
            const struct node *node = &agent->keepers[i].shard.nodes[j];
            if (node->remembered_ms < max_ttl_ms &&
                (node->reading != NODE_READ_EPOCH || node->known_ms < max_ttl_ms))
                return false;
        }
    return agent->running && !agent->frozen && sim_now_ns >= agent->paused_until_ns;
}

/* A quarantine must last as long as the longest lease, also if only marks show its length. So,
 * where leases are longer than NOTICE_MS, all nodes lose their data while the agent with the longest leases
 * is paused. Another agent has read their length in the epochs before, and leaves marks with that length. It
 * is killed then, and its next process can read the length in these marks alone. */
void fault_last(void) {
    const struct sim_agent *longest = longest_agent(), *other = longest;
    unsigned first = (unsigned) pick(0, sim_n_agents - 1);

    for (unsigned i = 0; i < sim_n_agents && other->max_ttl_ms == longest->max_ttl_ms; i++)
        other = &sim_agents[(first + i) % sim_n_agents];
    if (sim_longest_ttl_ms <= NOTICE_MS || sim_sets_differ || sim_hosts_halt || !may_forget() ||
        other->max_ttl_ms == longest->max_ttl_ms || !has_read_of(other, longest->max_ttl_ms))
        return;
    pause_longest(pick(20000, 60000));
    blackout(true);
    sim_faults.next_killed = 1 + other->index;
}
