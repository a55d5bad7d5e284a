#include "local/listing.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "local/argument.h"
#include "local/call.h"
#include "local/reply.h"

enum { INFO_BYTES_MAX = 2048 };

/* --- the keepers' counters --- */

static const void *counter_at(const struct front_state *front, unsigned keeper, size_t offset) {
    return (const unsigned char *) &front->keepers[keeper].counters + offset;
}

static int64_t sum_at(const struct front_state *front, size_t offset) {
    uint64_t sum = 0;

    for (unsigned i = 0; i < front->identity.n_keepers; i++)
        sum += *(const uint64_t *) counter_at(front, i, offset);
    return (int64_t) sum;
}

#define SUM(front, field) sum_at(front, offsetof(struct shard_counters, field))

static int64_t latest_extension_ms(const struct front_state *front) {
    int64_t late_ns = 0;

    for (unsigned i = 0; i < front->identity.n_keepers; i++)
        late_ns = instant_max(late_ns, front->keepers[i].counters.extension_late_ns);
    return late_ns / NS_PER_MS;
}

static int64_t closest_extension_percent(const struct front_state *front) {
    int64_t margin = 1000;

    for (unsigned i = 0; i < front->identity.n_keepers; i++)
        margin = instant_min(margin, front->keepers[i].counters.extension_margin_permille);
    return margin / 10;
}

/* --- numbers --- */

struct number {
    const char *name;
    int64_t value;
};

enum { NUMBERS_MAX = 32 };

/* Every number that STATUS and INFO show. Returns how many there are. */
static size_t read_numbers(struct front_state *front, instant_ns now_ns, struct number ret[NUMBERS_MAX]) {
    const struct front_state_identity *identity = &front->identity;
    const struct number numbers[] = {
        {"pid", identity->pid},
        {"uptime", (now_ns - identity->started_ns) / NS_PER_MS},
        {"nodes", identity->n_nodes},
        {"quorum", identity->n_nodes / 2 + 1},
        {"voting", front_state_voting(front)},
        {"keepers", identity->n_keepers},
        {"sessions", front->sessions},
        {"leases", front->registry.held},
        {"waiters", front->registry.waiting},
        {"cooling", cooling_count(&front->cooling, now_ns)},
        {"grants", SUM(front, grants)},
        {"releases", SUM(front, releases)},
        {"handoffs", (int64_t) front->registry.handoffs},
        {"losses", SUM(front, losses)},
        {"extensions", SUM(front, extensions)},
        {"extensions_failed", SUM(front, extensions_failed)},
        {"extension_late", latest_extension_ms(front)},
        {"extension_margin", closest_extension_percent(front)},
    };

    static_assert(sizeof(numbers) <= NUMBERS_MAX * sizeof(numbers[0]), "there is room for all numbers");
    memcpy(ret, numbers, sizeof(numbers));
    return sizeof(numbers) / sizeof(numbers[0]);
}

static const char *state_word(const struct front_state *front) {
    if (front->draining)
        return "draining";
    return front_state_voting(front) >= front->identity.n_nodes / 2 + 1 ? "ready" : "no-quorum";
}

/* --- STATUS, INFO --- */

static void reply_status(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    struct resp_writer writer = reply_begin(session);
    struct number numbers[NUMBERS_MAX];
    size_t n = read_numbers(front, now_ns, numbers);

    resp_put_map(&writer, 4 + n, session->protocol);
    reply_put_text_pair(&writer, "version", front->identity.version);
    reply_put_text_pair(&writer, "agent", front->identity.agent);
    reply_put_text_pair(&writer, "host", front->identity.host);
    reply_put_text_pair(&writer, "state", state_word(front));
    for (size_t i = 0; i < n; i++)
        reply_put_integer_pair(&writer, numbers[i].name, numbers[i].value);
    reply_send(session, &writer);
}

static void reply_info(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    struct number numbers[NUMBERS_MAX];
    size_t n = read_numbers(front, now_ns, numbers);
    char text[INFO_BYTES_MAX];
    int length =
        snprintf(text, sizeof(text),
                 "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nredlockd_version:%s\r\n"
                 "agent:%s\r\nhost:%s\r\nstate:%s\r\nrole:master\r\n",
                 front->identity.version, front->identity.agent, front->identity.host, state_word(front));

    for (size_t i = 0; i < n && length > 0 && (size_t) length < sizeof(text); i++)
        length += snprintf(text + length, sizeof(text) - (size_t) length, "%s:%lld\r\n", numbers[i].name,
                           (long long) numbers[i].value);
    assert(length > 0 && (size_t) length < sizeof(text));
    reply_bulk(session, text, (size_t) length);
}

/* --- NODES --- */

static const char *node_state_word(enum node_state state) {
    static const char *const words[] = {
        [NODE_STATE_CONNECTING] = "connecting",   [NODE_STATE_PROBING] = "probing",
        [NODE_STATE_QUARANTINED] = "quarantined", [NODE_STATE_VOTING] = "voting",
        [NODE_STATE_FAILED] = "failed",
    };
    return words[state];
}

static void put_node(struct resp_writer *writer, const struct session *session, unsigned node,
                     instant_ns now_ns) {
    const struct front_state *front = session->front;
    const struct front_state_node view = front_state_node(front, node);
    const struct front_state_node_times times = front_state_times(front, node);
    bool ends = view.node_state == NODE_STATE_QUARANTINED && times.until_ns != INSTANT_NEVER;

    resp_put_map(writer, 14, session->protocol);
    reply_put_text_pair(writer, "name", front->identity.node_names[node]);
    reply_put_text_pair(writer, "address", front->identity.node_addresses[node]);
    reply_put_text_pair(writer, "state", node_state_word(view.node_state));
    reply_put_integer_pair(writer, "since", (now_ns - view.since_ns) / NS_PER_MS);
    reply_put_integer_pair(writer, "until", ends ? instant_max(times.until_ns - now_ns, 0) / NS_PER_MS : -1);
    reply_put_text_pair(writer, "reason", view.reason);
    reply_put_integer_pair(writer, "rtt", times.rtt_us);
    reply_put_integer_pair(writer, "rtt_p50", times.rtt_p50_us);
    reply_put_integer_pair(writer, "rtt_p99", times.rtt_p99_us);
    reply_put_integer_pair(writer, "clock", times.clock_us / 1000);
    reply_put_text_pair(writer, "version", times.version);
    reply_put_text_pair(writer, "aof", !times.known ? "" : times.aof_enabled ? "yes" : "no");
    reply_put_integer_pair(writer, "evicted", (int64_t) times.evicted_keys);
    reply_put_text_pair(writer, "differs", times.differs);
}

static void reply_nodes(struct session *session, instant_ns now_ns) {
    struct resp_writer writer = reply_begin(session);
    unsigned n_nodes = session->front->identity.n_nodes;

    resp_put_array(&writer, n_nodes);
    for (unsigned i = 0; i < n_nodes; i++)
        put_node(&writer, session, i, now_ns);
    reply_send(session, &writer);
}

/* --- waiting for the counters --- */

static void count(const struct call *call, enum listing_kind kind) {
    struct session *session = call->session;
    struct front_state *front = session->front;

    session->state = SESSION_LISTING;
    session->listing = (uint8_t) kind;
    list_append(&front->listings, &session->listing_link);
    front->sink.survey(front->sink.userdata);
}

void listing_status(const struct call *call) {
    count(call, LISTING_STATUS);
}

void listing_nodes(const struct call *call) {
    count(call, LISTING_NODES);
}

void listing_info(const struct call *call) {
    count(call, LISTING_INFO);
}

void listing_counted(struct front_state *front, instant_ns now_ns) {
    list_for_each_safe(node, &front->listings) {
        struct session *session = list_entry(node, struct session, listing_link);

        assert(session->state == SESSION_LISTING);
        list_unlink(node);
        session_proceed(session);
        switch ((enum listing_kind) session->listing) {
        case LISTING_STATUS:
            reply_status(session, now_ns);
            break;
        case LISTING_NODES:
            reply_nodes(session, now_ns);
            break;
        case LISTING_INFO:
            reply_info(session, now_ns);
            break;
        }
    }
}

/* --- LEASES --- */

static const char *lease_state_word(const struct request *request) {
    if (request->state != REQUEST_HELD)
        return "waiting";
    if (request_is_lingering(request))
        return "lingering";
    return request->risk != 0 ? "at-risk" : "held";
}

/* A request, or a lease that has ended and whose name cools. */
struct row {
    const struct shared_string *name;
    const char *state;
    uint64_t id;
    int64_t pid, uid;
    uint32_t ttl_ms;
    instant_ns asked_ns;
    instant_ns deadline_ns, cooldown_until_ns; /* 0: none */
    int64_t token;
};

static struct row row_of_request(const struct registry *registry, const struct request *request) {
    bool held = request->state == REQUEST_HELD;

    return (struct row){.name = request->name->text,
                        .state = lease_state_word(request),
                        .id = registry_id(registry, request),
                        .pid = request->pid,
                        .uid = request->uid,
                        .ttl_ms = request->terms.ttl_ms,
                        .asked_ns = request->asked_ns,
                        .deadline_ns = held ? request->deadline_ns : 0,
                        .cooldown_until_ns = held ? request->cooldown_until_ns : 0,
                        .token = request->token};
}

static struct row row_of_cooling(const struct cooling_name *cooling) {
    return (struct row){.name = cooling->name,
                        .state = "cooling",
                        .id = cooling->id,
                        .pid = cooling->pid,
                        .uid = cooling->uid,
                        .ttl_ms = cooling->ttl_ms,
                        .asked_ns = cooling->asked_ns,
                        .cooldown_until_ns = cooling->until_ns,
                        .token = cooling->token};
}

static void put_row(struct resp_writer *writer, int protocol, const struct row *row, instant_ns now_ns) {
    resp_put_map(writer, 10, protocol);
    reply_put_integer_pair(writer, "id", (int64_t) row->id);
    reply_put_text(writer, "name");
    resp_put_bulk(writer, row->name->bytes, row->name->head_length);
    reply_put_text_pair(writer, "state", row->state);
    reply_put_integer_pair(writer, "pid", row->pid);
    reply_put_integer_pair(writer, "uid", row->uid);
    reply_put_integer_pair(writer, "ttl", row->ttl_ms);
    reply_put_integer_pair(writer, "validity", instant_max(row->deadline_ns - now_ns, 0) / NS_PER_MS);
    reply_put_integer_pair(writer, "age", (now_ns - row->asked_ns) / NS_PER_MS);
    reply_put_integer_pair(writer, "fence", row->token);
    reply_put_integer_pair(writer, "cooldown", instant_max(row->cooldown_until_ns - now_ns, 0) / NS_PER_MS);
}

/* The requests behind the lease with the id `after`, in the order of cooling_precedes(). */
static size_t list_requests(const struct registry *registry, uint64_t after,
                            const struct request *ret[LEASES_PAGE]) {
    uint32_t slot = (uint32_t) (after & (REQUESTS_MAX - 1));
    const struct request *request;
    size_t n = 0;

    while (n < LEASES_PAGE && (request = registry_next(registry, &slot)))
        if (request->name && (after == 0 || cooling_precedes(after, registry_id(registry, request))))
            ret[n++] = request;
    return n;
}

static void reply_leases(struct session *session, uint64_t after, instant_ns now_ns) {
    const struct registry *registry = &session->front->registry;
    const struct request *requests[LEASES_PAGE];
    const struct cooling_name *cooling[LEASES_PAGE];
    size_t n_requests = list_requests(registry, after, requests);
    size_t n_cooling = cooling_list(&session->front->cooling, after, now_ns, LEASES_PAGE, cooling);
    size_t n = n_requests + n_cooling < LEASES_PAGE ? n_requests + n_cooling : LEASES_PAGE;
    struct resp_writer writer = reply_begin(session);

    resp_put_array(&writer, n);
    for (size_t i = 0, j = 0; i + j < n;) {
        bool cools = i == n_requests ||
                     (j < n_cooling && cooling_precedes(cooling[j]->id, registry_id(registry, requests[i])));
        const struct row row =
            cools ? row_of_cooling(cooling[j++]) : row_of_request(registry, requests[i++]);
        put_row(&writer, session->protocol, &row, now_ns);
    }
    reply_send(session, &writer);
}

void listing_leases(const struct call *call) {
    int64_t after = 0;

    if (call->n_arguments != 0 && (call->n_arguments != 2 || !argument_is(&call->arguments[0], "AFTER") ||
                                   !argument_integer(&call->arguments[1], 0, ARGUMENT_ID_MAX, &after))) {
        reply_error(call->session, "BADARG",
                    "LEASES takes nothing, or AFTER and the last id of the page before");
        return;
    }
    reply_leases(call->session, (uint64_t) after, call->now_ns);
}
