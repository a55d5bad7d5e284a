#include "local/recovery/ledger-writer.h"

#include <string.h>

#include "local/session.h"

static uint32_t slot_of(const struct session *session) {
    return (uint32_t) (session->id & LEDGER_SLOT_MASK);
}

static struct ledger_entry entry_of(const struct session *session, const struct request *request,
                                    enum ledger_kind kind) {
    return (struct ledger_entry){
        .kind = (uint8_t) kind,
        .risk = request->risk,
        .resumable = request->resumable,
        .resume = request_is_resume(request),
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
        .cooldown_until_ns = request->cooldown_until_ns,
        .deadline_ns = request->deadline_ns,
    };
}

void ledger_writer_accepted(const struct session *session, instant_ns asked_ns) {
    struct ledger *ledger = session->front->registry.ledger;

    if (ledger)
        ledger_accepted(ledger, slot_of(session), session->request_at, asked_ns);
}

void ledger_writer_waiting(const struct session *session, struct request *request,
                           const struct registry_ask *ask) {
    struct ledger *ledger = session->front->registry.ledger;

    if (!ledger)
        return;
    struct ledger_entry entry = entry_of(session, request, LEDGER_WAITING);
    if (ask->resume)
        memcpy(entry.secret, ask->resume, SECRET_BYTES);
    if (request_is_resume(request))
        ledger_note_resume(ledger);
    if (request->secrets)
        memcpy(entry.acquired, request->secrets->acquired, SECRET_BYTES);
    request->entry = ledger_add(ledger, slot_of(session), &entry, ask->name, ask->name_length, ask->tail,
                                ask->tail_length);
}

void ledger_writer_restored(const struct session *session, struct request *request,
                            const struct registry_ask *ask) {
    struct ledger *ledger = session->front->registry.ledger;

    ledger_writer_waiting(session, request, ask);
    if (request->entry == 0 || !restore_state_is_held(request->restore))
        return;
    struct ledger_entry *entry = ledger_at(ledger, request->entry);
    ledger_granted(ledger, slot_of(session), request->entry);
    entry->ending = request->restore == RESTORE_VANISHED ? LEDGER_HANDED_OFF : 0;
    entry->read = request->read_until_ns == INSTANT_NEVER;
    entry->moved = request->restore == RESTORE_MOVED;
}

static void add_granted(struct ledger *ledger, const struct session *session, struct request *request,
                        const char *secret, const void *acquired) {
    const struct shared_string *name = request->name->key.text, *tail = request->tail;
    struct ledger_entry entry = entry_of(session, request, LEDGER_HELD);

    memcpy(entry.secret, secret, SECRET_BYTES);
    memcpy(entry.acquired, acquired, SECRET_BYTES);
    request->entry = ledger_add(ledger, slot_of(session), &entry, name->bytes, name->head_length,
                                tail->bytes, tail->head_length);
}

static void change_to_granted(struct ledger *ledger, const struct session *session,
                              const struct request *request, const char *secret, const void *acquired) {
    struct ledger_entry *entry = ledger_at(ledger, request->entry);

    memcpy(entry->secret, secret, SECRET_BYTES);
    memcpy(entry->acquired, acquired, SECRET_BYTES);
    entry->handoffs = request->tenure.handoffs;
    entry->page_slot = request->page_slot;
    entry->token = request->token;
    entry->hold_until_ns = request->hold_until_ns;
    entry->cooldown_until_ns = request->cooldown_until_ns;
    entry->deadline_ns = request->deadline_ns;
    ledger_granted(ledger, slot_of(session), request->entry);
}

void ledger_writer_granted(const struct session *session, struct request *request, const char *secret) {
    struct ledger *ledger = session->front->registry.ledger;
    const void *acquired = request->secrets ? (const void *) request->secrets->acquired : secret;

    if (!ledger)
        return;
    if (request->entry == 0)
        add_granted(ledger, session, request, secret, acquired);
    else
        change_to_granted(ledger, session, request, secret, acquired);
}

void ledger_writer_risk(const struct session *session, const struct request *request) {
    struct ledger *ledger = session->front->registry.ledger;

    if (ledger && request->entry != 0)
        ledger_set_risk(ledger, slot_of(session), request->entry, request->risk);
}

void ledger_writer_ended(const struct session *session, struct request *request) {
    struct ledger *ledger = session->front->registry.ledger;

    if (!ledger)
        return;
    ledger_forget_accepted(ledger, slot_of(session), request->asked_ns);
    ledger_note_lost_until(ledger, request->cooldown_until_ns);
    ledger_end(ledger, slot_of(session), request->entry);
    request->entry = 0;
}

void ledger_writer_released(const struct session *session, struct request *request) {
    struct ledger *ledger = session->front->registry.ledger;
    bool handed_off = request->state == REQUEST_HELD && request->handle_slot == 0;

    if (ledger && request->entry != 0)
        ledger_at(ledger, request->entry)->ending |= LEDGER_RELEASED | (handed_off ? LEDGER_HANDED_OFF : 0);
    ledger_writer_ended(session, request);
}

void ledger_writer_lost(const struct session *session, struct request *request) {
    if (!session->front->registry.ledger)
        return;
    ledger_note_lost_until(session->front->registry.ledger, request->deadline_ns);
    ledger_writer_ended(session, request);
}

void ledger_writer_lingers(const struct session *session, const struct request *request, instant_ns now_ns) {
    struct ledger *ledger = session->front->registry.ledger;

    if (!ledger)
        return;
    ledger_note_lost_until(ledger, request->cooldown_until_ns);
    if (request->terms.linger_ms > 0)
        ledger_note_lost_until(ledger, instant_add(now_ns, (int64_t) request->terms.linger_ms * NS_PER_MS));
}

void ledger_writer_resuming(const struct session *session, const struct registry_ask *ask,
                            instant_ns now_ns) {
    struct ledger *ledger = session->front->registry.ledger;

    if (!ledger)
        return;
    ledger_note_resume(ledger);
    ledger_note_lost_until(ledger, instant_add(now_ns, (int64_t) ask->terms.ttl_ms * NS_PER_MS));
    ledger_note_lost_until(ledger, ask->cooldown_until_ns);
}

uint32_t ledger_writer_observed(const struct session *session, const char *name, size_t length) {
    static const struct ledger_entry entry = {.kind = LEDGER_OBSERVED};
    struct ledger *ledger = session->front->registry.ledger;

    return ledger ? ledger_add(ledger, slot_of(session), &entry, name, length, NULL, 0) : 0;
}

void ledger_writer_not_observed(const struct session *session, uint32_t entry) {
    if (session->front->registry.ledger)
        ledger_end(session->front->registry.ledger, slot_of(session), entry);
}
