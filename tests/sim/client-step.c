/* A client's next step: it requests a lease, holds it, releases it, dies, or moves to another agent. */

#include "agent.h"
#include "client-request.h"
#include "client-session.h"
#include "clients.h"
#include "front.h"
#include "observer.h"

/* Its process ends, or only its session. */
static void die(struct client *client) {
    bool ends = chance(70);

    trace("client %u: %s", client_index(client), ends ? "dies" : "closes its session");
    client->holding = false;
    client->process += ends;
    observer_died(client_index(client));
    front_hang_up(client_index(client));
    client_become_idle(client);
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
        client_cut_off(client);
        client->closed = true;
        front_expel(client_index(client));
    } else if (client->state == CLIENT_RESUMING && exclusion_holds(client) && chance(40)) {
        trace("client %u: closes its session before the answer", client_index(client));
        observer_gone(client_index(client));
        client_cut_off(client);
        front_hang_up(client_index(client));
    } else if (chance(20) || client->id == 0) {
        die(client);
    } else {
        trace("client %u: releases", client_index(client));
        client->holding = false;
        if (client->state == CLIENT_RESUMING)
            client->token[0] = '\0'; /* a late RESUME, and its release, may undo a later one */
        client->releases_lease = client->state == CLIENT_HOLDING;
        client->state = CLIENT_RELEASING;
        observer_releases(client_index(client));
        client_request_release(client);
    }
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
        client_request_connect(client);
    switch (client->state) {
    case CLIENT_IDLE:
        if (client->n_expected > 0 || (chance(2) && client_request_stolen(client)))
            client_step_later(client, pick(1, 500) * NS_PER_MS);
        else if (may_resume(client) && chance(agent->life > 1 ? 6 : 3))
            client_request_resume(client); /* a lease that the client released or lost */
        else
            client_request_acquire(client);
        break;
    case CLIENT_CUT_OFF:
        if (client->closed && chance(80)) {
            client_cut_off(client);
            break;
        }
        if (chance(90)) {
            client_request_resume(client);
            break;
        }
        client->holding = false; /* its process ends */
        client->process++;
        front_exit(client_index(client));
        front_hang_up(client_index(client));
        client_become_idle(client);
        break;
    case CLIENT_HOLDING:
        if (chance(10))
            client_request_check(client);
        if (client->state == CLIENT_HOLDING && chance(3))
            client_request_other(client);
        if (client->state == CLIENT_HOLDING && !client_request_beat(client))
            leave(client);
        break;
    case CLIENT_ASKING:
    case CLIENT_RESUMING:
        if (client->ask.async || chance(50) || !client_request_behind(client))
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
            client_has_promises(other->index) && front_serves(other) && sim_now_ns >= other->paused_until_ns)
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
        client->hung_up |= 1u << client->agent;
        front_hang_up(index);
    } else if (connected) {
        client_session_close(index);
    }
    observer_moved(client->agent, client->name, client->lease.terms.ttl_ms);
    client->agent = agent;
    sim_counts.moves++;
    client_request_connect(client);
    client_request_resume(client);
    exclusion_moves(client);
    if (client->hung_up & 1u << agent)
        client->true_moved_ns = 0; /* back at an agent that may be releasing the lease */
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
        client_step_later(client, client->stopped_until_ns - sim_now_ns);
        return;
    }
    /* Some clients try to resume a lease that they may just have released. */
    if (client->state == CLIENT_CUT_OFF && !exclusion_holds(client) && (!may_resume(client) || chance(60))) {
        client_become_idle(client);
        return;
    }
    if (client->state == CLIENT_CUT_OFF && client->token[0] == '\0') {
        client_cut_off(client);
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
        client_step_later(client, front_serves(agent) && chance(30) ? left_ns : pick(1, 50) * NS_PER_MS);
        return;
    }
    act(client);
}
