/* The front of an agent: the layer local as it ships, with a session for each client. Sockets are left out:
 * bytes arrive at once. The process may be killed before each call of a sink and each system call: then the
 * code of the layer never goes on, and the memory is as it is. */

#include <assert.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "client-session.h"
#include "clients.h"
#include "events.h"
#include "front.h"
#include "restart.h"
#include "rules.h"
#include "local/disconnect.h"
#include "local/leader.h"
#include "local/listing.h"
#include "local/outcome.h"
#include "local/recovery/restore.h"
#include "local/registry-report.h"
#include "local/wait-queue.h"

enum { FROZEN_MS = 100, BEFORE_SERVING_US = 3000 };

static char reply[REPLY_BYTES_MAX];
static jmp_buf killed;

static int64_t front_now(const struct sim_agent *agent) {
    return clock_read(&agent->clock);
}

/* --- death --- */

void front_die(struct sim_agent *agent) {
    agent->steps_left = 0;
    longjmp(killed, 1);
}

void front_may_die(struct sim_agent *agent) {
    if (agent->steps_left > 0 && agent->front.registry.held >= agent->dies_with && --agent->steps_left == 0)
        front_die(agent);
}

bool front_is_dying(const struct sim_agent *agent) {
    return agent->steps_left > 0;
}

/* The thread stands still where it is, and the process is killed soon. */
static void freeze(struct sim_agent *agent) {
    struct event event = {.kind = EVENT_AGENT_KILL,
                          .agent = (uint8_t) agent->index,
                          .life = agent->life,
                          .at_ns = sim_now_ns + (chance(50) ? 0 : pick(0, FROZEN_MS) * NS_PER_MS)};

    trace("agent %u: its front stands still, until it is killed at %.3f ms", agent->index,
          (double) event.at_ns / 1e6);
    agent->frozen = true;
    agent->stopped_ns = sim_now_ns;
    agent->paused_until_ns = instant_max(agent->paused_until_ns, event.at_ns);
    client_sessions_drop_output();
    client_answer_read_pages(agent);
    events_add(&event);
}

/* Runs a part of the front's code. */
static void run(struct sim_agent *agent, void (*part)(struct sim_agent *agent, const void *argument),
                const void *argument) {
    if (agent->frozen)
        return;
    if (setjmp(killed) == 0)
        part(agent, argument);
    else
        freeze(agent);
}

bool front_serves(const struct sim_agent *agent) {
    return agent->running && !agent->frozen && agent->serves;
}

/* --- sinks --- */

static void on_write(void *userdata, struct session *session, const char *bytes, size_t length) {
    (void) userdata;
    client_session_write(session, bytes, length);
}

static void on_command(void *userdata, uint64_t name_hash, const struct command *command) {
    front_may_die(userdata);
    agent_command(userdata, name_hash, command);
}

static void on_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns) {
    (void) userdata;
    outcome_deliver(request, outcome, now_ns);
}

static void on_changed(void *userdata, uint64_t name_hash, const char *name, size_t length) {
    struct sim_agent *agent = userdata;
    observe_hint(&agent->front, name_hash, name, length);
}

static enum registry_reading on_grant_reading(void *userdata, const struct request *request) {
    (void) userdata;
    return client_has_read(client_session_client(client_session_from(request->session))) ? GRANT_READ
                                                                                         : GRANT_UNREAD;
}

static int on_page(void *userdata, struct session *session) {
    struct client_session *of = client_session_from(session);

    (void) userdata;
    memset(of->page_memory, 0, SESSION_PAGE_BYTES);
    deadline_page_init(&of->page, of->page_memory);
    session->requester.page = &of->page;
    return 0;
}

static void on_survey(void *userdata) {
    struct sim_agent *agent = userdata;

    for (unsigned i = 0; i < sim_n_keepers; i++)
        agent->front.keepers[i].counters = agent->keepers[i].shard.counters;
    agent->surveyed = true;
}

/* An operator's word reaches the keepers like any mail. */
static void on_bless(void *userdata, unsigned node) {
    agent_bless(userdata, node);
}

/* --- turns --- */

static void end_closed(const struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_USERS; i++) {
        struct client_session *of = client_session_closed(i);
        bool ends = of->hung_up ? agent->serves : list_is_empty(&of->session.requester.requests);
        if (of->agent == agent && ends)
            client_session_end(of);
    }
}

static void set_timer(struct sim_agent *agent) {
    int64_t listing_ns = instant_max(listing_due_ns(&agent->front, front_now(agent)), front_now(agent));
    int64_t due_ns = instant_min(registry_due_ns(&agent->front.registry), observe_due_ns(&agent->front));
    due_ns = instant_min(due_ns, listing_ns);
    struct event event = {.kind = EVENT_FRONT_TIMER,
                          .agent = (uint8_t) agent->index,
                          .life = agent->life,
                          .at_ns = clock_true_ns(&agent->clock, due_ns)};

    if (due_ns >= agent->timer_ns)
        return;
    agent->timer_ns = due_ns;
    event.as.timer.due_ns = due_ns;
    events_add(&event);
}

/* What a front does at the end of each turn. */
static void settle(struct sim_agent *agent) {
    for (unsigned i = 0; agent->serves && i < SIM_SESSIONS; i++)
        if (client_sessions[i].agent == agent)
            client_session_take(&client_sessions[i]);
    if (agent->serves && agent->front.registry.restoring)
        restore_end(&agent->front.registry, front_now(agent));
    observe_tick(&agent->front, front_now(agent));
    if (agent->surveyed)
        listing_counted(&agent->front);
    agent->surveyed = false;
    while (listing_due_ns(&agent->front, front_now(agent)) <= front_now(agent))
        listing_turn(&agent->front, front_now(agent));
    client_sessions_flush();
    end_closed(agent);
    client_sessions_flush(); /* to those who get what the ended sessions had */
    client_answer_read_pages(agent);
    set_timer(agent);
}

static void settle_only(struct sim_agent *agent, const void *argument) {
    (void) argument;
    settle(agent);
}

void front_receive(unsigned client, const char *bytes, size_t length) {
    struct client_session *of = client_session_of(client);

    assert(of->agent && of->n_socket + length <= SESSION_INPUT_BYTES);
    memcpy(of->socket + of->n_socket, bytes, length);
    of->n_socket += length;
    if (front_serves(of->agent))
        run(of->agent, settle_only, NULL);
}

/* --- mail --- */

static void on_leader(struct sim_agent *agent, const struct report *report) {
    struct session *session = NULL;

    for (unsigned i = 0; i < SIM_USERS; i++)
        if (client_session_of(i)->agent == agent &&
            client_session_of(i)->session.id == leader_session_id(report))
            session = &client_session_of(i)->session;
    leader_report(&agent->front, session, report, front_now(agent));
}

static void dispatch(struct sim_agent *agent, const struct event *event) {
    struct report report = event->as.dispatch.report;

    report.text = report.text ? event->as.dispatch.text : NULL;
    if (report.kind == REPORT_NODE)
        front_state_node_report(&agent->front, event->keeper, &report, front_now(agent));
    else if (report.origin == REPORT_ORIGIN_LEADER)
        on_leader(agent, &report);
    else if (report.origin == REPORT_ORIGIN_OBSERVE)
        observe_report(&agent->front, &report, front_now(agent));
    else if (report.kind == REPORT_EXTENDED)
        registry_report_extensions(
            &agent->front.registry,
            &(struct extension){.request = report.request, .deadline_ns = report.deadline_ns}, 1,
            front_now(agent));
    else
        registry_report(&agent->front.registry, &report, front_now(agent));
}

/* The session that asked first, after this instant. */
static struct client_session *next_former(const struct sim_agent *agent, bool accepted, int64_t after_ns) {
    struct client_session *first = NULL;

    for (unsigned i = 0; i < SIM_SESSIONS; i++) {
        struct client_session *of = &client_sessions[i];
        if (of->agent == agent && of->session.asked_ns > after_ns &&
            (of->session.accepted_at != 0) == accepted &&
            (!first || of->session.asked_ns < first->session.asked_ns))
            first = of;
    }
    return first;
}

/* The unanswered requests of the former process are taken in the order of their arrival, accepted ones
 * first. */
static void serve(struct sim_agent *agent) {
    agent->serves = true;
    agent->served_ns = sim_now_ns;
    for (unsigned pass = 0; pass < 2; pass++) {
        struct client_session *of;
        for (int64_t after_ns = -1; (of = next_former(agent, pass == 0, after_ns));) {
            after_ns = of->session.asked_ns;
            client_session_take(of);
        }
    }
}

static void take_event(struct sim_agent *agent, const void *argument) {
    const struct event *event = argument;

    if (event->kind == EVENT_DISPATCH) {
        dispatch(agent, event);
    } else if (event->kind == EVENT_FRONT_SERVES) {
        serve(agent);
    } else {
        assert(event->kind == EVENT_FRONT_TIMER);
        agent->timer_ns = INSTANT_NEVER;
        registry_tick(&agent->front.registry, front_now(agent));
    }
    settle(agent);
}

void front_event(struct sim_agent *agent, const struct event *event) {
    run(agent, take_event, event);
}

/* --- sessions --- */

void front_connect(struct sim_agent *agent, unsigned client) {
    client_session_begin(client_session_of(client), agent);
}

bool front_may_hang_up(unsigned client) {
    const struct client_session *of = client_session_of(client);

    return front_serves(of->agent) || !client_session_closed(client)->agent;
}

static void take_hang_up(struct sim_agent *agent, const void *argument) {
    client_session_end(client_session_of(*(const unsigned *) argument));
    settle(agent);
}

static void take_exit(struct sim_agent *agent, const void *argument) {
    client_session_end(client_session_closed(*(const unsigned *) argument));
    settle(agent);
}

/* A client has one closed session here at most. While that is another agent's, the front survives this; and
 * where no front serves, the client's process ends, and so do both sessions. */
void front_hang_up(unsigned client) {
    struct client_session *of = client_session_of(client), *former = client_session_closed(client);
    struct sim_agent *agent = of->agent;
    bool has_former = former->agent && former->agent != agent;
    unsigned steps_left = agent->steps_left;

    if (has_former)
        agent->steps_left = 0;
    if (front_serves(agent))
        run(agent, take_hang_up, &client);
    if (has_former)
        agent->steps_left = steps_left;
    if (!of->agent)
        return;
    of->hung_up = true; /* no process takes notice */
    if (has_former)
        run(former->agent, take_exit, &client);
    former->agent = NULL;
    client_session_close(client);
}

/* The client's process lives: the session's leases are left to end by their deadlines. */
static void expel(struct sim_agent *agent, const void *argument) {
    unsigned client = *(const unsigned *) argument;
    struct client_session *of = client_session_of(client);

    if (client_session_closed(client)->agent)
        client_session_end(client_session_closed(client));
    bool remains = disconnect_expel(&of->session, "a reason", front_now(agent));
    client_session_flush(of);
    if (!remains) {
        client_session_end(of);
    } else {
        if (client_session_ledger(of))
            ledger_tear(client_session_ledger(of), client_session_slot(of));
        client_session_close(client);
    }
    settle(agent);
}

void front_expel(unsigned client) {
    struct client_session *of = client_session_of(client);

    of->expelled = true; /* whenever the front is killed: the client has closed the session, too */
    run(of->agent, expel, &client);
}

void front_exit(unsigned client) {
    const struct client_session *of = client_session_closed(client);

    if (of->agent && of->expelled && front_serves(of->agent))
        run(of->agent, take_exit, &client);
}

bool front_is_connected(unsigned client) {
    return client_session_of(client)->agent != NULL;
}

const void *front_page(unsigned client) {
    return client_session_of(client)->page_memory;
}

/* --- life --- */

void front_allocate(struct sim_agent *agent) {
    agent->memory = agents_map(registry_memory_bytes(SIM_REQUESTS_MAX));
    agent->observe_memory = agents_map(observe_memory_bytes());
    agent->cooling_memory = agents_map(cooling_memory_bytes());
    restart_allocate(agent);
}

/* Clears what the former life has touched. */
static void clear(struct sim_agent *agent) {
    const struct observe_table *observers = &agent->front.observers;
    const struct cooling_table *cooling = &agent->front.cooling;

    agents_clear_through(agent->memory, &agent->front.registry.texts);
    if (observers->names.pool.touched > 0) {
        memset(observers->names.pool.memory, 0,
               observers->names.pool.touched * observers->names.pool.item_bytes);
        memset(observers->entries.memory, 0, observers->entries.touched * observers->entries.item_bytes);
        agents_clear_through(observers->due.items, &observers->texts);
    }
    if (cooling->names.pool.touched > 0)
        agents_clear_through(agent->cooling_memory, &cooling->texts);
}

void front_start(struct sim_agent *agent) {
    static const char *const node_names[] = {"a", "b", "c", "d", "e"};
    static const char *const hosts[] = {"h1", "h2", "h3"};
    const uint64_t hash_key[2] = {random_next(&sim_random), 2}; /* decides which keeper has which name */
    const struct registry_sink sink = {.command = on_command,
                                       .outcome = on_outcome,
                                       .changed = on_changed,
                                       .grant_reading = on_grant_reading,
                                       .secret = agent_secret,
                                       .userdata = agent};
    const struct front_state_sink front_sink = {.write = on_write,
                                                .query = on_command,
                                                .survey = on_survey,
                                                .page = on_page,
                                                .bless = on_bless,
                                                .userdata = agent};
    struct front_state_identity identity = {.version = "0",
                                            .agent = agent->id,
                                            .host = hosts[agent->host],
                                            .pid = 1,
                                            .uid = SIM_AGENT_UID,
                                            .started_ns = front_now(agent),
                                            .n_nodes = agent->n_nodes,
                                            .n_keepers = sim_n_keepers};

    for (unsigned i = 0; i < agent->n_nodes; i++)
        identity.node_names[i] = identity.node_addresses[i] = node_names[i];
    (void) snprintf(agent->id, sizeof(agent->id), "%08x", agent->index << 24 | agent->life);
    clear(agent);
    const size_t keepers = offsetof(struct front_state, keepers),
                 behind = keepers + sizeof(agent->front.keepers);
    memset(&agent->front, 0, keepers); /* the keepers' views are set below, as far as they are used */
    memset((char *) &agent->front + behind, 0, sizeof(agent->front) - behind);
    agent->surveyed = agent->frozen = false;
    agent->steps_left = 0;
    registry_init(&agent->front.registry, &sink, agent->slots, agent->requests_max, hash_key, agent->memory);
    registry_begin_ids(&agent->front.registry, front_now(agent));
    observe_init(&agent->front.observers, hash_key[0], agent->observe_memory);
    cooling_init(&agent->front.cooling, agent->cooling_memory);
    agent->front.registry.cooling = &agent->front.cooling;
    front_state_init(&agent->front, &agent->policy, &identity, &front_sink, reply, front_now(agent));
    /* Each user has one query less than it may: if the next one never ends, a session pauses for ever. */
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++)
        agent->front.queries.users[i].n = QUERIES_USER_MAX - 1;
    if (agent->quota_max > 0)
        agent->front.registry.quota.max[QUOTA_LEASES] = agent->quota_max;
    rules_apply(agent);
    restart_begin(agent);
    if (chance(50)) { /* requests are held back */
        agent->front.registry.admission.all_max = (uint32_t) pick(1, 4);
        agent->front.registry.admission.user_max = (uint32_t) pick(1, 3);
    }
    if ((agent->index + agent->life) % 2 != 0) /* sessions end as those with many requests do */
        agent->front.registry.drops_at_once = 0;
}

static void continue_former(struct sim_agent *agent, const void *argument) {
    (void) argument;
    restart_continue(agent);
    client_answer_read_pages(agent);
    set_timer(agent);
}

void front_continue(struct sim_agent *agent) {
    const struct event event = {.kind = EVENT_FRONT_SERVES,
                                .agent = (uint8_t) agent->index,
                                .life = agent->life,
                                .at_ns = sim_now_ns + pick(0, BEFORE_SERVING_US) * NS_PER_US};

    agent->serves = !agent->with_ledger;
    if (!agent->with_ledger)
        return;
    run(agent, continue_former, NULL);
    events_add(&event);
}

/* With a ledger, the service manager keeps the clients' sockets. */
void front_kill(struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_SESSIONS; i++) {
        struct client_session *of = &client_sessions[i];
        bool ends = of->expelled || !agent->with_ledger || client_session_client(of) == SIM_READER;
        if (of->agent == agent && ends)
            restart_disconnect(of);
    }
    client_sessions_drop_output();
}

bool front_is_idle(const struct sim_agent *agent) {
    return agent->front.registry.requests.taken == 0;
}

void front_check_idle(const struct sim_agent *agent) {
    const struct registry *registry = &agent->front.registry;
    uint64_t leases = registry->quota.used[QUOTA_LEASES],
             extensions = registry->quota.used[QUOTA_EXTENSIONS];
    uint64_t of_rules = 0,
             admitted = (uint64_t) registry->admission.n_admitted + registry->admission.n_held_back;

    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        for (unsigned j = 0; j <= agent->policy.n_rules; j++)
            of_rules += registry->quota.rule_use[i][j].leases + registry->quota.rule_use[i][j].waiters;
        admitted += registry->admission.users[i].n_admitted + registry->admission.users[i].n_held_back;
    }
    admitted += registry->quota.used[QUOTA_REQUESTS];
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) /* queries may still be under way */
        admitted -= agent->front.queries.users[i].n - (QUERIES_USER_MAX - 1);
    if (leases + extensions + of_rules + admitted > 0)
        violation("agent %u counts %llu leases, %llu extensions, %llu leases under rules, %llu new requests",
                  agent->index, (unsigned long long) leases, (unsigned long long) extensions,
                  (unsigned long long) of_rules, (unsigned long long) admitted);
}

bool front_has_holder(const struct sim_agent *agent, unsigned name) {
    const char text = (char) ('0' + name);
    const struct name_table_entry *entry = name_table_find(&agent->front.registry.names, &text, 1);

    const struct request *holder = entry ? wait_queue_holder(entry) : NULL;

    return holder && holder->session; /* not while the lease lingers */
}

const struct request *front_request(const struct sim_agent *agent, uint64_t id) {
    return agent->running ? registry_find(&agent->front.registry, id) : NULL;
}

static const struct lease *lease_of(const struct sim_agent *agent, const struct request *request) {
    const struct registry *registry = &agent->front.registry;
    const struct shard *shard = &agent->keepers[(request->name->key.hash >> 40) % sim_n_keepers].shard;
    uint64_t number = keeper_handle_of(&registry->handles, request->handle_slot);
    uint32_t slot = shard->lease_of_request[number % agent->slots];
    const struct lease *lease = slot != 0 ? pool_at(&shard->leases, slot - 1) : NULL;

    return lease && lease->request == number ? lease : NULL;
}

void front_values(const struct sim_agent *agent, uint64_t id, uint8_t ret[2][SECRET_BYTES]) {
    const struct request *request = front_request(agent, id);
    const struct lease *lease = request && request->name ? lease_of(agent, request) : NULL;

    memset(ret, 0, 2 * SECRET_BYTES);
    if (lease)
        memcpy(ret[0], lease->secret, SECRET_BYTES);
    memcpy(ret[1], ret[0], SECRET_BYTES);
    if (request && request->secrets)
        memcpy(ret[0], request->secrets->reported, SECRET_BYTES);
}
