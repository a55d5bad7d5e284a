#include "local/history-command.h"

#include <assert.h>
#include <stdio.h>

#include "local/argument.h"
#include "local/call.h"
#include "local/rejection.h"
#include "local/reply.h"

enum { AHEAD_BYTES = 128 };

static const char *const kind_words[] = {
    [HISTORY_ASKED] = "asked",           [HISTORY_GRANTED] = "granted",
    [HISTORY_HANDED_OFF] = "handed-off", [HISTORY_RESUMED] = "resumed",
    [HISTORY_CONTENDED] = "contended",   [HISTORY_FAILED] = "failed",
    [HISTORY_WITHDRAWN] = "withdrawn",   [HISTORY_AT_RISK] = "at-risk",
    [HISTORY_EXTENDED] = "extended",     [HISTORY_LOST] = "lost",
    [HISTORY_LINGERING] = "lingering",   [HISTORY_RELEASED] = "released",
    [HISTORY_COOLING] = "cooling",
};

static const char *const answer_words[] = {
    [ROUND_ANSWER_NONE] = "not-asked", [ROUND_ANSWER_SILENT] = "silent",
    [ROUND_ANSWER_YES] = "yes",        [ROUND_ANSWER_REPAIRED] = "repaired",
    [ROUND_ANSWER_HELD] = "held",      [ROUND_ANSWER_BEHIND] = "behind",
    [ROUND_ANSWER_FREE] = "free",      [ROUND_ANSWER_REFUSED] = "refused",
    [ROUND_ANSWER_EPOCH] = "epoch",    [ROUND_ANSWER_CUT] = "cut",
};

static_assert(sizeof(kind_words) / sizeof(kind_words[0]) == HISTORY_KIND_COUNT, "each kind has its word");
static_assert(sizeof(answer_words) / sizeof(answer_words[0]) == ROUND_ANSWER_COUNT,
              "each answer has its word");

static bool is_known(const struct history_event *event) {
    for (unsigned i = 0; event->traced && i < NODES_MAX; i++)
        if (event->trace.answers[i] != ROUND_ANSWER_NONE)
            return true;
    return false;
}

/* Each node's answer, and the microseconds until it came; empty if no node was asked. */
static void put_nodes(struct resp_writer *writer, const struct session *session,
                      const struct history_event *event) {
    const struct front_state_identity *identity = &session->front->identity;
    unsigned n = is_known(event) ? identity->n_nodes : 0;

    reply_put_text(writer, "nodes");
    resp_put_array(writer, n);
    for (unsigned i = 0; i < n; i++) {
        enum round_trace_answer answer = (enum round_trace_answer) event->trace.answers[i];
        bool answered = answer != ROUND_ANSWER_NONE && answer != ROUND_ANSWER_SILENT;
        resp_put_map(writer, 3, session->protocol);
        reply_put_text_pair(writer, "name", identity->node_names[i]);
        reply_put_text_pair(writer, "answer", answer_words[answer]);
        reply_put_integer_pair(writer, "after", answered ? round_trace_us(&event->trace, i) : -1);
    }
}

/* The events that the session may see beside those of its user. */
struct sight {
    const struct session *session;
    bool all;     /* other users' events */
    bool holder;  /* who holds the name */
    bool waiters; /* who waits for the name, and how many */
};

/* "behind process 4711 of user 33, which holds the name, and 2 other requests": what the session may see of
 * that. */
static size_t print_ahead(const struct sight *sight, const struct history_ahead *ahead,
                          char text[AHEAD_BYTES]) {
    bool all = sight->all || sight->waiters;
    bool own = ahead->uid == sight->session->uid;
    size_t length = 0;

    if (ahead->n == 0)
        return 0;
    if (all || own || (ahead->holds && sight->holder))
        length += (size_t) snprintf(text, AHEAD_BYTES, "behind process %d of user %u, which %s", ahead->pid,
                                    ahead->uid, ahead->holds ? "holds the name" : "waits");
    else
        length += (size_t) snprintf(text, AHEAD_BYTES, "behind another user's request");
    if (all && ahead->n > 1)
        length +=
            (size_t) snprintf(text + length, AHEAD_BYTES - length, ", and %u%s other%s", ahead->n - 1U,
                              ahead->n == HISTORY_AHEAD_MAX ? " or more" : "", ahead->n == 2 ? "" : "s");
    assert(length < AHEAD_BYTES);
    return length;
}

static void put_text(struct resp_writer *writer, const struct sight *sight,
                     const struct history_event *event) {
    bool hidden = !sight->all && !sight->holder && rejection_names_holder(event->word);
    char ahead[AHEAD_BYTES];

    reply_put_text(writer, "text");
    if (event->kind == HISTORY_ASKED)
        resp_put_bulk(writer, ahead, print_ahead(sight, &event->ahead, ahead));
    else
        resp_put_bulk(writer, event->text, hidden ? 0 : event->text_length);
}

static void put_event(struct resp_writer *writer, const struct sight *sight, const struct history_view *view,
                      instant_ns now_ns) {
    const struct session *session = sight->session;
    const struct history_event *event = view->event;
    bool has_reason = event->kind == HISTORY_AT_RISK || event->kind == HISTORY_LOST;

    bool asked = event->kind == HISTORY_ASKED;

    resp_put_map(writer, asked ? 12 : 11, session->protocol);
    reply_put_text_pair(writer, "event", kind_words[event->kind]);
    reply_put_integer_pair(writer, "ago", (now_ns - event->at_ns) / NS_PER_MS);
    reply_put_integer_pair(writer, "id", (int64_t) event->id);
    reply_put_integer_pair(writer, "pid", event->pid);
    reply_put_integer_pair(writer, "uid", (int64_t) view->uid);
    reply_put_integer_pair(writer, "fence", event->token);
    reply_put_integer_pair(writer, "after", (event->at_ns - event->asked_ns) / NS_PER_US);
    reply_put_integer_pair(writer, "left", event->left_ms);
    reply_put_text_pair(writer, "reason",
                        has_reason ? reply_reason_word((enum reason) event->reason) : event->word);
    if (has_reason && event->text_length == 0)
        reply_put_text_pair(writer, "text", reply_reason_text((enum reason) event->reason));
    else
        put_text(writer, sight, event);
    put_nodes(writer, session, event);
    if (asked)
        reply_put_integer_pair(writer, "wait", event->ahead.wait_ms);
}

void history_command(const struct call *call) {
    struct session *session = call->session;
    struct front_state *front = session->front;
    const struct resp_token *name = &call->arguments[0];
    const struct sight sight = {.session = session,
                                .all = session_may(session, POLICY_HISTORY, name->text, name->length),
                                .holder = session_may(session, POLICY_LEADER, name->text, name->length),
                                .waiters = session_may(session, POLICY_LIST, name->text, name->length)};
    struct history_view views[HISTORY_SET_EVENTS];
    int64_t max = HISTORY_SET_EVENTS;

    if (!call_has_name(call))
        return;
    if (call->n_arguments != 1 && (call->n_arguments != 3 || !argument_is(&call->arguments[1], "COUNT") ||
                                   !argument_integer(&call->arguments[2], 1, INT32_MAX, &max))) {
        reply_error(session, "BADARG", "HISTORY takes a name, or a name, COUNT and how many events");
        return;
    }
    size_t n = history_list(&front->history, registry_hash(&front->registry, name->text, name->length),
                            sight.all, session->uid, (size_t) max, views);
    struct resp_writer writer = reply_begin(session);
    resp_put_array(&writer, n);
    for (size_t i = 0; i < n; i++)
        put_event(&writer, &sight, &views[i], call->now_ns);
    reply_send(session, &writer);
}
