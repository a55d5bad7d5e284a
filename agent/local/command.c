#include "local/command.h"

#include <assert.h>
#include <stdio.h>

#include "base/bytes.h"
#include "local/argument.h"
#include "local/bless.h"
#include "local/call.h"
#include "local/history-command.h"
#include "local/connection-command.h"
#include "local/leader.h"
#include "local/lease-command.h"
#include "local/listing.h"
#include "local/observe.h"
#include "local/option.h"
#include "local/reply.h"
#include "local/resume-command.h"
#include "local/whoami.h"

struct entry {
    const char *name;
    uint16_t work;         /* units of work-share.h */
    uint8_t arguments_min; /* without the name */
    uint8_t arguments_max; /* without the options */
    void (*handle)(const struct call *call);
    const struct option *options;
    uint8_t n_options;
    enum policy_action right;
    bool named; /* the right is for the name in the first argument */
};

static void list_commands(const struct call *call);

enum { ARGUMENTS_MAX = REQUEST_ITEMS_MAX - 1 };

static const struct entry entries[] = {
    {"ACQUIRE", WORK_SHARE_LEASE, 1, 1, lease_command_acquire, lease_command_options, LEASE_COMMAND_OPTIONS,
     POLICY_ACQUIRE, true},
    {"RESUME", WORK_SHARE_LEASE, 2, 2, resume_command, resume_command_options, RESUME_COMMAND_OPTIONS,
     POLICY_RESUME, true},
    {"RELEASE", WORK_SHARE_REQUEST, 1, 1, lease_command_release, NULL, 0, POLICY_FREE, false},
    {"CHECK", WORK_SHARE_REQUEST, 1, 1, lease_command_check, NULL, 0, POLICY_FREE, false},
    {"BEAT", WORK_SHARE_REQUEST, 1, 1, lease_command_beat, NULL, 0, POLICY_FREE, false},
    {"LEADER", WORK_SHARE_QUERY, 1, 1, leader_command, NULL, 0, POLICY_LEADER, true},
    {"WHOAMI", WORK_SHARE_REQUEST, 0, 1, whoami_command, NULL, 0, POLICY_FREE, false},
    {"STATUS", WORK_SHARE_LISTING, 0, 0, listing_status, NULL, 0, POLICY_FREE, false},
    {"NODES", WORK_SHARE_LISTING, 0, 0, listing_nodes, NULL, 0, POLICY_FREE, false},
    {"METRICS", WORK_SHARE_LISTING, 0, 0, listing_metrics, NULL, 0, POLICY_METRICS, false},
    {"LEASES", WORK_SHARE_LEASES, 0, 2, listing_leases, NULL, 0, POLICY_FREE, false},
    {"HISTORY", WORK_SHARE_LISTING, 1, 3, history_command, NULL, 0, POLICY_FREE, false},
    {"PING", WORK_SHARE_REQUEST, 0, 1, connection_command_ping, NULL, 0, POLICY_FREE, false},
    {"ECHO", WORK_SHARE_REQUEST, 1, 1, connection_command_echo, NULL, 0, POLICY_FREE, false},
    {"HELLO", WORK_SHARE_REQUEST, 0, 6, connection_command_hello, NULL, 0, POLICY_FREE, false},
    {"SELECT", WORK_SHARE_REQUEST, 1, 1, connection_command_select, NULL, 0, POLICY_FREE, false},
    {"CLIENT", WORK_SHARE_REQUEST, 1, 3, connection_command_client, NULL, 0, POLICY_FREE, false},
    {"COMMAND", WORK_SHARE_COMMANDS, 0, ARGUMENTS_MAX, list_commands, NULL, 0, POLICY_FREE, false},
    {"INFO", WORK_SHARE_LISTING, 0, ARGUMENTS_MAX, listing_info, NULL, 0, POLICY_FREE, false},
    {"AUTH", WORK_SHARE_REQUEST, 1, 2, connection_command_auth, NULL, 0, POLICY_FREE, false},
    {"QUIT", WORK_SHARE_REQUEST, 0, ARGUMENTS_MAX, connection_command_quit, NULL, 0, POLICY_FREE, false},
    {"BLESS", WORK_SHARE_REQUEST, 1, 1, bless_command, NULL, 0, POLICY_BLESS, false},
    {"PAGE", WORK_SHARE_REQUEST, 0, 0, connection_command_page, NULL, 0, POLICY_FREE, false},
    {"OBSERVE", WORK_SHARE_OBSERVE, 1, 1, observe_command, NULL, 0, POLICY_OBSERVE, true},
    {"UNOBSERVE", WORK_SHARE_LISTING, 1, 1, observe_command_end, NULL, 0, POLICY_FREE, false},
};

enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

static const struct entry *find(const struct resp_token *name) {
    for (size_t i = 0; i < ENTRIES; i++)
        if (argument_is(name, entries[i].name))
            return &entries[i];
    return NULL;
}

static size_t arguments_max(const struct entry *entry) {
    return entry->arguments_max + option_arguments_max(entry->options, entry->n_options);
}

/* name, arity (with the name; negative: at least), flags, first key, last key, step */
static void put_entry(struct resp_writer *writer, const struct entry *entry) {
    int64_t arity = 1 + entry->arguments_min;

    resp_put_array(writer, 6);
    reply_put_text(writer, entry->name);
    resp_put_integer(writer, entry->arguments_min == arguments_max(entry) ? arity : -arity);
    resp_put_array(writer, 0);
    for (unsigned i = 0; i < 3; i++)
        resp_put_integer(writer, 0);
}

static void put_entries(struct resp_writer *writer) {
    resp_put_array(writer, ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++)
        put_entry(writer, &entries[i]);
}

static void put_named_entries(struct resp_writer *writer, const struct resp_token *names, size_t n,
                              int protocol) {
    resp_put_array(writer, n);
    for (size_t i = 0; i < n; i++) {
        const struct entry *entry = find(&names[i]);
        if (entry)
            put_entry(writer, entry);
        else if (protocol == 2)
            resp_put_raw(writer, "*-1\r\n", 5); /* as in Redis: of an array */
        else
            resp_put_nil(writer, protocol);
    }
}

static void put_names(struct resp_writer *writer) {
    resp_put_array(writer, ENTRIES);
    for (size_t i = 0; i < ENTRIES; i++)
        reply_put_text(writer, entries[i].name);
}

/* COMMAND. */
static void list_commands(const struct call *call) {
    struct session *session = call->session;
    const struct resp_token *word = call->arguments;
    struct resp_writer writer = reply_begin(session);
    size_t n = call->n_arguments;

    if (n == 0 || (n == 1 && argument_is(word, "INFO"))) {
        put_entries(&writer);
    } else if (argument_is(word, "INFO")) {
        put_named_entries(&writer, word + 1, n - 1, session->protocol);
    } else if (argument_is(word, "LIST") && n == 1) {
        put_names(&writer);
    } else if (argument_is(word, "COUNT") && n == 1) {
        resp_put_integer(&writer, ENTRIES);
    } else if (argument_is(word, "DOCS")) {
        resp_put_map(&writer, 0, session->protocol);
    } else {
        reply_error(session, "ERR", "COMMAND knows COUNT, DOCS, LIST and INFO name...");
        return;
    }
    reply_send(session, &writer);
}

static void reply_wrong_number(struct session *session, const struct entry *entry, size_t n_arguments) {
    size_t most = arguments_max(entry);
    char expected[48];

    (void) snprintf(expected, sizeof(expected), "%u", entry->arguments_min);
    if (entry->arguments_min != most)
        (void) snprintf(expected, sizeof(expected), "%u to %zu", entry->arguments_min, most);
    reply_error(session, "ERR", "wrong number of arguments for %s: %zu given, %s expected", entry->name,
                n_arguments, expected);
}

/* A handler reports a wrong name. */
static bool may_run(const struct call *call, const struct entry *entry) {
    const struct resp_token *name = &call->arguments[0];

    if (call->accepted && (entry->right == POLICY_ACQUIRE || entry->right == POLICY_RESUME))
        return true;
    if (!entry->named)
        return call_may(call, entry->right, "", 0);
    return argument_name_fault(name->text, name->length) ||
           call_may(call, entry->right, name->text, name->length);
}

/* No unit pays for the extensions of held leases. So while others ask, a user with many leases acquires
 * further ones at a lower rate. RESUME adds no lease. */
static unsigned work_of(const struct session *session, const struct entry *entry) {
    if (entry->handle != lease_command_acquire)
        return entry->work;
    const struct quota_account *account = quota_at(&session->front->registry.quota, session->account);
    uint64_t extensions = account ? account->used[QUOTA_EXTENSIONS] : 0;
    uint64_t work = WORK_SHARE_LEASE + extensions / WORK_SHARE_EXTENSIONS;
    return work < WORK_SHARE_LEASE_MAX ? (unsigned) work : WORK_SHARE_LEASE_MAX;
}

unsigned command_run(struct session *session, const struct resp_token *tokens, size_t n_tokens,
                     instant_ns now_ns) {
    assert(session_ready(session) && n_tokens > 0);

    const struct entry *entry = find(&tokens[0]);
    if (entry && entry->handle == leader_command && leader_pauses(session)) {
        session_note_work(session, WORK_SHARE_REQUEST, now_ns);
        return 0;
    }
    bool accepted = session->accepted_at == session->request_at + 1;
    bool has_time = session->asked_ns > 0 && (accepted || session->accepted_at == 0);
    const struct call call = {
        .session = session,
        .arguments = tokens + 1,
        .n_arguments = n_tokens - 1,
        .now_ns = now_ns,
        .asked_ns = has_time ? instant_min(session->asked_ns, now_ns) : now_ns,
        .accepted = accepted,
    };
    if (has_time)
        session->asked_ns = 0;
    if (!entry) {
        char name[64];
        (void) bytes_escape(tokens[0].text, tokens[0].length, name, sizeof(name));
        reply_error(session, "ERR", "unknown command '%s'; COMMAND lists those there are", name);
        return WORK_SHARE_REQUEST;
    }
    if (call.n_arguments < entry->arguments_min || call.n_arguments > arguments_max(entry)) {
        reply_wrong_number(session, entry, call.n_arguments);
        return WORK_SHARE_REQUEST;
    }
    if (may_run(&call, entry))
        entry->handle(&call);
    return work_of(session, entry);
}
