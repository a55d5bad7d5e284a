#include "local/outcome.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "local/recovery/ledger-writer.h"
#include "local/rejection.h"
#include "local/reply.h"
#include "local/resume-token.h"
#include "local/wait-queue.h"

/* A push about the request with this id: its kind, the id, then `items` more. */
static struct resp_writer begin_push_of(const struct session *session, uint64_t id, const char *kind,
                                        size_t items) {
    struct resp_writer writer = reply_begin_push(session, kind, 2 + items);

    resp_put_integer(&writer, (int64_t) id);
    return writer;
}

static struct resp_writer begin_push(const struct request *request, const char *kind, size_t items) {
    const struct session *session = request->session;

    return begin_push_of(session, registry_id(&session->front->registry, request), kind, items);
}

/* The map of ACQUIRE's reply. */
static void put_grant(struct resp_writer *writer, const struct request *request,
                      const struct request_outcome *outcome, instant_ns now_ns) {
    const struct session *session = request->session;
    const struct shared_string *name = request->name->key.text;
    char token[RESUME_TOKEN_BYTES_MAX];

    assert(now_ns < request->deadline_ns);
    resp_put_map(writer, request->resumable ? 7 : 6, session->protocol);
    reply_put_integer_pair(writer, "id", (int64_t) registry_id(&session->front->registry, request));
    reply_put_text(writer, "name");
    resp_put_bulk(writer, name->bytes, name->head_length);
    reply_put_integer_pair(writer, "fence", request->token);
    reply_put_integer_pair(writer, "validity", (request->deadline_ns - now_ns) / NS_PER_MS);
    reply_put_integer_pair(writer, "deadline", request->deadline_ns);
    reply_put_integer_pair(writer, "slot", request->page_slot);
    if (request->resumable) {
        reply_put_text(writer, "secret");
        size_t length = resume_token_of_grant(request, outcome, token);
        resp_put_bulk(writer, token, length);
        secret_clear(token, length);
    }
}

static void deliver_granted(const struct request *request, const struct request_outcome *outcome,
                            instant_ns now_ns) {
    struct session *session = request->session;
    struct resp_writer writer;

    if (request->async) {
        writer = begin_push(request, "granted", 1);
    } else {
        assert(session->state == SESSION_ACQUIRING && session->awaited == request);
        writer = reply_begin(session);
        session_proceed(session);
    }
    put_grant(&writer, request, outcome, now_ns);
    reply_send(session, &writer);
}

/* NULL: the name does not cool; or its keys were lost or deleted, and it has another holder. */
static const struct cooling_name *cooling_of(const struct request *request, instant_ns now_ns) {
    struct cooling_table *table = &request->session->front->cooling;

    if (request_is_resume(request) || wait_queue_holder(request->name) || !request->name->seen_own)
        return NULL;
    return cooling_find(table, request->name->key.hash, now_ns);
}

/* The holder of a name is shown to users with the right `leader`, and to the holder's own user. */
static bool may_see_holder(const struct request *request, const struct cooling_name *cooling) {
    const struct shared_string *name = request->name->key.text;
    const struct request *holder = wait_queue_holder(request->name);

    return request_is_resume(request) ||
           session_may(request->session, POLICY_LEADER, name->bytes, name->head_length) ||
           (holder && holder->uid == request->uid) || (cooling && cooling->uid == request->uid);
}

/* The sentence of the error, or one without the holder. */
static void put_reason(const struct request *request, const struct request_outcome *outcome,
                       instant_ns now_ns, char text[REJECTION_TEXT_BYTES]) {
    bool names_holder = rejection_names_holder(outcome->error);
    const struct cooling_name *cooling = names_holder ? cooling_of(request, now_ns) : NULL;

    if (names_holder && !may_see_holder(request, cooling))
        rejection_text_hidden(request, now_ns, text);
    else if (cooling)
        rejection_text_cooling(request, cooling->until_ns, now_ns, text);
    else
        (void) snprintf(text, REJECTION_TEXT_BYTES, "%.*s", (int) outcome->text_length, outcome->text);
}

static void push_failed(struct session *session, uint64_t id, const char *error, const char *text) {
    struct resp_writer writer = begin_push_of(session, id, "failed", 1);

    reply_count_rejection(session->front, error);
    reply_put_text(&writer, text);
    reply_send(session, &writer);
}

/* The nodes work as much for a RESUME that fails as for one that succeeds, and no quota bounds these. */
static void note_in_vain(const struct request *request, instant_ns now_ns) {
    if (request_is_resume(request))
        session_note_work(request->session, WORK_SHARE_IN_VAIN, now_ns);
}

void outcome_note_withdrawn(const struct request *request, instant_ns now_ns) {
    if (request->state == REQUEST_CONTENDING)
        note_in_vain(request, now_ns);
}

static void deliver_failed(const struct request *request, const struct request_outcome *outcome,
                           instant_ns now_ns) {
    struct session *session = request->session;
    char reason[REJECTION_TEXT_BYTES], text[REJECTION_TEXT_BYTES + 32];

    note_in_vain(request, now_ns);
    put_reason(request, outcome, now_ns, reason);
    if (!request->async) {
        assert(session->state == SESSION_ACQUIRING && session->awaited == request);
        session_proceed(session);
        reply_error(session, outcome->error, "%s", reason);
        return;
    }
    (void) snprintf(text, sizeof(text), "%s %s", outcome->error, reason);
    push_failed(session, registry_id(&session->front->registry, request), outcome->error, text);
}

/* Only RELEASE is answered; a withdrawal is not. */
static void deliver_released(const struct request *request) {
    struct session *session = request->session;

    if (session->state != SESSION_RELEASING || session->awaited != request)
        return;
    session_proceed(session);
    reply_integer(session, 1);
}

static void push_lost(struct session *session, uint64_t id, enum reason reason, const char *text) {
    if (!session_takes_pushes(session))
        return;
    struct resp_writer writer = begin_push_of(session, id, "lost", 2);
    reply_put_text(&writer, reply_reason_word(reason));
    reply_put_text(&writer, text);
    reply_send(session, &writer);
}

void outcome_push_lost(const struct request *request, enum reason reason, const char *text) {
    push_lost(request->session, registry_id(&request->session->front->registry, request), reason, text);
}

void outcome_push_left_out(struct session *session, uint64_t id, bool held) {
    if (held) {
        session->front->registry.losses[REASON_NO_QUORUM]++;
        push_lost(session, id, REASON_NO_QUORUM, "the restarted agent does not continue the lease");
    } else {
        push_failed(session, id, "NOQUORUM", "NOQUORUM the restarted agent does not continue the request");
    }
}

static int64_t validity_ms(const struct request *request, instant_ns now_ns) {
    return instant_max(request->deadline_ns - now_ns, 0) / NS_PER_MS;
}

static void push_at_risk(const struct request *request, enum reason reason, instant_ns now_ns) {
    if (!session_takes_pushes(request->session))
        return;
    struct resp_writer writer = begin_push(request, "at-risk", 2);
    resp_put_integer(&writer, validity_ms(request, now_ns));
    reply_put_text(&writer, reply_reason_word(reason));
    reply_send(request->session, &writer);
}

static void push_extended(const struct request *request, instant_ns now_ns) {
    if (!session_takes_pushes(request->session))
        return;
    struct resp_writer writer = begin_push(request, "extended", 2);
    resp_put_integer(&writer, validity_ms(request, now_ns));
    resp_put_integer(&writer, request->deadline_ns);
    reply_send(request->session, &writer);
}

void outcome_deliver(struct request *request, const struct request_outcome *outcome, instant_ns now_ns) {
    struct session *session = request->session;

    switch (outcome->kind) {
    case OUTCOME_GRANTED:
        ledger_writer_granted(session, request, outcome->text);
        deliver_granted(request, outcome, now_ns);
        request->tenure.grant_end = session->written;
        break;
    case OUTCOME_FAILED:
        ledger_writer_ended(session, request);
        deliver_failed(request, outcome, now_ns);
        break;
    case OUTCOME_RELEASED:
        ledger_writer_released(session, request);
        deliver_released(request);
        break;
    case OUTCOME_LOST:
        ledger_writer_lost(session, request);
        outcome_push_lost(request, outcome->reason,
                          outcome->text ? outcome->text : reply_reason_text(outcome->reason));
        break;
    case OUTCOME_AT_RISK:
        ledger_writer_risk(session, request);
        push_at_risk(request, outcome->reason, now_ns);
        break;
    case OUTCOME_EXTENDED:
        ledger_writer_risk(session, request);
        push_extended(request, now_ns);
        break;
    }
}
