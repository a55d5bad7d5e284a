#include "local/leader.h"

#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/call.h"
#include "local/rejection.h"
#include "local/reply.h"

void leader_ask(struct front_state *front, enum report_origin origin, uint64_t request, const char *name,
                size_t length) {
    const struct policy_limits limits = policy_limits_of(&front->policy, name, length);
    const struct command command = {
        .kind = COMMAND_QUERY,
        .origin = origin,
        .request = request,
        .terms.fencing = limits.fencing,
        .terms.node_timeout_ms = policy_node_timeout_ms(&front->policy, (uint32_t) limits.default_ttl_ms),
        .text = name,
        .head_length = (uint16_t) length,
    };

    front->sink.query(front->sink.userdata, registry_hash(&front->registry, name, length), &command);
}

void leader_command(const struct call *call) {
    struct session *session = call->session;

    if (!call_has_name(call))
        return;
    session->state = SESSION_QUERYING;
    leader_ask(session->front, REPORT_ORIGIN_LEADER, session->id, call->arguments[0].text,
               call->arguments[0].length);
}

size_t leader_pairs(const struct leader_key *key) {
    return key->foreign_type ? 5 : 4;
}

/* The nodes keep the last holder's token beside the key: it says nothing about a value that is not an
 * agent's. */
void leader_put(struct resp_writer *writer, const struct leader_key *key) {
    size_t length = key->foreign_type ? 0 : key->length;
    struct lock_value parts = {.data = ""};
    bool is_agents = lock_value_read(key->value, length, &parts);
    char text[NAME_BYTES_MAX];

    reply_put_text(writer, "holder");
    resp_put_bulk(writer, text, lock_value_print(key->value, length, text, sizeof(text)));
    reply_put_text(writer, "host");
    resp_put_bulk(writer, text, bytes_escape(parts.host, parts.host_length, text, sizeof(text)));
    reply_put_integer_pair(writer, "fence", is_agents ? key->token : 0);
    reply_put_text(writer, "data");
    resp_put_bulk(writer, parts.data, parts.data_length);
    if (key->foreign_type) {
        reply_put_text(writer, "type");
        resp_put_bulk(writer, key->value, key->length);
    }
}

void leader_report(struct session *session, const struct report *report) {
    const struct leader_key key = {.value = report->text,
                                   .length = report->text_length,
                                   .foreign_type = report->foreign_type,
                                   .token = report->token};

    if (session->state != SESSION_QUERYING)
        return; /* the session has ended */
    session_proceed(session);
    if (report->kind == REPORT_FAILED) {
        reply_error(session, rejection_word(report->failure), "%.*s", (int) report->text_length,
                    report->text);
        return;
    }
    struct resp_writer writer = reply_begin(session);
    if (report->text) {
        resp_put_map(&writer, leader_pairs(&key) + 1, session->protocol);
        leader_put(&writer, &key);
        reply_put_integer_pair(&writer, "validity", report->validity_ms);
    } else {
        resp_put_nil(&writer, session->protocol);
    }
    reply_send(session, &writer);
}
