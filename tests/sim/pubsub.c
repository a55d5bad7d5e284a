/* Connections for messages: the part of io/node/subscriber.c and io/node/subscription.c between the agents'
 * wake-ups, which run as shipped, and the nodes; and the nodes' part. Connections break, and messages are
 * lost with them or alone. */

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "events.h"
#include "node.h"
#include "pubsub.h"

/* Losses from before the calm, such as of a message, are repaired by polling. */
enum {
    WOKEN_MS_MAX = 30,
    LEFT_MS_MAX = 75,
    SUBSCRIBED_MS_MAX = 300,
    HEALED_MS = 1500,
    LATE_MS = 100,
    ROUND_TRIP_MS = 5,
    CHECK_STEP_MS = 1
};

static struct event event_of(const struct sim_keeper *keeper, enum event_kind kind, unsigned node,
                             int64_t at_ns) {
    return (struct event){.kind = kind,
                          .agent = (uint8_t) keeper->agent->index,
                          .keeper = (uint8_t) keeper->index,
                          .node = (uint8_t) node,
                          .process = agent_node(keeper->agent, node)->process,
                          .life = keeper->subscriptions[node].life,
                          .at_ns = at_ns};
}

static int64_t delayed(int64_t *last_ns, int64_t delay_ns) {
    *last_ns = instant_max(*last_ns + 1, sim_now_ns + delay_ns);
    return *last_ns;
}

static int64_t in_order(int64_t *last_ns) {
    return delayed(last_ns, network_delay_ns());
}

/* A message may overtake the answers of its node, on the other connection. */
static int64_t message_ns(int64_t *last_ns) {
    return delayed(last_ns, chance(50) ? pick(20, 500) * NS_PER_US : network_delay_ns());
}

static instant_ns keeper_now(const struct sim_keeper *keeper) {
    return clock_read(&keeper->agent->clock);
}

/* --- the wake-up's requests --- */

static void request(struct sim_keeper *keeper, unsigned node, const struct shared_string *name, bool leave) {
    struct sim_subscription *subscription = &keeper->subscriptions[node];

    assert(subscription->connected && name->head_length == 1);
    struct event event = event_of(keeper, EVENT_SUBSCRIBE, node, in_order(&subscription->request_ns));
    event.name = (uint8_t) (name->bytes[0] - '0');
    event.as.subscribe.leave = leave;
    events_add(&event);
}

static void on_subscribe(void *userdata, unsigned node, const struct shared_string *name) {
    request(userdata, node, name, false);
}

static void on_unsubscribe(void *userdata, unsigned node, const struct shared_string *name) {
    request(userdata, node, name, true);
}

static void on_open(void *userdata, unsigned node) {
    struct sim_keeper *keeper = userdata;
    struct event event = event_of(keeper, EVENT_PUBSUB_CONNECTED, node,
                                  sim_now_ns + pick(1, sim_calm ? 20 : 800) * NS_PER_MS);

    keeper->subscriptions[node].open = true;
    events_add(&event);
}

static void on_close(void *userdata, unsigned node) {
    struct sim_keeper *keeper = userdata;
    struct sim_subscription *subscription = &keeper->subscriptions[node];

    subscription->open = subscription->connected = false;
    subscription->life++;
}

void pubsub_init(struct sim_keeper *keeper) {
    static const uint64_t hash_key[2] = {1, 2};
    const struct wakeup_sink sink = {.open = on_open,
                                     .close = on_close,
                                     .subscribe = on_subscribe,
                                     .unsubscribe = on_unsubscribe,
                                     .userdata = keeper};
    const struct shared_string_pool *texts = &keeper->wakeup.texts;

    if (texts->memory) /* memory that the former life has touched: texts are last */
        memset(keeper->wakeup_memory, 0,
               (size_t) (texts->memory + texts->used - (unsigned char *) keeper->wakeup_memory));
    wakeup_init(&keeper->wakeup, &keeper->shard, keeper->agent->n_nodes, SIM_REQUESTS_MAX, hash_key, &sink,
                keeper->wakeup_memory);
    if (chance(50)) /* names are added and dropped more often */
        keeper->wakeup.linger_ns = pick(0, 50) * NS_PER_MS;
    for (unsigned i = 0; i < keeper->agent->n_nodes; i++)
        keeper->subscriptions[i] = (struct sim_subscription){.life = keeper->subscriptions[i].life + 1};
    memset(keeper->unsubscribed, 0, sizeof(keeper->unsubscribed));
}

/* --- connections --- */

void pubsub_cut(struct sim_keeper *keeper, unsigned node) {
    struct event event = event_of(keeper, EVENT_PUBSUB_BROKEN, node, sim_now_ns);
    events_add(&event);
}

static void break_connection(struct sim_keeper *keeper, unsigned node) {
    bool connected = keeper->subscriptions[node].connected;

    if (!keeper->subscriptions[node].open)
        return;
    on_close(keeper, node);
    if (connected)
        wakeup_disconnected(&keeper->wakeup, node, keeper_now(keeper));
    on_open(keeper, node);
}

void pubsub_event(struct sim_keeper *keeper, const struct event *event) {
    const char name[] = {(char) ('0' + event->name)};

    if (event->kind == EVENT_PUBSUB_CONNECTED) {
        keeper->subscriptions[event->node].connected = true;
        wakeup_connected(&keeper->wakeup, event->node);
    } else if (event->kind == EVENT_PUBSUB_BROKEN) {
        break_connection(keeper, event->node);
    } else if (event->kind == EVENT_SUBSCRIBED) {
        wakeup_subscribed(&keeper->wakeup, event->node, name, sizeof(name), keeper_now(keeper));
    } else {
        assert(event->kind == EVENT_MESSAGE);
        wakeup_released(&keeper->wakeup, event->node, name, sizeof(name), keeper_now(keeper));
    }
}

/* --- the nodes' part --- */

void pubsub_deliver(const struct event *event) {
    struct sim_node *node = agent_node(&sim_agents[event->agent], event->node);
    struct sim_keeper *keeper = &sim_agents[event->agent].keepers[event->keeper];
    struct sim_subscription *subscription = &keeper->subscriptions[event->node];

    if (sim_now_ns < node->stopped_until_ns) {
        events_defer(event, node->stopped_until_ns);
        return;
    }
    if (event->process != node->process || event->life != subscription->life)
        return;
    node->subscribers[event->agent][event->keeper][event->name] =
        event->as.subscribe.leave ? 0 : event->life;
    if (event->as.subscribe.leave)
        return;
    if (chance(20)) /* each connects, authenticates, and subscribes to many names */
        subscription->reply_ns =
            instant_max(subscription->reply_ns, sim_now_ns + pick(1, LATE_MS) * NS_PER_MS);
    struct event confirmed =
        event_of(keeper, EVENT_SUBSCRIBED, event->node, in_order(&subscription->reply_ns));
    confirmed.name = event->name;
    events_add(&confirmed);
}

void pubsub_publish(const struct sim_node *node, unsigned name) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        for (unsigned j = 0; j < sim_n_keepers; j++) {
            unsigned index = agent_index_of(&sim_agents[i], (unsigned) (node - sim_nodes));
            if (index == SIM_NODES_MAX)
                continue;
            struct sim_keeper *keeper = &sim_agents[i].keepers[j];
            if (node->subscribers[i][j][name] == 0 ||
                node->subscribers[i][j][name] != keeper->subscriptions[index].life)
                continue;
            sim_counts.messages++;
            if (!sim_calm && chance(3))
                continue;
            struct event event =
                event_of(keeper, EVENT_MESSAGE, index, message_ns(&keeper->subscriptions[index].reply_ns));
            event.name = (uint8_t) name;
            events_add(&event);
        }
}

/* --- the invariants: no lease waits for a free name, and each waiting one is subscribed --- */

static int64_t free_ns[SIM_NAMES], checked_ns;

void pubsub_reset(void) {
    checked_ns = 0;
    memset(free_ns, 0, sizeof(free_ns));
}

static bool is_released(unsigned name) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_nodes; i++)
        count += sim_nodes[i].data.keys[name].released;
    return count >= quorum_of(sim_n_nodes);
}

/* The name is left free for another program (core/foreign-contender.h), for about one polling interval. */
static bool is_left(const struct shard *shard, const struct lease *lease, unsigned name) {
    return foreign_contender_is_near(shard, lease, sim_now_ns) &&
           sim_now_ns - free_ns[name] <= (WOKEN_MS_MAX + LEFT_MS_MAX) * NS_PER_MS;
}

/* Its last attempt may have met a holder that came and went since. */
static bool has_just_tried(const struct sim_agent *agent, const struct lease *lease) {
    return clock_read(&agent->clock) - lease->started_ns <= WOKEN_MS_MAX * NS_PER_MS;
}

/* A lease that met a holder, is subscribed on a majority, and can ask all nodes must not wait. */
static void check_waiters(const struct sim_agent *agent, unsigned name) {
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++) {
        const struct shard *shard = &agent->keepers[i].shard;
        for (uint32_t j = 0; j < shard->leases.touched; j++) {
            const struct lease *lease = pool_at(&shard->leases, j);
            if (lease->state == LEASE_WAITING && lease->text->bytes[0] == (char) ('0' + name) &&
                lease->failure == 1 + FAILURE_BUSY && !lease->split && !is_left(shard, lease, name) &&
                !has_just_tried(agent, lease) &&
                node_set_count(lease->listening) >= quorum_of(sim_n_nodes) &&
                node_set_count(shard_askable(shard)) == sim_n_nodes)
                violation("agent %u waits for name %u, which was released %lld ms ago", agent->index, name,
                          (long long) ((sim_now_ns - free_ns[name]) / NS_PER_MS));
        }
    }
}

static bool is_late(int64_t at_ns) {
    return at_ns > sim_now_ns + ROUND_TRIP_MS * NS_PER_MS;
}

static bool is_delayed(const struct sim_keeper *keeper) {
    bool delayed = sim_now_ns < keeper->paused_until_ns;

    for (unsigned n = 0; n < sim_n_nodes && !delayed; n++)
        delayed = keeper->connections[n].silent || is_late(keeper->connections[n].request_ns) ||
                  is_late(keeper->connections[n].reply_ns) || is_late(keeper->subscriptions[n].request_ns) ||
                  is_late(keeper->subscriptions[n].reply_ns);
    return delayed;
}

bool pubsub_is_delayed(const struct sim_agent *agent) {
    bool delayed = false;

    for (unsigned n = 0; n < sim_n_nodes; n++)
        delayed |=
            sim_now_ns < instant_max(sim_nodes[n].stopped_until_ns,
                                     instant_max(sim_nodes[n].slow_until_ns, sim_nodes[n].odd_until_ns));
    for (unsigned j = 0; j < sim_n_keepers; j++)
        delayed = delayed || is_delayed(&agent->keepers[j]);
    return delayed;
}

bool pubsub_is_disturbed(void) {
    bool disturbed = sim_now_ns - sim_calm_ns < HEALED_MS * NS_PER_MS;

    for (unsigned n = 0; n < sim_n_nodes && !disturbed; n++)
        disturbed = sim_now_ns < sim_nodes[n].stopped_until_ns;
    for (unsigned i = 0; i < sim_n_agents && !disturbed; i++) {
        disturbed = sim_now_ns < sim_agents[i].paused_until_ns;
        for (unsigned j = 0; j < sim_n_keepers && !disturbed; j++)
            disturbed = is_delayed(&sim_agents[i].keepers[j]);
    }
    return disturbed;
}

/* A lease that met a holder must soon be subscribed on all nodes. */
static void check_subscriptions(struct sim_agent *agent, bool disturbed) {
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++) {
        struct sim_keeper *keeper = &agent->keepers[i];
        bool subscribed[SIM_NAMES] = {true, true};
        static_assert(SIM_NAMES == 2, "as many names");
        for (uint32_t j = 0; j < keeper->shard.leases.touched; j++) {
            const struct lease *lease = pool_at(&keeper->shard.leases, j);
            if (lease->state == LEASE_WAITING && lease->listens &&
                node_set_count(shard_askable(&keeper->shard)) == sim_n_nodes)
                subscribed[lease->text->bytes[0] - '0'] &= node_set_count(lease->listening) == sim_n_nodes;
        }
        for (unsigned name = 0; name < SIM_NAMES; name++) {
            if (disturbed || subscribed[name])
                keeper->unsubscribed[name] = 0;
            else if (keeper->unsubscribed[name] == 0)
                keeper->unsubscribed[name] = sim_now_ns;
            else if (sim_now_ns - keeper->unsubscribed[name] > SUBSCRIBED_MS_MAX * NS_PER_MS)
                violation("agent %u waits for name %u without subscriptions", agent->index, name);
        }
    }
}

/* A name that is taken is noticed at each event; the rest in steps, which the bounds exceed many times. */
void pubsub_check(void) {
    for (unsigned name = 0; name < SIM_NAMES; name++)
        if (free_ns[name] != 0 && !is_released(name))
            free_ns[name] = 0;
    if (sim_now_ns - checked_ns < CHECK_STEP_MS * NS_PER_MS)
        return;
    bool disturbed = sim_sets_differ || pubsub_is_disturbed();
    checked_ns = sim_now_ns;

    for (unsigned i = 0; i < sim_n_agents && !sim_violated; i++)
        check_subscriptions(&sim_agents[i], disturbed);
    for (unsigned name = 0; name < SIM_NAMES; name++) {
        if (disturbed || !is_released(name))
            free_ns[name] = 0;
        else if (free_ns[name] == 0)
            free_ns[name] = sim_now_ns;
        else if (sim_now_ns - free_ns[name] > WOKEN_MS_MAX * NS_PER_MS)
            for (unsigned i = 0; i < sim_n_agents && !sim_violated; i++)
                check_waiters(&sim_agents[i], name);
    }
}
