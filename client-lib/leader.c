/* The calls of redlock.h that report the holder of a name; see redlock_observe(3). */
#include <stddef.h>
#include <string.h>

#include "connection-internal.h"
#include "observe.h"
#include "redlock.h"
#include "request.h"
#include "sized.h"

static int check_name(struct redlock *connection, const char *name) {
    const char *text;

    int error = request_name(name, &text);
    if (error != REDLOCK_OK)
        client_note(&connection->client, "%s", text);
    return error;
}

static int ask_leader(struct redlock *connection, const char *name, struct redlock_leader *ret) {
    const struct resp_token items[] = {{.text = "LEADER", .length = 6},
                                       {.text = name, .length = strlen(name)}};
    struct redlock_leader leader = REDLOCK_LEADER_INIT;
    struct client_reply reply = {.leader = &leader};

    if (!sized_has_room(ret, offsetof(struct redlock_leader, since_ms)))
        return connection_misused(connection, "ret->size is wrong");
    int error = check_name(connection, name);
    if (error != REDLOCK_OK)
        return error;
    error = connection_ask(connection, items, 2, &reply);
    if (error != REDLOCK_OK)
        return error;
    if (reply.integer == 1)
        sized_give(ret, &leader, sizeof(leader));
    return (int) reply.integer;
}

EXPORT int redlock_leader(struct redlock *connection, const char *name, struct redlock_leader *ret) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name && ret ? ask_leader(connection, name, ret)
                    : connection_misused(connection, "name or ret is NULL");
    connection_leave(connection);
    return r;
}

static int ask(struct redlock *connection, const char *word, const char *name, int64_t until_ns) {
    const struct resp_token items[] = {{.text = word, .length = strlen(word)},
                                       {.text = name, .length = strlen(name)}};
    struct client_reply reply = {0};

    int error = connection_ask_until(connection, KIND_OTHER, items, 2, &reply, until_ns);
    return error != REDLOCK_OK ? error : reply.integer > 0;
}

/* The agent may still get the OBSERVE that was not answered in time: without the end of its subscription a
 * later redlock_observe() would get no present leader. */
static void end_subscription(struct redlock *connection, const char *name) {
    const struct resp_token items[] = {{.text = "UNOBSERVE", .length = 9},
                                       {.text = name, .length = strlen(name)}};
    struct client *client = &connection->client;

    if (!client->gone &&
        client_request(client, KIND_OTHER, items, 2, NULL, NULL, connection_now_ns()) == REDLOCK_OK)
        (void) connection_send_some(connection);
}

static int observe(struct redlock *connection, const char *name) {
    struct client *client = &connection->client;
    int64_t until_ns = connection_answer_until_ns(connection);
    int r = connection_begin(connection);

    if (r == REDLOCK_OK)
        r = check_name(connection, name);
    if (r != REDLOCK_OK)
        return r;
    r = observe_add(client, name);
    if (r <= 0)
        return connection_failed(connection, r);
    r = ask(connection, "OBSERVE", name, until_ns);
    if (r == REDLOCK_AGENT_AWAY && !client->over) /* the connection broke: once more at the next agent */
        r = ask(connection, "OBSERVE", name, until_ns);
    if (r < 0)
        (void) observe_remove(client, name);
    else
        observe_accepted(client, name);
    if (r == REDLOCK_NO_ANSWER)
        end_subscription(connection, name);
    return r < 0 ? r : REDLOCK_OK;
}

static int unobserve(struct redlock *connection, const char *name) {
    int r = connection_begin(connection);

    if (r != REDLOCK_OK || observe_remove(&connection->client, name) == 0)
        return r;
    r = ask(connection, "UNOBSERVE", name, connection_answer_until_ns(connection));
    return r < 0 ? r : 1;
}

EXPORT int redlock_observe(struct redlock *connection, const char *name) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name ? observe(connection, name) : connection_misused(connection, "name is NULL");
    connection_leave(connection);
    return r;
}

EXPORT int redlock_unobserve(struct redlock *connection, const char *name) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name ? unobserve(connection, name) : connection_misused(connection, "name is NULL");
    connection_leave(connection);
    return r;
}
