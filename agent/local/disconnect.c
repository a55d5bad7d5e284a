#include "local/disconnect.h"

#include <assert.h>

#include "local/leader.h"
#include "local/observe.h"
#include "local/outcome.h"
#include "local/recovery/ledger-writer.h"
#include "local/reply.h"

static void drop(struct request *request, unsigned *room, instant_ns now_ns) {
    struct session *session = request->session;

    outcome_note_withdrawn(request, now_ns);
    ledger_writer_lingers(session, request, now_ns);
    registry_drop_in_turn(&session->front->registry, request, room, now_ns);
}

void disconnect_end(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    unsigned room = front->registry.drops_at_once;

    if (session->id == 0)
        return;
    list_unlink(&session->listing_link);
    leader_end(session);
    session_await(session, NULL, SESSION_QUITTING);
    assert(front->sessions > 0);
    front->sessions--;
    observe_end(session);
    /* Waiting requests first: the session's own leases must not be handed off to them. */
    list_for_each_safe(node, &session->requester.requests) {
        struct request *request = list_entry(node, struct request, session_link);
        if (request->state != REQUEST_HELD)
            drop(request, &room, now_ns);
    }
    list_for_each_safe(node, &session->requester.requests)
        drop(list_entry(node, struct request, session_link), &room, now_ns);
    assert(list_is_empty(&session->requester.requests));
    quota_refund(&front->registry.quota, session->account, QUOTA_DESCRIPTORS, SESSION_DESCRIPTORS);
    quota_refund(&front->registry.quota, session->account, QUOTA_SESSIONS, 1);
    session->id = 0;
}

bool disconnect_expel(struct session *session, const char *reason, instant_ns now_ns) {
    static const struct request_outcome closed = {.kind = OUTCOME_LOST, .reason = REASON_CLOSED};
    struct registry *registry = &session->front->registry;
    unsigned room = registry->drops_at_once;
    bool remains = false;

    list_for_each_safe(node, &session->requester.requests) {
        struct request *request = list_entry(node, struct request, session_link);
        if (request->state != REQUEST_HELD) {
            outcome_note_withdrawn(request, now_ns);
            registry_drop_in_turn(registry, request, &room, now_ns);
            continue;
        }
        if (!request->unwanted) {
            request_note_lost(registry, request, &closed, now_ns);
            ledger_writer_risk(session, request);
            outcome_push_lost(request, REASON_CLOSED, reason);
        }
        registry_abandon(registry, request);
        remains = true;
    }
    observe_end(session);
    list_unlink(&session->listing_link);
    leader_end(session);
    session->state = SESSION_QUITTING;
    session->pushes = false;
    session->protocol = 2; /* no more pushes */
    return remains;
}

void disconnect_announce(struct session *session) {
    if (!session_takes_pushes(session))
        return;
    struct resp_writer writer = reply_begin_push(session, "draining", 2);
    reply_put_text(&writer, "the agent is stopping; leases are no longer extended");
    reply_send(session, &writer);
}
