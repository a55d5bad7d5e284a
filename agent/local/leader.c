#include "local/leader.h"

#include <assert.h>

#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/call.h"
#include "local/rejection.h"
#include "local/reply.h"

/* The number of a session's query: the session's id, and its account, as the query may outlive it. */
enum { ACCOUNT_SHIFT = 32 + SESSION_SLOT_BITS };

static_assert(QUOTA_ACCOUNTS <= 1 << (64 - ACCOUNT_SHIFT), "an account fits beside a session's id");

uint64_t leader_session_id(const struct report *report) {
    return report->request & ((UINT64_C(1) << ACCOUNT_SHIFT) - 1);
}

void leader_ask(struct front_state *front, enum report_origin origin, uint64_t request, const char *name,
                size_t length) {
    const struct policy_limits *limits =
        policy_limits_of(&front->policy, policy_find(&front->policy, POLICY_ALL_RULES, name, length));
    const struct command command = {
        .kind = COMMAND_QUERY,
        .origin = origin,
        .request = request,
        .terms.fencing = limits->fencing,
        .terms.node_timeout_ms = policy_node_timeout_ms(&front->policy, (uint32_t) limits->default_ttl_ms),
        .text = name,
        .head_length = (uint16_t) length,
    };

    front->sink.query(front->sink.userdata, registry_hash(&front->registry, name, length), &command);
}

bool leader_pauses(struct session *session) {
    return query_share_pause(&session->front->queries, session->account, &session->query_link);
}

void leader_command(const struct call *call) {
    struct session *session = call->session;

    if (!call_has_name(call))
        return;
    assert(session->id >> ACCOUNT_SHIFT == 0);
    session->state = SESSION_QUERYING;
    query_share_begin(&session->front->queries, session->account);
    quota_charge_account(&session->front->registry.quota, session->account, QUOTA_REQUESTS, 1);
    session->queried_hash =
        registry_hash(&session->front->registry, call->arguments[0].text, call->arguments[0].length);
    leader_ask(session->front, REPORT_ORIGIN_LEADER,
               (uint64_t) session->account << ACCOUNT_SHIFT | session->id, call->arguments[0].text,
               call->arguments[0].length);
}

size_t leader_pairs(const struct leader_key *key) {
    return key->foreign_type ? 5 : 4;
}

/* The nodes keep the last holder's token beside the key: that token does not belong to another program's
 * value. */
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

/* Facts that only this agent has about a lease of its own: more pairs for the reply to LEADER. */
struct own_lease {
    int64_t since_ms;   /* since the grant, rounded up; 0: unknown */
    int64_t cooling_ms; /* the lease has ended, and the name stays taken for this long; 0: it has not */
};

static size_t own_pairs(const struct own_lease *own) {
    return (own->since_ms > 0) + (size_t) (own->cooling_ms > 0);
}

static void put_own(struct resp_writer *writer, const struct own_lease *own) {
    if (own->since_ms > 0)
        reply_put_integer_pair(writer, "since", own->since_ms);
    if (own->cooling_ms > 0)
        reply_put_integer_pair(writer, "cooling", own->cooling_ms);
}

static int64_t ceil_ms(int64_t ns) {
    return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* A lease that was resumed was granted by another agent, and one that was restored by a former process:
 * their grants' times are not known here. */
static struct own_lease own_lease_of(struct front_state *front, const struct leader_key *key,
                                     uint64_t name_hash, instant_ns now_ns) {
    struct lock_value_identity identity = {0};

    lock_value_identify(&identity, front->identity.host, front->identity.agent);
    if (key->foreign_type || !lock_value_has_identity(key->value, key->length, &identity))
        return (struct own_lease){0};
    const struct request *holder = registry_holder(&front->registry, name_hash);
    if (holder && holder->session && !holder->resume && holder->tenure.acquired_ns > 0)
        return (struct own_lease){.since_ms = instant_max(ceil_ms(now_ns - holder->tenure.acquired_ns), 1)};
    const struct cooling_name *cooling = holder ? NULL : cooling_find(&front->cooling, name_hash, now_ns);
    return (struct own_lease){.cooling_ms = cooling ? ceil_ms(cooling->until_ns - now_ns) : 0};
}

/* A query of this user is over: its sessions may go on. */
static void end_query(struct front_state *front, uint8_t account) {
    const struct registry_sink *sink = &front->registry.sink;
    struct list *link;

    quota_refund(&front->registry.quota, account, QUOTA_REQUESTS, 1);
    query_share_end(&front->queries, account);
    while ((link = query_share_next(&front->queries, account)))
        if (sink->ready)
            sink->ready(sink->userdata, list_entry(link, struct session, query_link));
}

void leader_end(struct session *session) {
    list_unlink(&session->query_link);
}

void leader_report(struct front_state *front, struct session *session, const struct report *report,
                   instant_ns now_ns) {
    const struct leader_key key = {.value = report->text,
                                   .length = report->text_length,
                                   .foreign_type = report->foreign_type,
                                   .token = report->token};

    end_query(front, (uint8_t) (report->request >> ACCOUNT_SHIFT));
    if (!session || session->state != SESSION_QUERYING)
        return; /* the session has ended */
    session_proceed(session);
    if (report->kind == REPORT_FAILED) {
        reply_error(session, rejection_word(report->failure), "%.*s", (int) report->text_length,
                    report->text);
        return;
    }
    if (!report->text && report->undecided) {
        reply_error(session, rejection_word(FAILURE_NO_QUORUM),
                    "the nodes that did not answer decide whether the name is held");
        return;
    }
    struct resp_writer writer = reply_begin(session);
    if (report->text) {
        const struct own_lease own = own_lease_of(front, &key, session->queried_hash, now_ns);
        resp_put_map(&writer, leader_pairs(&key) + 1 + own_pairs(&own), session->protocol);
        leader_put(&writer, &key);
        reply_put_integer_pair(&writer, "validity", report->validity_ms);
        put_own(&writer, &own);
    } else {
        resp_put_nil(&writer, session->protocol);
    }
    reply_send(session, &writer);
}
