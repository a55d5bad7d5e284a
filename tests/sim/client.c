/* Clients: which there are, which process each is, and how its lease and its session begin and end. */

#include "agent.h"
#include "client.h"
#include "client-request.h"
#include "client-session.h"
#include "clients.h"
#include "events.h"
#include "fault.h"
#include "observer.h"
#include "released.h"

enum { FIRST_PID = 100 };

struct client sim_clients[SIM_CLIENTS_MAX];
unsigned sim_n_clients;
struct client_habits client_habits;

void client_step_later(const struct client *client, int64_t delay_ns) {
    struct event event = {
        .kind = EVENT_CLIENT, .client = (uint8_t) client_index(client), .at_ns = sim_now_ns + delay_ns};

    if (client_habits.pace_ns > 0)
        event.at_ns += client_habits.pace_ns - event.at_ns % client_habits.pace_ns;
    events_add(&event);
}

bool client_has_promises(unsigned agent) {
    return sim_agents[agent].quarantine || !sim_quarantine;
}

void clients_reset(unsigned count) {
    exclusion_reset();
    released_reset();
    observer_reset();
    client_habits.ttl_ms = client_request_any_ttl_ms();
    client_habits.crowded = chance(30);
    client_habits.heartbeat = chance(sim_faults.slow_starts ? 80 : 15);
    client_habits.pace_ns = chance(50) ? pick(1, 30) * NS_PER_MS : 0;
    if (client_habits.crowded && chance(30)) /* two take turns: nobody else takes the name that one misses */
        count = 2;
    sim_n_clients = count;
    for (unsigned i = 0; i < count; i++) {
        unsigned agent = (unsigned) pick(0, sim_n_agents - 1);
        sim_clients[i] = (struct client){.agent = client_has_promises(agent) ? agent : 0};
        client_step_later(&sim_clients[i], pick(0, 500) * NS_PER_MS);
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

bool client_sees_valid(unsigned client) {
    return exclusion_holds(&sim_clients[client]);
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

void client_close_former(const struct client *client) {
    struct client_session *former = client_session_closed(client_index(client));

    if (former->agent && !former->expelled)
        former->hung_up = true;
}

void client_become_idle(struct client *client) {
    client_close_former(client);
    client->state = CLIENT_IDLE;
    client->id = 0;
    client->holding = false;
    if (client->ask.denied)
        client_step_later(client, pick(300, 2000) * NS_PER_MS);
    else if (client_habits.crowded && chance(90))
        client_step_later(client, pick(0, 5000) * NS_PER_US);
    else
        client_step_later(client, chance(70) ? pick(0, 100) * NS_PER_MS : pick(100, 2000) * NS_PER_MS);
}

void client_cut_off(struct client *client) {
    int64_t left_ns = clock_true_ns(&client_agent(client)->clock, client->deadline_ns) - sim_now_ns;

    client->state = CLIENT_CUT_OFF;
    if (chance(80))
        left_ns = instant_min(left_ns, pick(1, chance(70) ? 40 : 400) * NS_PER_MS);
    client_step_later(client, instant_max(left_ns, NS_PER_MS)); /* time goes on, whatever the client holds */
}

void client_disconnected(unsigned index) {
    struct client *client = &sim_clients[index];

    if (client->state == CLIENT_IDLE || client->state == CLIENT_CUT_OFF)
        return;
    trace("client %u: its session ends", index);
    observer_gone(index);
    if (!client->holding)
        client->deadline_ns = 0;
    client_cut_off(client);
}

void clients_halt(const struct sim_agent *agent, int64_t for_ns) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        struct client *client = &sim_clients[i];
        if (client_agent(client) != agent)
            continue;
        client->stopped_until_ns = instant_max(client->stopped_until_ns, sim_now_ns) + for_ns;
        if (client->answer_by_ns < INSTANT_NEVER / 2)
            client->answer_by_ns += for_ns;
    }
}

/* No process has received the client's request yet. */
static bool has_new_request(const struct client *client) {
    return (client->state == CLIENT_ASKING || client->state == CLIENT_RESUMING) &&
           (client->asked_ns >= client_agent(client)->stopped_ns ||
            client_session_of(client_index(client))->n_socket > client->behind_bytes);
}

void clients_restarted(const struct sim_agent *agent) {
    for (unsigned i = 0; i < sim_n_clients; i++) {
        struct client *client = &sim_clients[i];
        bool beats = client->state == CLIENT_HOLDING && client->lease.terms.heartbeat_ms > 0;
        if (client_agent(client) != agent)
            continue;
        if (beats && sim_faults.slow_starts && chance(85))
            client_step_later(client, pick(60, 800) * NS_PER_MS); /* the lease may not be found by then */
        if (has_new_request(client)) {                            /* it comes now */
            exclusion_expect_answer(client);
            client->asked_ns = sim_now_ns + SIM_RESTART_MS * NS_PER_MS;
            client->answer_by_ns += SIM_RESTART_MS * NS_PER_MS;
        }
    }
}

/* All waiting ends: with clocks far apart there may be no token that a majority accepts. */
void clients_give_up(void) {
    for (unsigned i = 0; i < sim_n_clients; i++)
        if (sim_clients[i].state == CLIENT_ASKING)
            client_step_later(&sim_clients[i], pick(0, 3000) * NS_PER_MS);
}
