/* What a client reads: replies, pushes and its page. It checks them, and notes the state of its lease. */

#include <string.h>

#include "agent.h"
#include "answer.h"
#include "client.h"
#include "client-session.h"
#include "clients.h"
#include "front.h"
#include "leaders.h"
#include "observer.h"
#include "released.h"

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

    exclusion_check_answer(client, NULL, false);
    if (client->ask.resumes && client->token[0] != '\0' && client->agent == client->ended_by &&
        client_agent(client)->life == client->ended_life && strcmp(client->token, client->ended_token) == 0)
        violation("client %u resumes a lease that this agent has reported as ended", client_index(client));
    client->state = CLIENT_HOLDING;
    client->closed = client->denied = false;
    client->hung_up = 0;
    client_close_former(client);
    client->id = answer->id;
    client->holding = true;
    client->deadline_ns = answer->deadline_ns;
    client->slot = answer->slot;
    check_grant(client, answer, client->ask.resumes);
    front_values(client_agent(client), answer->id, client->secrets);
    observer_granted(client_index(client), client->deadline_ns, client->secrets);
    leaders_granted(client_index(client), sim_calm && !client->ask.resumes);
    if (handed_over)
        sim_counts.handoffs++;
    else
        sim_counts.grants++;
    if (handed_over)
        exclusion_check_handed_over(client);
    else if (request && !client->ask.resumes)
        exclusion_note_acquired(client, request->tenure.acquired_ns);
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
    exclusion_check_pages(client);
    if (client_habits.crowded && chance(95))
        client_step_later(client, pick(0, 3000) * NS_PER_US);
    else
        client_step_later(client, chance(70) ? pick(0, 50) * NS_PER_MS : pick(50, 6000) * NS_PER_MS);
}

static void failed(struct client *client, const struct answer *answer) {
    const char *error = answer->word;

    sim_counts.refusals++;
    if (answer->ago_ms >= 0)
        exclusion_check_age(client, answer->ago_ms);
    if (answer->shows_holder && !client->ask.rule.may_leader && !client->ask.resumes)
        observer_check_shown(client_index(client));
    trace("client %u: %s", client_index(client), error);
    observer_reported(client_index(client), ANSWER_FAILED, error);
    exclusion_check_answer(client, error, answer->behind_resume);
    if (strcmp(error, "NOTHELD") == 0)
        exclusion_check_not_held(client);
    if (client->state == CLIENT_RESUMING && exclusion_holds(client) && strcmp(error, "NOTHELD") != 0)
        client_cut_off(client); /* the answer proves nothing */
    else
        client_become_idle(client);
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
        released_note(&views[client_index(client)]);
    }
    check_page(client);
    observer_released(client_index(client), answer);
    client_become_idle(client);
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
        client_become_idle(client);
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

void client_answer_read_pages(const struct sim_agent *agent) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        struct client *client = &sim_clients[i];
        if (client_agent(client) != agent || client->state != CLIENT_HOLDING || !client->holding ||
            !client->paged)
            continue;
        int64_t deadline_ns = answer_page_deadline(front_page(i), client->slot, client->id);
        if (!exclusion_holds(client) || deadline_ns == 0)
            client->holding = false; /* an ended lease does not begin again */
        else
            see_deadline(client, deadline_ns);
        exclusion_check_halted(client);
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
        failed(client, answer);
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
        failed(client, answer);
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

void client_answer_read(unsigned index, const struct answer *answer) {
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
    else if (expected == EXPECTED_REFUSAL && answer->kind == ANSWER_ERROR)
        trace("client %u: %s", index, answer->word);
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
void client_answer_read_former(unsigned index, const struct answer *answer) {
    if (sim_clients[index].state == CLIENT_RESUMING && answer->kind == ANSWER_LOST)
        sim_clients[index].holding = false;
}
