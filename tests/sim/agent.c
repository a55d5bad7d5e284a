/* An agent without threads: its front is the registry, its keepers are shards, and mail between them takes
 * time. Connections keep their order; when a connection breaks, it is unknown which of its requests were
 * executed. */

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "agent.h"
#include "calls.h"
#include "clients.h"
#include "events.h"
#include "fault.h"
#include "front.h"
#include "node.h"
#include "observer.h"
#include "pubsub.h"
#include "reload.h"
#include "trust.h"

enum { CALM_TURN_US = 200, LATE_MS = 3, SILENT_MS = 5300 /* the agent notices within this time */ };

#define EPOCH_OF_NONE UINT32_MAX

struct sim_agent sim_agents[SIM_AGENTS_MAX];
unsigned sim_n_agents, sim_n_keepers;

static const char *const node_names[] = {"a", "b", "c", "d", "e"};

static struct event event_of(const struct sim_agent *agent, enum event_kind kind, int64_t at_ns) {
    return (struct event){
        .kind = kind, .agent = (uint8_t) agent->index, .life = agent->life, .at_ns = at_ns};
}

static int64_t later(int64_t *last_ns, int64_t at_ns) {
    *last_ns = at_ns > *last_ns ? at_ns : *last_ns + 1;
    return *last_ns;
}

/* Mostly the delay of a local network, sometimes one beyond the node time-out. */
int64_t network_delay_ns(void) {
    if (sim_calm || chance(90))
        return pick(50, 2000) * NS_PER_US;
    return chance(80) ? pick(2, 60) * NS_PER_MS : pick(60, 1500) * NS_PER_MS;
}

static int64_t mail_delay_ns(void) {
    return sim_calm || chance(97) ? pick(1, 100) * NS_PER_US : pick(1, 50) * NS_PER_MS;
}

/* --- a keeper --- */

static int64_t keeper_now(const struct sim_keeper *keeper) {
    return clock_read(&keeper->agent->clock);
}

static void on_send(void *userdata, const struct send *send) {
    calls_add(userdata, send);
}

static const struct lease *lease_of(const struct sim_keeper *keeper, uint64_t request) {
    const struct shard *shard = &keeper->shard;
    uint32_t slot = shard->lease_of_request[request % keeper->agent->slots];
    const struct lease *lease = slot != 0 ? pool_at(&shard->leases, slot - 1) : NULL;

    return lease && lease->request == request ? lease : NULL;
}

static void on_report(void *userdata, const struct report *report) {
    struct sim_keeper *keeper = userdata;
    struct event event =
        event_of(keeper->agent, EVENT_DISPATCH, later(&keeper->dispatch_ns, sim_now_ns + mail_delay_ns()));
    struct report *copy = &event.as.dispatch.report;

    if (report->kind == REPORT_FOREIGN)
        return;
    if (report->kind == REPORT_FAILED && report->origin == REPORT_ORIGIN_REQUEST &&
        report->failure == FAILURE_QUOTA)
        violation("a keeper of agent %u has no room for a request that the front has accepted",
                  keeper->agent->index);
    event.keeper = (uint8_t) keeper->index;
    *copy = *report;
    if (!report->text)
        copy->text_length = 0;
    else if (copy->text_length > SIM_TEXT_BYTES)
        copy->text_length = SIM_TEXT_BYTES;
    if (copy->text_length > 0)
        memcpy(event.as.dispatch.text, report->text, copy->text_length);
    const struct lease *lease =
        report->origin == REPORT_ORIGIN_REQUEST ? lease_of(keeper, report->request) : NULL;
    if (lease && report->kind == REPORT_LOST && report->reason == REASON_PAUSED &&
        keeper_now(keeper) < lease->deadline_ns)
        trust_outlived(keeper);
    if (lease && keeper_now(keeper) < lease->deadline_ns)
        observer_mailed(keeper->agent, lease->secret, event.at_ns);
    events_add(&event);
}

static void probe_node(struct sim_keeper *keeper, unsigned node, const struct sim_probe *probe) {
    struct sim_connection *connection = &keeper->connections[node];
    const struct sim_agent *agent = keeper->agent;
    struct event event =
        event_of(agent, EVENT_PROBE, later(&connection->request_ns, sim_now_ns + network_delay_ns()));

    if (!connection->up || calls_is_dropped(connection))
        return;
    event.keeper = (uint8_t) keeper->index;
    event.node = (uint8_t) node;
    event.process = agent_node(agent, node)->process;
    event.life = connection->life;
    event.as.probe = *probe;
    if (probe->disown)
        connection->blessed_process = event.process;
    event.as.probe.former =
        sim_durable && connection->blessed_process != event.process ? connection->blessed_process : 0;
    event.as.probe.fleet = agent_fleet(agent, node);
    event.as.probe.fence_skew_ms = agent->fence_skew_ms;
    event.as.probe.n_nodes = agent->n_nodes;
    memcpy(event.as.probe.at, agent->at, sizeof(agent->at));
    memcpy(event.as.probe.names, agent->names, sizeof(agent->names));
    event.sent_ns = keeper_now(keeper);
    events_add(&event);
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    struct sim_keeper *keeper = userdata;
    const struct sim_probe probe = {.leave = inquiry->leave,
                                    .disown = inquiry->disown,
                                    .mark = keeper->mark + inquiry->mark,
                                    .withdraw_us = inquiry->withdraw_us,
                                    .max_ttl_ms = inquiry->max_ttl_ms,
                                    .quarantine = keeper->agent->quarantine,
                                    .known = inquiry->known};

    probe_node(keeper, node, &probe);
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    struct sim_keeper *keeper = userdata;
    const struct sim_probe probe = {.bless = true,
                                    .mark = keeper->mark + blessing->mark,
                                    .max_ttl_ms = blessing->max_ttl_ms,
                                    .covered_ms = blessing->covered_ms,
                                    .quarantine = blessing->rested};

    probe_node(keeper, node, &probe);
}

static void on_amend(void *userdata, unsigned node, const struct amendment *amendment) {
    struct sim_keeper *keeper = userdata;
    const struct sim_connection *connection = &keeper->connections[node];
    const struct sim_probe probe = {.amend = true,
                                    .amended_epoch = connection->epoch.process,
                                    .amended_floor_us = connection->epoch.floor_us,
                                    .amended_generation = connection->epoch.generation,
                                    .amendment = *amendment};

    probe_node(keeper, node, &probe);
}

/* Not within the shard's own step: its sink must not call back. */
static void on_cut(void *userdata, unsigned node) {
    struct sim_keeper *keeper = userdata;
    keeper->to_cut |= node_set_of(node);
}

/* In a quarter of the lock values the first RESUME carries in the number of resumes, the last bytes. */
void agent_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    (void) userdata;
    for (unsigned i = 0; i < SECRET_BYTES; i++)
        secret[i] = (uint8_t) random_next(&sim_random);
    if (secret[0] < UINT8_MAX / 4)
        secret[SECRET_BYTES - 1] = UINT8_MAX;
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    struct sim_keeper *keeper = userdata;

    wakeup_listen(&keeper->wakeup, request, name, wanted, keeper_now(keeper));
}

/* --- connections --- */

/* A dead host does not close its connections: the agent does, after five seconds. */
static void check_silent(const struct sim_keeper *keeper, const struct sim_connection *connection) {
    int64_t since_ns = instant_max(connection->true_unanswered_ns, keeper->paused_until_ns);

    if (connection->true_unanswered_ns != 0 && !sim_hosts_halt &&
        sim_now_ns > since_ns + SILENT_MS * NS_PER_MS)
        violation("agent %u keeps a connection that is silent for %lld ms", keeper->agent->index,
                  (long long) ((sim_now_ns - since_ns) / NS_PER_MS));
}

void agent_check_silent(const struct sim_agent *agent) {
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++)
        for (unsigned j = 0; j < agent->n_nodes; j++)
            check_silent(&agent->keepers[i], &agent->keepers[i].connections[j]);
}

void agent_silence(struct sim_agent *agent, unsigned keeper, unsigned node) {
    struct sim_connection *connection = &agent->keepers[keeper].connections[node];

    connection->silent = agent->running && connection->up;
}

static void break_connection(struct sim_keeper *keeper, unsigned node) {
    struct sim_connection *connection = &keeper->connections[node];

    if (!connection->up)
        return;
    check_silent(keeper, connection);
    connection->silent = false;
    connection->true_unanswered_ns = 0;
    connection->up = false;
    connection->life++;
    connection->trusted.process =
        EPOCH_OF_NONE; /* the turn's requests can't be sent, even once it is up again */
    trust_unseen(keeper, node);
    calls_cut(keeper, node);
    wakeup_node_gone(&keeper->wakeup, node, keeper_now(keeper));
    node_trust_gone(&keeper->shard, node, NODE_STATE_CONNECTING, "cut", keeper_now(keeper));
    struct event event =
        event_of(keeper->agent, EVENT_CONNECTED, sim_now_ns + pick(1, sim_calm ? 20 : 800) * NS_PER_MS);
    event.keeper = (uint8_t) keeper->index;
    event.node = (uint8_t) node;
    events_add(&event);
}

static void end_turn(struct sim_keeper *keeper) {
    keeper->in_turn = false;
    while (calls_pending(keeper) || keeper->to_cut != 0) {
        node_set nodes = keeper->to_cut;
        calls_send(keeper);
        keeper->to_cut = 0;
        for (unsigned i = 0; i < keeper->agent->n_nodes; i++)
            if (nodes & node_set_of(i))
                break_connection(keeper, i);
        calls_bounce(keeper);
    }
}

/* Events that arrive meanwhile belong to the same turn: their requests are sent together. */
static void begin_turn(struct sim_keeper *keeper) {
    int64_t longest_us = sim_calm ? instant_min(sim_turn_us, CALM_TURN_US) : sim_turn_us;
    struct event event = event_of(keeper->agent, EVENT_TURN, sim_now_ns + pick(0, longest_us) * NS_PER_US);

    keeper->in_turn = true;
    event.keeper = (uint8_t) keeper->index;
    events_add(&event);
}

static void keeper_settle(struct sim_keeper *keeper) {
    wakeup_settle(&keeper->wakeup, keeper_now(keeper));
    if (!keeper->in_turn && (calls_pending(keeper) || keeper->to_cut != 0)) {
        if (sim_turn_us > 0)
            begin_turn(keeper);
        else
            end_turn(keeper);
    }
    int64_t due_ns = instant_min(shard_due_ns(&keeper->shard), wakeup_due_ns(&keeper->wakeup));
    if (due_ns >= keeper->timer_ns)
        return;
    keeper->timer_ns = due_ns;
    struct event event =
        event_of(keeper->agent, EVENT_KEEPER_TIMER, clock_true_ns(&keeper->agent->clock, due_ns));
    event.keeper = (uint8_t) keeper->index;
    event.as.timer.due_ns = due_ns;
    events_add(&event);
}

static void keeper_command(struct sim_keeper *keeper, const struct event *event) {
    struct command command = event->as.errand.command;
    char text[1 + SIM_TAIL_BYTES] = {(char) ('0' + event->name)};

    memcpy(text + 1, event->as.errand.tail, command.tail_length);
    command.text = text;
    shard_command(&keeper->shard, &command, keeper_now(keeper));
}

static bool is_of_pubsub(const struct event *event) {
    return event->kind == EVENT_SUBSCRIBED || event->kind == EVENT_MESSAGE ||
           event->kind == EVENT_PUBSUB_CONNECTED || event->kind == EVENT_PUBSUB_BROKEN;
}

static void keeper_probed(struct sim_keeper *keeper, const struct event *event) {
    struct sim_connection *connection = &keeper->connections[event->node];
    const struct probe *answer = &event->as.probe.answer;

    connection->epoch = (struct sim_epoch){answer->blessed ? event->as.probe.epoch : EPOCH_OF_NONE,
                                           answer->generation, answer->floor_us};
    if (answer->blessed)
        connection->blessed_process = event->as.probe.epoch;
    trust_arrives(keeper, event->node, answer);
    node_trust_probed(&keeper->shard, event->node, answer, keeper_now(keeper));
    connection->trusted = connection->epoch;
    if (!node_trust_holds(&keeper->shard, event->node))
        connection->trusted.process = EPOCH_OF_NONE;
    trust_probed(keeper, event->node, answer);
    trust_time_arrives(keeper, event->node, event);
}

static void keeper_event(struct sim_keeper *keeper, const struct event *event) {
    if (event->kind == EVENT_ERRAND) {
        keeper_command(keeper, event);
    } else if (event->kind == EVENT_BLESS) {
        trust_word_arrives(keeper, event->node);
        node_trust_bless(&keeper->shard, event->node, keeper_now(keeper));
    } else if (event->kind == EVENT_REPLY) {
        trust_time_arrives(keeper, event->node, event);
        calls_answered(keeper, event);
        trust_timed(keeper, event->node, event);
    } else if (event->kind == EVENT_NOSCRIPT) {
        reload_refused(keeper, event);
    } else if (event->kind == EVENT_LOADED) {
        reload_done(keeper, event->node);
    } else if (event->kind == EVENT_PROBED) {
        keeper_probed(keeper, event);
    } else if (event->kind == EVENT_BROKEN) {
        break_connection(keeper, event->node);
    } else if (event->kind == EVENT_CONNECTED) {
        keeper->connections[event->node].up = true;
        agent_node(keeper->agent, event->node)->lacks_scripts = false;
        wakeup_node_ready(&keeper->wakeup, event->node);
        node_trust_ready(&keeper->shard, event->node, keeper_now(keeper));
    } else if (event->kind == EVENT_TURN) {
        end_turn(keeper);
    } else if (is_of_pubsub(event)) {
        pubsub_event(keeper, event);
    } else {
        assert(event->kind == EVENT_KEEPER_TIMER);
        keeper->timer_ns = INSTANT_NEVER;
        wakeup_tick(&keeper->wakeup, keeper_now(keeper));
        shard_tick(&keeper->shard, keeper_now(keeper));
    }
    keeper_settle(keeper);
}

void agent_command(struct sim_agent *agent, uint64_t name_hash, const struct command *command) {
    struct sim_keeper *keeper = &agent->keepers[(name_hash >> 40) % sim_n_keepers];
    struct event event =
        event_of(agent, EVENT_ERRAND, later(&keeper->errand_ns, sim_now_ns + mail_delay_ns()));
    struct command *copy = &event.as.errand.command;

    event.keeper = (uint8_t) keeper->index;
    *copy = *command;
    copy->text = NULL;
    if (command->text) {
        assert(command->head_length == 1 && command->tail_length <= SIM_TAIL_BYTES);
        event.name = (uint8_t) (command->text[0] - '0');
        memcpy(event.as.errand.tail, command->text + 1, command->tail_length);
    } else {
        copy->tail_length = 0;
    }
    events_add(&event);
}

void agent_bless(struct sim_agent *agent, unsigned node) {
    for (unsigned i = 0; i < sim_n_keepers; i++) {
        struct event event =
            event_of(agent, EVENT_BLESS, later(&agent->keepers[i].errand_ns, sim_now_ns + mail_delay_ns()));
        event.keeper = (uint8_t) i;
        event.node = (uint8_t) node;
        events_add(&event);
    }
}

/* A timer that has been set anew since. */
static bool is_void_timer(const struct event *event) {
    const struct sim_agent *agent = &sim_agents[event->agent];

    return (event->kind == EVENT_KEEPER_TIMER &&
            event->as.timer.due_ns != agent->keepers[event->keeper].timer_ns) ||
           (event->kind == EVENT_FRONT_TIMER && event->as.timer.due_ns != agent->timer_ns);
}

void agent_event(struct sim_agent *agent, const struct event *event) {
    struct sim_keeper *keeper = &agent->keepers[event->keeper];
    bool of_front = event->kind == EVENT_DISPATCH || event->kind == EVENT_FRONT_TIMER ||
                    event->kind == EVENT_FRONT_SERVES;
    int64_t paused_until_ns = of_front ? agent->paused_until_ns : keeper->paused_until_ns;
    bool is_answer = event->kind == EVENT_REPLY || event->kind == EVENT_NOSCRIPT ||
                     event->kind == EVENT_LOADED || event->kind == EVENT_PROBED;
    bool of_connection = is_answer || event->kind == EVENT_BROKEN;
    bool is_lost = is_answer && keeper->connections[event->node].silent;
    uint32_t life = of_connection         ? keeper->connections[event->node].life
                    : is_of_pubsub(event) ? keeper->subscriptions[event->node].life
                                          : agent->life;

    if (!agent->running || event->life != life || is_lost || is_void_timer(event))
        return;
    if (event->kind == EVENT_AGENT_KILL)
        agent_kill(agent);
    else if (sim_now_ns < paused_until_ns)
        events_defer(event, paused_until_ns);
    else if (of_front)
        front_event(agent, event);
    else
        keeper_event(keeper, event);
}

void agent_cut(struct sim_agent *agent, unsigned keeper, unsigned node) {
    struct event event = event_of(agent, EVENT_BROKEN, sim_now_ns);

    event.keeper = (uint8_t) keeper;
    event.node = (uint8_t) node;
    event.life = agent->keepers[keeper].connections[node].life;
    events_add(&event);
}

/* --- life --- */

static struct shard_config shard_config_of(const struct sim_agent *agent) {
    struct shard_config config = {
        .nodes = agent->n_nodes,
        .requests_max = agent->slots,
        .node_names = node_names,
        .max_ttl_ms = agent->max_ttl_ms,
        .quarantine = agent->quarantine,
        .fence_skew_ms = agent->fence_skew_ms,
        .seed = random_next(&sim_random),
    };

    lock_value_identify(&config.identity, agent->front.identity.host, agent->id);
    return config;
}

void *agents_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(memory != MAP_FAILED);
    return memory;
}

void agents_allocate(void) {
    const struct shard_config config = {.nodes = 1, .requests_max = SIM_REQUESTS_MAX, .max_ttl_ms = 1};

    for (unsigned i = 0; i < SIM_AGENTS_MAX; i++) {
        front_allocate(&sim_agents[i]);
        for (unsigned j = 0; j < SIM_KEEPERS_MAX; j++) {
            sim_agents[i].keepers[j].memory = agents_map(shard_memory_bytes(&config));
            sim_agents[i].keepers[j].wakeup_memory = agents_map(wakeup_memory_bytes(SIM_REQUESTS_MAX));
        }
    }
}

/* Clears what the former life has touched. Texts are last in memory. */
void agents_clear_through(void *memory, const struct shared_string_pool *texts) {
    if (texts->memory)
        memset(memory, 0, (size_t) (texts->memory + texts->used - (unsigned char *) memory));
}

static void clear_pool(const struct pool *pool) {
    if (pool->memory)
        memset(pool->memory, 0, pool->touched * pool->item_bytes);
}

/* Most of a shard's memory is that of leases and queries, which were never taken. */
static void clear_shard(const struct shard *shard) {
    const struct pool *queries = &shard->queries;

    clear_pool(&shard->leases);
    clear_pool(queries);
    if (queries->memory)
        agents_clear_through(queries->memory + queries->capacity * queries->item_bytes, &shard->texts);
}

/* `uplink_ns`: no request arrives earlier. */
static void keeper_start(struct sim_agent *agent, unsigned index, int64_t uplink_ns) {
    struct sim_keeper *keeper = &agent->keepers[index];
    const struct shard_sink sink = {
        .send = on_send,
        .report = on_report,
        .probe = on_probe,
        .bless = on_bless,
        .amend = on_amend,
        .cut = on_cut,
        .secret = agent_secret,
        .listen = on_listen,
        .userdata = keeper,
    };
    const struct shard_config config = shard_config_of(agent);

    clear_shard(&keeper->shard);
    keeper->agent = agent;
    keeper->index = index;
    keeper->to_cut = 0;
    keeper->mark = random_next(&sim_random) << 16 | 1; /* then the number */
    keeper->in_turn = false;
    calls_reset(keeper);
    keeper->timer_ns = INSTANT_NEVER;
    keeper->errand_ns = keeper->dispatch_ns = 0;
    keeper->paused_until_ns = sim_now_ns; /* a restart is like a pause */
    shard_init(&keeper->shard, &config, &sink, keeper->memory);
    pubsub_init(keeper);
    if (chance(10)) { /* attempts and releases are held back */
        keeper->shard.attempts_max = (uint32_t) pick(2, 8);
        keeper->shard.releases_max = 2 * keeper->shard.attempts_max;
    }
    for (unsigned i = 0; i < agent->n_nodes; i++) {
        struct sim_connection *connection = &keeper->connections[i];
        connection->up = true;
        connection->silent = false;
        connection->true_unanswered_ns = 0;
        connection->life++;
        connection->request_ns = uplink_ns;
        connection->reply_ns = 0;
        connection->epoch = connection->trusted = (struct sim_epoch){.process = 0}; /* none is known */
        connection->blessed_process = 0;
        reload_queue_init(&connection->reloads);
        agent_node(agent, i)->lacks_scripts = false;
        trust_unseen(keeper, i);
        wakeup_node_ready(&keeper->wakeup, i);
        node_trust_ready(&keeper->shard, i, keeper_now(keeper));
    }
    keeper_settle(keeper);
}

void agent_start(struct sim_agent *agent) {
    bool waits = sim_faults.slow_starts && !sim_calm && chance(80);
    int64_t uplink_ns = waits ? sim_now_ns + pick(100, 1000) * NS_PER_MS : 0;

    trace("agent %u starts%s", agent->index, agent->former > 0 ? ", and continues" : "");
    agent->running = true;
    agent->life++;
    agent->timer_ns = INSTANT_NEVER;
    agent->paused_until_ns = agent->started_ns = sim_now_ns;
    front_start(agent);
    for (unsigned i = 0; i < sim_n_keepers; i++)
        keeper_start(agent, i, uplink_ns);
    observer_restarted(agent);
    clients_restarted(agent);
    front_continue(agent);
    if (sim_faults.bad_starts && !sim_calm && chance(30)) {
        struct event event = event_of(agent, EVENT_AGENT_KILL, sim_now_ns + pick(5, 500) * NS_PER_MS);
        events_add(&event);
    }
}

/* Until the next process. Longer, often, where other agents do not know how long its leases are. */
static int64_t absence_ms(const struct sim_agent *agent) {
    static const int64_t longest_ms[] = {30, 30, 200, 3000};
    bool has_longest = false;

    for (unsigned i = 0; i < sim_n_agents; i++)
        has_longest |= sim_agents[i].max_ttl_ms < agent->max_ttl_ms;
    return has_longest && chance(30) ? pick(2000, 7000) : pick(1, longest_ms[pick(0, 3)]);
}

void agent_kill(struct sim_agent *agent) {

    if (!agent->running)
        return;
    agent->running = false;
    if (!agent->frozen)
        agent->stopped_ns = sim_now_ns;
    trace("agent %u is killed", agent->index);
    front_kill(agent);
    for (unsigned i = 0; i < sim_n_keepers; i++)
        for (unsigned j = 0; j < agent->n_nodes; j++) {
            agent->keepers[i].subscriptions[j].life++;
            agent->keepers[i].connections[j].life++; /* requests under way may still be executed */
        }
    struct event event = event_of(agent, EVENT_AGENT_START, sim_now_ns + absence_ms(agent) * NS_PER_MS);
    events_add(&event);
}

static bool keeper_is_untroubled(const struct sim_keeper *keeper) {
    const struct sim_agent *agent = keeper->agent;

    if (sim_now_ns < keeper->paused_until_ns ||
        node_set_count(shard_askable(&keeper->shard)) < agent->n_nodes)
        return false;
    for (unsigned i = 0; i < agent->n_nodes; i++) {
        const struct sim_connection *connection = &keeper->connections[i];
        const struct sim_node *node = &sim_nodes[agent->at[i]];
        if (connection->silent || node->lacks_scripts || connection->reloads.loading ||
            sim_now_ns < node->stopped_until_ns || sim_now_ns < node->refuses_until_ns ||
            instant_max(connection->request_ns, connection->reply_ns) > sim_now_ns + LATE_MS * NS_PER_MS)
            return false;
    }
    return true;
}

/* True if there is a token that a majority of the nodes accepts: larger than their floors, and within
 * fence_skew of their clocks. Clocks with different rates are seconds apart after an hour. */
static bool do_tokens_agree(const struct sim_agent *agent) {
    int64_t skew_us = (int64_t) agent->fence_skew_ms * 1000;

    for (unsigned i = 0; i < agent->n_nodes; i++) {
        int64_t least_us = sim_nodes[agent->at[i]].data.floor_us;
        unsigned accept = 0;
        for (unsigned j = 0; j < agent->n_nodes; j++) {
            const struct sim_node *node = &sim_nodes[agent->at[j]];
            accept += node->data.floor_us <= least_us && least_us < node_clock_us(node) + skew_us;
        }
        if (accept >= quorum_of(agent->n_nodes))
            return true;
    }
    return false;
}

bool agent_has_tokens(const struct sim_agent *agent) {
    return sim_tokens_agree && (!sim_fencing || do_tokens_agree(agent));
}

bool agent_is_untroubled(const struct sim_agent *agent) {
    bool untroubled = front_serves(agent) && sim_now_ns >= agent->paused_until_ns;

    for (unsigned i = 0; untroubled && i < sim_n_keepers; i++)
        untroubled = keeper_is_untroubled(&agent->keepers[i]);
    return untroubled;
}

bool agent_is_idle(const struct sim_agent *agent) {
    for (unsigned i = 0; agent->running && i < sim_n_keepers; i++) {
        const struct shard *shard = &agent->keepers[i].shard;
        if (shard->leases.taken > 0 ||
            (!sim_sets_differ && node_set_count(shard_askable(shard)) < agent->n_nodes))
            return false;
    }
    return !agent->running || front_is_idle(agent);
}
