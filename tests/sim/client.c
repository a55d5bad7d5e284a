/* Clients: they ask, hold, release, die and hang. Each has its own deadline, until when it considers its
 * lease valid: the invariants are about these deadlines. */

#include <assert.h>
#include <string.h>

#include "sim.h"

enum client_state {
    CLIENT_IDLE,
    CLIENT_ASKING,
    CLIENT_HOLDING,
    CLIENT_RELEASING,
    CLIENT_CUT_OFF,  /* its session or agent has ended, and it lives: it holds on until its deadline */
    CLIENT_RESUMING, /* and asks the new agent to resume its lease, or one that it had once */
};

static struct client {
    struct admission_requester requester; /* first: what the registry keeps of a session */
    enum client_state state;
    unsigned agent, name;
    uint64_t id;
    bool holding;
    int64_t deadline_ns; /* by its host's clock */
    int64_t asked_ns;
    int64_t wait_ms;              /* of the unanswered request */
    int64_t answer_by_ns;         /* the same, in true time */
    bool untroubled;              /* when it asked, nothing was in the way of a majority */
    uint8_t secret[SECRET_BYTES]; /* of its last lease, and the terms; a ttl of 0: no resume token */
    uint8_t value[SECRET_BYTES];  /* in the keys at that time */
    uint32_t ttl_ms, heartbeat_ms, linger_ms;
    int64_t hold_until_ns, cooldown_until_ns;
    int64_t token;
} clients[SIM_CLIENTS_MAX];

static unsigned n_clients;
static int64_t resource_tokens[SIM_NAMES];
static bool at_risk[SIM_AGENTS_MAX][SIM_NAMES];     /* or lost, as the agent reported to the last holder */
static int64_t untroubled_since_ns[SIM_AGENTS_MAX]; /* as far as is known */
static bool crowded;                                /* most clients want one name, for a short while each */
static uint32_t usual_ttl_ms;                       /* most clients ask for this ttl */
static int64_t pace_ns; /* clients act in step, so that their agents act in one turn; 0: they do not */

static const uint32_t ttls_ms[] = {300, 500, 1000, 2000};

static unsigned index_of(const struct client *client) {
    return (unsigned) (client - clients);
}

static struct client *client_of(const struct request *request) {
    return (struct client *) (void *) request->session;
}

static struct sim_agent *agent_of(const struct client *client) {
    return &sim_agents[client->agent];
}

static bool believes(const struct client *client) {
    return client->holding && clock_read(&agent_of(client)->clock) < client->deadline_ns;
}

static void step_later(const struct client *client, int64_t delay_ns) {
    struct event event = {
        .kind = EVENT_CLIENT, .client = (uint8_t) index_of(client), .at_ns = sim_now_ns + delay_ns};

    if (pace_ns > 0)
        event.at_ns += pace_ns - event.at_ns % pace_ns;
    events_add(&event);
}

/* Nothing is promised to clients of an agent without quarantine among agents with one. */
static unsigned agent_of_promises(void) {
    unsigned agent = (unsigned) pick(0, sim_n_agents - 1);

    return sim_agents[agent].quarantine || !sim_quarantine ? agent : 0;
}

void clients_reset(unsigned count) {
    n_clients = count;
    memset(resource_tokens, 0, sizeof(resource_tokens));
    observer_reset();
    memset(at_risk, 0, sizeof(at_risk));
    for (unsigned i = 0; i < SIM_AGENTS_MAX; i++)
        untroubled_since_ns[i] = INSTANT_NEVER;
    usual_ttl_ms = ttls_ms[pick(0, 3)];
    crowded = chance(30);
    pace_ns = chance(50) ? pick(1, 30) * NS_PER_MS : 0;
    for (unsigned i = 0; i < count; i++) {
        clients[i] = (struct client){.agent = agent_of_promises()};
        admission_requester_init(&clients[i].requester);
        step_later(&clients[i], pick(0, 500) * NS_PER_MS);
    }
}

/* --- the invariants --- */

/* A front that pauses answers when it goes on. */
static bool is_late(const struct client *client) {
    return sim_now_ns > instant_max(client->answer_by_ns, agent_of(client)->paused_until_ns) + NS_PER_MS;
}

static void check_answered(const struct client *client) {
    if (is_late(client))
        violation("client %u waits for an answer, WAIT %lld, %lld ms after its bound", index_of(client),
                  (long long) client->wait_ms,
                  (long long) ((sim_now_ns - client->answer_by_ns) / NS_PER_MS));
}

/* `error`: NULL: granted. */
static void check_answer(const struct client *client, const char *error, bool resumes) {
    if (client->state != CLIENT_ASKING && client->state != CLIENT_RESUMING)
        return;
    check_answered(client);
    if (!error)
        return;
    if (strcmp(error, "TIMEOUT") == 0 ? client->wait_ms <= 0 || resumes
        : strcmp(error, "BUSY") == 0  ? client->wait_ms != 0 && !resumes
                                      : strcmp(error, "NOTHELD") == 0 && !resumes)
        violation("client %u gets %s, with WAIT %lld", index_of(client), error, (long long) client->wait_ms);
    if (strcmp(error, "NOQUORUM") == 0 && client->untroubled && agent_is_untroubled(agent_of(client)))
        violation("client %u gets NOQUORUM, and nothing is in the way of a quorum", index_of(client));
}

/* For so long that every waiting request has tried again since. */
static bool is_untroubled_for_long(const struct sim_agent *agent) {
    int64_t *since_ns = &untroubled_since_ns[agent->index];

    if (!sim_calm || !sim_tokens_agree || !agent_is_untroubled(agent))
        *since_ns = INSTANT_NEVER;
    else if (*since_ns == INSTANT_NEVER)
        *since_ns = sim_now_ns;
    return sim_now_ns >= instant_add(*since_ns, NS_PER_S);
}

/* It asks, and expects its answer in time. */
static void expect_answer(struct client *client, const struct registry_ask *ask) {
    const struct sim_agent *agent = agent_of(client);
    int64_t timeout_ns = (int64_t) ask->terms.node_timeout_ms * NS_PER_MS;
    int64_t bound_ns = ask->wait_ms == 0 ? 3 * timeout_ns : ask->wait_ms * NS_PER_MS + timeout_ns;

    client->wait_ms = ask->wait_ms;
    client->answer_by_ns = ask->wait_ms < 0
                               ? INSTANT_NEVER / 2
                               : clock_true_ns(&agent->clock, clock_read(&agent->clock) + bound_ns);
    client->untroubled = is_untroubled_for_long(agent);
}

/* Its lease becomes, or stays, valid: no other client's may be. */
static void check_belief(const struct client *client) {
    if (!believes(client)) {
        violation("client %u is granted name %u after its deadline", index_of(client), client->name);
        return;
    }
    for (unsigned i = 0; i < n_clients; i++)
        if (&clients[i] != client && clients[i].name == client->name && believes(&clients[i]))
            violation("clients %u and %u both hold name %u", index_of(client), i, client->name);
}

/* The resource remembers the largest token, and the holder writes to it at once. */
static void check_token(const struct client *client, int64_t token) {
    if (!sim_fencing || !sim_tokens_grow)
        return;
    if (token <= resource_tokens[client->name])
        violation("client %u holds name %u with token %lld, after one with %lld", index_of(client),
                  client->name, (long long) token, (long long) resource_tokens[client->name]);
    resource_tokens[client->name] = token;
}

/* A client that resumes a lease that it holds has had no successor. */
static void check_same_token(const struct client *client, int64_t token) {
    if (token != client->token || (sim_fencing && sim_tokens_grow && token < resource_tokens[client->name]))
        violation("client %u resumes name %u with token %lld, it had %lld, another %lld", index_of(client),
                  client->name, (long long) token, (long long) client->token,
                  (long long) resource_tokens[client->name]);
}

void clients_check_deletion(unsigned name, const uint8_t secret[SECRET_BYTES]) {
    observer_deleted(name, secret);
    for (unsigned i = 0; i < n_clients; i++)
        if (believes(&clients[i]) && (memcmp(clients[i].secret, secret, SECRET_BYTES) == 0 ||
                                      memcmp(clients[i].value, secret, SECRET_BYTES) == 0))
            violation("a key is deleted while client %u considers its lease valid", i);
}

bool clients_are_idle(void) {
    for (unsigned i = 0; i < n_clients; i++)
        if (clients[i].state != CLIENT_IDLE)
            return false;
    return true;
}

void clients_check_end(void) {
    for (unsigned i = 0; i < n_clients; i++)
        if (clients[i].state != CLIENT_IDLE)
            violation("client %u waits for ever, in state %u, since %lld ms", i, clients[i].state,
                      (long long) ((sim_now_ns - clients[i].asked_ns) / NS_PER_MS));
}

/* --- replies and pushes --- */

void client_granted(struct sim_agent *agent, const struct request *request,
                    const uint8_t secret[SECRET_BYTES]) {
    struct client *client = client_of(request);

    bool believed = believes(client), handed_over = request->tenure.handoffs > 0;

    check_answer(client, NULL, request->resume);
    client->state = CLIENT_HOLDING;
    client->holding = true;
    client->deadline_ns = request->deadline_ns;
    memcpy(client->secret, secret, SECRET_BYTES);
    const struct lease *lease =
        agent_lease(agent, client->name, keeper_handle_of(&agent->registry.handles, request->handle_slot));
    memcpy(client->value, lease ? lease->secret : secret, SECRET_BYTES);
    observer_granted(index_of(client), client->deadline_ns, secret, client->value);
    if (handed_over)
        sim_counts.handoffs++;
    else
        sim_counts.grants++;
    if (handed_over && at_risk[agent->index][client->name])
        violation("client %u is handed a lease that is at risk, or lost", index_of(client));
    at_risk[agent->index][client->name] = false;
    trace("client %u: %s name %u, %lld ms left, token %lld", index_of(client),
          handed_over ? "is handed" : "granted", client->name,
          (long long) ((client->deadline_ns - clock_read(&agent->clock)) / NS_PER_MS),
          (long long) request->token);
    if (!request->resume)
        check_token(client, request->token);
    else if (believed)
        check_same_token(client, request->token);
    client->token = request->token;
    client->ttl_ms = request->resumable ? request->terms.ttl_ms : 0;
    client->heartbeat_ms = request->terms.heartbeat_ms;
    client->linger_ms = request->terms.linger_ms;
    client->cooldown_until_ns = request->cooldown_until_ns;
    client->hold_until_ns = request->hold_until_ns;
    sim_counts.resumed += request->resume;
    check_belief(client);
    if (crowded && chance(95))
        step_later(client, pick(0, 3000) * NS_PER_US);
    else
        step_later(client, chance(70) ? pick(0, 50) * NS_PER_MS : pick(50, 6000) * NS_PER_MS);
}

void client_extended(struct sim_agent *agent, const struct request *request) {
    struct client *client = client_of(request);

    (void) agent;
    if (!client->holding || client->deadline_ns == request->deadline_ns)
        return; /* too late for an extension */
    client->deadline_ns = request->deadline_ns;
    observer_extended(index_of(client), client->deadline_ns);
    sim_counts.extensions++;
    check_belief(client);
}

static void become_idle(struct client *client) {
    client->state = CLIENT_IDLE;
    client->id = 0;
    client->holding = false;
    if (crowded && chance(90))
        step_later(client, pick(0, 5000) * NS_PER_US);
    else
        step_later(client, chance(70) ? pick(0, 100) * NS_PER_MS : pick(100, 2000) * NS_PER_MS);
}

/* It goes on by its own deadline, may ask to resume, and begins anew after the deadline. */
static void cut_off(struct client *client) {
    int64_t left_ns = clock_true_ns(&agent_of(client)->clock, client->deadline_ns) - sim_now_ns;

    client->state = CLIENT_CUT_OFF;
    if (chance(80))
        left_ns = instant_min(left_ns, pick(1, 400) * NS_PER_MS);
    step_later(client, instant_max(left_ns, NS_PER_MS)); /* time goes on, whatever it holds */
}

void client_outcome(struct request *request, const struct request_outcome *outcome) {
    struct client *client = client_of(request);

    observer_outcome(index_of(client), outcome);
    switch (outcome->kind) {
    case OUTCOME_FAILED:
        sim_counts.refusals++;
        trace("client %u: %s", index_of(client), outcome->error);
        check_answer(client, outcome->error, client->state == CLIENT_RESUMING);
        if (client->state == CLIENT_RESUMING && believes(client) && strcmp(outcome->error, "NOTHELD") != 0)
            cut_off(client); /* not an answer to rely on */
        else
            become_idle(client);
        break;
    case OUTCOME_LOST:
        sim_counts.losses++;
        trace("client %u: lost, %d", index_of(client), (int) outcome->reason);
        client->holding = false;
        at_risk[client->agent][client->name] = true;
        if (client->state == CLIENT_HOLDING)
            become_idle(client);
        break;
    case OUTCOME_RELEASED:
        sim_counts.releases++;
        become_idle(client);
        break;
    case OUTCOME_EXTENDED:
    case OUTCOME_AT_RISK:
        at_risk[client->agent][client->name] = outcome->kind == OUTCOME_AT_RISK;
        break;
    case OUTCOME_GRANTED: /* see client_granted() */
        break;
    }
}

void clients_agent_died(const struct sim_agent *agent) {
    for (unsigned i = 0; i < n_clients; i++) {
        struct client *client = &clients[i];
        if (agent_of(client) != agent || client->state == CLIENT_IDLE || client->state == CLIENT_CUT_OFF)
            continue;
        admission_requester_init(&client->requester);
        observer_gone(i);
        if (!client->holding)
            client->deadline_ns = 0;
        cut_off(client);
    }
}

/* --- steps --- */

static void ask(struct client *client, struct sim_agent *agent) {
    static const int64_t waits_ms[] = {0, 0, 50, 1000, 5000, -1, -1, -1};
    uint32_t ttl_ms = chance(70) ? usual_ttl_ms : ttls_ms[pick(0, 3)];
    if (ttl_ms > agent_of(client)->max_ttl_ms)
        ttl_ms = agent_of(client)->max_ttl_ms;
    char name[] = {(char) ('0' + (crowded && chance(80) ? 0 : pick(0, SIM_NAMES - 1)))};
    const struct registry_ask ask = {
        .name = name,
        .name_length = 1,
        .tail = "1:",
        .tail_length = 2,
        .uid = index_of(client) % 3,
        .wait_ms = waits_ms[crowded && chance(80) ? 7 : pick(0, 7)],
        .terms.ttl_ms = ttl_ms,
        .terms.node_timeout_ms = ttl_ms / 20,
        .terms.heartbeat_ms = chance(10) ? ttl_ms : 0,
        .terms.linger_ms = chance(10) ? (uint32_t) pick(1, 3000) : 0,
        .terms.cooldown_ms = chance(crowded ? 1 : 10) ? (uint32_t) pick(1, agent->max_ttl_ms) : 0,
        .terms.max_hold_ms = chance(10) ? 2 * ttl_ms : 0,
        .terms.fencing = sim_fencing,
        .resumable = chance(60),
    };

    struct request *request =
        registry_ask(&agent->registry, (struct session *) (void *) client, &ask, clock_read(&agent->clock));
    assert(request);
    client->state = CLIENT_ASKING;
    expect_answer(client, &ask);
    observer_asked(index_of(client), agent->index, (unsigned) (name[0] - '0'), &ask);
    client->name = (unsigned) (name[0] - '0');
    client->id = registry_id(&agent->registry, request);
    client->asked_ns = sim_now_ns;
    trace("client %u: asks agent %u for name %u, ttl %u ms, wait %lld ms", index_of(client), agent->index,
          client->name, ttl_ms, (long long) ask.wait_ms);
    bool started = registry_start(&agent->registry, request, &ask, clock_read(&agent->clock));
    assert(started);
    (void) started;
    /* Some clients do not wait for the end. */
    if (client->state == CLIENT_ASKING && chance(20))
        step_later(client, pick(0, 3000) * NS_PER_MS);
}

/* With the terms of its last lease, which it may hold or not. */
static void resume(struct client *client, struct sim_agent *agent) {
    char name[] = {(char) ('0' + client->name)};
    const struct registry_ask ask = {
        .name = name,
        .name_length = 1,
        .tail = "1:",
        .tail_length = 2,
        .uid = index_of(client) % 3,
        .wait_ms = chance(70) ? client->ttl_ms : pick(0, 1) * 100,
        .terms.ttl_ms = client->ttl_ms,
        .terms.node_timeout_ms = client->ttl_ms / 20,
        .terms.heartbeat_ms = client->heartbeat_ms,
        .terms.linger_ms = client->linger_ms,
        .resumable = true,
        .resume = client->secret,
        .hold_until_ns = client->hold_until_ns,
        .cooldown_until_ns = client->cooldown_until_ns,
        .token = client->token,
    };

    struct request *request =
        registry_ask(&agent->registry, (struct session *) (void *) client, &ask, clock_read(&agent->clock));
    assert(request);
    client->state = CLIENT_RESUMING;
    expect_answer(client, &ask);
    observer_asked(index_of(client), agent->index, (unsigned) (name[0] - '0'), &ask);
    client->id = registry_id(&agent->registry, request);
    client->asked_ns = sim_now_ns;
    sim_counts.resumes++;
    trace("client %u: resumes name %u at agent %u%s", index_of(client), client->name, agent->index,
          believes(client) ? "" : ", which it may not hold");
    bool started = registry_start(&agent->registry, request, &ask, clock_read(&agent->clock));
    assert(started);
    (void) started;
    if (client->state == CLIENT_RESUMING && chance(10))
        step_later(client, pick(0, 500) * NS_PER_MS);
}

/* Most holders with a heartbeat send some, and not all in time. */
static bool beat(struct client *client, struct sim_agent *agent) {
    struct request *request = registry_find(&agent->registry, client->id);

    if (client->heartbeat_ms == 0 || !request || chance(40))
        return false;
    registry_beat(&agent->registry, request);
    observer_beat(index_of(client));
    step_later(client, pick(0, client->heartbeat_ms + client->heartbeat_ms / 4) * NS_PER_MS);
    return true;
}

/* A holder or a waiter leaves, in one way or another. */
static void let_go(struct client *client, struct sim_agent *agent) {
    struct request *request = registry_find(&agent->registry, client->id);
    int64_t now_ns = clock_read(&agent->clock);

    if (client->state == CLIENT_ASKING || client->state == CLIENT_RESUMING)
        check_answered(client);
    if (!request || (client->state != CLIENT_HOLDING && client->state != CLIENT_ASKING &&
                     client->state != CLIENT_RESUMING))
        return;
    if (client->state == CLIENT_HOLDING && !sim_calm && chance(10)) {
        trace("client %u: its session is closed by the agent", index_of(client));
        observer_gone(index_of(client));
        bool stays = registry_abandon(&agent->registry, request, now_ns);
        assert(stays);
        (void) stays;
        /* The session ends, the request goes on. */
        list_unlink(&request->session_link);
        request->session = NULL;
        cut_off(client);
        return;
    }
    client->holding = false;
    if (chance(20)) {
        trace("client %u: dies%s", index_of(client),
              request->state == REQUEST_HELD && request->terms.linger_ms > 0 ? ", its lease lingers" : "");
        observer_died(index_of(client));
        registry_drop(&agent->registry, request, now_ns);
        become_idle(client);
        return;
    }
    trace("client %u: releases", index_of(client));
    client->state = CLIENT_RELEASING;
    observer_releases(index_of(client));
    registry_release(&agent->registry, request, now_ns);
}

/* No client waits any longer: with clocks far apart there may be no token that a majority accepts. */
void clients_give_up(void) {
    for (unsigned i = 0; i < n_clients; i++)
        if (clients[i].state == CLIENT_ASKING)
            step_later(&clients[i], pick(0, 3000) * NS_PER_MS);
}

void client_step(unsigned index) {
    struct client *client = &clients[index];
    struct sim_agent *agent = agent_of(client);

    /* Some clients try to resume a lease that they may just have released. */
    if (client->state == CLIENT_CUT_OFF && !believes(client) && (client->ttl_ms == 0 || chance(60))) {
        become_idle(client);
        return;
    }
    if (client->state == CLIENT_CUT_OFF && client->ttl_ms == 0) { /* it has no resume token */
        cut_off(client);
        return;
    }
    /* Mail that came during a pause may be read before the agent sees that a deadline passed meanwhile. */
    if (!agent->running || sim_now_ns < agent->paused_until_ns - 1) {
        int64_t left_ns = agent->paused_until_ns - 1 - sim_now_ns;
        if (client->state != CLIENT_IDLE || !sim_closed)
            step_later(client, agent->running && chance(30) ? left_ns : pick(1, 200) * NS_PER_MS);
        return;
    }
    switch (client->state) {
    case CLIENT_IDLE:
        if (sim_closed)
            return;
        if (client->ttl_ms > 0 && chance(agent->life > 1 ? 20 : 5))
            resume(client, agent); /* a lease that it released or lost */
        else
            ask(client, agent);
        break;
    case CLIENT_CUT_OFF:
        resume(client, agent);
        break;
    case CLIENT_HOLDING:
        if (!beat(client, agent))
            let_go(client, agent);
        break;
    case CLIENT_ASKING:
    case CLIENT_RESUMING:
        let_go(client, agent);
        break;
    case CLIENT_RELEASING:
        break;
    }
    front_settle(agent);
}
