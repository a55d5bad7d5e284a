#include "observe.h"

#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "value.h"

#define EXPORT __attribute__((visibility("default")))
#define NS_PER_MS INT64_C(1000000)

enum { AGAIN_MS = 1000, HOLDER_BYTES = 520, TYPE_BYTES = 32, NAME_BYTES_MAX = 512 };

struct client_watch {
    struct client_watch *next;
    struct client_reply reply; /* of OBSERVE at a new agent */
    int64_t again_ns;          /* it was refused there: when to ask again */
    bool told;                 /* anything at all: */
    enum redlock_leadership leadership;
    uint64_t fence;
    char holder[HOLDER_BYTES];
    bool fresh; /* what this agent says first may be what was told before */
    char name[];
};

static struct client_watch *find(const struct client *client, const char *name, size_t length) {
    struct client_watch *watch = client->watches;

    while (watch && (strlen(watch->name) != length || memcmp(watch->name, name, length) != 0))
        watch = watch->next;
    return watch;
}

static void watch_free(struct client *client, struct client_watch *watch) {
    struct client_watch **link = &client->watches;

    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    client_forget(client, &watch->reply);
    free(watch);
}

void observe_deinit(struct client *client) {
    while (client->watches)
        watch_free(client, client->watches);
}

/* --- what is told --- */

/* "host:agent:pid": the agent is another one after the lease was resumed. */
static bool is_same_process(const char *a, const char *b, const char *host) {
    size_t length = strlen(host);
    const char *a_pid = strrchr(a, ':'), *b_pid = strrchr(b, ':');

    if (length == 0 || !a_pid || !b_pid)
        return strcmp(a, b) == 0;
    return strncmp(a, b, length + 1) == 0 && strcmp(a_pid, b_pid) == 0;
}

/* Whether the user knows this. A new agent may not see the token at once; without one, what it says first is
 * taken for the same lease, and what it says later is another. */
static bool is_known(const struct client_watch *watch, const struct redlock_sighting *sighting) {
    if (!watch->told || watch->leadership != sighting->leadership)
        return false;
    if (sighting->leadership != REDLOCK_LEADER_HELD)
        return true;
    return is_same_process(watch->holder, sighting->holder, sighting->host) &&
           (sighting->fence != 0 ? sighting->fence == watch->fence : watch->fresh);
}

static void tell(struct client *client, struct client_watch *watch,
                 const struct redlock_sighting *sighting) {
    bool known = is_known(watch, sighting);

    watch->fresh = false;
    if (known)
        return;
    watch->told = true;
    watch->leadership = sighting->leadership;
    watch->fence = sighting->fence;
    memcpy(watch->holder, sighting->holder, strlen(sighting->holder) + 1);
    if (client->callbacks.leader)
        client->callbacks.leader(client->connection, sighting, client->userdata);
}

static void tell_unknown(struct client *client, struct client_watch *watch) {
    const struct redlock_sighting sighting = {.size = sizeof(sighting),
                                              .name = watch->name,
                                              .leadership = REDLOCK_LEADER_UNKNOWN,
                                              .holder = "",
                                              .host = "",
                                              .data = "",
                                              .type = ""};
    tell(client, watch, &sighting);
}

void observe_push(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    char holder[HOLDER_BYTES], host[HOLDER_BYTES], data[1025], type[TYPE_BYTES];

    if (n_tokens < 4 || tokens[1].type != RESP_BULK || !value_is(&tokens[1], "leader") ||
        tokens[2].type != RESP_BULK || tokens[3].type != RESP_MAP)
        return;
    struct client_watch *watch = find(client, tokens[2].text, tokens[2].length);
    const struct resp_token *map = tokens + 3, *state = value_get(map, n_tokens - 3, "state");
    if (!watch || !state || state->type != RESP_BULK)
        return;
    struct redlock_sighting sighting = {
        .size = sizeof(sighting),
        .name = watch->name,
        .since_ms = (int64_t) value_integer(value_get(map, n_tokens - 3, "since")),
        .holder = holder,
        .host = host,
        .fence = value_integer(value_get(map, n_tokens - 3, "fence")),
        .data = data,
        .type = type,
    };
    sighting.leadership = value_is(state, "held")   ? REDLOCK_LEADER_HELD
                          : value_is(state, "free") ? REDLOCK_LEADER_NONE
                                                    : REDLOCK_LEADER_UNKNOWN;
    value_copy(value_get(map, n_tokens - 3, "holder"), holder, sizeof(holder), NULL);
    value_copy(value_get(map, n_tokens - 3, "host"), host, sizeof(host), NULL);
    value_copy(value_get(map, n_tokens - 3, "data"), data, sizeof(data), &sighting.data_length);
    value_copy(value_get(map, n_tokens - 3, "type"), type, sizeof(type), NULL);
    tell(client, watch, &sighting);
}

/* --- agents that come and go --- */

static void ask_for(struct client *client, struct client_watch *watch, int64_t now_ns) {
    const struct resp_token items[] = {{.text = "OBSERVE", .length = 7},
                                       {.text = watch->name, .length = strlen(watch->name)}};

    watch->reply = (struct client_reply){0};
    watch->again_ns = 0;
    watch->reply.error = client_request(client, KIND_OTHER, items, 2, NULL, &watch->reply, now_ns);
    watch->reply.done = watch->reply.error != REDLOCK_OK;
}

void observe_back(struct client *client, int64_t now_ns) {
    for (struct client_watch *watch = client->watches; watch; watch = watch->next) {
        watch->fresh = true;
        ask_for(client, watch, now_ns);
    }
}

void observe_away(struct client *client) {
    for (struct client_watch *watch = client->watches; watch; watch = watch->next)
        tell_unknown(client, watch);
}

static bool was_refused(const struct client_watch *watch) {
    return watch->reply.done && watch->reply.error != REDLOCK_OK;
}

void observe_tick(struct client *client, int64_t now_ns) {
    for (struct client_watch *watch = client->watches; watch && !client->gone; watch = watch->next) {
        if (!was_refused(watch))
            continue;
        if (watch->again_ns == 0) {
            tell_unknown(client, watch);
            watch->again_ns = now_ns + AGAIN_MS * NS_PER_MS;
        } else if (now_ns >= watch->again_ns) {
            ask_for(client, watch, now_ns);
        }
    }
}

int64_t observe_due_ns(const struct client *client) {
    int64_t due_ns = INT64_MAX;

    for (const struct client_watch *watch = client->watches; watch && !client->gone; watch = watch->next)
        if (was_refused(watch) && watch->again_ns < due_ns)
            due_ns = watch->again_ns > 0 ? watch->again_ns : 1; /* 0 disarms a timer */
    return due_ns;
}

/* --- the public calls --- */

static int ask(struct redlock *connection, const char *word, const char *name) {
    const struct resp_token items[] = {{.text = word, .length = strlen(word)},
                                       {.text = name, .length = strlen(name)}};
    struct client_reply reply = {0};

    int error = connection_ask(connection, items, 2, &reply);
    return error != REDLOCK_OK ? error : (int) reply.integer;
}

/* In the list before it is asked for: the first push may come with the reply. */
static int observe(struct redlock *connection, const char *name) {
    struct client *client = connection_client(connection);
    size_t length = strlen(name);
    int error = connection_begin(connection);

    if (error != REDLOCK_OK)
        return error;
    if (length < 1 || length > NAME_BYTES_MAX) {
        client_note(client, "a name has 1 to 512 bytes");
        return REDLOCK_BAD_NAME;
    }
    if (find(client, name, length))
        return REDLOCK_OK;
    struct client_watch *watch = calloc(1, sizeof(*watch) + length + 1);
    if (!watch)
        return REDLOCK_NO_MEMORY;
    memcpy(watch->name, name, length + 1);
    watch->next = client->watches;
    client->watches = watch;
    int r = ask(connection, "OBSERVE", name);
    if (r == REDLOCK_AGENT_AWAY && !client->over) /* it broke: once more at the next agent */
        r = ask(connection, "OBSERVE", name);
    if (r < 0)
        watch_free(client, watch);
    return r < 0 ? r : REDLOCK_OK;
}

static int unobserve(struct redlock *connection, const char *name) {
    struct client *client = connection_client(connection);
    struct client_watch *watch = find(client, name, strlen(name));
    int error = connection_begin(connection);

    if (error != REDLOCK_OK || !watch)
        return error;
    watch_free(client, watch);
    int r = ask(connection, "UNOBSERVE", name);
    return r < 0 ? r : 1;
}

EXPORT int redlock_observe(struct redlock *connection, const char *name) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name ? observe(connection, name) : connection_misused(connection, "the name is NULL");
    connection_leave(connection);
    return r;
}

EXPORT int redlock_unobserve(struct redlock *connection, const char *name) {
    int r = connection_enter(connection);

    if (r != REDLOCK_OK)
        return r;
    r = name ? unobserve(connection, name) : connection_misused(connection, "the name is NULL");
    connection_leave(connection);
    return r;
}
