/* Clients: they speak the protocol to their agent's front; they request, hold, release, die and hang. Each
 * has its own deadline, until which it considers its lease valid: exclusion.c has the invariants. */

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "client-session.h"
#include "resp.h"

enum { LINE_BYTES = 512, WORDS_MAX = 24, FIRST_PID = 100 };

struct client sim_clients[SIM_CLIENTS_MAX];
unsigned sim_n_clients;

static bool crowded;          /* most clients contend for one name, for a short while each */
static uint32_t usual_ttl_ms; /* most clients request this ttl */
static bool usual_heartbeat;  /* most clients request a heartbeat: else few hand-offs have one */
static int64_t pace_ns;       /* clients act in step, so that their agents act in one turn; 0: they do not */

static const uint32_t ttls_ms[] = {100, 300, 500, 1000, 2000};

static void step_later(const struct client *client, int64_t delay_ns) {
    struct event event = {
        .kind = EVENT_CLIENT, .client = (uint8_t) client_index(client), .at_ns = sim_now_ns + delay_ns};

    if (pace_ns > 0)
        event.at_ns += pace_ns - event.at_ns % pace_ns;
    events_add(&event);
}

/* The rules don't protect clients of an agent without quarantine among agents with quarantine. */
static bool has_promises(unsigned agent) {
    return sim_agents[agent].quarantine || !sim_quarantine;
}

void clients_reset(unsigned count) {
    sim_n_clients = count;
    exclusion_reset();
    released_reset();
    observer_reset();
    usual_ttl_ms = ttls_ms[pick(0, 4)];
    crowded = chance(30);
    usual_heartbeat = chance(sim_faults.slow_starts ? 80 : 15);
    pace_ns = chance(50) ? pick(1, 30) * NS_PER_MS : 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned agent = (unsigned) pick(0, sim_n_agents - 1);
        sim_clients[i] = (struct client){.agent = has_promises(agent) ? agent : 0};
        step_later(&sim_clients[i], pick(0, 500) * NS_PER_MS);
    }
}

unsigned client_uid(unsigned client) {
    return SIM_AGENT_UID + client % 3;
}

unsigned client_pid(unsigned client) {
    return FIRST_PID + client + SIM_USERS * (client == SIM_READER ? 0 : sim_clients[client].process);
}

bool client_process_is_dead(unsigned pid) {
    return client_pid(client_of_pid(pid)) != pid;
}

unsigned client_of_pid(unsigned pid) {
    return (pid - FIRST_PID) % SIM_USERS;
}

bool client_relies(unsigned client) {
    return !sim_clients[client].denied;
}

bool client_has_read(unsigned client) {
    return sim_now_ns >= sim_clients[client].stopped_until_ns;
}

bool clients_are_idle(void) {
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (sim_clients[i].state != CLIENT_IDLE)
            return false;
    return true;
}

void clients_check_end(void) {
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (sim_clients[i].state != CLIENT_IDLE)
            violation("client %u waits without end, in state %u, since %lld ms", i, sim_clients[i].state,
                      (long long) ((sim_now_ns - sim_clients[i].asked_ns) / NS_PER_MS));
}

/* --- speaking --- */

/* As an array of bulk strings, or as the line that it is. */
static size_t write_request(char *line, char *ret, size_t size) {
    struct resp_writer writer = {.buffer = ret, .size = size};
    char *words[WORDS_MAX], *state;
    unsigned n = 0;

    if (chance(30)) {
        resp_put_raw(&writer, line, strlen(line));
        resp_put_raw(&writer, "\r\n", 2);
        return writer.length;
    }
    for (char *word = strtok_r(line, " ", &state); word; word = strtok_r(NULL, " ", &state))
        words[n++] = word;
    resp_put_array(&writer, n);
    for (unsigned i = 0; i < n; i++)
        resp_put_bulk(&writer, words[i], strlen(words[i]));
    return writer.length;
}

static void __attribute__((format(printf, 3, 4)))
say(struct client *client, enum expected expected, const char *format, ...) {
    char line[LINE_BYTES], bytes[2 * LINE_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    assert(client->n_expected < EXPECTED_MAX);
    client->expected[client->n_expected++] = expected;
    size_t length = write_request(line, bytes, sizeof(bytes)), part = length;
    if (chance(3))
        part = (size_t) pick(1, (int64_t) length - 1);
    front_receive(client_index(client), bytes, part);
    if (part < length)
        front_receive(client_index(client), bytes + part, length - part);
}

static void connect(struct client *client) {
    front_connect(client_agent(client), client_index(client));
    client->n_expected = 0;
    client->protocol = 2;
    client->paged = client->pushes = false;
    if (chance(60)) {
        say(client, EXPECTED_OTHER, "HELLO 3");
        client->protocol = 3;
        client->pushes = true;
    }
    if (chance(80)) {
        say(client, EXPECTED_OTHER, "PAGE");
        client->paged = true;
    }
}

/* --- replies and pushes --- */

/* At the agent that it has left. */
static void close_former_session(const struct client *client) {
    struct client_session *former = client_session_closed(client_index(client));

    if (former->agent && !former->expelled)
        former->hung_up = true;
}

static void become_idle(struct client *client) {
    close_former_session(client);
    client->state = CLIENT_IDLE;
    client->id = 0;
    client->holding = false;
    if (crowded && chance(90))
        step_later(client, pick(0, 5000) * NS_PER_US);
    else
        step_later(client, chance(70) ? pick(0, 100) * NS_PER_MS : pick(100, 2000) * NS_PER_MS);
}

/* The client holds by its own deadline, may try to resume, and begins anew after the deadline. */
static void cut_off(struct client *client) {
    int64_t left_ns = clock_true_ns(&client_agent(client)->clock, client->deadline_ns) - sim_now_ns;

    client->state = CLIENT_CUT_OFF;
    if (chance(80))
        left_ns = instant_min(left_ns, pick(1, chance(70) ? 40 : 400) * NS_PER_MS);
    step_later(client, instant_max(left_ns, NS_PER_MS)); /* time goes on, whatever the client holds */
}

static void check_grant(const struct client *client, const struct answer *answer, bool resumes) {
    int64_t left_ns = answer->deadline_ns - clock_read(&client_agent(client)->clock);

    if (answer->name[0] != (char) ('0' + client->name) || answer->name[1] != '\0')
        violation("client %u asked for name %u and gets %s", client_index(client), client->name,
                  answer->name);
    if (answer->validity_ms < 1 || answer->validity_ms != left_ns / NS_PER_MS)
        violation("client %u gets %lld ms of validity, with %lld ns left", client_index(client),
                  (long long) answer->validity_ms, (long long) left_ns);
    if ((answer->token[0] != '\0') != client->ask.resumable)
        violation("client %u gets a secret that it did not ask for, or none", client_index(client));
    if (client->paged && answer_page_deadline(front_page(client_index(client)), answer->slot, answer->id) !=
                             answer->deadline_ns)
        violation("client %u gets another deadline than its page shows", client_index(client));
    if (resumes && strcmp(answer->token, client->token) != 0 && answer->token[0] == '\0')
        violation("client %u loses the secret of its lease", client_index(client));
}

static void granted(struct client *client, const struct answer *answer) {
    const struct request *request = front_request(client_agent(client), answer->id);
    bool was_valid = exclusion_holds(client), handed_over = request && request->tenure.handoffs > 0;

    exclusion_check_answer(client, NULL);
    if (client->ask.resumes && client->token[0] != '\0' && client->agent == client->ended_by &&
        client_agent(client)->life == client->ended_life && strcmp(client->token, client->ended_token) == 0)
        violation("client %u resumes a lease that this agent has reported as ended", client_index(client));
    client->state = CLIENT_HOLDING;
    client->closed = client->denied = false;
    close_former_session(client);
    client->id = answer->id;
    client->holding = true;
    client->deadline_ns = answer->deadline_ns;
    client->slot = answer->slot;
    check_grant(client, answer, client->ask.resumes);
    front_values(client_agent(client), answer->id, client->secrets);
    observer_granted(client_index(client), client->deadline_ns, client->secrets);
    reader_granted(client_index(client), sim_calm && !client->ask.resumes);
    if (handed_over)
        sim_counts.handoffs++;
    else
        sim_counts.grants++;
    if (handed_over)
        exclusion_check_handed_over(client);
    exclusion_note_risk(client, false);
    trace("client %u: %s name %u, %lld ms left, token %lld", client_index(client),
          handed_over ? "is handed" : "granted", client->name, (long long) answer->validity_ms,
          (long long) answer->fence);
    exclusion_check_token(client, answer->fence, was_valid);
    client->fence = answer->fence;
    memcpy(client->token, answer->token, sizeof(client->token));
    client->lease = client->ask;
    sim_counts.resumed += client->ask.resumes;
    exclusion_check(client);
    if (crowded && chance(95))
        step_later(client, pick(0, 3000) * NS_PER_US);
    else
        step_later(client, chance(70) ? pick(0, 50) * NS_PER_MS : pick(50, 6000) * NS_PER_MS);
}

static void failed(struct client *client, const char *error) {
    sim_counts.refusals++;
    trace("client %u: %s", client_index(client), error);
    observer_reported(client_index(client), ANSWER_FAILED, error);
    exclusion_check_answer(client, error);
    if (client->state == CLIENT_RESUMING && exclusion_holds(client) && strcmp(error, "NOTHELD") != 0)
        cut_off(client); /* the answer proves nothing */
    else
        become_idle(client);
}

static void check_page(const struct client *client) {
    if (client->paged && client->slot >= 0 && client->id != 0 &&
        answer_page_deadline(front_page(client_index(client)), client->slot, client->id) != 0)
        violation("client %u's page shows a lease that has ended", client_index(client));
}

/* Another process of the agent may never have found the lease, and knows nothing of it later. A request that
 * is late may set keys again for their ttl. */
static void note_ended(struct client *client) {
    if (client->asked_ns < client_agent(client)->started_ns || !agent_is_untroubled(client_agent(client)))
        return;
    memcpy(client->ended_token, client->token, sizeof(client->ended_token));
    client->ended_by = client->agent;
    client->ended_life = client_agent(client)->life;
}

static void released(struct client *client, int64_t answer) {
    sim_counts.releases++;
    if (answer == 1 && client->releases_lease) {
        note_ended(client);
        released_note(client->agent, client->secrets[0]);
    }
    check_page(client);
    observer_released(client_index(client), answer);
    become_idle(client);
}

/* The lease is over: its client may ask for another one, or release this one for good measure. */
static void lost(struct client *client, const char *reason) {
    if (client->state == CLIENT_CUT_OFF && strcmp(reason, "closed") == 0)
        return; /* its agent closes the session */
    observer_reported(client_index(client), ANSWER_LOST, reason);
    sim_counts.losses++;
    trace("client %u: lost, %s", client_index(client), reason);
    client->holding = false;
    note_ended(client);
    exclusion_note_risk(client, true);
    check_page(client);
    if (client->state == CLIENT_HOLDING)
        become_idle(client);
}

static void see_deadline(struct client *client, int64_t deadline_ns) {
    if (!client->holding || client->deadline_ns == deadline_ns)
        return;
    client->deadline_ns = deadline_ns;
    trace("client %u: sees that its lease is extended", client_index(client));
    observer_extended(client_index(client), deadline_ns);
    sim_counts.extensions++;
    exclusion_check(client);
}

/* At each turn of its agent: a client may look at its page at any time. */
void clients_look(const struct sim_agent *agent) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        struct client *client = &sim_clients[i];
        if (client_agent(client) != agent || client->state != CLIENT_HOLDING || !client->holding ||
            !client->paged)
            continue;
        int64_t deadline_ns = answer_page_deadline(front_page(i), client->slot, client->id);
        if (!exclusion_holds(client) || deadline_ns == 0)
            client->holding = false; /* what is over stays over */
        else
            see_deadline(client, deadline_ns);
    }
}

/* What a push says is left of the lease is what the page says. */
static void check_left(const struct client *client, const struct answer *answer) {
    int64_t now_ns = clock_read(&client_agent(client)->clock);
    int64_t deadline_ns = answer->kind == ANSWER_EXTENDED ? answer->deadline_ns : client->deadline_ns;

    if (client->paged && exclusion_holds(client) &&
        answer->validity_ms != instant_max(deadline_ns - now_ns, 0) / NS_PER_MS)
        violation("client %u gets %lld ms as what is left of its lease, not %lld ns", client_index(client),
                  (long long) answer->validity_ms, (long long) (deadline_ns - now_ns));
}

static void read_push(struct client *client, const struct answer *answer) {
    if (answer->kind != ANSWER_OBSERVED && answer->id != client->id) {
        violation("client %u gets a push about another lease", client_index(client));
        return;
    }
    if (!client->pushes)
        violation("client %u gets a push that it does not expect", client_index(client));
    if (client->state == CLIENT_RELEASING) { /* it was on its way */
        observer_crossed(client_index(client), answer->kind);
        return;
    }
    if (answer->kind != ANSWER_GRANT)
        trace("client %u: push %u %s", client_index(client), answer->kind, answer->word);
    if (answer->kind == ANSWER_GRANT) {
        granted(client, answer);
    } else if (answer->kind == ANSWER_FAILED) {
        failed(client, answer->word);
    } else if (answer->kind == ANSWER_LOST) {
        lost(client, answer->word);
    } else if (answer->kind == ANSWER_AT_RISK || answer->kind == ANSWER_EXTENDED) {
        check_left(client, answer);
        observer_reported(client_index(client), answer->kind, answer->word);
        exclusion_note_risk(client, answer->kind == ANSWER_AT_RISK);
        if (answer->kind == ANSWER_EXTENDED)
            see_deadline(client, answer->deadline_ns);
    }
}

static void expect_pushes(struct client *client, uint64_t id) {
    client->id = id;
    client->pushes = true;
    exclusion_check_waits(client);
}

/* To ACQUIRE or RESUME. */
static void read_outcome(struct client *client, const struct answer *answer) {
    if (answer->kind == ANSWER_GRANT)
        granted(client, answer);
    else if (answer->kind == ANSWER_ERROR)
        failed(client, answer->word);
    else if (answer->kind == ANSWER_WAITING && client->ask.async)
        expect_pushes(client, answer->id);
    else
        violation("client %u gets an answer of kind %u to its request", client_index(client), answer->kind);
}

/* Of its lease, whose validity it asked for. */
static void read_validity(struct client *client, int64_t validity_ms) {
    int64_t now_ns = clock_read(&client_agent(client)->clock);

    if (client->state != CLIENT_HOLDING)
        return;
    if (client->paged && exclusion_holds(client) &&
        validity_ms != (client->deadline_ns - now_ns) / NS_PER_MS)
        violation("CHECK says %lld ms to client %u, and its page %lld", (long long) validity_ms,
                  client_index(client), (long long) ((client->deadline_ns - now_ns) / NS_PER_MS));
    if (validity_ms == 0) {
        client->holding = false;
        client->denied = true;
    } else if (!client->paged && exclusion_holds(client))
        see_deadline(client, instant_max(client->deadline_ns, now_ns + validity_ms * NS_PER_MS));
}

void client_reads(unsigned index, const struct answer *answer) {
    struct client *client = &sim_clients[index];

    if (answer->push) {
        read_push(client, answer);
        return;
    }
    if (client->n_expected == 0) {
        violation("client %u gets an answer to no request", index);
        return;
    }
    enum expected expected = client->expected[0];
    memmove(client->expected, client->expected + 1, --client->n_expected * sizeof(client->expected[0]));
    if (expected == EXPECTED_OUTCOME)
        read_outcome(client, answer);
    else if (expected != EXPECTED_OTHER && answer->kind != ANSWER_INTEGER)
        violation("client %u gets an answer of kind %u, %s", index, answer->kind, answer->word);
    else if (expected == EXPECTED_NOTHING && answer->integer != 0)
        violation("client %u is answered %lld about another user's lease", index,
                  (long long) answer->integer);
    else if (expected == EXPECTED_RELEASE)
        released(client, answer->integer);
    else if (expected == EXPECTED_CHECK)
        read_validity(client, answer->integer);
    else if (expected == EXPECTED_BEAT && answer->integer == 1)
        observer_beat(index);
    else if (expected == EXPECTED_BEAT && exclusion_holds(client) && client->ask.pushes)
        violation("BEAT says 0 to client %u, which holds its lease", index);
}

/* The client waits for the answer to its RESUME at another agent: all it heeds is the end of its lease. */
void client_reads_former(unsigned index, const struct answer *answer) {
    if (sim_clients[index].state == CLIENT_RESUMING && answer->kind == ANSWER_LOST)
        sim_clients[index].holding = false;
}

void client_disconnected(unsigned index) {
    struct client *client = &sim_clients[index];

    if (client->state == CLIENT_IDLE || client->state == CLIENT_CUT_OFF)
        return;
    trace("client %u: its session ends", index);
    observer_gone(index);
    if (!client->holding)
        client->deadline_ns = 0;
    cut_off(client);
}

/* No process has received the client's request yet. */
static bool has_new_request(const struct client *client) {
    return (client->state == CLIENT_ASKING || client->state == CLIENT_RESUMING) &&
           (client->asked_ns >= client_agent(client)->stopped_ns ||
            client_session_of(client_index(client))->n_socket > 0);
}

void clients_restarted(const struct sim_agent *agent) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        struct client *client = &sim_clients[i];
        bool beats = client->state == CLIENT_HOLDING && client->lease.terms.heartbeat_ms > 0;
        if (client_agent(client) != agent)
            continue;
        if (beats && sim_faults.slow_starts && chance(85))
            step_later(client, pick(60, 800) * NS_PER_MS); /* the lease may not be found by then */
        if (has_new_request(client)) {                     /* it comes now */
            exclusion_expect_answer(client);
            client->asked_ns = sim_now_ns + SIM_RESTART_MS * NS_PER_MS;
            client->answer_by_ns += SIM_RESTART_MS * NS_PER_MS;
        }
    }
}

/* --- steps --- */

static uint32_t node_timeout_ms(uint32_t ttl_ms) {
    return ttl_ms / 20 < 5 ? 5 : ttl_ms / 20 > 100 ? 100 : ttl_ms / 20;
}

static uint32_t choose_ttl_ms(uint32_t max_ttl_ms) {
    uint32_t ttl_ms = chance(70) ? usual_ttl_ms : ttls_ms[pick(0, 4)];
    return ttl_ms > max_ttl_ms ? max_ttl_ms : ttl_ms;
}

/* Two bounds on holding; 0: none. */
static void bound(uint32_t *hold_ms, uint32_t by_ms) {
    if (by_ms > 0 && (*hold_ms == 0 || by_ms < *hold_ms))
        *hold_ms = by_ms;
}

/* Some clients ask for more than their rule allows. */
static struct sim_ask choose_ask(const struct client *client) {
    static const int64_t waits_ms[] = {0, 0, 50, 1000, 5000, -1, -1, -1};
    const struct sim_rule rule = rules_of(client_agent(client), client_index(client), client->name);
    uint32_t max_ttl_ms = chance(95) ? rule.max_ttl_ms : client_agent(client)->max_ttl_ms;
    uint32_t ttl_ms = chance(95) ? choose_ttl_ms(max_ttl_ms) : 0;

    struct sim_ask ask = {
        .wait_ms = waits_ms[crowded && chance(80) ? 7 : pick(0, 7)],
        .options.ttl_ms = ttl_ms,
        .options.heartbeat_ms = chance(usual_heartbeat ? 85 : 10) ? ttl_ms : 0,
        .options.linger_ms = chance(10) ? (uint32_t) pick(1, max_ttl_ms) : 0,
        .options.cooldown_ms = chance(crowded ? 1 : 10) ? (uint32_t) pick(1, max_ttl_ms) : 0,
        .options.max_hold_ms = chance(10) ? 2 * ttl_ms : 0,
        .resumable = chance(80),
        .async = chance(50),
        .rule = rule,
    };
    ask.terms = ask.options;
    ask.terms.fencing = rule.fencing;
    ask.terms.ttl_ms = ttl_ms > 0 ? ttl_ms : rule.default_ttl_ms;
    ask.terms.node_timeout_ms = node_timeout_ms(ask.terms.ttl_ms);
    bound(&ask.terms.max_hold_ms, rule.max_hold_ms);
    ask.denied = !rule.may_acquire || ask.options.ttl_ms > rule.max_ttl_ms ||
                 ask.options.linger_ms > rule.max_ttl_ms || ask.options.cooldown_ms > rule.max_ttl_ms;
    return ask;
}

static void put_option(char *line, const char *word, uint32_t value) {
    if (value > 0)
        (void) snprintf(line + strlen(line), LINE_BYTES - strlen(line), " %s %u", word, value);
}

static void send_ask(struct client *client, const char *line) {
    const struct sim_agent *agent = client_agent(client);
    struct sim_ask *ask = &client->ask;

    ask->pushes = client->pushes || ask->async;
    ask->paged = client->paged;
    client->id = 0;
    client->slot = -1;
    client->asked_ns = sim_now_ns;
    exclusion_expect_answer(client);
    observer_asked(client_index(client), agent->index, client->name, ask);
    if (chance(3)) /* it is stopped, and reads nothing */
        client->stopped_until_ns = sim_now_ns + pick(0, 5000) * NS_PER_MS;
    say(client, EXPECTED_OUTCOME, "%s%s", line, ask->async ? " ASYNC" : "");
}

static void ask(struct client *client) {
    char line[LINE_BYTES];

    client->name = (unsigned) (crowded && chance(80) ? 0 : pick(0, SIM_NAMES - 1));
    client->ask = choose_ask(client);
    const struct lease_terms *options = &client->ask.options;
    (void) snprintf(line, sizeof(line), "ACQUIRE %u WAIT %lld%s", client->name,
                    (long long) client->ask.wait_ms, client->ask.resumable ? " RESUMABLE" : "");
    put_option(line, "TTL", options->ttl_ms);
    put_option(line, "HEARTBEAT", options->heartbeat_ms);
    put_option(line, "LINGER", options->linger_ms);
    put_option(line, "COOLDOWN", options->cooldown_ms);
    put_option(line, "MAXHOLD", options->max_hold_ms);
    if (chance(30))
        (void) snprintf(line + strlen(line), sizeof(line) - strlen(line), " DATA d%u",
                        1 + client_index(client) % 4);
    trace("client %u: asks agent %u: %s", client_index(client), client->agent, line);
    client->state = CLIENT_ASKING;
    send_ask(client, line);
    /* Some clients do not wait for the end. */
    if (client->state == CLIENT_ASKING && chance(20))
        step_later(client, pick(0, 3000) * NS_PER_MS);
}

/* With the terms of its last lease, which it may hold or not. */
static void resume(struct client *client) {
    char line[LINE_BYTES];

    client->ask = client->lease;
    client->ask.resumes = client->ask.resumable = true;
    client->ask.wait_ms = chance(70) ? client->lease.terms.ttl_ms : pick(0, 1) * 100;
    client->ask.async = chance(50);
    const struct sim_rule rule = rules_of(client_agent(client), client_index(client), client->name);
    client->ask.rule = rule;
    client->ask.denied = !rule.may_resume || instant_max(client->lease.terms.ttl_ms,
                                                         client->lease.terms.linger_ms) > rule.max_ttl_ms;
    bound(&client->ask.terms.max_hold_ms, rule.max_hold_ms);
    sim_counts.resumes++;
    trace("client %u: resumes name %u at agent %u%s", client_index(client), client->name, client->agent,
          exclusion_holds(client) ? "" : ", which it may not hold");
    client->state = CLIENT_RESUMING;
    (void) snprintf(line, sizeof(line), "RESUME %u %s WAIT %lld", client->name, client->token,
                    (long long) client->ask.wait_ms);
    send_ask(client, line);
    if (client->state == CLIENT_RESUMING && chance(10))
        step_later(client, pick(0, 500) * NS_PER_MS);
}

/* Most holders with a heartbeat send some, and not all in time. */
static bool beat(struct client *client) {
    uint32_t heartbeat_ms = client->lease.terms.heartbeat_ms;
    int64_t early_ms = sim_faults.slow_starts && chance(60) ? heartbeat_ms * 9 / 10 : 0;

    if (heartbeat_ms == 0 || chance(40) || client->n_expected >= EXPECTED_MAX / 2 /* the agent is down */)
        return false;
    say(client, EXPECTED_BEAT, "BEAT %llu", (unsigned long long) client->id);
    if (client->state == CLIENT_HOLDING)
        step_later(client, pick(early_ms, heartbeat_ms + heartbeat_ms / 4) * NS_PER_MS);
    return true;
}

/* By the id of another user's lease, which the agent must not show. */
static void ask_about_other(struct client *client) {
    static const char *const words[] = {"CHECK", "BEAT", "RELEASE"};
    const struct client *other = &sim_clients[pick(0, sim_n_clients - 1)];

    if (other->agent == client->agent && other->id != 0 &&
        client_uid(client_index(other)) != client_uid(client_index(client)))
        say(client, EXPECTED_NOTHING, "%s %llu", words[pick(0, 2)], (unsigned long long) other->id);
}

/* Its process ends, or only its session. */
static void die(struct client *client) {
    bool ends = chance(70);

    trace("client %u: %s", client_index(client), ends ? "dies" : "closes its session");
    client->holding = false;
    client->process += ends;
    observer_died(client_index(client));
    front_hang_up(client_index(client));
    become_idle(client);
}

/* At another agent. */
static bool has_left_session(const struct client *client) {
    const struct client_session *former = client_session_closed(client_index(client));

    return former->agent && former->agent != client_agent(client);
}

/* A holder or a waiter ends in one of several ways. */
static void leave(struct client *client) {
    if (client->state == CLIENT_ASKING || client->state == CLIENT_RESUMING)
        exclusion_check_answered(client);
    if (client->state == CLIENT_HOLDING && !sim_calm && front_serves(client_agent(client)) &&
        !has_left_session(client) && chance(4)) {
        trace("client %u: its session is closed by the agent", client_index(client));
        observer_gone(client_index(client));
        cut_off(client);
        client->closed = true;
        front_expel(client_index(client));
    } else if (chance(20) || client->id == 0) {
        die(client);
    } else {
        trace("client %u: releases", client_index(client));
        client->holding = false;
        client->releases_lease = client->state == CLIENT_HOLDING;
        client->state = CLIENT_RELEASING;
        observer_releases(client_index(client));
        say(client, EXPECTED_RELEASE, "RELEASE %llu", (unsigned long long) client->id);
    }
}

/* All waiting ends: with clocks far apart there may be no token that a majority accepts. */
void clients_give_up(void) {
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (sim_clients[i].state == CLIENT_ASKING)
            step_later(&sim_clients[i], pick(0, 3000) * NS_PER_MS);
}

/* The client knows of a lease that it could ask for, though it may not hold the lease any more. Where a
 * relay repeats requests, the extension and the release of such a lease may come once more: the protocol
 * forbids to ask for a lease that was released. */
static bool may_resume(const struct client *client) {
    return client->token[0] != '\0' && !sim_repeats;
}

static void act(struct client *client) {
    const struct sim_agent *agent = client_agent(client);

    if (!front_is_connected(client_index(client)))
        connect(client);
    switch (client->state) {
    case CLIENT_IDLE:
        if (may_resume(client) && chance(agent->life > 1 ? 6 : 3))
            resume(client); /* a lease that the client released or lost */
        else
            ask(client);
        break;
    case CLIENT_CUT_OFF:
        if (client->closed && chance(80)) {
            cut_off(client);
            break;
        }
        if (chance(90)) {
            resume(client);
            break;
        }
        client->holding = false; /* its process ends */
        client->process++;
        front_exit(client_index(client));
        front_hang_up(client_index(client));
        become_idle(client);
        break;
    case CLIENT_HOLDING:
        if (chance(10))
            say(client, EXPECTED_CHECK, "CHECK %llu", (unsigned long long) client->id);
        if (client->state == CLIENT_HOLDING && chance(3))
            ask_about_other(client);
        if (client->state == CLIENT_HOLDING && !beat(client))
            leave(client);
        break;
    case CLIENT_ASKING:
    case CLIENT_RESUMING:
        leave(client);
        break;
    case CLIENT_RELEASING:
        break;
    }
}

/* Another agent of its host, which serves; its own, if there is none. */
static unsigned other_agent(const struct client *client) {
    unsigned first = (unsigned) pick(0, sim_n_agents - 1);

    for (unsigned i = 0; i < sim_n_agents; i++) {
        const struct sim_agent *other = &sim_agents[(first + i) % sim_n_agents];
        if (other->host == client_agent(client)->host && other->index != client->agent &&
            has_promises(other->index) && front_serves(other) && sim_now_ns >= other->paused_until_ns)
            return other->index;
    }
    return client->agent;
}

/* Resumes its lease at another agent, and closes its former session, which the service manager may have:
 * that is the end of its lease unless it has the lease anew. Or it closes that session once it has. */
static bool moves(struct client *client) {
    unsigned index = client_index(client), agent;
    bool holds = client->state == CLIENT_HOLDING, connected = front_is_connected(index);

    if ((!holds && (client->state != CLIENT_CUT_OFF || client->closed)) || !may_resume(client) ||
        sim_sets_differ || client_session_closed(index)->agent ||
        !chance(front_serves(client_agent(client)) ? 3 : 60) ||
        (agent = other_agent(client)) == client->agent)
        return false;
    trace("client %u: leaves agent %u", index, client->agent);
    if (holds)
        observer_gone(index);
    if (connected && chance(50)) {
        client->holding = false;
        front_hang_up(index);
    } else if (connected) {
        client_session_close(index);
    }
    client->agent = agent;
    sim_counts.moves++;
    connect(client);
    resume(client);
    return true;
}

/* The agent's process is gone, and the service manager has the client's socket: a holder may leave. */
static bool may_act_alone(const struct client *client) {
    const struct sim_agent *agent = client_agent(client);

    return !front_serves(agent) && agent->with_ledger && front_is_connected(client_index(client)) &&
           (client->state == CLIENT_HOLDING || client->state == CLIENT_ASKING) && chance(30) &&
           front_may_hang_up(client_index(client));
}

void client_step(unsigned index) {
    struct client *client = &sim_clients[index];
    struct sim_agent *agent = client_agent(client);

    if (!client_has_read(index)) {
        step_later(client, client->stopped_until_ns - sim_now_ns);
        return;
    }
    /* Some clients try to resume a lease that they may just have released. */
    if (client->state == CLIENT_CUT_OFF && !exclusion_holds(client) && (!may_resume(client) || chance(60))) {
        become_idle(client);
        return;
    }
    if (client->state == CLIENT_CUT_OFF && client->token[0] == '\0') {
        cut_off(client);
        return;
    }
    if (client->state == CLIENT_IDLE && sim_closed)
        return;
    if (moves(client))
        return;
    /* Mail from a pause may be read before the agent notices that a deadline passed meanwhile. */
    bool serves = front_serves(agent) && sim_now_ns >= agent->paused_until_ns - 1;
    if (!serves && !may_act_alone(client)) {
        int64_t left_ns = agent->paused_until_ns - 1 - sim_now_ns;
        step_later(client, front_serves(agent) && chance(30) ? left_ns : pick(1, 50) * NS_PER_MS);
        return;
    }
    act(client);
}
