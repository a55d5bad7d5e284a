#include "local/listing.h"

#include <assert.h>
#include <stdio.h>

#include "local/argument.h"
#include "local/call.h"
#include "local/metrics.h"
#include "local/numbers.h"
#include "local/quota-listing.h"
#include "local/reply.h"

enum {
    INFO_BYTES_MAX = 2048,
    LEASES_WORK = 4096,    /* of a turn: slots that are searched, and */
    LEASES_RIGHT_WORK = 7, /* so much more for each right that is looked up */
};

/* --- STATUS, INFO --- */

static size_t numbers_of_status(struct front_state *front, instant_ns now_ns,
                                struct numbers_row ret[NUMBERS_MAX]) {
    size_t n = numbers_read(front, now_ns, ret), used = 0;

    for (size_t i = 0; i < n; i++)
        if (ret[i].name)
            ret[used++] = ret[i];
    return used;
}

static void reply_status(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    struct resp_writer writer = reply_begin(session);
    struct numbers_row numbers[NUMBERS_MAX];
    size_t n = numbers_of_status(front, now_ns, numbers);

    bool lists = session_may(session, POLICY_LIST, "", 0);

    resp_put_map(&writer, 4 + n + 1 + lists, session->protocol);
    reply_put_text_pair(&writer, "version", front->identity.version);
    reply_put_text_pair(&writer, "agent", front->identity.agent);
    reply_put_text_pair(&writer, "host", front->identity.host);
    reply_put_text_pair(&writer, "state", front_state_word(front));
    for (size_t i = 0; i < n; i++)
        reply_put_integer_pair(&writer, numbers[i].name, numbers[i].value);
    quota_listing_put(&writer, session, true);
    if (lists)
        quota_listing_put_users(&writer, session);
    reply_send(session, &writer);
}

static void reply_info(struct session *session, instant_ns now_ns) {
    struct front_state *front = session->front;
    struct numbers_row numbers[NUMBERS_MAX];
    size_t n = numbers_of_status(front, now_ns, numbers);
    char text[INFO_BYTES_MAX];
    int length = snprintf(
        text, sizeof(text),
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nredlockd_version:%s\r\n"
        "agent:%s\r\nhost:%s\r\nstate:%s\r\nrole:master\r\n",
        front->identity.version, front->identity.agent, front->identity.host, front_state_word(front));

    for (size_t i = 0; i < n && length > 0 && (size_t) length < sizeof(text); i++)
        length += snprintf(text + length, sizeof(text) - (size_t) length, "%s:%lld\r\n", numbers[i].name,
                           (long long) numbers[i].value);
    assert(length > 0 && (size_t) length < sizeof(text));
    reply_bulk(session, text, (size_t) length);
}

/* --- NODES --- */

static void put_node(struct resp_writer *writer, const struct session *session, unsigned node,
                     instant_ns now_ns) {
    const struct front_state *front = session->front;
    const struct front_state_node view = front_state_node(front, node);
    const struct front_state_node_times times = front_state_times(front, node);
    bool ends = view.node_state == NODE_STATE_QUARANTINED && times.until_ns != INSTANT_NEVER;

    resp_put_map(writer, 14, session->protocol);
    reply_put_text_pair(writer, "name", front->identity.node_names[node]);
    reply_put_text_pair(writer, "address", front->identity.node_addresses[node]);
    reply_put_text_pair(writer, "state", front_state_node_word(view.node_state));
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
    list_append(&front->uncounted, &session->listing_link);
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

void listing_metrics(const struct call *call) {
    count(call, LISTING_METRICS);
}

void listing_counted(struct front_state *front) {
    list_for_each_safe(node, &front->uncounted) {
        struct session *session = list_entry(node, struct session, listing_link);
        list_unlink(node);
        fair_queue_add(&front->listings, session->account, node);
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
    const char *name;
    size_t name_length;
    const char *state;
    uint64_t id;
    int64_t pid, uid;
    uint32_t ttl_ms;
    instant_ns asked_ns;
    instant_ns granted_ns;                     /* 0: not listed */
    instant_ns deadline_ns, cooldown_until_ns; /* 0: none */
    int64_t token;
};

static struct row row_of_request(const struct registry *registry, const struct request *request) {
    bool held = request->state == REQUEST_HELD;

    return (struct row){.name = request->name->key.text->bytes,
                        .name_length = request->name->key.text->head_length,
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
    return (struct row){.name = cooling->key.text->bytes,
                        .name_length = cooling->key.text->head_length,
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
    resp_put_map(writer, 10 + (row->granted_ns != 0), protocol);
    reply_put_integer_pair(writer, "id", (int64_t) row->id);
    reply_put_text(writer, "name");
    resp_put_bulk(writer, row->name, row->name_length);
    reply_put_text_pair(writer, "state", row->state);
    reply_put_integer_pair(writer, "pid", row->pid);
    reply_put_integer_pair(writer, "uid", row->uid);
    reply_put_integer_pair(writer, "ttl", row->ttl_ms);
    reply_put_integer_pair(writer, "validity", instant_max(row->deadline_ns - now_ns, 0) / NS_PER_MS);
    reply_put_integer_pair(writer, "age", (now_ns - row->asked_ns) / NS_PER_MS);
    reply_put_integer_pair(writer, "fence", row->token);
    reply_put_integer_pair(writer, "cooldown", instant_max(row->cooldown_until_ns - now_ns, 0) / NS_PER_MS);
    if (row->granted_ns != 0)
        reply_put_integer_pair(writer, "since", (now_ns - row->granted_ns) / NS_PER_MS);
}

/* A user's own, or one of a name that it may list. */
static bool may_see(const struct session *session, int64_t uid, const char *name, size_t length) {
    return uid == (int64_t) session->uid || session_may(session, POLICY_LIST, name, length);
}

static bool may_see_cooling(const struct session *session, const struct cooling_name *cooling) {
    return may_see(session, cooling->uid, cooling->key.text->bytes, cooling->key.text->head_length);
}

/* The requests behind the lease with the id `listed_after`, in the order of cooling_precedes(), as far as
 * the work of one turn goes. */
static size_t list_requests(struct session *session, const struct request *ret[LEASES_PAGE]) {
    const struct registry *registry = &session->front->registry;
    uint32_t *slot = &session->listed_slots;
    unsigned work = 0;
    size_t n = 0;

    for (; n < LEASES_PAGE && work < LEASES_WORK && *slot < registry_slots(registry); work++) {
        const struct request *request = registry_at(registry, slot);
        if (!request || !request->name ||
            (session->listed_after != 0 &&
             !cooling_precedes(session->listed_after, registry_id(registry, request))))
            continue;
        work += LEASES_RIGHT_WORK;
        if (may_see(session, request->uid, request->name->key.text->bytes,
                    request->name->key.text->head_length))
            ret[n++] = request;
    }
    return n;
}

/* A page, which ends where the work of this turn ends. False: nothing was found, and further slots are to be
 * searched; since an empty page ends the listing. */
static bool reply_leases(struct session *session, instant_ns now_ns) {
    const struct registry *registry = &session->front->registry;
    const struct request *requests[LEASES_PAGE];
    const struct cooling_name *cooling[LEASES_PAGE];
    size_t n_requests = list_requests(session, requests);
    bool more = n_requests < LEASES_PAGE && session->listed_slots < registry_slots(registry);
    const struct cooling_query query = {.after = session->listed_after,
                                        .slots = more ? session->listed_slots : REQUESTS_MAX,
                                        .now_ns = now_ns,
                                        .wants = may_see_cooling,
                                        .session = session};
    size_t n_cooling = cooling_list(&session->front->cooling, &query, LEASES_PAGE, cooling);
    size_t n = n_requests + n_cooling < LEASES_PAGE ? n_requests + n_cooling : LEASES_PAGE;

    if (more && n_requests + n_cooling == 0)
        return false;
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
    return true;
}

static void list_leases(struct session *session, uint64_t after, instant_ns now_ns) {
    session->listed_after = after;
    session->listed_slots = (uint32_t) (after & (REQUESTS_MAX - 1));
    if (reply_leases(session, now_ns))
        return;
    session->state = SESSION_LISTING;
    session->listing = LISTING_LEASES;
    fair_queue_add(&session->front->listings, session->account, &session->listing_link);
}

static struct row row_of_grant(const struct registry *registry, const struct latest_grants_entry *grant) {
    const struct request *request = registry_find(registry, grant->id);
    bool held = request && request->state == REQUEST_HELD;

    return (struct row){.name = grant->name,
                        .name_length = grant->name_length,
                        .state = held ? lease_state_word(request) : "ended",
                        .id = grant->id,
                        .pid = grant->pid,
                        .uid = grant->uid,
                        .ttl_ms = grant->ttl_ms,
                        .asked_ns = grant->asked_ns,
                        .granted_ns = grant->granted_ns,
                        .deadline_ns = held ? request->deadline_ns : 0,
                        .cooldown_until_ns = held ? request->cooldown_until_ns : 0,
                        .token = grant->token};
}

/* Those that the client may see, the latest first. */
static void reply_latest(struct session *session, size_t max, instant_ns now_ns) {
    const struct registry *registry = &session->front->registry;
    const struct latest_grants_entry *grants[LATEST_GRANTS_MAX];
    size_t n_all = latest_grants_list(&registry->latest, grants), n = 0;

    for (size_t i = 0; i < n_all && n < max; i++)
        if (may_see(session, grants[i]->uid, grants[i]->name, grants[i]->name_length))
            grants[n++] = grants[i];
    struct resp_writer writer = reply_begin(session);
    resp_put_array(&writer, n);
    for (size_t i = 0; i < n; i++) {
        const struct row row = row_of_grant(registry, grants[i]);
        put_row(&writer, session->protocol, &row, now_ns);
    }
    reply_send(session, &writer);
}

void listing_leases(const struct call *call) {
    const struct resp_token *arguments = call->arguments;
    int64_t number = 0;

    if (call->n_arguments == 0 || (call->n_arguments == 2 && argument_is(&arguments[0], "AFTER") &&
                                   argument_integer(&arguments[1], 0, ARGUMENT_ID_MAX, &number)))
        list_leases(call->session, (uint64_t) number, call->now_ns);
    else if (call->n_arguments == 2 && argument_is(&arguments[0], "LATEST") &&
             argument_integer(&arguments[1], 1, LATEST_GRANTS_MAX, &number))
        reply_latest(call->session, (size_t) number, call->now_ns);
    else
        reply_error(call->session, "BADARG",
                    "LEASES takes no argument; AFTER and the last id of the former page; or LATEST and how "
                    "many grants, up to %d",
                    LATEST_GRANTS_MAX);
}

/* --- turns --- */

/* False: a part of the work is done. */
static bool reply_listing(struct session *session, instant_ns now_ns) {
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
    case LISTING_METRICS:
        metrics_reply(session, now_ns);
        break;
    case LISTING_LEASES:
        return reply_leases(session, now_ns);
    }
    return true;
}

void listing_turn(struct front_state *front, instant_ns now_ns) {
    struct list *link = fair_queue_next(&front->listings, now_ns);

    if (!link)
        return;
    struct session *session = list_entry(link, struct session, listing_link);
    uint32_t written = session->written;
    assert(session->state == SESSION_LISTING);
    session_proceed(session); /* before the reply: a connection looks for input when it gets one */
    bool done = reply_listing(session, now_ns);
    session_note_work(session, WORK_SHARE_LISTING + (session->written - written) / WORK_SHARE_WRITTEN_BYTES,
                      now_ns);
    if (done)
        return;
    session->state = SESSION_LISTING;
    fair_queue_add(&front->listings, session->account, link);
}

instant_ns listing_due_ns(struct front_state *front, instant_ns now_ns) {
    return fair_queue_due_ns(&front->listings, now_ns);
}
