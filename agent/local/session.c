#include "local/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/command.h"
#include "local/recovery/ledger-writer.h"
#include "local/observe.h"

void session_init(struct session *session, struct front_state *service, uint64_t id, pid_t pid, uid_t uid) {
    *session = (struct session){.id = id, .protocol = 2, .pid = pid, .uid = uid};
    admission_requester_init(&session->requester);
    list_init(&session->observations);
    list_init(&session->surveyor_link);
    service->sessions++;
}

static bool hears_pushes(const struct session *session) {
    return session->protocol == 3 || session->pushes;
}

struct resp_writer session_compose(struct front_state *service) {
    return (struct resp_writer){.buffer = service->reply, .size = REPLY_BYTES_MAX};
}

void session_send(struct session *session, struct front_state *service, const struct resp_writer *writer) {
    assert(writer->length <= writer->size);
    session->written += (uint32_t) writer->length;
    service->sink.write(service->sink.userdata, session, writer->buffer, writer->length);
}

void session_error(struct session *session, struct front_state *service, const char *word,
                   const char *format, ...) {
    struct resp_writer writer = session_compose(service);
    char text[1600];
    va_list arguments;

    int prefix = snprintf(text, sizeof(text), "%s ", word);
    assert(prefix > 0 && (size_t) prefix < sizeof(text));
    va_start(arguments, format);
    (void) vsnprintf(text + prefix, sizeof(text) - (size_t) prefix, format, arguments);
    va_end(arguments);
    resp_put_error(&writer, text, strlen(text));
    session_send(session, service, &writer);
}

const char *session_reason_word(enum reason reason) {
    static const char *const words[] = {
        [REASON_NO_QUORUM] = "no-quorum", [REASON_TAKEN] = "taken",       [REASON_PAUSED] = "paused",
        [REASON_HEARTBEAT] = "heartbeat", [REASON_MAX_HOLD] = "max-hold", [REASON_CLOSED] = "closed",
        [REASON_UNREAD] = "unread",
    };
    return words[reason];
}

static const char *reason_text(enum reason reason) {
    static const char *const texts[] = {
        [REASON_NO_QUORUM] = "no majority of the nodes extended it in time",
        [REASON_TAKEN] = "a majority of the nodes has another's value under its key",
        [REASON_PAUSED] = "the agent was stopped or starved past the deadline",
        [REASON_HEARTBEAT] = "no BEAT came in time",
        [REASON_MAX_HOLD] = "it was held for as long as allowed",
        [REASON_CLOSED] = "the agent closed the session",
        [REASON_UNREAD] = "the client did not read the grant in time",
    };
    return texts[reason];
}

/* --- outcomes of requests --- */

static void put_bulk_text(struct resp_writer *writer, const char *text) {
    resp_put_bulk(writer, text, strlen(text));
}

static struct resp_writer push_begin(const struct session *session, struct front_state *service,
                                     const char *what, uint64_t id, size_t items) {
    struct resp_writer writer = session_compose(service);

    resp_put_push(&writer, items, session->protocol);
    put_bulk_text(&writer, what);
    resp_put_integer(&writer, (int64_t) id);
    return writer;
}

static void tell_granted(struct session *session, struct front_state *service, const struct request *request,
                         const struct request_outcome *outcome, instant_ns now_ns) {
    struct resp_writer writer;

    if (request->async) {
        writer = push_begin(session, service, "granted", registry_id(&service->registry, request), 3);
    } else {
        assert(session->state == SESSION_ACQUIRING && session->awaited == request);
        writer = session_compose(service);
        session->state = SESSION_READY;
        session->awaited = NULL;
    }
    command_put_grant(service, session, request, outcome, &writer, now_ns);
    session_send(session, service, &writer);
}

static void tell_failed(struct session *session, struct front_state *service, const struct request *request,
                        const struct request_outcome *outcome) {
    if (!request->async) {
        assert(session->state == SESSION_ACQUIRING && session->awaited == request);
        session->state = SESSION_READY;
        session->awaited = NULL;
        session_error(session, service, outcome->error, "%.*s", (int) outcome->text_length, outcome->text);
        return;
    }
    char text[1600];
    struct resp_writer writer =
        push_begin(session, service, "failed", registry_id(&service->registry, request), 3);
    (void) snprintf(text, sizeof(text), "%s %.*s", outcome->error, (int) outcome->text_length,
                    outcome->text);
    put_bulk_text(&writer, text);
    session_send(session, service, &writer);
}

static void tell_released(struct session *session, struct front_state *service,
                          const struct request *request) {
    if (session->state != SESSION_RELEASING || session->awaited != request)
        return;
    struct resp_writer writer = session_compose(service);
    session->state = SESSION_READY;
    session->awaited = NULL;
    resp_put_integer(&writer, 1);
    session_send(session, service, &writer);
}

static void tell_lost(struct session *session, struct front_state *service, const struct request *request,
                      enum reason reason, const char *text) {
    if (!hears_pushes(session))
        return;
    struct resp_writer writer =
        push_begin(session, service, "lost", registry_id(&service->registry, request), 4);
    put_bulk_text(&writer, session_reason_word(reason));
    put_bulk_text(&writer, text);
    session_send(session, service, &writer);
}

static int64_t validity_ms(const struct request *request, instant_ns now_ns) {
    return instant_max(request->deadline_ns - now_ns, 0) / NS_PER_MS;
}

void session_outcome(void *userdata, struct request *request, const struct request_outcome *outcome,
                     instant_ns now_ns) {
    struct front_state *service = userdata;
    struct session *session = request->session;
    struct resp_writer writer;

    switch (outcome->kind) {
    case OUTCOME_GRANTED:
        ledger_writer_granted(service, session, request, outcome->text);
        tell_granted(session, service, request, outcome, now_ns);
        request->tenure.told_at = session->written;
        break;
    case OUTCOME_FAILED:
        ledger_writer_ended(service, session, request);
        tell_failed(session, service, request, outcome);
        break;
    case OUTCOME_RELEASED:
        ledger_writer_ended(service, session, request);
        tell_released(session, service, request);
        break;
    case OUTCOME_LOST:
        ledger_writer_lost(service, session, request);
        tell_lost(session, service, request, outcome->reason, reason_text(outcome->reason));
        break;
    case OUTCOME_AT_RISK:
        ledger_writer_risk(service, request);
        if (!hears_pushes(session))
            break;
        writer = push_begin(session, service, "at-risk", registry_id(&service->registry, request), 4);
        resp_put_integer(&writer, validity_ms(request, now_ns));
        put_bulk_text(&writer, session_reason_word(outcome->reason));
        session_send(session, service, &writer);
        break;
    case OUTCOME_EXTENDED:
        ledger_writer_risk(service, request);
        if (!hears_pushes(session))
            break;
        writer = push_begin(session, service, "extended", registry_id(&service->registry, request), 4);
        resp_put_integer(&writer, validity_ms(request, now_ns));
        resp_put_integer(&writer, request->deadline_ns);
        session_send(session, service, &writer);
        break;
    }
}

/* --- the session's life --- */

static void leave(struct session *session, struct front_state *service) {
    list_unlink(&session->surveyor_link);
    session->state = SESSION_QUITTING;
    session->awaited = NULL;
    session->looking = 0;
    if (service->sessions > 0)
        service->sessions--;
}

void session_end(struct session *session, struct front_state *service, instant_ns now_ns) {
    if (session->id == 0)
        return;
    leave(session, service);
    observe_end(session, service);
    /* What waits goes first: it must not be handed what the session holds. */
    for (unsigned held = 0; held < 2; held++)
        list_for_each_safe(node, &session->requester.requests) {
            struct request *request = list_entry(node, struct request, session_link);
            if (held == 0 && request->state == REQUEST_HELD)
                continue;
            ledger_writer_lingers(service, request, now_ns);
            registry_drop(&service->registry, request, now_ns);
        }
    assert(list_is_empty(&session->requester.requests));
    session->id = 0;
}

bool session_expel(struct session *session, struct front_state *service, const char *why,
                   instant_ns now_ns) {
    bool stays = false;

    list_for_each_safe(node, &session->requester.requests) {
        struct request *request = list_entry(node, struct request, session_link);
        if (request->state == REQUEST_HELD)
            tell_lost(session, service, request, REASON_CLOSED, why);
        stays |= registry_abandon(&service->registry, request, now_ns);
    }
    observe_end(session, service);
    list_unlink(&session->surveyor_link);
    session->state = SESSION_QUITTING;
    session->pushes = false;
    session->protocol = 2; /* what is left of it hears nothing */
    session->looking = 0;
    return stays;
}

void session_request(struct session *session, struct front_state *service, const struct resp_token *tokens,
                     size_t n_tokens, instant_ns now_ns) {
    assert(session_ready(session) && n_tokens > 0);

    const struct command_entry *entry = command_find(tokens[0].text, tokens[0].length);
    size_t n_arguments = n_tokens - 1, most = entry ? command_arguments_max(entry) : 0;
    if (!entry) {
        char shown[64];
        (void) bytes_escape(tokens[0].text, tokens[0].length, shown, sizeof(shown));
        session_error(session, service, "ERR", "unknown command '%s'; COMMAND lists those there are", shown);
        return;
    }
    if (n_arguments < entry->arguments_min || n_arguments > most) {
        char expected[48];
        (void) snprintf(expected, sizeof(expected), "%u", entry->arguments_min);
        if (entry->arguments_min != most)
            (void) snprintf(expected, sizeof(expected), "%u to %zu", entry->arguments_min, most);
        session_error(session, service, "ERR", "wrong number of arguments for %s: %zu given, %s expected",
                      entry->name, n_arguments, expected);
        return;
    }
    entry->handle(session, service, tokens + 1, n_arguments, now_ns);
    session->asked_ns = 0;
}

size_t session_holder_pairs(const struct session_holder *holder) {
    return holder->foreign_type ? 5 : 4;
}

/* A token stands beside the key for whoever held the name last: a value that is not ours has none. */
void session_put_holder(struct resp_writer *writer, const struct session_holder *holder) {
    size_t length = holder->foreign_type ? 0 : holder->length;
    struct lock_value parts = {.data = ""};
    bool agents = lock_value_read(holder->value, length, &parts);
    char shown[NAME_BYTES_MAX];

    put_bulk_text(writer, "holder");
    resp_put_bulk(writer, shown, lock_value_print(holder->value, length, shown, sizeof(shown)));
    put_bulk_text(writer, "host");
    resp_put_bulk(writer, shown, bytes_escape(parts.host, parts.host_length, shown, sizeof(shown)));
    put_bulk_text(writer, "fence");
    resp_put_integer(writer, agents ? holder->token : 0);
    put_bulk_text(writer, "data");
    resp_put_bulk(writer, parts.data, parts.data_length);
    if (holder->foreign_type) {
        put_bulk_text(writer, "type");
        resp_put_bulk(writer, holder->value, holder->length);
    }
}

void session_looked(struct session *session, struct front_state *service, const struct report *report) {
    struct resp_writer writer = session_compose(service);

    if (session->state != SESSION_LOOKING || session->looking != report->request)
        return;
    session->state = SESSION_READY;
    session->looking = 0;
    if (report->kind == REPORT_FAILED) {
        session_error(session, service, report->failure == FAILURE_QUOTA ? "QUOTA" : "NOQUORUM", "%.*s",
                      (int) report->text_length, report->text);
        return;
    }
    if (!report->text) {
        resp_put_nil(&writer, session->protocol);
    } else {
        const struct session_holder holder = {.value = report->text,
                                              .length = report->text_length,
                                              .foreign_type = report->foreign_type,
                                              .token = report->token};
        resp_put_map(&writer, session_holder_pairs(&holder) + 1, session->protocol);
        session_put_holder(&writer, &holder);
        put_bulk_text(&writer, "validity");
        resp_put_integer(&writer, report->validity_ms);
    }
    session_send(session, service, &writer);
}

void session_tell_draining(struct session *session, struct front_state *service) {
    if (!hears_pushes(session))
        return;
    struct resp_writer writer = session_compose(service);
    resp_put_push(&writer, 2, session->protocol);
    put_bulk_text(&writer, "draining");
    put_bulk_text(&writer, "the agent is about to stop; leases are no longer extended");
    session_send(session, service, &writer);
}
