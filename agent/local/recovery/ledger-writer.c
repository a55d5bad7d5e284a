#include "local/recovery/ledger-writer.h"

#include <assert.h>
#include <string.h>

#include "base/generation.h"
#include "core/lock-value.h"
#include "local/observe.h"
#include "local/recovery/restore.h"
#include "local/session.h"

static uint32_t slot_of(const struct session *session) {
    return (uint32_t) (session->id & LEDGER_SLOT_MASK);
}

/* --- keeping --- */

static struct ledger_entry entry_of(const struct session *session, const struct request *request,
                                    enum ledger_kind kind) {
    return (struct ledger_entry){
        .kind = (uint8_t) kind,
        .risk = request->risk,
        .resumable = request->resumable,
        .resume = request->resume && !request->restored,
        .try_once = request->try_once,
        .terms = request->terms,
        .page_slot = request->page_slot,
        .pid = request->pid,
        .uid = request->uid,
        .request = registry_id(&session->front->registry, request),
        .token = request->token,
        .handoffs = request->tenure.handoffs,
        .asked_ns = request->asked_ns,
        .wait_until_ns = request->wait_until_ns,
        .hold_until_ns = request->hold_until_ns,
        .deadline_ns = request->deadline_ns,
    };
}

void ledger_writer_waiting(const struct session *session, struct request *request,
                           const struct registry_ask *ask) {
    if (!session->front->ledger)
        return;
    struct ledger_entry entry = entry_of(session, request, LEDGER_WAITING);
    if (ask->resume)
        memcpy(entry.secret, ask->resume, SECRET_BYTES);
    if (request->secrets)
        memcpy(entry.standing, request->secrets->standing, SECRET_BYTES);
    request->entry = ledger_add(session->front->ledger, slot_of(session), &entry, ask->name,
                                ask->name_length, ask->tail, ask->tail_length);
}

void ledger_writer_granted(const struct session *session, struct request *request, const char *secret) {
    struct ledger *ledger = session->front->ledger;
    const void *standing = request->secrets ? (const void *) request->secrets->standing : secret;

    if (!ledger)
        return;
    if (request->entry == 0) {
        const struct shared_string *name = request->name->text, *tail = request->tail;
        struct ledger_entry entry = entry_of(session, request, LEDGER_HELD);
        memcpy(entry.secret, secret, SECRET_BYTES);
        memcpy(entry.standing, standing, SECRET_BYTES);
        request->entry = ledger_add(ledger, slot_of(session), &entry, name->bytes, name->head_length,
                                    tail->bytes, tail->head_length);
        if (request->entry == 0)
            return;
    } else {
        struct ledger_entry *entry = ledger_at(ledger, request->entry);
        memcpy(entry->secret, secret, SECRET_BYTES);
        memcpy(entry->standing, standing, SECRET_BYTES);
        entry->handoffs = request->tenure.handoffs;
        entry->page_slot = request->page_slot;
        entry->token = request->token;
        entry->hold_until_ns = request->hold_until_ns;
        entry->deadline_ns = request->deadline_ns;
        ledger_granted(ledger, slot_of(session), request->entry);
    }
    request->kept_ns = &ledger_at(ledger, request->entry)->deadline_ns;
}

void ledger_writer_risk(const struct session *session, const struct request *request) {
    if (session->front->ledger && request->entry != 0)
        ledger_at(session->front->ledger, request->entry)->risk = request->risk;
}

void ledger_writer_ended(const struct session *session, struct request *request) {
    if (!session->front->ledger)
        return;
    if (request->entry != 0 && request->state == REQUEST_HELD && request->number == 0)
        ledger_at(session->front->ledger, request->entry)->handed = true; /* the keys are another's */
    ledger_end(session->front->ledger, slot_of(session), request->entry);
    request->entry = 0;
    request->kept_ns = NULL;
}

void ledger_writer_lost(const struct session *session, struct request *request) {
    if (!session->front->ledger)
        return;
    struct ledger_header *header = session->front->ledger->header;
    header->lost_until_ns = instant_max(header->lost_until_ns, request->deadline_ns);
    ledger_writer_ended(session, request);
}

void ledger_writer_lingers(const struct session *session, const struct request *request, instant_ns now_ns) {
    if (!session->front->ledger || request->terms.linger_ms == 0)
        return;
    struct ledger_header *header = session->front->ledger->header;
    header->lost_until_ns = instant_max(header->lost_until_ns,
                                        instant_add(now_ns, (int64_t) request->terms.linger_ms * NS_PER_MS));
}

void ledger_writer_resuming(const struct session *session, const struct registry_ask *ask,
                            instant_ns now_ns) {
    if (!session->front->ledger)
        return;
    struct ledger_header *header = session->front->ledger->header;
    instant_ns until_ns = instant_add(now_ns, (int64_t) ask->terms.ttl_ms * NS_PER_MS);
    header->lost_until_ns = instant_max(header->lost_until_ns, until_ns);
}

uint32_t ledger_writer_observed(const struct session *session, const char *name, size_t length) {
    static const struct ledger_entry entry = {.kind = LEDGER_OBSERVED};

    return session->front->ledger
               ? ledger_add(session->front->ledger, slot_of(session), &entry, name, length, NULL, 0)
               : 0;
}

void ledger_writer_not_observed(const struct session *session, uint32_t entry) {
    if (session->front->ledger)
        ledger_end(session->front->ledger, slot_of(session), entry);
}

/* --- restoring --- */

/* One entry, as the registry takes it. */
struct restored {
    struct session *session; /* NULL: nobody hears of it */
    struct registry_ask ask;
    struct restore_entry past;
    uint8_t secret[SECRET_BYTES], standing[SECRET_BYTES];
};

/* An ACQUIRE of its client's goes on: it waits, whether it was granted since or not. */
static bool goes_on_waiting(const struct ledger_entry_view *view, const struct session *session) {
    return view->entry.kind == LEDGER_WAITING && session;
}

/* Longer ttls than ours were allowed: such a lease is not extended. */
static bool is_too_long(const struct front_state *front, const struct ledger_entry *entry) {
    return entry->terms.ttl_ms > front->policy.max_ttl_ms;
}

static struct registry_ask ask_of(const struct front_state *front, const struct ledger_entry_view *view) {
    const struct ledger_entry *entry = &view->entry;
    bool held = entry->granted != 0 && !view->untold;
    struct lease_terms terms = entry->terms;

    if (is_too_long(front, entry) && !held)
        terms.ttl_ms = front->policy.max_ttl_ms;
    return (struct registry_ask){
        .name = view->name,
        .name_length = view->name_length,
        .tail = view->tail,
        .tail_length = view->tail_length,
        .wait_ms = entry->try_once && !held ? 0 : -1,
        .terms = terms,
        .async = true,
        .resumable = entry->resumable,
        .hold_until_ns = entry->hold_until_ns,
        .token = entry->token,
        .pid = entry->pid,
        .uid = entry->uid,
    };
}

/* False when nothing is to be brought back. */
static bool restored_of(const struct front_state *front, const struct ledger_writer_past *past,
                        const struct ledger_entry_view *view, instant_ns now_ns, struct restored *ret) {
    const struct ledger_entry *entry = &view->entry;
    struct session *session = past->session(past->userdata, entry->session);
    bool granted = entry->granted != 0, waiting = goes_on_waiting(view, session);
    /* Nobody was told, or who was told is dead: so nobody believes in it. But who resumes does. */
    bool untold = view->untold && !waiting && past->whole(past->userdata, entry->session);
    bool too_long = is_too_long(front, entry);
    bool orphaned = !session && !untold && past->dead(past->userdata, entry->pid);
    bool lingers = orphaned && entry->terms.linger_ms > 0 && !too_long;
    bool unwanted = untold || (orphaned && entry->terms.linger_ms == 0);
    bool forsaken = !waiting && !unwanted && !lingers && (!session || too_long);
    /* Who tries once is granted it anew, or hears at once that there is no quorum. */
    bool resumes = waiting ? entry->resume || (granted && !too_long && !entry->try_once) : granted;

    if ((!granted && !waiting) || (entry->handed && !session) ||
        (forsaken && now_ns >= entry->deadline_ns) || (untold && (entry->resume || too_long)))
        return false;
    *ret = (struct restored){
        .session = unwanted ? NULL : session,
        .ask = ask_of(front, view),
        .past = {.id = entry->request,
                 .asked_ns = instant_min(entry->asked_ns, now_ns),
                 .wait_until_ns = entry->wait_until_ns,
                 .deadline_ns = entry->deadline_ns,
                 .page_slot = entry->page_slot,
                 .risk = entry->risk,
                 .handoffs = entry->handoffs,
                 .held = !waiting,
                 .untold = waiting && resumes && !entry->resume,
                 .unwanted = unwanted,
                 .handed = entry->handed,
                 .lingers = lingers,
                 .forsaken = forsaken},
    };
    memcpy(ret->secret, entry->secret, sizeof(ret->secret));
    memcpy(ret->standing, entry->standing, sizeof(ret->standing));
    ret->past.standing = ret->standing;
    ret->ask.resume = resumes ? ret->secret : NULL;
    ret->ask.page = ret->session ? ret->session->page : NULL;
    return true;
}

/* Nothing that can't be: whatever wrote it. */
static bool is_sound(const struct ledger_entry_view *view, instant_ns now_ns) {
    const struct ledger_entry *entry = &view->entry;
    struct lock_value_tail tail;
    uint64_t generation = entry->request >> REQUEST_INDEX_BITS;
    instant_ns longest_ns = now_ns + (int64_t) entry->terms.ttl_ms * NS_PER_MS;

    return generation > 0 && generation <= UINT32_MAX && entry->risk <= REASON_COUNT &&
           entry->terms.ttl_ms >= TTL_MS_MIN && entry->terms.ttl_ms <= TTL_MS_MAX &&
           entry->terms.node_timeout_ms > 0 && entry->terms.node_timeout_ms <= TTL_MS_MAX &&
           entry->terms.heartbeat_ms <= INT32_MAX && entry->terms.max_hold_ms <= INT32_MAX &&
           entry->terms.fencing <= 1 && entry->token >= 0 && entry->token < INT64_C(1) << 53 &&
           entry->asked_ns >= 0 && entry->wait_until_ns >= 0 && entry->hold_until_ns >= 0 &&
           entry->deadline_ns >= 0 && entry->deadline_ns <= longest_ns &&
           lock_value_read_tail(view->tail, view->tail_length, &tail);
}

/* What its client knows of it stands in the new ledger too. */
static void note(struct front_state *front, const struct restored *restored, struct request *request) {
    ledger_writer_waiting(restored->session, request, &restored->ask);
    if (restored->past.held && request->entry != 0) {
        struct ledger_entry *entry = ledger_at(front->ledger, request->entry);
        ledger_granted(front->ledger, slot_of(restored->session), request->entry);
        entry->handed = restored->past.handed;
        request->kept_ns = &entry->deadline_ns;
    }
}

/* A client may believe in it, and it does not come back. */
static void leave_out(struct ledger_writer_result *result, const struct ledger_entry *entry,
                      instant_ns now_ns) {
    instant_ns longest_ns = now_ns + (int64_t) TTL_MS_MAX * NS_PER_MS;

    if (entry->granted != 0)
        result->believed_until_ns =
            instant_max(result->believed_until_ns, instant_min(entry->deadline_ns, longest_ns));
}

/* The entry of the request with this place; false when there is none that goes on. */
static bool look_up(const struct front_state *front, const struct ledger_writer_past *past, uint32_t place,
                    instant_ns now_ns, struct restored *ret) {
    struct ledger_entry_view view;

    return past->order[place] != 0 && ledger_read_entry(&past->reader, past->order[place] - 1, &view) &&
           restored_of(front, past, &view, now_ns, ret);
}

/* Of a request that is over, but its client was not told, and of its successor in the same place, the latter
 * goes on. */
static void take_place(const struct ledger_writer_past *past, uint32_t place, uint32_t index,
                       const struct ledger_entry *entry, instant_ns now_ns,
                       struct ledger_writer_result *result) {
    struct ledger_entry_view other;

    if (past->order[place] != 0 && ledger_read_entry(&past->reader, past->order[place] - 1, &other)) {
        bool newer = entry->request > other.entry.request;
        leave_out(result, newer ? &other.entry : entry, now_ns);
        if (!newer)
            return;
    }
    past->order[place] = index + 1;
}

static void sort_out(struct front_state *front, const struct ledger_writer_past *past, instant_ns now_ns,
                     struct ledger_writer_result *result) {
    struct ledger_entry_view view;

    for (uint32_t i = 0; i < past->reader.header->entries; i++) {
        if (!ledger_read_entry(&past->reader, i, &view))
            continue;
        if (view.entry.kind == LEDGER_OBSERVED) {
            struct session *session = past->session(past->userdata, view.entry.session);
            if (session)
                observe_restore(session, view.name, view.name_length, now_ns);
            continue;
        }
        uint64_t place = view.entry.request & (REQUESTS_MAX - 1);
        if (place < front->registry.requests_max && is_sound(&view, now_ns))
            take_place(past, (uint32_t) place, i, &view.entry, now_ns, result);
        else
            leave_out(result, &view.entry, now_ns);
    }
}

static void restore(struct front_state *front, const struct ledger_writer_past *past, instant_ns now_ns,
                    struct ledger_writer_result *result) {
    struct registry *registry = &front->registry;
    struct ledger_entry_view view;
    struct restored restored;

    for (uint32_t place = 0; place < registry->requests_max; place++) {
        struct request *request = NULL;
        if (look_up(front, past, place, now_ns, &restored))
            request = restore_request(registry, restored.session, &restored.ask, &restored.past);
        if (request && restored.session)
            note(front, &restored, request);
        else if (!request && past->order[place] != 0 &&
                 ledger_read_entry(&past->reader, past->order[place] - 1, &view))
            leave_out(result, &view.entry, now_ns);
    }
}

struct ledger_writer_result ledger_writer_restore(struct front_state *front,
                                                  const struct ledger_writer_past *past, instant_ns now_ns) {
    struct registry *registry = &front->registry;
    struct ledger_writer_result result = {0};
    struct restored restored;

    sort_out(front, past, now_ns, &result);
    registry->generation = generation_latest(registry->generation, past->reader.header->generation);
    if (front->ledger)
        ledger_succeed(front->ledger, &past->reader);
    restore(front, past, now_ns, &result);
    for (uint32_t place = 0; place < registry->requests_max; place++) {
        struct request *request;
        if (!look_up(front, past, place, now_ns, &restored) ||
            !(request = registry_find(registry, restored.past.id)))
            continue;
        if (restore_queue(registry, request, &restored.ask, &restored.past, now_ns))
            result.held += restored.past.held && restored.session;
        else if (restored.past.held)
            result.believed_until_ns = instant_max(result.believed_until_ns, restored.past.deadline_ns);
    }
    restore_contend(registry);
    return result;
}
