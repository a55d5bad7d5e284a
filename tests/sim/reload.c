#include "reload.h"

#include <assert.h>

#include "agent.h"
#include "calls.h"
#include "events.h"

enum { HELD_MAX = 4096 };

struct held_call {
    struct reload_queue_entry entry;
    struct event event;
};

static struct held_call calls[HELD_MAX];
static struct held_call *free_calls[HELD_MAX];
static unsigned n_free, n_touched;

void reload_reset(void) {
    n_free = n_touched = 0;
}

static struct held_call *take(void) {
    assert(n_free > 0 || n_touched < HELD_MAX);
    struct held_call *call = n_free > 0 ? free_calls[--n_free] : &calls[n_touched++];
    list_init(&call->entry.link);
    return call;
}

static void give(struct held_call *call) {
    free_calls[n_free++] = call;
}

static struct held_call *call_of(struct reload_queue_entry *entry) {
    return (struct held_call *) (void *) ((char *) entry - offsetof(struct held_call, entry));
}

bool reload_holds(struct sim_connection *connection, const struct event *event) {
    struct held_call *call = take();
    bool held = reload_queue_holds(&connection->reloads, &call->entry);

    if (held)
        call->event = *event;
    else
        give(call);
    return held;
}

/* The answer to NOSCRIPT. */
static void load(struct sim_keeper *keeper, const struct event *refused) {
    struct sim_connection *connection = &keeper->connections[refused->node];
    struct event event = *refused;

    event.kind = EVENT_LOAD;
    connection->request_ns = instant_max(sim_now_ns + network_delay_ns(), connection->request_ns + 1);
    event.at_ns = connection->request_ns;
    sim_counts.reloads++;
    if (!calls_is_dropped(connection))
        events_add(&event);
}

void reload_refused(struct sim_keeper *keeper, const struct event *event) {
    struct sim_connection *connection = &keeper->connections[event->node];
    const struct sim_tickets tickets = calls_next_outstanding(connection);
    struct held_call *call = take();

    call->event = *event;
    call->entry.refused = event->refused;
    enum reload_queue_verdict verdict = reload_queue_refused(&connection->reloads, &call->entry);
    if (event->refused != (verdict == RELOAD_ANSWER))
        violation("agent %u repeats a call for want of the scripts %s", keeper->agent->index,
                  event->refused ? "again" : "never");
    if (verdict == RELOAD_BEGIN)
        load(keeper, event);
    if (verdict != RELOAD_ANSWER)
        return;
    give(call);
    calls_end(keeper, event->node, &tickets, VOTE_REFUSED);
}

/* As cut off. */
static void answer(struct sim_keeper *keeper, unsigned node, struct reload_queue_entry *entry) {
    const struct sim_tickets tickets = call_of(entry)->event.as.call.tickets;

    give(call_of(entry));
    calls_end(keeper, node, &tickets, VOTE_CUT);
}

void reload_overtaken(struct sim_keeper *keeper, unsigned node) {
    struct reload_queue_entry *entry;

    while ((entry = reload_queue_overtaken(&keeper->connections[node].reloads)))
        answer(keeper, node, entry);
}

void reload_done(struct sim_keeper *keeper, unsigned node) {
    struct reload_queue *reloads = &keeper->connections[node].reloads;
    struct reload_queue_entry *entry;

    reload_queue_end(reloads);
    while ((entry = reload_queue_next(reloads))) {
        struct event event = call_of(entry)->event;
        event.kind = EVENT_CALL;
        event.refused = entry->refused;
        give(call_of(entry));
        calls_transmit(keeper, node, &event);
    }
}

void reload_cut(struct sim_keeper *keeper, unsigned node) {
    struct reload_queue *reloads = &keeper->connections[node].reloads;
    struct reload_queue_entry *entry;

    reload_queue_end(reloads);
    while ((entry = reload_queue_next(reloads)))
        answer(keeper, node, entry);
}
