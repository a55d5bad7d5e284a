#include "listings.h"

#include <stdio.h>
#include <string.h>

#include "agent.h"
#include "client.h"
#include "clients.h"
#include "reply-map.h"

/* What the last listings showed. */
static struct {
    unsigned held, waiting, cooling; /* LEASES */
    int64_t voting;                  /* STATUS */
} shown;

void listings_reset(void) {
    memset(&shown, 0, sizeof(shown));
}

/* The client knows this lease, and holds it by its session with this agent. */
static bool knows(const struct sim_agent *agent, const struct client *client, int64_t id) {
    return client->state == CLIENT_HOLDING && client->agent == agent->index && (int64_t) client->id == id;
}

/* Other clients may have lost their lease and not know it, if another program took the keys. */
static bool is_certain(const struct client *client) {
    return exclusion_holds(client) && client->pushes;
}

static void check_known(const struct sim_agent *agent, const struct client *client,
                        const struct resp_token *row) {
    char name[2] = {(char) ('0' + client->name)};
    int64_t left_ns = instant_max(client->deadline_ns - clock_read(&agent->clock), 0);

    if (!reply_map_has(row, "name", name) || reply_map_number(row, "fence") != client->fence ||
        reply_map_number(row, "ttl") != client->lease.terms.ttl_ms ||
        reply_map_number(row, "uid") != (int64_t) client_uid(client_index(client)))
        violation("LEASES shows another lease of client %u than it has", client_index(client));
    if (client->paged && client->holding && reply_map_number(row, "validity") != left_ns / NS_PER_MS)
        violation("LEASES shows %lld ms left for client %u, which has %lld",
                  (long long) reply_map_number(row, "validity"), client_index(client),
                  (long long) (left_ns / NS_PER_MS));
    if (reply_map_number(row, "cooldown") > client->lease.terms.cooldown_ms)
        violation("LEASES shows a longer cooldown for client %u than it asked for", client_index(client));
}

static void check_row(const struct sim_agent *agent, const struct resp_token *row) {
    int64_t index = client_of_pid((unsigned) reply_map_number(row, "pid")),
            ttl_ms = reply_map_number(row, "ttl");
    bool held = reply_map_has(row, "state", "held") || reply_map_has(row, "state", "at-risk");
    bool lingers = reply_map_has(row, "state", "lingering"), waits = reply_map_has(row, "state", "waiting");
    bool cools = reply_map_has(row, "state", "cooling");

    if (index < 0 || index >= (int64_t) sim_n_clients) {
        violation("LEASES shows a lease of no client");
        return;
    }
    const struct client *client = &sim_clients[index];
    shown.held += held || lingers;
    shown.waiting += waits;
    shown.cooling += cools;
    if (held + lingers + waits + cools != 1)
        violation("LEASES shows an unknown state");
    if (reply_map_number(row, "validity") > ttl_ms || reply_map_number(row, "age") < 0 ||
        (reply_map_number(row, "validity") > 0 && (waits || cools)) ||
        (cools && reply_map_number(row, "cooldown") > agent->max_ttl_ms))
        violation("LEASES shows impossible numbers for client %lld", (long long) index);
    if (knows(agent, client, reply_map_number(row, "id"))) {
        if (held)
            check_known(agent, client, row);
        else if (is_certain(client))
            violation("LEASES shows that client %lld does not hold its lease", (long long) index);
    }
}

/* Each lease that a client holds is there once. */
void listings_check_leases(const struct sim_agent *agent, const struct resp_token *reply) {
    const struct resp_token *row = &reply[1];

    shown.held = shown.waiting = shown.cooling = 0;
    for (uint32_t i = 0; i < reply->count; i++, row += 1 + 2 * row->count)
        check_row(agent, row);
    for (unsigned i = 0; i < sim_n_clients; i++) {
        const struct client *client = &sim_clients[i];
        unsigned n = 0;
        if (!knows(agent, client, (int64_t) client->id) || !exclusion_holds(client))
            continue;
        row = &reply[1];
        for (uint32_t j = 0; j < reply->count; j++, row += 1 + 2 * row->count)
            n += reply_map_number(row, "id") == (int64_t) client->id;
        if (n > 1 || (n == 0 && is_certain(client)))
            violation("LEASES shows the lease of client %u %u times", i, n);
    }
}

/* What all users have of it. */
static int64_t quota_use(const struct resp_token *reply, const char *limit) {
    const struct resp_token *quota = reply_map_value(reply, "quota"), *key = quota ? quota + 1 : NULL;

    for (uint32_t i = 0; quota && i < quota->count; i++, key += 2 + 2 * key[1].count)
        if (reply_map_is(key, limit))
            return reply_map_number(key + 1, "all");
    violation("STATUS has no use of %s", limit);
    return -1;
}

/* Only the reader observes. */
static void check_quota(const struct resp_token *reply, unsigned observed) {
    if (quota_use(reply, "max_leases") < shown.held + shown.waiting ||
        quota_use(reply, "max_observed_names") != observed ||
        quota_use(reply, "max_observations") != observed)
        violation(
            "STATUS has a use of %lld leases and %lld observed names (%lld observations), not %u and %u",
            (long long) quota_use(reply, "max_leases"), (long long) quota_use(reply, "max_observed_names"),
            (long long) quota_use(reply, "max_observations"), shown.held + shown.waiting, observed);
    if (quota_use(reply, "descriptors") != SESSION_DESCRIPTORS * reply_map_number(reply, "sessions"))
        violation("STATUS has %lld descriptors for %lld sessions",
                  (long long) quota_use(reply, "descriptors"),
                  (long long) reply_map_number(reply, "sessions"));
}

void listings_check_status(const struct sim_agent *agent, const struct resp_token *reply,
                           unsigned observed) {
    unsigned quorum = agent->n_nodes / 2 + 1;

    shown.voting = reply_map_number(reply, "voting");
    if (reply_map_number(reply, "leases") != shown.held ||
        reply_map_number(reply, "waiters") != shown.waiting ||
        reply_map_number(reply, "cooling") != shown.cooling)
        violation("STATUS counts %lld leases, %lld waiters and %lld names that cool, LEASES %u, %u and %u",
                  (long long) reply_map_number(reply, "leases"),
                  (long long) reply_map_number(reply, "waiters"),
                  (long long) reply_map_number(reply, "cooling"), shown.held, shown.waiting, shown.cooling);
    if (reply_map_number(reply, "nodes") != agent->n_nodes || reply_map_number(reply, "quorum") != quorum ||
        reply_map_number(reply, "keepers") != sim_n_keepers)
        violation("STATUS shows another agent");
    if (!reply_map_has(reply, "state", shown.voting >= (int64_t) quorum ? "ready" : "no-quorum"))
        violation("STATUS shows a wrong state");
    if (reply_map_number(reply, "sessions") < 1 || reply_map_number(reply, "uptime") < 0)
        violation("STATUS shows impossible numbers");
    check_quota(reply, observed);
}

void listings_check_nodes(const struct sim_agent *agent, const struct resp_token *reply) {
    const struct resp_token *row = &reply[1];
    int64_t voting = 0;

    if (reply->count != agent->n_nodes)
        violation("NODES shows %u nodes", reply->count);
    for (uint32_t i = 0; i < reply->count; i++, row += 1 + 2 * row->count) {
        char name[2] = {(char) ('a' + i)};
        voting += reply_map_has(row, "state", "voting");
        if (!reply_map_has(row, "name", name) || reply_map_number(row, "since") < 0 ||
            reply_map_number(row, "until") < -1)
            violation("NODES shows node %u wrongly", i);
    }
    /* NODES shows a node's worst state of all keepers, STATUS the keeper with the fewest votes. */
    if (voting > shown.voting ||
        (voting < shown.voting && (sim_n_keepers == 1 || shown.voting == agent->n_nodes)))
        violation("NODES shows %lld nodes that vote, STATUS %lld", (long long) voting,
                  (long long) shown.voting);
}

static bool has_line(const struct resp_token *reply, const char *metric, int64_t value) {
    char line[96];

    (void) snprintf(line, sizeof(line), "\n%s %lld\n", metric, (long long) value);
    return memmem(reply->text, reply->length, line, strlen(line)) != NULL;
}

void listings_check_metrics(const struct sim_agent *agent, const struct resp_token *reply) {
    if (!has_line(reply, "redlock_leases", shown.held) ||
        !has_line(reply, "redlock_waiters", shown.waiting) ||
        !has_line(reply, "redlock_cooling_names", shown.cooling) ||
        !has_line(reply, "redlock_voting_nodes", shown.voting) ||
        !has_line(reply, "redlock_nodes", agent->n_nodes) ||
        !has_line(reply, "redlock_keepers", sim_n_keepers))
        violation("METRICS shows other numbers than STATUS");
}
