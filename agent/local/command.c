#include "local/command.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "core/lock-value.h"
#include "local/argument.h"
#include "local/recovery/ledger-writer.h"
#include "local/observe.h"
#include "local/resume-token.h"

/* Tells the front's questions to the keepers from leases in the keepers' reports. */
#define LOOK_FLAG (UINT64_C(1) << 62)

enum { WAIT_MS_MAX = INT32_MAX };

static void put_text(struct resp_writer *writer, const char *text) {
    resp_put_bulk(writer, text, strlen(text));
}

static void put_pair_integer(struct resp_writer *writer, const char *key, int64_t value) {
    put_text(writer, key);
    resp_put_integer(writer, value);
}

static void put_pair_text(struct resp_writer *writer, const char *key, const char *value) {
    put_text(writer, key);
    put_text(writer, value);
}

static void reply_string(struct session *session, struct front_state *service, const char *text) {
    struct resp_writer writer = session_compose(service);
    resp_put_string(&writer, text);
    session_send(session, service, &writer);
}

static void reply_integer(struct session *session, struct front_state *service, int64_t value) {
    struct resp_writer writer = session_compose(service);
    resp_put_integer(&writer, value);
    session_send(session, service, &writer);
}

static void reply_bulk(struct session *session, struct front_state *service, const char *bytes,
                       size_t length) {
    struct resp_writer writer = session_compose(service);
    resp_put_bulk(&writer, bytes, length);
    session_send(session, service, &writer);
}

bool command_name_is_fine(struct session *session, struct front_state *service,
                          const struct resp_token *token) {
    const char *trouble = argument_name_trouble(token->text, token->length);

    if (trouble)
        session_error(session, service, "BADNAME", "%s", trouble);
    return !trouble;
}

/* --- leases --- */

void command_put_grant(struct front_state *service, const struct session *session,
                       const struct request *request, const struct request_outcome *outcome,
                       struct resp_writer *writer, instant_ns now_ns) {
    const struct shared_string *name = request->name->text;
    char secret[RESUME_TOKEN_BYTES_MAX];

    assert(now_ns < request->deadline_ns);
    resp_put_map(writer, request->resumable ? 7 : 6, session->protocol);
    put_pair_integer(writer, "id", (int64_t) registry_id(&service->registry, request));
    put_text(writer, "name");
    resp_put_bulk(writer, name->bytes, name->head_length);
    put_pair_integer(writer, "fence", request->token);
    put_pair_integer(writer, "validity", (request->deadline_ns - now_ns) / NS_PER_MS);
    put_pair_integer(writer, "deadline", request->deadline_ns);
    put_pair_integer(writer, "slot", request->page_slot);
    if (request->resumable) {
        put_text(writer, "secret");
        resp_put_bulk(writer, secret, resume_token_of_grant(request, outcome, secret));
    }
}

enum {
    ACQUIRE_TTL,
    ACQUIRE_WAIT,
    ACQUIRE_HEARTBEAT,
    ACQUIRE_MAX_HOLD,
    ACQUIRE_LINGER,
    ACQUIRE_DATA,
    ACQUIRE_RESUMABLE,
    ACQUIRE_ASYNC,
    ACQUIRE_OPTIONS,
};

static const struct option acquire_options[ACQUIRE_OPTIONS] = {
    [ACQUIRE_TTL] = {"TTL", OPTION_MILLISECONDS, TTL_MS_MIN, OPTION_MAX_TTL},
    [ACQUIRE_WAIT] = {"WAIT", OPTION_MILLISECONDS, -1, WAIT_MS_MAX},
    [ACQUIRE_HEARTBEAT] = {"HEARTBEAT", OPTION_MILLISECONDS, TTL_MS_MIN, WAIT_MS_MAX},
    [ACQUIRE_MAX_HOLD] = {"MAXHOLD", OPTION_MILLISECONDS, TTL_MS_MIN, WAIT_MS_MAX},
    [ACQUIRE_LINGER] = {"LINGER", OPTION_MILLISECONDS, 0, OPTION_MAX_TTL},
    [ACQUIRE_DATA] = {"DATA", OPTION_BYTES, 0, 0},
    [ACQUIRE_RESUMABLE] = {"RESUMABLE", OPTION_FLAG, 0, 0},
    [ACQUIRE_ASYNC] = {"ASYNC", OPTION_FLAG, 0, 0},
};

static_assert(2 + 2 * ACQUIRE_OPTIONS <= REQUEST_ITEMS_MAX, "a request has room for all options");

static void handle_acquire(struct session *session, struct front_state *service,
                           const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    struct option_value options[ACQUIRE_OPTIONS] = {0};
    char tail[LOCK_VALUE_TAIL_BYTES_MAX];

    if (!command_name_is_fine(session, service, &arguments[0]))
        return;
    const struct policy_limits terms =
        policy_limits_of(&service->policy, arguments[0].text, arguments[0].length);
    options[ACQUIRE_TTL].ms = terms.default_ttl_ms;
    if (!option_read(session, service, acquire_options, ACQUIRE_OPTIONS, arguments + 1, n_arguments - 1,
                     options))
        return;
    const struct option_value *data = &options[ACQUIRE_DATA];
    const uint32_t ttl_ms = (uint32_t) options[ACQUIRE_TTL].ms;
    struct registry_ask ask = {
        .name = arguments[0].text,
        .name_length = arguments[0].length,
        .tail = tail,
        .tail_length = lock_value_put_tail(tail, session->pid, session->uid, data->bytes, data->length),
        .wait_ms = options[ACQUIRE_WAIT].ms,
        .ttl_ms = ttl_ms,
        .node_timeout_ms = policy_node_timeout_ms(&service->policy, ttl_ms),
        .heartbeat_ms = (uint32_t) options[ACQUIRE_HEARTBEAT].ms,
        .linger_ms = (uint32_t) options[ACQUIRE_LINGER].ms,
        .max_hold_ms = policy_hold_ms(terms.max_hold_ms, options[ACQUIRE_MAX_HOLD].ms),
        .fencing = terms.fencing,
        .async = options[ACQUIRE_ASYNC].given,
        .resumable = options[ACQUIRE_RESUMABLE].given,
        .pid = session->pid,
        .uid = session->uid,
        .page = session->page,
    };
    command_ask(session, service, &ask, now_ns);
}

void command_ask(struct session *session, struct front_state *service, const struct registry_ask *ask,
                 instant_ns now_ns) {
    if (service->draining) {
        session_error(session, service, "DRAINING", "the agent is about to stop and grants no new leases");
        return;
    }
    instant_ns asked_ns = session->asked_ns > 0 ? instant_min(session->asked_ns, now_ns) : now_ns;
    struct request *request = registry_ask(&service->registry, session, ask, asked_ns);
    if (!request) {
        session_error(session, service, "QUOTA",
                      "the agent has %u leases and waiters, which is its limit (max_leases)",
                      service->registry.limit);
        return;
    }
    if (ask->resume)
        ledger_writer_resuming(service, ask, now_ns);
    if (ask->async) {
        struct resp_writer writer = session_compose(service);
        session->pushes = true;
        ledger_writer_waiting(service, session, request, ask);
        resp_put_array(&writer, 2);
        put_text(&writer, "waiting");
        resp_put_integer(&writer, (int64_t) registry_id(&service->registry, request));
        session_send(session, service, &writer);
        session->unhurried = true; /* mostly the grant is not far */
    } else {
        session->state = SESSION_ACQUIRING;
        session->awaited = request;
    }
    if (!registry_start(&service->registry, request, ask, now_ns) && !ask->async) {
        session->state = SESSION_READY;
        session->awaited = NULL;
        session_error(session, service, "QUOTA", "the agent has no room for another name");
    }
}

/* The session's own request with the id in the argument; NULL when it has none (any more), told when it is
 * no number, or another session's of the same user. */
static struct request *own_request(struct session *session, struct front_state *service,
                                   const struct resp_token *argument, bool *ret_told) {
    int64_t id;

    *ret_told = !argument_integer(argument, 0, (INT64_C(1) << 53) - 1, &id);
    if (*ret_told) {
        session_error(session, service, "BADARG", "an id is the number that ACQUIRE gave");
        return NULL;
    }
    struct request *request = registry_find(&service->registry, (uint64_t) id);
    if (!request || request->state == REQUEST_RELEASING || !request->session)
        return NULL;
    if (request->session == session)
        return request;
    /* A pool of connections, as a rule: its user would take a 0 for the end of the lease. */
    *ret_told = request->uid == session->uid;
    if (*ret_told)
        session_error(session, service, "NOTHELD", "%s by another session",
                      request->state == REQUEST_HELD ? "held" : "asked for");
    return NULL;
}

static void handle_release(struct session *session, struct front_state *service,
                           const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    bool told;
    struct request *request = own_request(session, service, &arguments[0], &told);

    (void) n_arguments;
    if (told)
        return;
    if (!request) {
        reply_integer(session, service, 0);
        return;
    }
    session->state = SESSION_RELEASING;
    session->awaited = request;
    registry_release(&service->registry, request, now_ns);
}

static void handle_check(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    bool told;
    struct request *request = own_request(session, service, &arguments[0], &told);

    (void) n_arguments;
    if (told)
        return;
    int64_t left_ns = request && request->state == REQUEST_HELD ? request->deadline_ns - now_ns : 0;
    reply_integer(session, service, left_ns > 0 ? left_ns / NS_PER_MS : 0);
}

static void handle_beat(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    bool told;
    struct request *request = own_request(session, service, &arguments[0], &told);

    (void) n_arguments;
    if (told)
        return;
    bool held = request && request->state == REQUEST_HELD && now_ns < request->deadline_ns;
    if (held)
        registry_beat(&service->registry, request);
    reply_integer(session, service, held);
}

bool command_is_look(uint64_t request) {
    return request & LOOK_FLAG;
}

uint64_t command_look_session(uint64_t request) {
    return request & ~LOOK_FLAG;
}

void command_look(struct front_state *service, uint64_t request, const char *name, size_t length) {
    const struct policy_limits terms = policy_limits_of(&service->policy, name, length);
    const struct command command = {
        .kind = COMMAND_LOOK,
        .request = request | LOOK_FLAG,
        .fencing = terms.fencing,
        .node_timeout_ms = policy_node_timeout_ms(&service->policy, (uint32_t) terms.default_ttl_ms),
        .text = name,
        .head_length = (uint16_t) length,
    };
    service->sink.look(service->sink.userdata, registry_hash(&service->registry, name, length), &command);
}

static void handle_leader(struct session *session, struct front_state *service,
                          const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) n_arguments;
    (void) now_ns;
    if (!command_name_is_fine(session, service, &arguments[0]))
        return;
    session->state = SESSION_LOOKING;
    session->looking = session->id | LOOK_FLAG;
    command_look(service, session->id, arguments[0].text, arguments[0].length);
}

/* --- listings --- */

static void survey(struct session *session, struct front_state *service, enum command_survey which) {
    session->state = SESSION_SURVEYING;
    session->surveying = (uint8_t) which;
    list_append(&service->surveyors, &session->surveyor_link);
    service->sink.survey(service->sink.userdata);
}

static void handle_status(struct session *session, struct front_state *service,
                          const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) arguments;
    (void) n_arguments;
    (void) now_ns;
    survey(session, service, SURVEY_STATUS);
}

static void handle_nodes(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) arguments;
    (void) n_arguments;
    (void) now_ns;
    survey(session, service, SURVEY_NODES);
}

static const char *service_state(const struct front_state *service) {
    if (service->draining)
        return "draining";
    return front_state_voting(service) >= service->identity.n_nodes / 2 + 1 ? "ready" : "no-quorum";
}

static struct shard_counters counters_sum(const struct front_state *service) {
    struct shard_counters sum = {.extension_margin_permille = 1000};

    for (unsigned i = 0; i < service->identity.n_keepers; i++) {
        const struct shard_counters *one = &service->keepers[i].counters;
        sum.grants += one->grants;
        sum.releases += one->releases;
        sum.losses += one->losses;
        sum.extensions += one->extensions;
        sum.extensions_failed += one->extensions_failed;
        sum.extension_late_ns = instant_max(sum.extension_late_ns, one->extension_late_ns);
        if (one->extension_margin_permille < sum.extension_margin_permille)
            sum.extension_margin_permille = one->extension_margin_permille;
    }
    return sum;
}

struct status_number {
    const char *key;
    int64_t value;
};

enum { STATUS_NUMBERS = 17 };

static void status_numbers(const struct front_state *service, instant_ns now_ns,
                           struct status_number ret[STATUS_NUMBERS]) {
    const struct front_state_identity *identity = &service->identity;
    const struct shard_counters sum = counters_sum(service);
    const struct status_number numbers[STATUS_NUMBERS] = {
        {"pid", identity->pid},
        {"uptime", (now_ns - identity->started_ns) / NS_PER_MS},
        {"nodes", identity->n_nodes},
        {"quorum", identity->n_nodes / 2 + 1},
        {"voting", front_state_voting(service)},
        {"keepers", identity->n_keepers},
        {"sessions", service->sessions},
        {"leases", service->registry.held},
        {"waiters", service->registry.waiting},
        {"grants", (int64_t) sum.grants},
        {"releases", (int64_t) sum.releases},
        {"handoffs", (int64_t) service->registry.handoffs},
        {"losses", (int64_t) sum.losses},
        {"extensions", (int64_t) sum.extensions},
        {"extensions_failed", (int64_t) sum.extensions_failed},
        {"extension_late", sum.extension_late_ns / NS_PER_MS},
        {"extension_margin", sum.extension_margin_permille / 10},
    };
    memcpy(ret, numbers, sizeof(numbers));
}

static void reply_status(struct session *session, struct front_state *service, instant_ns now_ns) {
    struct resp_writer writer = session_compose(service);
    struct status_number numbers[STATUS_NUMBERS];

    status_numbers(service, now_ns, numbers);
    resp_put_map(&writer, STATUS_NUMBERS + 4, session->protocol);
    put_pair_text(&writer, "version", service->identity.version);
    put_pair_text(&writer, "agent", service->identity.agent);
    put_pair_text(&writer, "host", service->identity.host);
    put_pair_text(&writer, "state", service_state(service));
    for (unsigned i = 0; i < STATUS_NUMBERS; i++)
        put_pair_integer(&writer, numbers[i].key, numbers[i].value);
    session_send(session, service, &writer);
}

static const char *standing_word(enum standing standing) {
    static const char *const words[] = {
        [NODE_STATE_CONNECTING] = "connecting",   [NODE_STATE_PROBING] = "probing",
        [NODE_STATE_QUARANTINED] = "quarantined", [NODE_STATE_VOTING] = "voting",
        [NODE_STATE_FAILED] = "failed",
    };
    return words[standing];
}

static void put_node(const struct front_state *service, const struct session *session, unsigned node,
                     struct resp_writer *writer, instant_ns now_ns) {
    const struct front_state_node view = front_state_node(service, node);
    const struct front_state_node_times figures = front_state_figures(service, node);
    bool ends = view.standing == NODE_STATE_QUARANTINED && figures.until_ns != INSTANT_NEVER;

    resp_put_map(writer, 14, session->protocol);
    put_pair_text(writer, "name", service->identity.node_names[node]);
    put_pair_text(writer, "address", service->identity.node_addresses[node]);
    put_pair_text(writer, "state", standing_word(view.standing));
    put_pair_integer(writer, "since", (now_ns - view.since_ns) / NS_PER_MS);
    put_pair_integer(writer, "until", ends ? instant_max(figures.until_ns - now_ns, 0) / NS_PER_MS : -1);
    put_pair_text(writer, "reason", view.reason);
    put_pair_integer(writer, "rtt", figures.rtt_us);
    put_pair_integer(writer, "rtt_p50", figures.rtt_p50_us);
    put_pair_integer(writer, "rtt_p99", figures.rtt_p99_us);
    put_pair_integer(writer, "clock", figures.clock_us / 1000);
    put_pair_text(writer, "version", figures.version);
    put_pair_text(writer, "aof", !figures.known ? "" : figures.aof_enabled ? "yes" : "no");
    put_pair_integer(writer, "evicted", (int64_t) figures.evicted_keys);
    put_pair_text(writer, "differs", figures.differs);
}

static void reply_nodes(struct session *session, struct front_state *service, instant_ns now_ns) {
    struct resp_writer writer = session_compose(service);

    resp_put_array(&writer, service->identity.n_nodes);
    for (unsigned i = 0; i < service->identity.n_nodes; i++)
        put_node(service, session, i, &writer, now_ns);
    session_send(session, service, &writer);
}

static void reply_info(struct session *session, struct front_state *service, instant_ns now_ns) {
    struct status_number numbers[STATUS_NUMBERS];
    char text[2048];
    int length = snprintf(
        text, sizeof(text),
        "# Server\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\nredlockd_version:%s\r\n"
        "agent:%s\r\nhost:%s\r\nstate:%s\r\nrole:master\r\n",
        service->identity.version, service->identity.agent, service->identity.host, service_state(service));

    status_numbers(service, now_ns, numbers);
    for (unsigned i = 0; i < STATUS_NUMBERS && length > 0 && (size_t) length < sizeof(text); i++)
        length += snprintf(text + length, sizeof(text) - (size_t) length, "%s:%lld\r\n", numbers[i].key,
                           (long long) numbers[i].value);
    assert(length > 0 && (size_t) length < sizeof(text));
    reply_bulk(session, service, text, (size_t) length);
}

void command_surveyed(struct front_state *service, struct session *session, instant_ns now_ns) {
    assert(session->state == SESSION_SURVEYING);

    session->state = SESSION_READY;
    switch ((enum command_survey) session->surveying) {
    case SURVEY_STATUS:
        reply_status(session, service, now_ns);
        break;
    case SURVEY_NODES:
        reply_nodes(session, service, now_ns);
        break;
    case SURVEY_INFO:
        reply_info(session, service, now_ns);
        break;
    }
}

static void put_lease(struct front_state *service, const struct session *session,
                      const struct request *request, struct resp_writer *writer, instant_ns now_ns) {
    const char *state = request->state != REQUEST_HELD              ? "waiting"
                        : request->linger_until_ns != INSTANT_NEVER ? "lingering"
                        : request->risk != 0                        ? "at-risk"
                                                                    : "held";
    int64_t left_ns = request->state == REQUEST_HELD ? instant_max(request->deadline_ns - now_ns, 0) : 0;

    resp_put_map(writer, 9, session->protocol);
    put_pair_integer(writer, "id", (int64_t) registry_id(&service->registry, request));
    put_text(writer, "name");
    resp_put_bulk(writer, request->name->text->bytes, request->name->text->head_length);
    put_pair_text(writer, "state", state);
    put_pair_integer(writer, "pid", request->pid);
    put_pair_integer(writer, "uid", request->uid);
    put_pair_integer(writer, "ttl", request->ttl_ms);
    put_pair_integer(writer, "validity", left_ns / NS_PER_MS);
    put_pair_integer(writer, "age", (now_ns - request->asked_ns) / NS_PER_MS);
    put_pair_integer(writer, "fence", request->token);
}

/* An operator's word that the node has forgotten nothing that counts: of root, or of the agent's own user.
 */
static void handle_bless(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    const struct front_state_identity *identity = &service->identity;

    (void) n_arguments;
    (void) now_ns;
    if (session->uid != 0 && session->uid != identity->uid) {
        session_error(session, service, "DENIED", "only root and the agent's own user bless nodes");
        return;
    }
    for (unsigned i = 0; i < identity->n_nodes; i++) {
        if (bytes_equal(arguments[0].text, arguments[0].length, identity->node_names[i],
                        strlen(identity->node_names[i]))) {
            service->sink.bless(service->sink.userdata, i);
            reply_string(session, service, "OK");
            return;
        }
    }
    session_error(session, service, "BADARG", "no node has this name; NODES lists them");
}

/* The session's shared page: where the deadlines of its leases are read without asking. */
static void handle_page(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) arguments;
    (void) n_arguments;
    (void) now_ns;
    if (session->page) {
        session_error(session, service, "BADARG", "this session has its page already");
        return;
    }
    if (service->sink.page(service->sink.userdata, session) < 0) {
        session_error(session, service, "QUOTA", "the agent has no memory or descriptors for a page");
        return;
    }
    struct resp_writer writer = session_compose(service);
    resp_put_map(&writer, 3, session->protocol);
    put_pair_integer(&writer, "version", DEADLINE_PAGE_VERSION);
    put_pair_integer(&writer, "bytes", DEADLINE_PAGE_BYTES);
    put_pair_integer(&writer, "slots", DEADLINE_PAGE_SLOTS);
    session_send(session, service, &writer);
}

static void handle_leases(struct session *session, struct front_state *service,
                          const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    const struct request *page[LEASES_PAGE], *request;
    int64_t after = 0;
    uint32_t slot = 0;
    size_t n = 0;

    if (n_arguments != 0 && (n_arguments != 2 || !argument_is(&arguments[0], "AFTER") ||
                             !argument_integer(&arguments[1], 0, (INT64_C(1) << 53) - 1, &after))) {
        session_error(session, service, "BADARG",
                      "LEASES takes nothing, or AFTER and the last id of the page before");
        return;
    }
    if (n_arguments == 2)
        slot = (uint32_t) (after & (REQUESTS_MAX - 1)) + 1;
    while (n < LEASES_PAGE && (request = registry_next(&service->registry, &slot)))
        if (request->name)
            page[n++] = request;
    struct resp_writer writer = session_compose(service);
    resp_put_array(&writer, n);
    for (size_t i = 0; i < n; i++)
        put_lease(service, session, page[i], &writer, now_ns);
    session_send(session, service, &writer);
}

/* --- greetings of Redis clients --- */

static void handle_ping(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) now_ns;
    if (n_arguments == 0)
        reply_string(session, service, "PONG");
    else
        reply_bulk(session, service, arguments[0].text, arguments[0].length);
}

static void handle_echo(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) n_arguments;
    (void) now_ns;
    reply_bulk(session, service, arguments[0].text, arguments[0].length);
}

static void handle_ok(struct session *session, struct front_state *service,
                      const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) arguments;
    (void) n_arguments;
    (void) now_ns;
    reply_string(session, service, "OK");
}

static void handle_quit(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    handle_ok(session, service, arguments, n_arguments, now_ns);
    session->state = SESSION_QUITTING;
}

static void handle_select(struct session *session, struct front_state *service,
                          const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    int64_t database;

    if (argument_integer(&arguments[0], 0, 0, &database))
        handle_ok(session, service, arguments, n_arguments, now_ns);
    else
        session_error(session, service, "BADARG", "there is only database 0");
}

static bool set_client_name(struct session *session, struct front_state *service,
                            const struct resp_token *token) {
    if (token->length > SESSION_NAME_BYTES_MAX) {
        session_error(session, service, "BADARG", "a client's name has at most %d bytes",
                      SESSION_NAME_BYTES_MAX);
        return false;
    }
    for (size_t i = 0; i < token->length; i++) {
        if (token->text[i] <= ' ' || token->text[i] > '~') {
            session_error(session, service, "ERR",
                          "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    memcpy(session->name, token->text, token->length);
    session->name[token->length] = '\0';
    if (service->ledger)
        ledger_set_name(service->ledger, (uint32_t) (session->id & LEDGER_SLOT_MASK), session->name);
    return true;
}

static void handle_hello(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    int64_t protocol = session->protocol;

    if (n_arguments > 0 && !argument_integer(&arguments[0], 2, 3, &protocol)) {
        session_error(session, service, "NOPROTO", "unsupported protocol version; 2 and 3 are known");
        return;
    }
    for (size_t i = 1; i < n_arguments; i++) {
        if (argument_is(&arguments[i], "AUTH") && i + 2 < n_arguments) {
            i += 2;
        } else if (argument_is(&arguments[i], "SETNAME") && i + 1 < n_arguments) {
            if (!set_client_name(session, service, &arguments[++i]))
                return;
        } else {
            session_error(session, service, "ERR",
                          "HELLO takes a version, AUTH user password, SETNAME name");
            return;
        }
    }
    session->protocol = (int) protocol;
    struct resp_writer writer = session_compose(service);
    resp_put_map(&writer, 8, session->protocol);
    put_pair_text(&writer, "server", "redlockd");
    put_pair_text(&writer, "version", service->identity.version);
    put_pair_integer(&writer, "proto", protocol);
    put_pair_integer(&writer, "id", (int64_t) session->id);
    put_pair_text(&writer, "mode", "standalone");
    put_pair_text(&writer, "role", "master");
    put_text(&writer, "modules");
    resp_put_array(&writer, 0);
    put_pair_integer(&writer, "now", now_ns);
    session_send(session, service, &writer);
}

static void reply_client_name(struct session *session, struct front_state *service) {
    struct resp_writer writer = session_compose(service);

    if (session->name[0])
        put_text(&writer, session->name);
    else
        resp_put_nil(&writer, session->protocol);
    session_send(session, service, &writer);
}

static void handle_client(struct session *session, struct front_state *service,
                          const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    if (argument_is(&arguments[0], "SETNAME") && n_arguments == 2) {
        if (set_client_name(session, service, &arguments[1]))
            reply_string(session, service, "OK");
    } else if (argument_is(&arguments[0], "GETNAME") && n_arguments == 1) {
        reply_client_name(session, service);
    } else if (argument_is(&arguments[0], "ID") && n_arguments == 1) {
        reply_integer(session, service, (int64_t) session->id);
    } else if ((argument_is(&arguments[0], "SETINFO") && n_arguments == 3) ||
               (argument_is(&arguments[0], "NO-EVICT") && n_arguments == 2) ||
               (argument_is(&arguments[0], "NO-TOUCH") && n_arguments == 2)) {
        handle_ok(session, service, arguments, n_arguments, now_ns);
    } else {
        session_error(
            session, service, "ERR",
            "CLIENT knows SETNAME name, GETNAME, ID, SETINFO attribute value, NO-EVICT and NO-TOUCH");
    }
}

static void handle_info(struct session *session, struct front_state *service,
                        const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    (void) arguments;
    (void) n_arguments;
    (void) now_ns;
    survey(session, service, SURVEY_INFO);
}

static void handle_command(struct session *session, struct front_state *service,
                           const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns);

enum { ARGUMENTS_MAX = REQUEST_ITEMS_MAX - 1 };

static const struct command_entry commands[] = {
    {"ACQUIRE", 1, 1, handle_acquire, acquire_options, ACQUIRE_OPTIONS},
    {"RESUME", 2, 2, command_resume, command_resume_options, RESUME_OPTIONS},
    {"RELEASE", 1, 1, handle_release, NULL, 0},
    {"CHECK", 1, 1, handle_check, NULL, 0},
    {"BEAT", 1, 1, handle_beat, NULL, 0},
    {"LEADER", 1, 1, handle_leader, NULL, 0},
    {"STATUS", 0, 0, handle_status, NULL, 0},
    {"NODES", 0, 0, handle_nodes, NULL, 0},
    {"LEASES", 0, 2, handle_leases, NULL, 0},
    {"PING", 0, 1, handle_ping, NULL, 0},
    {"ECHO", 1, 1, handle_echo, NULL, 0},
    {"HELLO", 0, 6, handle_hello, NULL, 0},
    {"SELECT", 1, 1, handle_select, NULL, 0},
    {"CLIENT", 1, 3, handle_client, NULL, 0},
    {"COMMAND", 0, ARGUMENTS_MAX, handle_command, NULL, 0},
    {"INFO", 0, ARGUMENTS_MAX, handle_info, NULL, 0},
    {"AUTH", 1, 2, handle_ok, NULL, 0},
    {"QUIT", 0, ARGUMENTS_MAX, handle_quit, NULL, 0},
    {"BLESS", 1, 1, handle_bless, NULL, 0},
    {"PAGE", 0, 0, handle_page, NULL, 0},
    {"OBSERVE", 1, 1, observe_command, NULL, 0},
    {"UNOBSERVE", 1, 1, observe_command_end, NULL, 0},
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

const struct command_entry *command_find(const char *name, size_t length) {
    const struct resp_token token = {.text = name, .length = length};

    for (size_t i = 0; i < COMMANDS; i++)
        if (argument_is(&token, commands[i].name))
            return &commands[i];
    return NULL;
}

size_t command_arguments_max(const struct command_entry *entry) {
    return entry->arguments_max + option_arguments_max(entry->options, entry->n_options);
}

static void handle_command(struct session *session, struct front_state *service,
                           const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns) {
    struct resp_writer writer = session_compose(service);

    (void) now_ns;
    if (n_arguments > 0 && argument_is(&arguments[0], "COUNT")) {
        resp_put_integer(&writer, COMMANDS);
    } else if (n_arguments > 0 && argument_is(&arguments[0], "DOCS")) {
        resp_put_map(&writer, 0, session->protocol);
    } else {
        /* name, arity (with the name; negative: at least), flags, first key, last key, step */
        resp_put_array(&writer, COMMANDS);
        for (size_t i = 0; i < COMMANDS; i++) {
            const struct command_entry *entry = &commands[i];
            int64_t arity = 1 + entry->arguments_min;
            resp_put_array(&writer, 6);
            put_text(&writer, entry->name);
            resp_put_integer(&writer, entry->arguments_min == command_arguments_max(entry) ? arity : -arity);
            resp_put_array(&writer, 0);
            for (unsigned j = 0; j < 3; j++)
                resp_put_integer(&writer, 0);
        }
    }
    session_send(session, service, &writer);
}
