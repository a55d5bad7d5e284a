#include "local/keep.h"

#include <assert.h>
#include <string.h>

#include "local/command.h"
#include "local/observe.h"
#include "local/session.h"

static uint32_t slot_of(const struct session *session) {
    return (uint32_t) (session->id & LEDGER_SLOT_MASK);
}

/* --- keeping --- */

static struct ledger_entry entry_of(const struct service *service, const struct request *request,
                                    enum ledger_kind kind) {
    return (struct ledger_entry){
        .kind = (uint8_t) kind,
        .fencing = request->fencing,
        .resumable = request->resumable,
        .resume = request->resume && !request->restored,
        .ttl_ms = request->ttl_ms,
        .node_timeout_ms = request->node_timeout_ms,
        .heartbeat_ms = request->heartbeat_ms,
        .linger_ms = request->linger_ms,
        .page_slot = request->page_slot,
        .pid = request->pid,
        .uid = request->uid,
        .request = registry_id(&service->registry, request),
        .max_hold_ms = request->max_hold_ms,
        .token = request->token,
        .asked_ns = request->asked_ns,
        .wait_until_ns = request->wait_until_ns,
        .hold_until_ns = request->hold_until_ns,
        .deadline_ns = request->deadline_ns,
    };
}

void keep_waiting(struct service *service, const struct session *session, struct request *request,
                  const struct registry_ask *ask) {
    if (!service->ledger)
        return;
    struct ledger_entry entry = entry_of(service, request, LEDGER_WAITING);
    if (ask->resume)
        memcpy(entry.secret, ask->resume, SECRET_BYTES);
    request->entry = ledger_add(service->ledger, slot_of(session), &entry, ask->name, ask->name_length,
                                ask->tail, ask->tail_length);
}

void keep_granted(struct service *service, const struct session *session, struct request *request,
                  const char *secret) {
    struct ledger *ledger = service->ledger;

    if (!ledger)
        return;
    if (request->entry == 0) {
        const struct text *name = request->name->text, *tail = request->tail;
        struct ledger_entry entry = entry_of(service, request, LEDGER_HELD);
        memcpy(entry.secret, secret, SECRET_BYTES);
        request->entry = ledger_add(ledger, slot_of(session), &entry, name->bytes, name->head_length,
                                    tail->bytes, tail->head_length);
        if (request->entry == 0)
            return;
    } else {
        struct ledger_entry *entry = ledger_at(ledger, request->entry);
        memcpy(entry->secret, secret, SECRET_BYTES);
        entry->page_slot = request->page_slot;
        entry->token = request->token;
        entry->hold_until_ns = request->hold_until_ns;
        entry->deadline_ns = request->deadline_ns;
        ledger_granted(ledger, slot_of(session), request->entry);
    }
    request->kept_ns = &ledger_at(ledger, request->entry)->deadline_ns;
}

void keep_ended(struct service *service, const struct session *session, struct request *request) {
    if (!service->ledger)
        return;
    ledger_end(service->ledger, slot_of(session), request->entry);
    request->entry = 0;
    request->kept_ns = NULL;
}

void keep_lost(struct service *service, const struct session *session, struct request *request) {
    if (!service->ledger)
        return;
    struct ledger_header *header = service->ledger->header;
    header->lost_until_ns = instant_max(header->lost_until_ns, request->deadline_ns);
    keep_ended(service, session, request);
}

void keep_lingers(struct service *service, const struct request *request, instant_ns now_ns) {
    if (!service->ledger || request->linger_ms == 0)
        return;
    struct ledger_header *header = service->ledger->header;
    header->lost_until_ns =
        instant_max(header->lost_until_ns, instant_add(now_ns, (int64_t) request->linger_ms * NS_PER_MS));
}

uint32_t keep_observed(struct service *service, const struct session *session, const char *name,
                       size_t length) {
    static const struct ledger_entry entry = {.kind = LEDGER_OBSERVED};

    return service->ledger ? ledger_add(service->ledger, slot_of(session), &entry, name, length, NULL, 0)
                           : 0;
}

void keep_not_observed(struct service *service, const struct session *session, uint32_t entry) {
    if (service->ledger)
        ledger_end(service->ledger, slot_of(session), entry);
}

/* --- restoring --- */

/* One entry, as the registry takes it. */
struct restored {
    struct session *session; /* NULL: nobody hears of it */
    struct registry_ask ask;
    struct registry_past past;
    uint8_t secret[SECRET_BYTES];
};

/* False when nothing is to be brought back. */
static bool restored_of(const struct keep_past *past, const struct ledger_entry_view *view,
                        instant_ns now_ns, struct restored *ret) {
    const struct ledger_entry *entry = &view->entry;
    struct session *session = past->session(past->userdata, entry->session);
    bool granted = entry->granted != 0, waiting = entry->kind == LEDGER_WAITING && session;
    /* Nobody was told, or who was told is dead: so nobody believes in it. */
    bool untold = view->untold && !waiting && past->whole(past->userdata, entry->session);
    bool orphaned = !session && !untold && past->dead(past->userdata, entry->pid);
    bool lingers = orphaned && entry->linger_ms > 0, unwanted = untold || (orphaned && !lingers);
    bool forsaken = !session && !unwanted && !lingers;

    if ((!granted && !waiting) || (forsaken && now_ns >= entry->deadline_ns))
        return false;
    *ret = (struct restored){
        .session = unwanted ? NULL : session,
        .ask = {.name = view->name,
                .name_length = view->name_length,
                .tail = view->tail,
                .tail_length = view->tail_length,
                .wait_ms = -1,
                .ttl_ms = entry->ttl_ms,
                .node_timeout_ms = entry->node_timeout_ms,
                .heartbeat_ms = entry->heartbeat_ms,
                .linger_ms = entry->linger_ms,
                .max_hold_ms = entry->max_hold_ms,
                .fencing = entry->fencing,
                .async = true,
                .resumable = entry->resumable,
                .resume = granted || entry->resume ? entry->secret : NULL,
                .hold_until_ns = entry->hold_until_ns,
                .token = entry->token,
                .pid = entry->pid,
                .uid = entry->uid,
                .page = session && !unwanted ? session->page : NULL},
        .past = {.id = entry->request,
                 .asked_ns = entry->asked_ns,
                 .wait_until_ns = entry->wait_until_ns,
                 .deadline_ns = entry->deadline_ns,
                 .page_slot = entry->page_slot,
                 .held = !waiting,
                 .untold = waiting && granted,
                 .unwanted = unwanted,
                 .lingers = lingers,
                 .forsaken = forsaken},
    };
    memcpy(ret->secret, entry->secret, sizeof(ret->secret));
    if (ret->ask.resume)
        ret->ask.resume = ret->secret;
    return true;
}

static bool is_sound(const struct service *service, const struct ledger_entry_view *view) {
    const struct ledger_entry *entry = &view->entry;

    return entry->ttl_ms >= TTL_MS_MIN && entry->ttl_ms <= service->policy.max_ttl_ms &&
           entry->node_timeout_ms > 0 && entry->max_hold_ms >= 0 && entry->token >= 0 &&
           view->tail_length <= TAIL_BYTES_MAX;
}

/* What its client knows of it stands in the new ledger too. */
static void note(struct service *service, const struct restored *restored, struct request *request) {
    keep_waiting(service, restored->session, request, &restored->ask);
    if (restored->past.held && request->entry != 0) {
        ledger_granted(service->ledger, slot_of(restored->session), request->entry);
        request->kept_ns = &ledger_at(service->ledger, request->entry)->deadline_ns;
    }
}

/* The entry of the request with this place; false when there is none that goes on. */
static bool look_up(struct service *service, const struct keep_past *past, uint32_t place, instant_ns now_ns,
                    struct restored *ret) {
    struct ledger_entry_view view;

    return past->order[place] != 0 && ledger_read_entry(&past->reader, past->order[place] - 1, &view) &&
           is_sound(service, &view) && restored_of(past, &view, now_ns, ret);
}

static void sort_out(struct service *service, const struct keep_past *past, instant_ns now_ns) {
    struct ledger_entry_view view;

    for (uint32_t i = 0; i < past->reader.header->entries; i++) {
        if (!ledger_read_entry(&past->reader, i, &view))
            continue;
        if (view.entry.kind == LEDGER_OBSERVED) {
            struct session *session = past->session(past->userdata, view.entry.session);
            if (session)
                observe_restore(service, session, view.name, view.name_length, now_ns);
            continue;
        }
        uint64_t place = view.entry.request & (REQUESTS_MAX - 1);
        if (place < service->registry.requests_max)
            past->order[place] = i + 1;
    }
}

unsigned keep_restore(struct service *service, const struct keep_past *past, instant_ns now_ns) {
    struct registry *registry = &service->registry;
    struct restored restored;
    unsigned held = 0;

    sort_out(service, past, now_ns);
    registry->generation = past->reader.header->generation;
    for (uint32_t place = 0; place < registry->requests_max; place++) {
        if (!look_up(service, past, place, now_ns, &restored))
            continue;
        struct list *requests = restored.session ? &restored.session->requests : NULL;
        struct request *request =
            registry_restore(registry, restored.session, requests, &restored.ask, &restored.past);
        if (request && restored.session)
            note(service, &restored, request);
    }
    for (uint32_t place = 0; place < registry->requests_max; place++) {
        struct request *request;
        if (!look_up(service, past, place, now_ns, &restored) ||
            !(request = registry_find(registry, restored.past.id)))
            continue;
        if (registry_restart(registry, request, &restored.ask, &restored.past, now_ns))
            held += restored.past.held && restored.session;
    }
    registry_restarted(registry);
    return held;
}
