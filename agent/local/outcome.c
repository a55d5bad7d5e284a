#include "local/outcome.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "local/recovery/ledger-writer.h"
#include "local/reply.h"
#include "local/resume-token.h"

/* A push about this request: its kind, the request's id, then `items` more. */
static struct resp_writer begin_push(const struct request *request, const char *kind, size_t items) {
    const struct session *session = request->session;
    struct resp_writer writer = reply_begin_push(session, kind, 2 + items);

    resp_put_integer(&writer, (int64_t) registry_id(&session->front->registry, request));
    return writer;
}

/* The map of ACQUIRE's reply. */
static void put_grant(struct resp_writer *writer, const struct request *request,
                      const struct request_outcome *outcome, instant_ns now_ns) {
    const struct session *session = request->session;
    const struct shared_string *name = request->name->text;
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
        resp_put_bulk(writer, token, resume_token_of_grant(request, outcome, token));
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

static void deliver_failed(const struct request *request, const struct request_outcome *outcome) {
    struct session *session = request->session;
    char text[1600];

    if (!request->async) {
        assert(session->state == SESSION_ACQUIRING && session->awaited == request);
        session_proceed(session);
        reply_error(session, outcome->error, "%.*s", (int) outcome->text_length, outcome->text);
        return;
    }
    struct resp_writer writer = begin_push(request, "failed", 1);
    (void) snprintf(text, sizeof(text), "%s %.*s", outcome->error, (int) outcome->text_length,
                    outcome->text);
    reply_put_text(&writer, text);
    reply_send(session, &writer);
}

/* Only RELEASE is answered; a withdrawal is not. */
static void deliver_released(const struct request *request) {
    struct session *session = request->session;

    if (session->state != SESSION_RELEASING || session->awaited != request)
        return;
    session_proceed(session);
    reply_integer(session, 1);
}

void outcome_push_lost(const struct request *request, enum reason reason, const char *text) {
    if (!session_takes_pushes(request->session))
        return;
    struct resp_writer writer = begin_push(request, "lost", 2);
    reply_put_text(&writer, reply_reason_word(reason));
    reply_put_text(&writer, text);
    reply_send(request->session, &writer);
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
        deliver_failed(request, outcome);
        break;
    case OUTCOME_RELEASED:
        ledger_writer_ended(session, request);
        deliver_released(request);
        break;
    case OUTCOME_LOST:
        ledger_writer_lost(session, request);
        outcome_push_lost(request, outcome->reason, reply_reason_text(outcome->reason));
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
