/* What a client requests: the choice of options, and the bytes. */

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "client-request.h"
#include "clients.h"
#include "fault.h"
#include "front.h"
#include "leaders.h"
#include "observer.h"
#include "resp.h"
#include "rules.h"

enum { LINE_BYTES = 512, WORDS_MAX = 24 };

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
    client->behind_bytes += length;
}

void client_request_connect(struct client *client) {
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

static uint32_t node_timeout_ms(uint32_t ttl_ms) {
    return ttl_ms / 20 < 5 ? 5 : ttl_ms / 20 > 100 ? 100 : ttl_ms / 20;
}

uint32_t client_request_any_ttl_ms(void) {
    static const uint32_t ttls_ms[] = {100, 300, 500, 1000, 2000};

    return sim_scale * ttls_ms[pick(0, 4)];
}

static uint32_t choose_ttl_ms(uint32_t max_ttl_ms) {
    uint32_t ttl_ms = chance(70) ? client_habits.ttl_ms : client_request_any_ttl_ms();
    return ttl_ms > max_ttl_ms ? max_ttl_ms : ttl_ms;
}

/* Up to ten times the ttl. A shorter one may leave no time for a warning. */
static uint32_t choose_max_hold_ms(uint32_t ttl_ms) {
    return chance(50) || ttl_ms == 0 ? 2 * ttl_ms : (uint32_t) pick(3 * TTL_MS_MIN, 10 * (int64_t) ttl_ms);
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
        .wait_ms = waits_ms[client_habits.crowded && chance(80) ? 7 : pick(0, 7)],
        .options.ttl_ms = ttl_ms,
        .options.heartbeat_ms = chance(client_habits.heartbeat ? 85 : 10) ? ttl_ms : 0,
        .options.linger_ms = chance(10) ? (uint32_t) pick(1, max_ttl_ms) : 0,
        .options.cooldown_ms = chance(client_habits.crowded ? 1 : 10) ? (uint32_t) pick(1, max_ttl_ms) : 0,
        .options.max_hold_ms = chance(10) ? choose_max_hold_ms(ttl_ms) : 0,
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
    client->behind_bytes = 0;
}

void client_request_acquire(struct client *client) {
    char line[LINE_BYTES];

    client->name = (unsigned) (client_habits.crowded && chance(80) ? 0 : pick(0, SIM_NAMES - 1));
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
        client_step_later(client, pick(0, 3000) * NS_PER_MS);
}

/* With the terms of its last lease, which it may hold or not. */
void client_request_resume(struct client *client) {
    char line[LINE_BYTES];

    client->true_moved_ns = 0;
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
    leaders_resumes(client_index(client));
    (void) snprintf(line, sizeof(line), "RESUME %u %s WAIT %lld", client->name, client->token,
                    (long long) client->ask.wait_ms);
    send_ask(client, line);
    if (client->state == CLIENT_RESUMING && chance(10))
        client_step_later(client, pick(0, 500) * NS_PER_MS);
}

/* Most holders with a heartbeat send some, and not all in time. */
bool client_request_beat(struct client *client) {
    uint32_t heartbeat_ms = client->lease.terms.heartbeat_ms;
    int64_t early_ms = sim_faults.slow_starts && chance(60) ? heartbeat_ms * 9 / 10 : 0;

    if (heartbeat_ms == 0 || chance(40) || client->n_expected >= EXPECTED_MAX / 2 /* the agent is down */)
        return false;
    say(client, EXPECTED_BEAT, "BEAT %llu", (unsigned long long) client->id);
    if (client->state == CLIENT_HOLDING)
        client_step_later(client, pick(early_ms, heartbeat_ms + heartbeat_ms / 4) * NS_PER_MS);
    return true;
}

/* By the id of another user's lease, which the agent must not show. */
void client_request_other(struct client *client) {
    static const char *const words[] = {"CHECK", "BEAT", "RELEASE"};
    const struct client *other = &sim_clients[pick(0, sim_n_clients - 1)];

    if (other->agent == client->agent && other->id != 0 &&
        client_uid(client_index(other)) != client_uid(client_index(client)))
        say(client, EXPECTED_NOTHING, "%s %llu", words[pick(0, 2)], (unsigned long long) other->id);
}

/* A secret is good for its user on its host. */
static bool is_for(const struct client *other, const struct client *client) {
    return client_uid(client_index(other)) == client_uid(client_index(client)) &&
           client_agent(other)->host == client_agent(client)->host;
}

bool client_request_stolen(struct client *client) {
    const struct client *other = &sim_clients[pick(0, sim_n_clients - 1)];

    if (sim_repeats || sim_sets_differ || other->token[0] == '\0' || is_for(other, client))
        return false;
    trace("client %u: resumes the lease of client %u at agent %u", client_index(client), client_index(other),
          client->agent);
    say(client, EXPECTED_REFUSAL, "RESUME %u %s WAIT 0", other->name, other->token);
    return true;
}

bool client_request_behind(struct client *client) {
    if (client->n_expected >= EXPECTED_MAX / 2)
        return false;
    say(client, EXPECTED_OTHER, "PING");
    client_step_later(client, pick(0, 3000) * NS_PER_MS);
    return true;
}

void client_request_check(struct client *client) {
    say(client, EXPECTED_CHECK, "CHECK %llu", (unsigned long long) client->id);
}

void client_request_release(struct client *client) {
    say(client, EXPECTED_RELEASE, "RELEASE %llu", (unsigned long long) client->id);
}
