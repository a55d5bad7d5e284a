#include "local/history-note.h"

#include <stdio.h>
#include <string.h>

#include "local/registry.h"

static uint32_t left_ms(const struct request *request, enum history_kind kind, instant_ns now_ns) {
    bool holds = request->state == REQUEST_HELD && kind != HISTORY_LOST && kind != HISTORY_RELEASED;
    instant_ns until_ns = kind == HISTORY_COOLING ? request->cooldown_until_ns : request->deadline_ns;

    return holds && until_ns > now_ns ? (uint32_t) ((until_ns - now_ns) / NS_PER_MS) : 0;
}

static struct history_event event_of(const struct registry *registry, const struct request *request,
                                     enum history_kind kind, instant_ns now_ns) {
    return (struct history_event){.name_hash = request->name->key.hash,
                                  .at_ns = now_ns,
                                  .asked_ns = request->asked_ns,
                                  .token = request->token,
                                  .id = registry_id(registry, request),
                                  .pid = request->pid,
                                  .left_ms = left_ms(request, kind, now_ns),
                                  .kind = (uint8_t) kind};
}

static void set_trace(struct history_event *event, const struct round_trace *trace) {
    event->traced = trace != NULL;
    if (trace)
        event->trace = *trace;
}

static enum history_kind kind_of(const struct request *request, enum request_outcome_kind kind) {
    switch (kind) {
    case OUTCOME_GRANTED:
        if (request->resume)
            return HISTORY_RESUMED;
        return request->tenure.handoffs > 0 ? HISTORY_HANDED_OFF : HISTORY_GRANTED;
    case OUTCOME_FAILED:
        return HISTORY_FAILED;
    case OUTCOME_AT_RISK:
        return HISTORY_AT_RISK;
    case OUTCOME_EXTENDED:
        return HISTORY_EXTENDED;
    case OUTCOME_LOST:
        return HISTORY_LOST;
    case OUTCOME_RELEASED:
        break;
    }
    return HISTORY_RELEASED;
}

static void note(struct registry *registry, const struct request *request, enum history_kind kind,
                 const struct request_outcome *outcome, instant_ns now_ns) {
    if (!registry->history || !request->name)
        return;
    struct history_event event = event_of(registry, request, kind, now_ns);
    set_trace(&event, outcome->trace);
    event.reason = (uint8_t) outcome->reason;
    if (outcome->kind == OUTCOME_FAILED) {
        (void) snprintf(event.word, sizeof(event.word), "%s", outcome->error);
        history_set_text(&event, outcome->text, outcome->text_length);
    }
    if ((outcome->kind == OUTCOME_AT_RISK || outcome->kind == OUTCOME_LOST) && outcome->text)
        history_set_text(&event, outcome->text, strlen(outcome->text)); /* that of a grant is secret */
    history_add(registry->history, &event, request->uid);
}

void history_note_outcome(struct registry *registry, const struct request *request,
                          const struct request_outcome *outcome, instant_ns now_ns) {
    if (outcome->kind != OUTCOME_RELEASED) /* the release was noted when the holder asked for it */
        note(registry, request, kind_of(request, outcome->kind), outcome, now_ns);
}

void history_note_contended(struct registry *registry, const struct request *request,
                            const struct request_outcome *failure, instant_ns now_ns) {
    note(registry, request, HISTORY_CONTENDED, failure, now_ns);
}

/* A request in the queue, and those before it. */
static struct history_ahead ahead_of(const struct request *request) {
    const struct list *queue = &request->name->queue;
    struct history_ahead ahead = {0};

    for (const struct list *at = queue->next; at != &request->queue_link && ahead.n < HISTORY_AHEAD_MAX;
         at = at->next) {
        const struct request *other = list_entry(at, const struct request, queue_link);
        if (ahead.n++ > 0)
            continue;
        ahead.pid = other->pid;
        ahead.uid = other->uid;
        ahead.holds = other->state == REQUEST_HELD;
    }
    return ahead;
}

void history_note_asked(struct registry *registry, const struct request *request, int64_t wait_ms,
                        instant_ns now_ns) {
    if (!registry->history)
        return;
    struct history_event event = event_of(registry, request, HISTORY_ASKED, now_ns);
    event.ahead = ahead_of(request);
    event.ahead.wait_ms = wait_ms;
    history_add(registry->history, &event, request->uid);
}

void history_note_event(struct registry *registry, const struct request *request, enum history_kind kind,
                        instant_ns now_ns) {
    if (!registry->history || !request->name)
        return;
    const struct history_event event = event_of(registry, request, kind, now_ns);
    history_add(registry->history, &event, request->uid);
}

void history_note_cooling(struct registry *registry, const struct request *request, instant_ns now_ns) {
    if (request->cooldown_until_ns > now_ns)
        history_note_event(registry, request, HISTORY_COOLING, now_ns);
}
