/* The events of the world: a heap by time, then by sequence. */

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "events.h"

enum { EVENTS_MAX = 1 << 16 };

struct place {
    int64_t at_ns;
    uint64_t sequence;
    uint32_t event;
};

static struct event events[EVENTS_MAX];
static struct place heap[EVENTS_MAX];
static uint32_t free_events[EVENTS_MAX], n_free;
static uint32_t n_events, n_touched; /* in the heap; touched since the start */
static uint32_t taken;               /* the event that is in use, plus 1; 0: none */
static uint64_t sequence;

static bool before(const struct place *a, const struct place *b) {
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

void events_reset(void) {
    n_events = n_free = n_touched = taken = 0;
    sequence = 0;
}

/* The bytes in use: most events use a small part of the union, or nothing of it. */
static size_t bytes_of(const struct event *event) {
    switch (event->kind) {
    case EVENT_CALL:
    case EVENT_NOSCRIPT:
        return offsetof(struct event, as.call.requests) +
               event->as.call.tickets.count * sizeof(struct sim_request);
    case EVENT_REPLY:
        return offsetof(struct event, as) + sizeof(event->as.answer);
    case EVENT_PROBE:
    case EVENT_PROBED:
        return offsetof(struct event, as) + sizeof(event->as.probe);
    case EVENT_ERRAND:
        return offsetof(struct event, as.errand.tail) + event->as.errand.command.tail_length;
    case EVENT_DISPATCH:
        return offsetof(struct event, as.dispatch.text) + event->as.dispatch.report.text_length;
    case EVENT_SUBSCRIBE:
        return offsetof(struct event, as) + sizeof(event->as.subscribe);
    case EVENT_KEEPER_TIMER:
    case EVENT_FRONT_TIMER:
    case EVENT_DEADLINE:
        return offsetof(struct event, as) + sizeof(event->as.timer);
    case EVENT_BLESS:
    case EVENT_BROKEN:
    case EVENT_LOAD:
    case EVENT_LOADED:
    case EVENT_CONNECTED:
    case EVENT_SUBSCRIBED:
    case EVENT_MESSAGE:
    case EVENT_PUBSUB_CONNECTED:
    case EVENT_PUBSUB_BROKEN:
    case EVENT_TURN:
    case EVENT_CLIENT:
    case EVENT_FRONT_SERVES:
    case EVENT_AGENT_KILL:
    case EVENT_AGENT_START:
    case EVENT_FAULT:
    case EVENT_OTHER_LIBRARY:
        break;
    }
    return offsetof(struct event, as);
}

static void insert(const struct event *added, int64_t at_ns, uint64_t number) {
    assert(n_events < EVENTS_MAX - 1);
    const struct place place = {at_ns, number, n_free > 0 ? free_events[--n_free] : n_touched++};
    struct event *event = &events[place.event];
    uint32_t at = n_events++;

    memcpy(event, added, bytes_of(added));
    event->at_ns = at_ns;
    event->sequence = number;
    for (; at > 0 && before(&place, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = place;
}

void events_add(const struct event *event) {
    uint64_t number = sequence++;

    if (event->at_ns != INSTANT_NEVER)
        insert(event, event->at_ns, number);
}

void events_defer(const struct event *event, int64_t until_ns) {
    insert(event, until_ns, event->sequence);
}

const struct event *events_take(void) {
    if (taken != 0)
        free_events[n_free++] = taken - 1;
    taken = 0;
    if (n_events == 0)
        return NULL;
    const uint32_t first = heap[0].event;
    const struct place last = heap[--n_events];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n_events; at = child) {
        if (child + 1 < n_events && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[at] = heap[child];
    }
    heap[at] = last;
    taken = first + 1;
    return &events[first];
}
