/* The calls of redlock.h on leases, but for event loops; see redlock_acquire(3) and redlock_valid(3). */
#include "redlock.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "client.h"
#include "connection-internal.h"
#include "lease.h"
#include "request.h"
#include "spin-wait.h"

static int begin(struct redlock *connection, const char *name, const struct redlock_options *given,
                 struct redlock_options *options) {
    const char *text;

    int error = connection_begin(connection);
    if (error != REDLOCK_OK)
        return error;
    error = request_options(given, name, options, &text);
    if (error != REDLOCK_OK)
        client_note(&connection->client, "%s", text);
    return error;
}

static int request(struct redlock *connection, const char *name, const struct redlock_options *options,
                   struct client_reply *reply, struct redlock_lease **ret) {
    int error = client_acquire(&connection->client, name, options, reply, connection_now_ns(), ret);

    return connection_failed(connection, error);
}

/* Withdraws a request without a reply in time. A grant that still arrives is released. */
static void withdraw(struct redlock *connection, struct redlock_lease *lease) {
    struct client *client = &connection->client;

    lease->outcome = NULL;
    if (lease->id != 0 && lease->state != LEASE_OVER && !client->gone)
        (void) client_request_id(client, KIND_RELEASE, "RELEASE", lease, NULL, connection_now_ns());
    lease_drop(client, lease);
    if (!client->gone)
        (void) connection_send(connection);
}

static int acquire(struct redlock *connection, const char *name, const struct redlock_options *options,
                   int64_t answer_until_ns, struct redlock_lease **ret) {
    struct client_reply reply = {0};
    struct redlock_lease *lease = NULL;

    int error = connection_begin(connection);
    if (error == REDLOCK_OK)
        error = request(connection, name, options, &reply, &lease);
    if (error != REDLOCK_OK)
        return error;
    int64_t until_ns = answer_until_ns;
    if (options->wait_ms < 0)
        until_ns = INT64_MAX;
    else if (options->wait_ms > 0)
        until_ns += options->wait_ms * NS_PER_MS;
    error = connection_wait_for(connection, &reply, until_ns);
    if (reply.done)
        error = reply.error;
    else
        client_forget(&connection->client, &reply);
    if (error == REDLOCK_NO_ANSWER)
        client_note(&connection->client, "the agent did not reply within %" PRId64 " ms",
                    connection->client.answer_timeout_ms + options->wait_ms);
    if (error == REDLOCK_OK && connection_now_ns() >= lease->deadline_ns) {
        client_note(&connection->client, "this process was stopped until the lease expired");
        error = REDLOCK_LOST;
    }
    if (error == REDLOCK_OK)
        error = connection_forked(connection);
    if (error != REDLOCK_OK) {
        withdraw(connection, lease);
        return error;
    }
    lease->given = true;
    *ret = lease;
    return REDLOCK_OK;
}

/* If the connection breaks, as by the agent's restart, the request is sent once more on the next one. */
static int acquire_at_once(struct redlock *connection, const char *name,
                           const struct redlock_options *options, int64_t until_ns,
                           struct redlock_lease **ret) {
    int error = connection_come_back(connection, until_ns);

    if (error == REDLOCK_OK)
        error = acquire(connection, name, options, until_ns, ret);
    if (error == REDLOCK_AGENT_AWAY && !connection->client.over &&
        connection_come_back(connection, until_ns) == REDLOCK_OK)
        error = acquire(connection, name, options, until_ns, ret);
    return error;
}

/* The client keeps the request for the next agent. One may be there, and the wait may be over before the
 * next attempt to connect is due: so that is made now. */
static int acquire_waiting(struct redlock *connection, const char *name,
                           const struct redlock_options *options, int64_t until_ns,
                           struct redlock_lease **ret) {
    int64_t at_ns = connection_now_ns();

    if (options->wait_ms > 0 && connection->retry_ns >= at_ns + options->wait_ms * NS_PER_MS)
        connection->retry_ns = at_ns;
    return acquire(connection, name, options, until_ns, ret);
}

static int begin_and_acquire(struct redlock *connection, const char *name,
                             const struct redlock_options *given, struct redlock_lease **ret) {
    int64_t until_ns = connection_answer_until_ns(connection);
    struct redlock_options options;

    int error = begin(connection, name, given, &options);
    if (error != REDLOCK_OK)
        return error;
    error = options.wait_ms != 0 ? acquire_waiting(connection, name, &options, until_ns, ret)
                                 : acquire_at_once(connection, name, &options, until_ns, ret);
    return error == REDLOCK_AGENT_AWAY ? connection_failed(connection, error) : error;
}

EXPORT int redlock_acquire(struct redlock *connection, const char *name, const struct redlock_options *given,
                           struct redlock_lease **ret) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = name && ret ? begin_and_acquire(connection, name, given, ret)
                        : connection_misused(connection, "name or ret is NULL");
    connection_leave(connection);
    return error;
}

static int acquire_async(struct redlock *connection, const char *name, const struct redlock_options *given,
                         struct redlock_lease **ret) {
    struct redlock_options options;
    struct redlock_lease *lease = NULL;

    int error = begin(connection, name, given, &options);
    if (error == REDLOCK_OK)
        error = request(connection, name, &options, NULL, &lease);
    if (error != REDLOCK_OK)
        return error;
    *ret = lease;
    /* A broken connection is found by redlock_dispatch(), which may call callbacks. */
    if (!connection->client.gone)
        (void) connection_send_some(connection);
    return REDLOCK_OK;
}

EXPORT int redlock_acquire_async(struct redlock *connection, const char *name,
                                 const struct redlock_options *given, struct redlock_lease **ret) {
    int error = connection_enter(connection);

    if (error != REDLOCK_OK)
        return error;
    error = name && ret ? acquire_async(connection, name, given, ret)
                        : connection_misused(connection, "name or ret is NULL");
    connection_leave(connection);
    return error;
}

/* Polls for the reply, and yields the core before each poll, until the spin-wait gives up. */
static void spin_for(struct redlock *connection, const struct client_reply *reply) {
    bool goes_on = true;

    while (goes_on && !reply->done) {
        int64_t yielded_ns = connection_now_ns();
        (void) sched_yield();
        goes_on = spin_wait_goes_on(&connection->spin_wait, yielded_ns, connection_now_ns());
        if (connection_receive(connection) != REDLOCK_OK)
            return;
    }
}

/* For a lease that waited for its grant: probably others wait too, and the release is a quick hand-off. */
static int wait_for_release(struct redlock_lease *lease, const struct client_reply *reply,
                            int64_t until_ns) {
    struct redlock *connection = lease->connection;
    bool spins = spin_wait_begin(&connection->spin_wait, lease->waited_ns, connection_now_ns());

    if (spins && connection_send(connection) == REDLOCK_OK)
        spin_for(connection, reply);
    int error = connection_wait_for(connection, reply, until_ns);
    spin_wait_end(&connection->spin_wait, connection_now_ns());
    return error;
}

static int read_arrived(struct redlock *connection) {
    int error = connection_receive(connection);

    client_end_overdue(&connection->client, connection_now_ns());
    return error;
}

/* A request that the agent has not replied to has no id yet. RELEASE waits for the reply; CHECK and BEAT
 * read it if it has arrived. */
static int read_id(struct redlock_lease *lease, enum client_kind kind, int64_t until_ns) {
    struct redlock *connection = lease->connection;

    if (kind != KIND_RELEASE)
        return connection->client.gone ? REDLOCK_OK : read_arrived(connection);
    int error = connection_run_until(connection, &lease->asking, false, until_ns);
    return error == REDLOCK_OK && connection->client.gone ? REDLOCK_AGENT_AWAY : error;
}

/* Sends "WORD id" and returns the integer of the reply. */
static int64_t ask_once(struct redlock_lease *lease, const char *word, enum client_kind kind,
                        int64_t until_ns) {
    struct redlock *connection = lease->connection;
    struct client_reply reply = {0};

    int error = connection_run_until(connection, &lease->resuming, false, until_ns);
    if (error == REDLOCK_OK && lease->state == LEASE_ASKED)
        error = read_id(lease, kind, until_ns);
    if (error != REDLOCK_OK)
        return error;
    if (lease->id == 0 || lease->state == LEASE_OVER)
        return 0;
    error = client_request_id(&connection->client, kind, word, lease, &reply, connection_now_ns());
    if (error == REDLOCK_OK)
        error = kind == KIND_RELEASE && lease->waited_ns > 0
                    ? wait_for_release(lease, &reply, until_ns)
                    : connection_wait_for(connection, &reply, until_ns);
    /* A lease that was lost during the call stays lost. */
    bool is_lost = kind != KIND_RELEASE && lease->state == LEASE_OVER;
    if (!reply.done) {
        client_forget(&connection->client, &reply);
        return is_lost ? 0 : error;
    }
    if (reply.error != REDLOCK_OK)
        return reply.error;
    return is_lost ? 0 : reply.integer;
}

/* If the connection breaks, the request is sent to the agent that resumes the lease. An event may make the
 * lease an orphan, which the caller then frees. */
static int64_t ask_about(struct redlock_lease *lease, const char *word, enum client_kind kind) {
    struct redlock *connection = lease->connection;
    int64_t until_ns = connection_answer_until_ns(connection);
    bool was_held = kind == KIND_RELEASE && lease_is_valid_at(lease, connection_now_ns());

    int64_t answer = connection_begin(connection);
    if (answer != REDLOCK_OK)
        return answer;
    lease->in_call = true;
    do
        answer = ask_once(lease, word, kind, until_ns);
    while (answer == REDLOCK_AGENT_AWAY && lease->resuming && connection_now_ns() < until_ns);
    lease->in_call = false;
    if (answer == 0 && was_held && connection->client.gone)
        answer = REDLOCK_AGENT_AWAY; /* held until its deadline, which came during the call */
    return answer < 0 || !connection_is_ours(connection) ? connection_failed(connection, (int) answer)
                                                         : answer;
}

/* The agent that is resuming the lease has not granted it in time. Its grant would find no lease here, and
 * the agent would extend it. */
static void withdraw_resume(struct redlock *connection, struct redlock_lease *lease) {
    struct client *client = &connection->client;

    if (lease->resuming && lease->id != 0 && !client->gone &&
        client_request_id(client, KIND_RELEASE, "RELEASE", lease, NULL, connection_now_ns()) == REDLOCK_OK)
        (void) connection_send_some(connection);
}

static int release(struct redlock *connection, struct redlock_lease *lease) {
    if (lease->state == LEASE_ASKED && !lease->asking) { /* kept for the next agent */
        lease_drop(&connection->client, lease);
        return 1;
    }
    /* No callback gets a handle that is being released. A grant on its way ends with the RELEASE. */
    if (lease->state == LEASE_ASKED || lease->state == LEASE_WAITING)
        lease->orphan = true;
    lease->releasing = true;
    int64_t released = ask_about(lease, "RELEASE", KIND_RELEASE);
    if (released == REDLOCK_FORKED)
        return REDLOCK_FORKED;
    lease->releasing = false; /* an id that comes later is released then */
    withdraw_resume(connection, lease);
    lease->state = LEASE_OVER;
    lease_drop(&connection->client, lease);
    return released < 0 ? (int) released : released > 0;
}

EXPORT int redlock_release(struct redlock_lease *lease) {
    if (!lease)
        return 0;
    struct redlock *connection = lease->connection;
    int r = connection_enter(connection);
    if (r != REDLOCK_OK)
        return r;
    r = release(connection, lease);
    connection_leave(connection);
    return r;
}

static int release_async(struct redlock *connection, struct redlock_lease *lease) {
    int error = REDLOCK_OK;
    bool named = lease->id != 0; /* else released when the agent assigns an id */
    if (named && lease->state != LEASE_OVER)
        error = client_request_id(&connection->client, KIND_RELEASE, "RELEASE", lease, NULL,
                                  connection_now_ns());
    lease->state = LEASE_OVER;
    lease_drop(&connection->client, lease);
    if (error == REDLOCK_OK && named && !connection_send_some(connection)) {
        client_note(&connection->client, "the connection to the agent broke (send: %s)", strerror(errno));
        return REDLOCK_AGENT_AWAY;
    }
    if (error == REDLOCK_OK)
        return error;
    connection->client.error_text[0] = '\0';
    return connection_failed(connection, error);
}

EXPORT int redlock_release_async(struct redlock_lease *lease) {
    if (!lease)
        return REDLOCK_OK;
    struct redlock *connection = lease->connection;
    int error = connection_enter(connection);
    if (error != REDLOCK_OK)
        return error;
    error = release_async(connection, lease);
    connection_leave(connection);
    return error;
}

static int64_t enter_and_ask(struct redlock_lease *lease, const char *word, enum client_kind kind) {
    if (!lease)
        return REDLOCK_BAD_ARGUMENT;
    struct redlock *connection = lease->connection;
    int64_t answer = connection_enter(connection);
    if (answer != REDLOCK_OK)
        return answer;
    answer = ask_about(lease, word, kind);
    lease_free_orphan(&connection->client, lease); /* after `failed` was called */
    connection_leave(connection);
    return answer;
}

EXPORT int64_t redlock_check(struct redlock_lease *lease) {
    return enter_and_ask(lease, "CHECK", KIND_CHECK);
}

EXPORT int redlock_beat(struct redlock_lease *lease) {
    int64_t held = enter_and_ask(lease, "BEAT", KIND_BEAT);

    return held < 0 ? (int) held : held > 0;
}

EXPORT int64_t redlock_remaining_ns(const struct redlock_lease *lease) {
    if (!lease || atomic_load_explicit(lease->connection->is_ours, memory_order_relaxed) == 0)
        return 0;
    return lease_remaining_ns(lease, connection_now_ns);
}

EXPORT bool redlock_valid(const struct redlock_lease *lease) {
    return redlock_remaining_ns(lease) > 0;
}

EXPORT uint64_t redlock_lease_id(const struct redlock_lease *lease) {
    return lease ? lease->id : 0;
}

EXPORT uint64_t redlock_fence(const struct redlock_lease *lease) {
    return lease ? lease->fence : 0;
}

EXPORT const char *redlock_lease_name(const struct redlock_lease *lease) {
    return lease ? lease->name : "";
}
