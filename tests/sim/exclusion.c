/* The invariants about what a client considers true: its deadline, its token, and when it must be
 * answered. */

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "answer.h"
#include "client.h"
#include "client-session.h"
#include "clients.h"
#include "front.h"
#include "lingering.h"
#include "node.h"
#include "observer.h"
#include "other-library.h"
#include "pubsub.h"
#include "rules.h"

enum {
    HALTED_MS = 120, /* for two rounds and the mail */
    LAST_ATTEMPT_MS = 4000,
};

static int64_t resource_tokens[SIM_NAMES];
static unsigned resource_sets[SIM_NAMES]; /* of the agents of these tokens */
/* As the agent reported to the last holder. At risk: the deadline; lost: INSTANT_NEVER; else 0. */
static int64_t at_risk_ns[SIM_AGENTS_MAX][SIM_NAMES];
static int64_t untroubled_since_ns[SIM_AGENTS_MAX];    /* as far as is known */
static int64_t acquired_ns[SIM_AGENTS_MAX][SIM_NAMES]; /* the last acquisition that a client knows of */

void exclusion_reset(void) {
    memset(resource_tokens, 0, sizeof(resource_tokens));
    memset(at_risk_ns, 0, sizeof(at_risk_ns));
    memset(acquired_ns, 0, sizeof(acquired_ns));
    for (unsigned i = 0; i < SIM_AGENTS_MAX; i++)
        untroubled_since_ns[i] = INSTANT_NEVER;
}

bool exclusion_holds(const struct client *client) {
    return client->holding && clock_read(&client_agent(client)->clock) < client->deadline_ns;
}

/* The host was halted after the lease's last round: until nodes answer, nothing on the host can know that
 * the lease has ended. */
static bool is_outdated_by(const struct client *client, const struct lease_terms *terms) {
    const struct sim_agent *agent = client_agent(client);

    return agent->halted_until_ns != 0 &&
           client->deadline_ns - terms->ttl_ms * NS_PER_MS < agent->halted_clock_ns;
}

static bool is_outdated(const struct client *client) {
    return is_outdated_by(client, &client->lease.terms);
}

/* Nothing keeps the agent from extending the lease. */
static bool is_extended(const struct client *client) {
    const struct lease_terms *terms = &client->lease.terms;

    return client->pushes && terms->heartbeat_ms == 0 && terms->max_hold_ms == 0 &&
           !observer_is_at_risk(client_index(client));
}

/* By then an extension was due, its answers have shown that the host's clock had stopped, and the client has
 * got `lost`. */
void exclusion_check_halted(const struct client *client) {
    struct sim_agent *agent = client_agent(client);
    int64_t by_ns =
        agent->halted_until_ns + client->lease.terms.ttl_ms * NS_PER_MS * 2 / 5 + HALTED_MS * NS_PER_MS;

    if (agent->halted_until_ns == 0)
        return;
    if (pubsub_is_delayed(agent))
        agent->halted_alone = false;
    if (agent->halted_alone && sim_now_ns > by_ns && is_outdated(client) && is_extended(client) &&
        exclusion_holds(client))
        violation("client %u holds name %u, and its host was halted until %lld ms ago", client_index(client),
                  client->name, (long long) ((sim_now_ns - agent->halted_until_ns) / NS_PER_MS));
}

/* Agents with different nodes see each other by the shared one alone. If an operator blesses a majority of
 * the others, an agent that starts out of reach of the shared node does not see the other agents. */
static bool were_set_apart(const struct client *one, const struct client *other) {
    const struct sim_agent *agent = client_agent(one);

    if (agent->set == client_agent(other)->set)
        return false;
    if (agent->set != 2)
        agent = client_agent(other);
    unsigned blessed = 0;
    for (unsigned i = 0; i < agent->n_nodes; i++)
        blessed += (sim_blessed & node_set_of(agent->at[i])) != 0;
    return blessed >= quorum_of(agent->n_nodes);
}

void exclusion_check(const struct client *client) {
    if (!exclusion_holds(client)) {
        violation("client %u is granted name %u after its deadline", client_index(client), client->name);
        return;
    }
    if (is_outdated(client))
        return;
    if (other_library_holds(client->name))
        violation("client %u holds name %u, which another library has locked", client_index(client),
                  client->name);
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (&sim_clients[i] != client && sim_clients[i].name == client->name &&
            exclusion_holds(&sim_clients[i]) && !is_outdated(&sim_clients[i]) &&
            !were_set_apart(client, &sim_clients[i]))
            violation("clients %u and %u both hold name %u", client_index(client), i, client->name);
}

/* The releasing client may look at its page until the reply. */
void exclusion_check_pages(const struct client *granted) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *client = &sim_clients[i];
        if (client == granted || client->state != CLIENT_RELEASING || client->name != granted->name ||
            !client->paged || client->slot < 0 || client->id == 0)
            continue;
        if (!is_outdated(client) && answer_page_deadline(front_page(i), client->slot, client->id) >
                                        clock_read(&client_agent(client)->clock))
            violation("client %u is granted name %u, and the page of client %u, which releases it, shows "
                      "the lease as valid",
                      client_index(granted), granted->name, i);
    }
}

/* --- answers --- */

/* A front that pauses answers when it goes on; after a restart, which may pause, once it has asked the
 * nodes. */
void exclusion_check_answered(const struct client *client) {
    const struct sim_agent *agent = client_agent(client);
    int64_t by_ns = instant_max(client->answer_by_ns, agent->paused_until_ns);
    int64_t timeout_ms = client->ask.terms.node_timeout_ms;

    if (client->asked_ns < agent->started_ns)
        by_ns = instant_max(by_ns,
                            instant_max(agent->started_ns + NS_PER_MS * SIM_RESTART_MS, agent->served_ns) +
                                NS_PER_MS * 3 * timeout_ms);
    if (client->asked_ns == agent->started_ns + SIM_RESTART_MS * NS_PER_MS) /* read after the pause */
        by_ns = instant_max(by_ns, agent->paused_until_ns + client->answer_by_ns - client->asked_ns);
    if (front_serves(agent) && sim_now_ns > by_ns + NS_PER_MS)
        violation("client %u waits for an answer, WAIT %lld, %lld ms after its bound", client_index(client),
                  (long long) client->ask.wait_ms,
                  (long long) ((sim_now_ns - client->answer_by_ns) / NS_PER_MS));
}

/* The shortest ttls have a node time-out of 5 ms, which ordinary delays may exceed. A request that does not
 * wait gets the last failure of the one that contends before it. */
static bool meets_short_ttl(const struct client *client) {
    bool meets = client->ask.terms.ttl_ms <= TTL_MS_MIN;

    for (unsigned i = 0; !meets && i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        meets = other->state == CLIENT_ASKING && other->agent == client->agent &&
                other->name == client->name && other->ask.terms.ttl_ms <= TTL_MS_MIN;
    }
    return meets;
}

/* protocol.md: behind a RESUME whose outcome is open, it may be that no attempt ends within the bound. */
static bool is_behind_resume(const struct client *client) {
    bool is_behind = false;

    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        is_behind |= other != client && other->state == CLIENT_RESUMING && other->agent == client->agent &&
                     other->name == client->name;
    }
    return is_behind;
}

/* The requests of the client's user under its rule, without this one, that hold or wait. */
static unsigned others_of_rule(const struct client *client, enum client_state state) {
    unsigned count = 0;

    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        count += other != client && other->agent == client->agent && other->state == state &&
                 other->id != 0 &&
                 (state == CLIENT_HOLDING ? exclusion_holds(other) : other->ask.wait_ms != 0) &&
                 client_uid(i) == client_uid(client_index(client)) &&
                 rules_of(client_agent(client), i, other->name).number == client->ask.rule.number;
    }
    return count;
}

/* One that was granted to ACQUIRE: a request may contend already when another one resumes, and contends on.
 * A client without pushes may not know that it has lost its lease. */
static bool has_holder(const struct client *client, unsigned name) {
    bool held = false;

    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        held |= other->agent == client->agent && other->name == name && other->state == CLIENT_HOLDING &&
                !other->ask.resumes && other->pushes && exclusion_holds(other);
    }
    return held;
}

/* A user may have at most as much as it leaves to others. The agent has at least what clients know of. */
static void check_share(const struct client *client) {
    uint32_t max = client_agent(client)->quota_max, of_all = 1, of_user = 1;

    /* A lease that its agent keeps since a restart may be resumed, and an accepted request goes on. */
    if (client->ask.resumes || client->asked_ns < client_agent(client)->started_ns)
        return;
    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        bool has = other->state == CLIENT_ASKING
                       ? other->id != 0
                       : other->state == CLIENT_HOLDING && other->pushes && exclusion_holds(other);
        if (other == client || other->agent != client->agent || !has || !client_has_read(i) ||
            other->asked_ns < client_agent(client)->started_ns)
            continue;
        of_all++;
        of_user += client_uid(i) == client_uid(client_index(client));
    }
    if (max > 0 && client_uid(client_index(client)) != SIM_AGENT_UID && of_user + of_all > max)
        violation("client %u waits, and its user has %u of %u leases and waiters, others %u",
                  client_index(client), of_user, max, of_all - of_user);
}

/* The first request for a name without such a holder may contend, and counts as a lease; one that does not
 * wait counts as none. */
void exclusion_check_waits(const struct client *client) {
    const struct sim_rule *rule = &client->ask.rule;
    unsigned contend = 0;

    check_share(client);
    if (rule->max_waiters == 0 || client->ask.resumes || client->ask.wait_ms == 0)
        return;
    for (unsigned name = 0; name < SIM_NAMES; name++)
        contend += !has_holder(client, name) &&
                   rules_of(client_agent(client), client_index(client), name).number == rule->number;
    if (others_of_rule(client, CLIENT_ASKING) >= rule->max_waiters + contend)
        violation("client %u waits, and its user has %u waiters under this rule", client_index(client),
                  rule->max_waiters);
}

/* By its rule. */
static void check_allowed(const struct client *client, const char *error) {
    const struct sim_rule *rule = &client->ask.rule;

    if (client->ask.denied &&
        (!error || (strcmp(error, "DENIED") != 0 && (!client->ask.resumes || strcmp(error, "BADARG") != 0))))
        violation("client %u gets %s, and a rule denies what it asks", client_index(client),
                  error ? error : "a lease");
    if (!error && rule->max_leases > 0 && others_of_rule(client, CLIENT_HOLDING) >= rule->max_leases)
        violation("client %u gets a lease, and its user has %u under this rule", client_index(client),
                  rule->max_leases);
}

/* The rule's max_ttl bounds the rest of a cooldown, which the client does not know exactly. */
static bool cooldown_may_be_denied(const struct client *client) {
    return client->ask.resumes && client->ask.terms.cooldown_ms > client->ask.rule.max_ttl_ms;
}

/* When the first of the requests that wait for the name was sent. */
static int64_t first_asked_ns(const struct client *client) {
    int64_t first_ns = client->asked_ns;

    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *other = &sim_clients[i];
        if (other->agent == client->agent && other->name == client->name && other->state == CLIENT_ASKING)
            first_ns = instant_min(first_ns, other->asked_ns);
    }
    return first_ns;
}

/* No node has had a key of the name for a while, and no lease of this agent has it. The answer may be that
 * of the last attempt of a request before this one, and before a pause of the agent. */
static bool is_free(const struct client *client) {
    const struct sim_agent *agent = client_agent(client);
    int64_t since_ns = first_asked_ns(client) - LAST_ATTEMPT_MS * NS_PER_MS;
    /* After a restart a lease without its session lasts until its deadline, also without keys. */
    int64_t left_ns = agent->with_ledger && agent->life > 1 ? agent->max_ttl_ms * NS_PER_MS : 0;
    bool is_free = sim_keyed_ns[client->name] < since_ns &&
                   instant_max(agent->started_ns + left_ns, agent->paused_until_ns) < since_ns &&
                   !front_has_holder(agent, client->name) && !lingering_may_have(agent, client->name);

    for (unsigned i = 0; i < sim_n_nodes; i++)
        is_free = is_free && (!sim_nodes[i].data.keys[client->name].set ||
                              sim_now_ns + node_key_left_ns(&sim_nodes[i], client->name) < since_ns);
    return is_free;
}

void exclusion_check_answer(const struct client *client, const char *error, bool behind_resume) {
    int64_t wait_ms = client->ask.wait_ms;
    bool resumes = client->ask.resumes;

    exclusion_check_answered(client);
    check_allowed(client, error);
    if (!error)
        return;
    if (strcmp(error, "TIMEOUT") == 0    ? wait_ms <= 0 || resumes
        : strcmp(error, "BUSY") == 0     ? wait_ms != 0 && !resumes
        : strcmp(error, "NOTHELD") == 0  ? !resumes
        : strcmp(error, "NOQUORUM") == 0 ? wait_ms < 0
        : strcmp(error, "DENIED") == 0   ? !client->ask.denied && !cooldown_may_be_denied(client)
        : strcmp(error, "QUOTA") == 0    ? client_agent(client)->requests_max == SIM_REQUESTS_MAX &&
                                            client_agent(client)->quota_max == 0 &&
                                            client->ask.rule.max_leases + client->ask.rule.max_waiters == 0
                                      : strcmp(error, "BADARG") != 0 || !resumes)
        violation("client %u gets %s, with WAIT %lld", client_index(client), error, (long long) wait_ms);
    if (strcmp(error, "BUSY") == 0 && !resumes && !sim_steps && is_free(client))
        violation("client %u gets BUSY, and nobody has name %u", client_index(client), client->name);
    if (strcmp(error, "NOQUORUM") == 0 && client->untroubled && !meets_short_ttl(client) &&
        !(behind_resume && is_behind_resume(client)) && agent_is_untroubled(client_agent(client)))
        violation("client %u gets NOQUORUM, and nothing is in the way of a quorum", client_index(client));
}

/* For so long that every waiting request has tried again since. */
static bool is_untroubled_for_long(const struct sim_agent *agent) {
    int64_t *since_ns = &untroubled_since_ns[agent->index];

    if (!sim_calm || !agent_has_tokens(agent) || !agent_is_untroubled(agent))
        *since_ns = INSTANT_NEVER;
    else if (*since_ns == INSTANT_NEVER)
        *since_ns = sim_now_ns;
    return sim_now_ns >= instant_add(*since_ns, NS_PER_S);
}

void exclusion_expect_answer(struct client *client) {
    const struct sim_agent *agent = client_agent(client);
    int64_t timeout_ns = (int64_t) client->ask.terms.node_timeout_ms * NS_PER_MS;
    int64_t wait_ms = client->ask.wait_ms;
    int64_t bound_ns = wait_ms == 0 ? 3 * timeout_ns : wait_ms * NS_PER_MS + timeout_ns;

    client->answer_by_ns =
        wait_ms < 0 ? INSTANT_NEVER / 2 : clock_true_ns(&agent->clock, clock_read(&agent->clock) + bound_ns);
    client->untroubled = is_untroubled_for_long(agent);
}

/* --- tokens --- */

static int64_t largest_token(unsigned name) {
    return sim_tokens_grow ? resource_tokens[name] : 0;
}

/* A client that resumes a lease that it holds has had no successor. */
static void check_same_token(const struct client *client, int64_t token) {
    if (token != client->fence || (token != 0 && token < largest_token(client->name)))
        violation("client %u resumes name %u with token %lld, it had %lld, another %lld",
                  client_index(client), client->name, (long long) token, (long long) client->fence,
                  (long long) resource_tokens[client->name]);
}

/* The resource remembers the largest token, and the holder writes to it at once. */
void exclusion_check_token(const struct client *client, int64_t token, bool was_valid) {
    if (client->ask.resumes) {
        if (was_valid)
            check_same_token(client, token);
        return;
    }
    if (client->ask.terms.fencing != (token != 0))
        violation("client %u gets token %lld", client_index(client), (long long) token);
    if (!client->ask.terms.fencing || !sim_tokens_grow || is_outdated_by(client, &client->ask.terms))
        return;
    /* Soon after its blessing a node's tokens are ahead of time: the sets' tokens are compared by clock. */
    bool other_set = resource_sets[client->name] != client_agent(client)->set;
    int64_t ahead = other_set ? client_agent(client)->fence_skew_ms * INT64_C(1000) : 0;
    if (token + ahead <= resource_tokens[client->name])
        violation("client %u holds name %u with token %lld, after one with %lld", client_index(client),
                  client->name, (long long) token, (long long) resource_tokens[client->name]);
    resource_tokens[client->name] = token;
    resource_sets[client->name] = client_agent(client)->set;
}

/* --- hand-offs --- */

/* After a restart the agent searches for the user's keys. */
static void check_user(const struct client *client) {
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_key *key = &sim_nodes[i].data.keys[client->name];
        if (key->set && memcmp(key->secret, client->secrets[1], SECRET_BYTES) == 0 &&
            key->tail.uid != client_uid(client_index(client)))
            violation("client %u is handed the lease of user %u", client_index(client), key->tail.uid);
    }
}

void exclusion_note_acquired(const struct client *client, int64_t at_ns) {
    acquired_ns[client->agent][client->name] = at_ns;
}

/* An attempt that ended before the name was acquired says nothing about the present. */
void exclusion_check_age(const struct client *client, int64_t ago_ms) {
    int64_t at_ns = clock_read(&client_agent(client)->clock) - ago_ms * NS_PER_MS;

    if (!client->ask.resumes && at_ns < acquired_ns[client->agent][client->name])
        violation("client %u gets the result of an attempt before the last acquisition of name %u",
                  client_index(client), client->name);
}

void exclusion_check_handed_over(const struct client *client) {
    observer_check_series(client_index(client));
    if (client_agent(client)->with_ledger)
        check_user(client);
    /* An extension since may not have reached that holder. */
    if (client->deadline_ns <= at_risk_ns[client->agent][client->name])
        violation("client %u is handed a lease that is at risk, or lost", client_index(client));
}

void exclusion_note_risk(const struct client *client, bool risky) {
    at_risk_ns[client->agent][client->name] = !risky            ? 0
                                              : client->holding ? client->deadline_ns
                                                                : INSTANT_NEVER;
}

/* --- keys --- */

/* Since its last grant: of two equal leases the one of the later RESUME has the larger number. */
static bool is_later(const uint8_t secret[SECRET_BYTES], const uint8_t former[SECRET_BYTES]) {
    return memcmp(secret, former, SECRET_LEASE_BYTES) == 0 &&
           (uint16_t) (node_number_of(secret) - node_number_of(former)) < 32768;
}

static bool has_secret(const struct client *client, const uint8_t secret[SECRET_BYTES]) {
    return is_later(secret, client->secrets[0]) || memcmp(client->secrets[1], secret, SECRET_BYTES) == 0;
}

static bool has_lease(const struct sim_key *key, const struct client *client, size_t bytes) {
    return key->set && memcmp(key->secret, client->secrets[0], bytes) == 0;
}

void exclusion_moves(struct client *client) {
    client->moved_keys = 0;
    client->moved_left_ns = INSTANT_NEVER;
    client->true_moved_ns = sim_now_ns;
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        int64_t left_ns = node_key_left_ns(&sim_nodes[i], client->name);
        if (!has_lease(&sim_nodes[i].data.keys[client->name], client, SECRET_BYTES) || left_ns <= 0)
            continue;
        client->moved_keys |= node_set_of(i);
        client->moved_left_ns = instant_min(client->moved_left_ns, left_ns);
    }
    /* With a cooldown the keys outlive the lease. */
    if (client->ask.terms.cooldown_ms > 0)
        client->moved_left_ns =
            instant_min(client->moved_left_ns,
                        instant_max(0, client->deadline_ns - clock_read(&client_agent(client)->clock)));
}

/* All the time a majority has had its keys, and they were a lease's. */
void exclusion_check_not_held(const struct client *client) {
    node_set had = 0;

    if (client->true_moved_ns == 0 || client->ask.terms.max_hold_ms > 0 || sim_steps ||
        sim_now_ns - client->true_moved_ns >= client->moved_left_ns / 10 * 9)
        return;
    for (unsigned i = 0; i < sim_n_nodes; i++) {
        const struct sim_node *node = &sim_nodes[i];
        if (instant_max(node->lost_ns, node->overwritten_ns) < client->true_moved_ns &&
            has_lease(&node->data.keys[client->name], client, SECRET_LEASE_BYTES))
            had |= client->moved_keys & node_set_of(i);
    }
    if (node_set_count(had) >= quorum_of(sim_n_nodes))
        violation("client %u gets NOTHELD, and a majority has the keys of its lease", client_index(client));
}

void clients_check_deletion(unsigned name, const struct sim_key *deleted) {
    observer_deleted(name, deleted->secret);
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (exclusion_holds(&sim_clients[i]) && !is_outdated(&sim_clients[i]) &&
            has_secret(&sim_clients[i], deleted->secret))
            violation("a key is deleted while client %u considers its lease valid", i);
}
