/* From one process of an agent to the next: the ledger, and what the service manager keeps. The process that
 * was killed has left the ledger at any instruction; the next one continues from it. */

#include <assert.h>
#include <string.h>

#include "agent.h"
#include "client-session.h"
#include "clients.h"
#include "front.h"
#include "observer.h"
#include "restart.h"
#include "local/recovery/recovery.h"
#include "local/recovery/restore.h"

static const struct ledger_size size = {.sessions = SIM_SESSIONS, .entries = 2 * SIM_REQUESTS_MAX};

void restart_allocate(struct sim_agent *agent) {
    for (unsigned i = 0; i < 2; i++)
        agent->ledgers[i].memory = agents_map(ledger_bytes(&size));
}

/* Clears what an earlier process has touched; of the scratch, only received bytes are read. */
static void clear(const struct sim_ledger *of) {
    const struct pool *entries = &of->ledger.entries;

    if (!of->ledger.header)
        return;
    memset(of->ledger.header, 0, offsetof(struct ledger_header, scratch));
    memset(of->ledger.sessions, 0, SIM_SESSIONS * sizeof(of->ledger.sessions[0]));
    memset(entries->memory, 0, entries->touched * entries->item_bytes);
    memset(of->ledger.texts.memory, 0, of->ledger.texts.used);
}

/* The other one is that of the former process. */
static struct sim_ledger *present(struct sim_agent *agent) {
    return &agent->ledgers[agent->former == 1 ? 1 : 0];
}

void restart_begin(struct sim_agent *agent) {
    const struct ledger_identity identity = {
        .agent = agent->id, .host = agent->front.identity.host, .sequence = agent->life};
    struct sim_ledger *of = present(agent);

    agent->predecessors = (struct shard_predecessors){0};
    if (!agent->with_ledger)
        return;
    clear(of);
    ledger_init(&of->ledger, &size, 0, &identity, of->memory);
    agent->front.registry.ledger = &of->ledger;
}

/* --- sessions --- */

void restart_disconnect(struct client_session *of) {
    unsigned client = client_session_client(of);
    bool seen = of == client_session_of(client) && !of->hung_up && client != SIM_READER;

    of->agent = NULL;
    if (seen)
        client_disconnected(client);
}

static void restore_sessions(struct sim_agent *agent, const struct ledger_reader *reader) {
    struct ledger_reader_session_view view;

    for (uint32_t slot = 0; slot < SIM_SESSIONS; slot++) {
        struct client_session *of = &client_sessions[slot];
        if (of->agent != agent)
            continue;
        bool found = ledger_reader_session(reader, slot, &view) && view.id == of->id && view.whole;
        if (!found && !of->torn && !of->expelled)
            violation("the ledger lacks the session of client %u", client_session_client(of));
        if (found && !of->expelled && (of->stored || chance(50)) &&
            !client_process_is_dead((unsigned) of->session.pid))
            client_session_restore(of, &view);
        else
            restart_disconnect(of);
    }
}

static struct session *find_session(void *userdata, uint64_t id) {
    struct client_session *of = &client_sessions[id & LEDGER_SLOT_MASK];

    return of->agent == userdata && of->id == id ? &of->session : NULL;
}

static const struct ledger_reader *reader_of(const struct sim_agent *agent, struct ledger_reader *ret) {
    if (!ledger_reader_init(ret, agent->ledgers[agent->former - 1].memory, ledger_bytes(&size)))
        violation("the next process of agent %u can't read the ledger", agent->index);
    return ret;
}

static bool session_is_whole(void *userdata, uint64_t id) {
    struct ledger_reader reader;
    struct ledger_reader_session_view view;

    return ledger_reader_session(reader_of(userdata, &reader), (uint32_t) (id & LEDGER_SLOT_MASK), &view) &&
           view.id == id && view.whole;
}

static bool process_is_dead(void *userdata, pid_t pid) {
    (void) userdata;
    return client_process_is_dead((unsigned) pid);
}

static void finish_session(struct client_session *of) {
    client_session_restored(of);
    list_for_each_safe(
        node, &of->session.requester.requests) if (list_entry(node, struct request, session_link)->restore ==
                                                   RESTORE_UNREPORTED)
        observer_unreported(client_session_client(of));
}

static void finish_sessions(const struct sim_agent *agent) {
    for (unsigned i = 0; i < SIM_SESSIONS; i++)
        if (client_sessions[i].agent == agent)
            finish_session(&client_sessions[i]);
}

/* --- the next process --- */

void restart_continue(struct sim_agent *agent) {
    uint32_t order[SIM_REQUESTS_MAX] = {0};
    struct recovery_past past = {.session = find_session,
                                 .whole = session_is_whole,
                                 .dead = process_is_dead,
                                 .userdata = agent,
                                 .order = order};

    bool continues = agent->former != 0;

    if (continues) {
        (void) reader_of(agent, &past.reader);
        restore_sessions(agent, &past.reader);
        const struct recovery_result result = recovery_run(&agent->front, &past, clock_read(&agent->clock));
        agent->predecessors = result.predecessors;
        sim_counts.restored += result.held;
        finish_sessions(agent);
    }
    if (agent->with_ledger)
        front_may_die(agent);
    /* complete: the former one is not needed any more */
    agent->former = 1 + (unsigned) (present(agent) - agent->ledgers);
    for (unsigned i = 0; i < sim_n_keepers; i++)
        shard_succeed(&agent->keepers[i].shard, &agent->predecessors);
    if (continues)
        restore_start(&agent->front.registry, clock_read(&agent->clock));
}
