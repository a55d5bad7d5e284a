/* redlock-sim: runs the world from many seeds, and prints the first seed that breaks an invariant. A run has
 * a time of faults, and then a calm in which everything must end. The same seed gives the same run, to the
 * last bit: `--seed N --trace` prints it. */

#include <assert.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "client-session.h"
#include "clients.h"
#include "events.h"
#include "fault.h"
#include "front.h"
#include "node.h"
#include "observer.h"
#include "other-library.h"
#include "pubsub.h"
#include "reader.h"
#include "released.h"
#include "reload.h"
#include "rules.h"
#include "trust.h"

enum {
    CALM_MS_MAX = 120 * 1000,
    CALM_REQUESTS_MS = 6000,
    LONGEST_TTL_MS = 2000,
    SOAK_RUNS = 100000,
    RUNS_WITH_ALL = 100,
};

int64_t sim_now_ns, sim_calm_ns;
struct random sim_random;
bool sim_calm, sim_closed, sim_violated;
struct sim_counts sim_counts;
struct sim_faults sim_faults;

static uint64_t seed;
static bool tracing, with_wild_clocks, quiet;

/* Of the current run: */
static bool with_blessings;   /* from the start on */
static bool with_unlike_ttls; /* agents have different max_ttls */
static bool with_careless;    /* one agent has no quarantine */
static bool same_names;       /* where sets differ: of the nodes that replace each other */
static uint8_t replaced[SIM_NAMES][SECRET_BYTES]; /* the value that each name's last refresh replaced */
bool sim_steps;                                   /* clocks are set */
bool sim_hosts_halt;
uint32_t sim_scale, sim_longest_ttl_ms;
bool sim_quarantine = true, sim_sets_differ, sim_durable, sim_repeats, sim_fencing, sim_tokens_grow,
     sim_tokens_agree;
static uint32_t fence_skew_ms; /* of most agents */
int64_t sim_turn_us, sim_stepped_until_ns, sim_blessing_until_ns, sim_dark_from_ns, sim_dark_until_ns;
unsigned sim_last_blessed;
node_set sim_blessed;

/* --- time and chance --- */

int64_t clock_read(const struct clock *clock) {
    return clock->offset_ns + (int64_t) ((double) sim_now_ns * clock->rate);
}

int64_t clock_true_ns(const struct clock *clock, int64_t at_ns) {
    if (at_ns == INSTANT_NEVER)
        return INSTANT_NEVER;
    int64_t true_ns = (int64_t) ((double) (at_ns - clock->offset_ns) / clock->rate) + 1000;
    return true_ns > sim_now_ns ? true_ns : sim_now_ns;
}

int64_t pick(int64_t low, int64_t high) {
    return random_between(&sim_random, low, high);
}

bool chance(unsigned percent) {
    return pick(1, 100) <= (int64_t) percent;
}

void trace(const char *format, ...) {
    va_list arguments;

    if (!tracing)
        return;
    (void) printf("%10.3f ms  ", (double) sim_now_ns / 1e6);
    va_start(arguments, format);
    (void) vprintf(format, arguments);
    va_end(arguments);
    (void) putchar('\n');
}

void violation(const char *format, ...) {
    va_list arguments;

    sim_violated = true;
    if (quiet)
        return;
    (void) printf("# seed %llu, at %.3f ms: ", (unsigned long long) seed, (double) sim_now_ns / 1e6);
    va_start(arguments, format);
    (void) vprintf(format, arguments);
    va_end(arguments);
    (void) putchar('\n');
}

/* --- a run --- */

/* A slow node answers all, each later than the last. */
static int64_t later_reply(const struct sim_node *node, struct sim_connection *connection) {
    int64_t at_ns = sim_now_ns + (chance(90) ? pick(20, 500) : pick(500, 2000)) * NS_PER_US;

    if (sim_now_ns < node->slow_until_ns)
        at_ns += pick(0, node->slow_us) * NS_PER_US;

    connection->reply_ns = at_ns > connection->reply_ns ? at_ns : connection->reply_ns + 1;
    return connection->reply_ns;
}

/* TCP does not send twice, but a relay may. Not probes: a mark that is left twice, once after a loss, would
 * hide the loss. */
static void repeat_later(const struct event *event) {
    struct event repeated = *event;

    repeated.again = true;
    repeated.at_ns = sim_now_ns + pick(0, 3000 * 1000) * NS_PER_US;
    events_add(&repeated);
    sim_counts.repeats++;
}

/* The request may have set the key a ttl after it was sent: its agent no longer counts on that. Or it has
 * given the key a value that another node's key had before, and that was replaced there. */
static void note_late(unsigned name, struct sim_key *key, const struct sim_request *request,
                      const struct event *call) {
    bool has_set = request->operation != OPERATION_RELEASE && request->operation != OPERATION_QUERY &&
                   memcmp(key->secret, request->secret, SECRET_BYTES) == 0;

    if (request->operation == OPERATION_REFRESH && request->has_former)
        memcpy(replaced[name], request->former, SECRET_BYTES);
    if (!has_set)
        return;
    key->true_set_ns = sim_now_ns;
    key->late = sim_now_ns >= call->true_sent_ns + request->ttl_ms * NS_PER_MS ||
                memcmp(replaced[name], request->secret, SECRET_BYTES) == 0;
    key->repeated = call->again;
}

/* The agent's requests for a name reach a node in their order, on each of its connections. */
static void check_order(const struct event *call) {
    struct sim_connection *connection =
        &sim_agents[call->agent].keepers[call->keeper].connections[call->node];

    if (call->again || call->life != connection->life)
        return;
    for (uint32_t i = 0; i < call->as.call.tickets.count; i++) {
        uint64_t *last = &connection->last_executed[call->as.call.names[i]];
        if (call->as.call.requests[i].number <= *last)
            violation("node %u executes a request of agent %u for name %u behind a later one", call->node,
                      call->agent, call->as.call.names[i]);
        *last = call->as.call.requests[i].number;
    }
}

/* All of the agent's names in order, and nothing in between. */
static void execute(struct sim_node *node, const struct event *call, struct event *ret) {
    const struct sim_call *asked = &call->as.call;

    *ret = (struct event){.kind = EVENT_REPLY,
                          .agent = call->agent,
                          .keeper = call->keeper,
                          .node = call->node,
                          .life = call->life,
                          .process = call->process,
                          .sent_ns = call->sent_ns,
                          .time_us = -1,
                          .as.answer.tickets = asked->tickets};
    for (uint32_t i = 0; i < asked->tickets.count; i++) {
        struct sim_request request = asked->requests[i];
        request.epoch = asked->epoch;
        request.floor_us = asked->floor_us;
        request.generation = asked->generation;
        request.fence_skew_ms = sim_agents[call->agent].fence_skew_ms;
        ret->as.answer.replies[i] = node_execute(node, asked->names[i], &request);
        if (ret->as.answer.replies[i].kind == VOTE_REPAIRED)
            released_set_again(call->agent, (unsigned) (node - sim_nodes), &request, call->true_sent_ns);
        note_late(asked->names[i], &node->data.keys[asked->names[i]], &request, call);
        if (request.operation != OPERATION_RAISE && request.operation != OPERATION_RELEASE &&
            (ret->as.answer.replies[i].kind == VOTE_YES || ret->as.answer.replies[i].kind == VOTE_REPAIRED))
            trust_voted(call->agent, (unsigned) (node - sim_nodes), call->true_sent_ns);
        if (ret->as.answer.replies[i].time_us >= 0)
            ret->time_us = ret->as.answer.replies[i].time_us;
    }
}

static void deliver(const struct event *event) {
    struct sim_node *node = agent_node(&sim_agents[event->agent], event->node);
    struct sim_connection *connection =
        &sim_agents[event->agent].keepers[event->keeper].connections[event->node];

    if (sim_now_ns < node->stopped_until_ns) {
        events_defer(event, node->stopped_until_ns);
        return;
    }
    bool cut = event->life != connection->life;
    if (event->process != node->process || (cut && chance(50)))
        return;
    if (event->kind == EVENT_PROBE) {
        struct event answer = *event;
        bool barred = !node_is_rested(node);
        uint32_t max_ttl_ms = node->data.max_ttl_ms, former_fleet = node->data.fleet;
        bool had_epoch = node->data.epoch != 0 && node->data.rested;
        node_probe(node, &answer);
        trust_examined((unsigned) (node - sim_nodes), event);
        if (event->as.probe.bless && had_epoch && node->data.fleet != former_fleet)
            trust_taken((unsigned) (node - sim_nodes), event);
        if (barred && node_is_rested(node)) {
            if (sim_now_ns >= sim_blessing_until_ns)
                observer_blessed((unsigned) (node - sim_nodes));
            trust_blessed((unsigned) (node - sim_nodes), event);
        } else if (event->as.probe.amend && node->data.max_ttl_ms < max_ttl_ms) {
            trust_shortened((unsigned) (node - sim_nodes));
        }
        answer.at_ns = later_reply(node, connection);
        if (!cut)
            events_add(&answer);
        return;
    }
    struct event reply;
    if (event->kind == EVENT_LOAD) {
        reply = *event;
        reply.kind = EVENT_LOADED;
        node->lacks_scripts = false;
    } else if (node->lacks_scripts) {
        reply = *event;
        reply.kind = EVENT_NOSCRIPT;
    } else {
        check_order(event);
        execute(node, event, &reply);
    }
    if (sim_repeats && event->kind == EVENT_CALL && !event->again && chance(2))
        repeat_later(event);
    if (cut || event->again)
        return; /* it was executed, and the answer is lost */
    reply.at_ns = later_reply(node, connection);
    events_add(&reply);
}

static void dispatch(const struct event *event) {
    sim_counts.events++;
    switch (event->kind) {
    case EVENT_CALL:
    case EVENT_LOAD:
    case EVENT_PROBE:
        deliver(event);
        break;
    case EVENT_SUBSCRIBE:
        pubsub_deliver(event);
        break;
    case EVENT_CLIENT:
        if (event->client == SIM_READER)
            reader_step();
        else
            client_step(event->client);
        break;
    case EVENT_DEADLINE:
        observer_deadline(event);
        break;
    case EVENT_FAULT:
        fault();
        break;
    case EVENT_OTHER_LIBRARY:
        other_library_step();
        break;
    case EVENT_AGENT_START:
        if (sim_now_ns < sim_stepped_until_ns)
            events_defer(event, sim_stepped_until_ns);
        else if (!sim_agents[event->agent].running)
            agent_start(&sim_agents[event->agent]);
        break;
    case EVENT_REPLY:
    case EVENT_NOSCRIPT:
    case EVENT_LOADED:
    case EVENT_PROBED:
    case EVENT_BROKEN:
    case EVENT_CONNECTED:
    case EVENT_SUBSCRIBED:
    case EVENT_MESSAGE:
    case EVENT_PUBSUB_CONNECTED:
    case EVENT_PUBSUB_BROKEN:
    case EVENT_ERRAND:
    case EVENT_BLESS:
    case EVENT_DISPATCH:
    case EVENT_TURN:
    case EVENT_KEEPER_TIMER:
    case EVENT_FRONT_TIMER:
    case EVENT_FRONT_SERVES:
    case EVENT_AGENT_KILL:
        agent_event(&sim_agents[event->agent], event);
        break;
    }
}

/* Agents that share some of their nodes: all, all but one, or one; or all, with another fence_skew. */
static void choose_nodes(struct sim_agent *agent) {
    static const uint8_t sets[][3] = {{0, 1, 2}, {0, 1, 3}, {2, 3, 4}, {0, 1, 2}};
    unsigned set = agent->index == 0 ? 0 : (unsigned) pick(0, 3);

    agent->n_nodes = sim_sets_differ ? 3 : sim_n_nodes;
    for (unsigned i = 0; i < SIM_NODES_MAX; i++)
        agent->at[i] = (uint8_t) i;
    if (sim_sets_differ)
        memcpy(agent->at, sets[set], sizeof(sets[set]));
    memcpy(agent->names, agent->at, sizeof(agent->at));
    if (set == 1 && same_names)
        agent->names[2] = 2;
    /* A replaced node may keep its name. */
    agent->set = !sim_sets_differ || (set == 1 && same_names) ? 0 : set;
    agent->fence_skew_ms = agent->set == 3 ? fence_skew_ms / 2 : fence_skew_ms;
    sim_tokens_grow &= agent->set != 3;
}

static void choose_settings(struct sim_agent *agent) {
    static const uint32_t max_ttls_ms[] = {500, 1000, LONGEST_TTL_MS};

    agent->max_ttl_ms = sim_scale * (with_unlike_ttls ? max_ttls_ms[pick(0, 2)] : LONGEST_TTL_MS);
    agent->quarantine =
        sim_quarantine && !(with_careless && agent->index > 0 && agent->index + 1 == sim_n_agents);
    agent->host = agent->index > 0 && chance(50) ? sim_agents[pick(0, agent->index - 1)].host : agent->index;
    agent->slots = chance(15) ? SIM_FEW_SLOTS : SIM_REQUESTS_MAX;
    agent->requests_max = chance(10) ? (uint32_t) pick(1, 6) : agent->slots;
    agent->quota_max = chance(10) ? (uint32_t) pick(2, 9) : 0;
    agent->policy = (struct policy){
        .terms = {.default_ttl_ms = 500 * sim_scale, .may = POLICY_MAY_DEFAULT, .fencing = sim_fencing},
        .max_ttl_ms = agent->max_ttl_ms};
    choose_nodes(agent);
    rules_choose(agent);
}

static void begin(void) {
    static const unsigned node_counts[] = {3, 3, 3, 5, 5, 1, 2, 4};
    static const int64_t turns_us[] = {0, 1000, 10000, 40000};

    random_init(&sim_random, seed);
    sim_now_ns = sim_stepped_until_ns = sim_blessing_until_ns = sim_dark_from_ns = sim_dark_until_ns = 0;
    sim_calm = sim_closed = sim_violated = false;
    sim_scale = seed % 1000 == 13 ? 1800 : seed % 250 == 3 ? 30 : 1; /* few: long runs */
    sim_longest_ttl_ms = sim_scale * LONGEST_TTL_MS;
    int64_t kind = pick(1, 5);
    sim_steps = kind <= 2;
    sim_hosts_halt = sim_steps && seed % 4 == 1;
    sim_faults.kills = !sim_hosts_halt && chance(50);
    sim_faults.losses = kind != 1;
    sim_faults.far_clocks = kind == 3;
    with_blessings = chance(60);
    sim_faults.gap_ms = chance(50) ? 600 : 2500;
    sim_faults.next_killed = 0;
    sim_fencing = chance(90);
    sim_repeats = chance(50) && sim_scale == 1; /* a repeat may leave a key for a ttl */
    sim_durable = chance(30);
    sim_tokens_grow = !sim_steps || !sim_faults.losses; /* tokens can't grow under both */
    sim_tokens_agree = !sim_faults.far_clocks && !sim_steps;
    fence_skew_ms = sim_faults.far_clocks ? 60000 : 2000 * sim_scale; /* rates differ */
    sim_turn_us = turns_us[pick(0, 3)];
    events_reset();
    pubsub_reset();
    reload_reset();
    trust_reset();
    client_sessions_reset();
    sim_n_nodes = node_counts[pick(0, 7)];
    sim_last_blessed = 0;
    sim_blessed = 0;
    memset(replaced, 0, sizeof(replaced));
    sim_n_agents = (unsigned) pick(1, SIM_AGENTS_MAX);
    with_unlike_ttls = chance(sim_scale > 1 ? 80 : 50);
    with_careless = chance(20);
    sim_faults.deaf_agents = chance(30);
    sim_faults.bad_starts = sim_faults.kills && chance(45);
    sim_faults.slow_starts = sim_faults.kills && chance(30);
    sim_sets_differ = sim_n_agents > 1 && !sim_steps && chance(20);
    if (sim_sets_differ)
        sim_n_nodes = SIM_NODES_MAX;
    same_names = chance(50);
    sim_counts.sets += sim_sets_differ;
    sim_n_keepers = (unsigned) pick(1, SIM_KEEPERS_MAX);
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        /* Tokens of different sets of nodes are compared by clock alone. */
        int64_t far_ms = sim_faults.far_clocks && !sim_sets_differ ? fence_skew_ms * 3 / 4 : 50;
        node_reset(&sim_nodes[i], pick(-far_ms, far_ms) * NS_PER_MS);
        if (with_wild_clocks)
            sim_nodes[i].clock.rate = 1 + (double) pick(-50000, 50000) / 1e6;
    }
    for (unsigned i = 0; i < sim_n_agents; i++) {
        sim_agents[i].index = i;
        choose_settings(&sim_agents[i]);
        sim_agents[i].life = 0; /* so that a schedule is the same after any other */
        sim_agents[i].former = 0;
        sim_agents[i].halted_until_ns = 0;
        sim_agents[i].with_ledger = !sim_hosts_halt && chance(50);
        sim_agents[i].clock = (struct clock){.rate = 1 + (double) pick(-4500, 4500) / 1e6,
                                             .offset_ns = pick(1, 1000000) * NS_PER_S};
        if (sim_agents[i].host != i) /* the first one's that was started there */
            sim_agents[i].clock = sim_agents[sim_agents[i].host].clock;
    }
    for (unsigned i = 0; with_blessings && i < sim_agents[0].n_nodes; i++) {
        node_bless(&sim_nodes[i], sim_agents[pick(0, sim_n_agents - 1)].max_ttl_ms,
                   agent_fleet(&sim_agents[0], i), true, fence_skew_ms);
        for (unsigned j = 0; j < sim_agents[0].n_nodes; j++)
            sim_nodes[i].data.notes[j][j] = (struct sim_note){node_clock_us(&sim_nodes[i]), true};
    }
    for (unsigned i = 0; i < sim_n_agents; i++)
        agent_start(&sim_agents[i]);
    for (unsigned i = 0; i < sim_n_agents; i++)
        trace("agent %u: max_ttl %u ms, nodes %u %u %u of %u, set %u%s", i, sim_agents[i].max_ttl_ms,
              sim_agents[i].at[0], sim_agents[i].at[1], sim_agents[i].at[2], sim_agents[i].n_nodes,
              sim_agents[i].set, sim_agents[i].quarantine ? "" : ", no quarantine");
    clients_reset((unsigned) pick(2, SIM_CLIENTS_MAX));
    reader_reset();
    other_library_reset();
    events_add(&(struct event){.kind = EVENT_FAULT, .at_ns = pick(0, 2000) * NS_PER_MS});
}

static bool all_idle(void) {
    for (unsigned i = 0; i < sim_n_agents; i++)
        if (!agent_is_idle(&sim_agents[i]))
            return false;
    return true;
}

/* Everything has ended, except the probes of the nodes. */
static bool is_at_rest(void) {
    return sim_closed && clients_are_idle() && all_idle();
}

static void calm_node(struct sim_node *node) {
    node->refuses_until_ns = node->slow_until_ns = 0;
    node->lacks_scripts = false;
}

static void run(void) {
    int64_t open_ns = 0;
    const struct event *event;

    begin();
    /* Where sets differ: long enough for new nodes to be blessed. */
    int64_t faults_until_ns =
        (sim_sets_differ || sim_faults.far_clocks ? pick(14, 24) : pick(2, 15)) * NS_PER_S;
    while (!sim_violated && (event = events_take())) {
        assert(event->at_ns >= sim_now_ns);
        sim_now_ns = event->at_ns;
        if (!sim_calm && sim_now_ns >= faults_until_ns) {
            fault_last();
            sim_calm = true;
            sim_calm_ns = sim_now_ns;
            open_ns = chance(50) ? 0 : CALM_REQUESTS_MS * NS_PER_MS;
            for (unsigned i = 0; i < sim_n_nodes; i++)
                calm_node(&sim_nodes[i]);
            for (unsigned i = 0; i < sim_n_agents; i++)
                sim_agents[i].steps_left = 0;
            trace("calm: no more faults");
        }
        if (sim_calm && !sim_closed && sim_now_ns - sim_calm_ns >= open_ns) {
            sim_closed = true;
            if (!sim_tokens_agree || sim_sets_differ)
                clients_give_up();
            trace("no new requests");
        }
        if (sim_calm && sim_now_ns - sim_calm_ns > sim_scale * CALM_MS_MAX * NS_PER_MS) {
            clients_check_end();
            if (!sim_violated)
                violation("an agent does not come to rest, or a node never votes again");
            break;
        }
        dispatch(event);
        if (sim_calm) {
            pubsub_check();
            observer_check();
        }
        if (event->kind == EVENT_KEEPER_TIMER && is_at_rest())
            break;
    }
    if (sim_violated)
        return;
    clients_check_end();
    for (unsigned i = 0; i < sim_n_agents; i++) {
        agent_check_silent(&sim_agents[i]);
        if (sim_agents[i].running && front_is_idle(&sim_agents[i]))
            front_check_idle(&sim_agents[i]);
    }
    if (!all_idle())
        violation("an agent keeps a lease that no client has");
    for (unsigned i = 0; i < sim_n_nodes; i++)
        sim_now_ns = instant_max(sim_now_ns, sim_nodes[i].odd_until_ns) + sim_nodes[i].set_back_ns;
    sim_now_ns += sim_scale * 5 * NS_PER_S;
    for (unsigned i = 0; i < sim_n_nodes; i++)
        if (node_has_keys(&sim_nodes[i]))
            violation("a key outlives its ttl");
}

/* --- the command --- */

static const char usage[] =
    "redlock-sim [--seed N] [--runs N | --forever] [--trace] [--no-quarantine] [--wild-clocks] "
    "[--expect-violation]\n"
    "Runs the agent's core in a simulated world of faults, from each of N seeds.\n"
    "  --no-quarantine     nodes that lost their memory vote at once\n"
    "  --wild-clocks       the nodes' clocks run up to 5 % too fast or slow\n"
    "  --expect-violation  exits with 0 at the first violation, with 1 when there is none\n";

static void print_counts(uint64_t runs) {
    (void) printf(
        "# %llu runs, %llu events: %llu requests to nodes, %llu grants, %llu tokens raised, %llu "
        "extensions, %llu refusals, "
        "%llu losses, %llu releases, %llu messages of them, %llu epochs amended; %llu with other nodes\n",
        (unsigned long long) runs, (unsigned long long) sim_counts.events,
        (unsigned long long) sim_counts.requests, (unsigned long long) sim_counts.grants,
        (unsigned long long) sim_counts.raises, (unsigned long long) sim_counts.extensions,
        (unsigned long long) sim_counts.refusals, (unsigned long long) sim_counts.losses,
        (unsigned long long) sim_counts.releases, (unsigned long long) sim_counts.messages,
        (unsigned long long) sim_counts.amendments, (unsigned long long) sim_counts.sets);
    (void) printf("# %llu calls, %llu of them for several names\n", (unsigned long long) sim_counts.calls,
                  (unsigned long long) sim_counts.shared_calls);
    (void) printf("# %llu hand-offs, %llu keys refreshed; %llu leases asked to be resumed (%llu at "
                  "another agent), %llu were; %llu continued after a restart\n",
                  (unsigned long long) sim_counts.handoffs, (unsigned long long) sim_counts.refreshes,
                  (unsigned long long) sim_counts.resumes, (unsigned long long) sim_counts.moves,
                  (unsigned long long) sim_counts.resumed, (unsigned long long) sim_counts.restored);
    (void) printf(
        "# faults: %llu connections cut, %llu silent, %llu requests executed twice, %llu nodes stopped "
        "(%llu "
        "lost all data, %llu "
        "returned with old data), %llu that refused, %llu that were slow, %llu that "
        "lost the scripts (loaded again %llu times), %llu times all lost, "
        "%llu names overwritten, "
        "%llu locked by another library, "
        "%llu clocks set, %llu blessings inherited, %llu by an operator; agents: %llu pauses, %llu kills\n",
        (unsigned long long) sim_counts.cuts, (unsigned long long) sim_counts.silences,
        (unsigned long long) sim_counts.repeats, (unsigned long long) sim_counts.stops,
        (unsigned long long) sim_counts.amnesias, (unsigned long long) sim_counts.old_data,
        (unsigned long long) sim_counts.fulls, (unsigned long long) sim_counts.slow,
        (unsigned long long) sim_counts.flushes, (unsigned long long) sim_counts.reloads,
        (unsigned long long) sim_counts.blackouts, (unsigned long long) sim_counts.overwrites,
        (unsigned long long) sim_counts.other_locks, (unsigned long long) sim_counts.steps,
        (unsigned long long) sim_counts.inheritances, (unsigned long long) sim_counts.blessings,
        (unsigned long long) sim_counts.pauses, (unsigned long long) sim_counts.kills);
}

int main(int argc, char **argv) {
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},
        {"runs", required_argument, NULL, 'r'},
        {"forever", no_argument, NULL, 'f'},
        {"trace", no_argument, NULL, 't'},
        {"no-quarantine", no_argument, NULL, 'q'},
        {"wild-clocks", no_argument, NULL, 'w'},
        {"expect-violation", no_argument, NULL, 'e'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    uint64_t first = 1, runs = 1;
    bool expected = false;
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) >= 0) {
        switch (option) {
        case 's':
            first = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            runs = strtoull(optarg, NULL, 10);
            break;
        case 'f':
            runs = UINT64_MAX;
            break;
        case 't':
            tracing = true;
            break;
        case 'q':
            sim_quarantine = false;
            break;
        case 'w':
            with_wild_clocks = true;
            break;
        case 'e':
            expected = quiet = true;
            break;
        default:
            (void) fputs(usage, option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 64;
        }
    }
    agents_allocate();
    client_sessions_allocate();
    for (uint64_t i = 0; i < runs; i++) {
        seed = first + i;
        run();
        if (runs == UINT64_MAX && (i + 1) % SOAK_RUNS == 0)
            print_counts(i + 1);
        if (sim_violated && expected) {
            (void) printf("%llu\n", (unsigned long long) (i + 1));
            return 0;
        }
        if (sim_violated) {
            (void) printf(
                "not ok 1 - no invariant is broken\n# again: redlock-sim --seed %llu --trace\n1..1\n",
                (unsigned long long) seed);
            return 1;
        }
    }
    if (expected) {
        (void) printf("no violation in %llu runs\n", (unsigned long long) runs);
        return 1;
    }
    print_counts(runs);
    if (runs >= RUNS_WITH_ALL && sim_counts.shared_calls < runs) {
        (void) printf("not ok 1 - calls for several names are simulated\n1..1\n");
        return 1;
    }
    (void) printf("ok 1 - no invariant is broken in %llu runs from seed %llu on\n1..1\n",
                  (unsigned long long) runs, (unsigned long long) first);
    return 0;
}
