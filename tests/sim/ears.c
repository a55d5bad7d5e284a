/* What the agents' io/node/wakeup.c and io/node/subscription.c do, with the nodes' part of it: connections
 * of their own, on which the nodes tell when a key is gone. They break, and messages are lost with them or
 * without. */

#include <assert.h>
#include <string.h>

#include "sim.h"

/* What went wrong before the calm, such as a message that was lost, is made good by polling. */
enum { WOKEN_MS_MAX = 30, HEALED_MS = 1500, LATE_MS = 100, ROUND_TRIP_MS = 5 };

static struct event event_of(const struct sim_keeper *keeper, enum event_kind kind, unsigned node,
                             int64_t at_ns) {
    return (struct event){.kind = kind,
                          .agent = (uint8_t) keeper->agent->index,
                          .keeper = (uint8_t) keeper->index,
                          .node = (uint8_t) node,
                          .process = agent_node(keeper->agent, node)->process,
                          .life = keeper->ears[node].life,
                          .at_ns = at_ns};
}

static int64_t in_order(int64_t *last_ns) {
    *last_ns = instant_max(*last_ns + 1, sim_now_ns + network_delay_ns());
    return *last_ns;
}

static instant_ns keeper_now(const struct sim_keeper *keeper) {
    return clock_read(&keeper->agent->clock);
}

static void ask(struct sim_keeper *keeper, unsigned node, unsigned name, bool leave) {
    struct sim_ear *ear = &keeper->ears[node];

    if (!ear->up)
        return;
    struct event event = event_of(keeper, EVENT_JOIN, node, in_order(&ear->request_ns));
    event.name = (uint8_t) name;
    event.as.join.leave = leave;
    events_add(&event);
}

/* --- what the shard asks for --- */

void wakeup_listen(struct sim_keeper *keeper, uint64_t request, unsigned name, bool wanted) {
    bool listened = keeper->wanted[name].request != 0 || keeper->wanted[name].lingers;

    assert(wanted || keeper->wanted[name].request == request);
    keeper->wanted[name].request = wanted ? request : 0;
    keeper->wanted[name].to_tell = wanted;
    if (wanted) {
        keeper->wanted[name].lingers = false;
        for (unsigned i = 0; i < keeper->agent->n_nodes && !listened; i++)
            ask(keeper, i, name, false);
        return;
    }
    keeper->wanted[name].lingers = chance(50);
    for (unsigned i = 0; i < keeper->agent->n_nodes && !keeper->wanted[name].lingers; i++) {
        ask(keeper, i, name, true);
        keeper->ears[i].joined[name] = false;
    }
}

/* A wait may begin with subscriptions that stand. */
void ears_settle(struct sim_keeper *keeper) {
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        bool told = keeper->wanted[name].to_tell;
        keeper->wanted[name].to_tell = false;
        for (unsigned i = 0; i < keeper->agent->n_nodes && told && keeper->wanted[name].request != 0; i++)
            if (keeper->ears[i].joined[name])
                shard_listening(&keeper->shard, i, keeper->wanted[name].request,
                                keeper->ears[i].joined_ns[name], keeper_now(keeper));
    }
}

/* --- connections --- */

void ears_open(struct sim_keeper *keeper, unsigned node) {
    struct event event =
        event_of(keeper, EVENT_EARS_UP, node, sim_now_ns + pick(1, sim_calm ? 20 : 800) * NS_PER_MS);
    events_add(&event);
}

void ears_close(struct sim_keeper *keeper, unsigned node) {
    struct sim_ear *ear = &keeper->ears[node];

    ear->up = false;
    ear->life++;
    memset(ear->joined, 0, sizeof(ear->joined));
    shard_deaf(&keeper->shard, node, keeper_now(keeper));
}

void ears_cut(struct sim_keeper *keeper, unsigned node) {
    struct event event = event_of(keeper, EVENT_EARS_BROKEN, node, sim_now_ns);
    events_add(&event);
}

void ears_event(struct sim_keeper *keeper, const struct event *event) {
    struct sim_ear *ear = &keeper->ears[event->node];
    uint64_t request = keeper->wanted[event->name].request;
    instant_ns now_ns = keeper_now(keeper);

    if (event->kind == EVENT_EARS_UP) {
        ear->up = true;
        for (unsigned name = 0; name < SIM_NAMES; name++)
            if (keeper->wanted[name].request != 0 || keeper->wanted[name].lingers)
                ask(keeper, event->node, name, false);
    } else if (event->kind == EVENT_EARS_BROKEN) {
        ears_close(keeper, event->node);
        ears_open(keeper, event->node);
    } else if (event->kind == EVENT_JOINED) {
        if (request == 0 && !keeper->wanted[event->name].lingers)
            return;
        ear->joined[event->name] = true;
        ear->joined_ns[event->name] = now_ns;
        if (request != 0)
            shard_listening(&keeper->shard, event->node, request, now_ns, now_ns);
    } else {
        assert(event->kind == EVENT_FREED);
        if (request != 0)
            shard_freed(&keeper->shard, event->node, request, now_ns);
        else
            ear->joined_ns[event->name] = now_ns;
    }
}

/* --- the nodes' part --- */

void ears_deliver(const struct event *event) {
    struct sim_node *node = agent_node(&sim_agents[event->agent], event->node);
    struct sim_keeper *keeper = &sim_agents[event->agent].keepers[event->keeper];
    struct sim_ear *ear = &keeper->ears[event->node];

    if (sim_now_ns < node->stopped_until_ns) {
        events_defer(event, node->stopped_until_ns);
        return;
    }
    if (event->process != node->process || event->life != ear->life)
        return;
    node->told[event->agent][event->keeper][event->name] = event->as.join.leave ? 0 : event->life;
    if (event->as.join.leave)
        return;
    if (chance(20)) /* one after the other connects, logs in, and has many names to join */
        ear->reply_ns = instant_max(ear->reply_ns, sim_now_ns + pick(1, LATE_MS) * NS_PER_MS);
    struct event joined = event_of(keeper, EVENT_JOINED, event->node, in_order(&ear->reply_ns));
    joined.name = event->name;
    events_add(&joined);
}

void ears_tell(const struct sim_node *node, unsigned name) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++) {
            unsigned index = agent_index_of(&sim_agents[i], (unsigned) (node - sim_nodes));
            if (index == SIM_NODES_MAX)
                continue;
            struct sim_keeper *keeper = &sim_agents[i].keepers[j];
            if (node->told[i][j][name] == 0 || node->told[i][j][name] != keeper->ears[index].life)
                continue;
            sim_counts.messages++;
            if (!sim_calm && chance(3))
                continue;
            struct event event =
                event_of(keeper, EVENT_FREED, index, in_order(&keeper->ears[index].reply_ns));
            event.name = (uint8_t) name;
            events_add(&event);
        }
}

/* --- the invariant: nobody waits for what is free --- */

static int64_t free_ns[SIM_NAMES];

void ears_reset(void) {
    memset(free_ns, 0, sizeof(free_ns));
}

static bool is_let_go(unsigned name) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += sim_nodes[i].data.keys[name].let_go;
    return count >= quorum_of(sim_n_nodes);
}

/* It met a holder, listens, and could ask all nodes. */
static void check_waiters(const struct sim_agent *agent, unsigned name) {
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++) {
        const struct shard *shard = &agent->keepers[i].shard;
        for (uint32_t j = 0; j < shard->leases.touched; j++) {
            const struct lease *lease = pool_at(&shard->leases, j);
            if (lease->state == LEASE_WAITING && lease->text->bytes[0] == (char) ('0' + name) &&
                lease->failure == 1 + FAILURE_BUSY && !lease->split &&
                node_set_count(lease->listening) >= quorum_of(sim_n_nodes) &&
                node_set_count(shard_askable(shard)) == sim_n_nodes)
                violation("agent %u waits for name %u, which was let go %lld ms ago", agent->index, name,
                          (long long) ((sim_now_ns - free_ns[name]) / NS_PER_MS));
        }
    }
}

static bool is_late(int64_t at_ns) {
    return at_ns > sim_now_ns + ROUND_TRIP_MS * NS_PER_MS;
}

/* By a fault that began before the calm. */
static bool is_disturbed(int64_t calm_ns) {
    bool disturbed = sim_now_ns - calm_ns < HEALED_MS * NS_PER_MS;

    for (unsigned n = 0; n < sim_n_nodes; n++)
        disturbed |= sim_now_ns < sim_nodes[n].stopped_until_ns;
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++) {
            const struct sim_keeper *keeper = &sim_agents[i].keepers[j];
            disturbed |= sim_now_ns < sim_agents[i].paused_until_ns || sim_now_ns < keeper->paused_until_ns;
            for (unsigned n = 0; n < sim_n_nodes; n++)
                disturbed |= is_late(keeper->connections[n].request_ns) ||
                             is_late(keeper->connections[n].reply_ns) ||
                             is_late(keeper->ears[n].request_ns) || is_late(keeper->ears[n].reply_ns);
        }
    return disturbed;
}

void ears_check(int64_t calm_ns) {
    bool disturbed = sim_sets_differ || is_disturbed(calm_ns);

    for (unsigned name = 0; name < SIM_NAMES; name++) {
        if (disturbed || !is_let_go(name))
            free_ns[name] = 0;
        else if (free_ns[name] == 0)
            free_ns[name] = sim_now_ns;
        else if (sim_now_ns - free_ns[name] > WOKEN_MS_MAX * NS_PER_MS)
            for (unsigned i = 0; i < sim_n_agents && !sim_violated; i++)
                check_waiters(&sim_agents[i], name);
    }
}
