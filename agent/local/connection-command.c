#include "local/connection-command.h"

#include <string.h>

#include "base/version.h"
#include "local/argument.h"
#include "local/call.h"
#include "local/recovery/ledger.h"
#include "local/reply.h"

void connection_command_ping(const struct call *call) {
    if (call->n_arguments == 0)
        reply_string(call->session, "PONG");
    else
        connection_command_echo(call);
}

void connection_command_echo(const struct call *call) {
    reply_bulk(call->session, call->arguments[0].text, call->arguments[0].length);
}

/* The socket's permissions decide on access: any password is accepted. */
void connection_command_auth(const struct call *call) {
    reply_string(call->session, "OK");
}

void connection_command_quit(const struct call *call) {
    reply_string(call->session, "OK");
    call->session->state = SESSION_QUITTING;
}

void connection_command_select(const struct call *call) {
    int64_t database;

    if (argument_integer(&call->arguments[0], 0, 0, &database))
        reply_string(call->session, "OK");
    else
        reply_error(call->session, "BADARG", "there is only database 0");
}

/* False: the name is not allowed, and the session has got the error. */
static bool set_name(struct session *session, const struct resp_token *token) {
    struct ledger *ledger = session->front->registry.ledger;

    if (token->length > SESSION_NAME_BYTES_MAX) {
        reply_error(session, "BADARG", "a client's name has at most %d bytes", SESSION_NAME_BYTES_MAX);
        return false;
    }
    for (size_t i = 0; i < token->length; i++) {
        if (token->text[i] <= ' ' || token->text[i] > '~') {
            reply_error(session, "ERR",
                        "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    memcpy(session->name, token->text, token->length);
    session->name[token->length] = '\0';
    if (ledger)
        ledger_set_name(ledger, (uint32_t) (session->id & LEDGER_SLOT_MASK), session->name);
    return true;
}

static void reply_hello(struct session *session, instant_ns now_ns) {
    struct resp_writer writer = reply_begin(session);

    resp_put_map(&writer, 9, session->protocol);
    reply_put_text_pair(&writer, "server", "redlockd");
    reply_put_text_pair(&writer, "version", session->front->identity.version);
    reply_put_integer_pair(&writer, "proto", session->protocol);
    reply_put_integer_pair(&writer, "id", (int64_t) session->id);
    reply_put_text_pair(&writer, "mode", "standalone");
    reply_put_text_pair(&writer, "role", "master");
    reply_put_text(&writer, "modules");
    resp_put_array(&writer, 0);
    reply_put_integer_pair(&writer, "now", now_ns);
    reply_put_integer_pair(&writer, "protocol", VERSION_PROTOCOL);
    reply_send(session, &writer);
}

void connection_command_hello(const struct call *call) {
    struct session *session = call->session;
    const struct resp_token *arguments = call->arguments;
    int64_t protocol = session->protocol;

    if (call->n_arguments > 0 && !argument_integer(&arguments[0], 2, 3, &protocol)) {
        reply_error(session, "NOPROTO", "unsupported protocol version; 2 and 3 are known");
        return;
    }
    for (size_t i = 1; i < call->n_arguments; i++) {
        if (argument_is(&arguments[i], "AUTH") && i + 2 < call->n_arguments) {
            i += 2;
        } else if (argument_is(&arguments[i], "SETNAME") && i + 1 < call->n_arguments) {
            if (!set_name(session, &arguments[++i]))
                return;
        } else {
            reply_error(session, "ERR", "HELLO takes a version, AUTH user password, SETNAME name");
            return;
        }
    }
    session->protocol = (int) protocol;
    reply_hello(session, call->now_ns);
}

static void reply_name(struct session *session) {
    struct resp_writer writer = reply_begin(session);

    if (session->name[0])
        reply_put_text(&writer, session->name);
    else
        resp_put_nil(&writer, session->protocol);
    reply_send(session, &writer);
}

void connection_command_client(const struct call *call) {
    struct session *session = call->session;
    const struct resp_token *word = &call->arguments[0];
    size_t n = call->n_arguments;

    if (argument_is(word, "SETNAME") && n == 2) {
        if (set_name(session, &call->arguments[1]))
            reply_string(session, "OK");
    } else if (argument_is(word, "GETNAME") && n == 1) {
        reply_name(session);
    } else if (argument_is(word, "ID") && n == 1) {
        reply_integer(session, (int64_t) session->id);
    } else if ((argument_is(word, "SETINFO") && n == 3) || (argument_is(word, "NO-EVICT") && n == 2) ||
               (argument_is(word, "NO-TOUCH") && n == 2)) {
        reply_string(session, "OK");
    } else {
        reply_error(
            session, "ERR",
            "CLIENT knows SETNAME name, GETNAME, ID, SETINFO attribute value, NO-EVICT and NO-TOUCH");
    }
}

void connection_command_page(const struct call *call) {
    struct session *session = call->session;
    const struct front_state_sink *sink = &session->front->sink;

    if (session->requester.page) {
        reply_error(session, "BADARG", "this session has its page already");
        return;
    }
    if (sink->page(sink->userdata, session) < 0) {
        reply_error(session, "QUOTA", "the agent has no memory or descriptors for a page");
        return;
    }
    struct resp_writer writer = reply_begin(session);
    resp_put_map(&writer, 3, session->protocol);
    reply_put_integer_pair(&writer, "version", DEADLINE_PAGE_VERSION);
    reply_put_integer_pair(&writer, "bytes", DEADLINE_PAGE_BYTES);
    reply_put_integer_pair(&writer, "slots", DEADLINE_PAGE_SLOTS);
    reply_send(session, &writer);
}
