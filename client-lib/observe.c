#include "observe.h"

#include <stdlib.h>
#include <string.h>

#include "value.h"

enum { RETRY_MS = 1000, PING_MS = 3000, HOLDER_BYTES = 520, TYPE_BYTES = 32 };

struct observe_name {
    struct observe_name *next;
    bool accepted;             /* by the agent: before that, redlock_observe() may still fail */
    struct client_reply reply; /* to the last OBSERVE that this file sent; done while there is none */
    bool doubtful;             /* the agent has pushed `unknown`: the subscription may have ended */
    int64_t retry_ns;          /* when to send OBSERVE again after that, or after a refusal; 0: not set */
    bool reported;             /* leadership, fence and holder were passed to the callback */
    enum redlock_leadership leadership;
    uint64_t fence;
    char holder[HOLDER_BYTES];
    bool fresh; /* the present agent has not pushed anything yet: its first push may be no change */
    bool stale; /* the agent knows the subscription, and would not push the present leader again */
    char name[];
};

static struct observe_name *find(const struct client *client, const char *name, size_t length) {
    struct observe_name *entry = client->observed;

    while (entry && (strlen(entry->name) != length || memcmp(entry->name, name, length) != 0))
        entry = entry->next;
    return entry;
}

static void entry_free(struct client *client, struct observe_name *entry) {
    struct observe_name **link = &client->observed;

    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    client_forget(client, &entry->reply);
    free(entry);
}

void observe_deinit(struct client *client) {
    while (client->observed)
        entry_free(client, client->observed);
}

/* --- reports --- */

/* Compares "host:agent:pid" without the agent, which changes when the lease is resumed. */
static bool is_same_process(const char *a, const char *b, const char *host) {
    size_t length = strlen(host);
    const char *a_pid = strrchr(a, ':'), *b_pid = strrchr(b, ':');

    if (length == 0 || !a_pid || !b_pid)
        return strcmp(a, b) == 0;
    return strncmp(a, b, length + 1) == 0 && strcmp(a_pid, b_pid) == 0;
}

/* Whether the push repeats the last report. A new agent may not know the token at first: its first push
 * without a token counts as the same lease, a later one as another lease. */
static bool is_unchanged(const struct observe_name *entry, const struct redlock_sighting *sighting) {
    if (!entry->reported || entry->leadership != sighting->leadership)
        return false;
    if (sighting->leadership != REDLOCK_LEADER_HELD)
        return true;
    return is_same_process(entry->holder, sighting->holder, sighting->host) &&
           (sighting->fence != 0 ? sighting->fence == entry->fence : entry->fresh);
}

static void report(struct client *client, struct observe_name *entry,
                   const struct redlock_sighting *sighting) {
    bool unchanged = is_unchanged(entry, sighting);

    entry->fresh = false;
    if (unchanged)
        return;
    entry->reported = true;
    entry->leadership = sighting->leadership;
    entry->fence = sighting->fence;
    memcpy(entry->holder, sighting->holder, strlen(sighting->holder) + 1);
    if (client->callbacks.leader)
        client->callbacks.leader(client->connection, sighting, client->userdata);
}

static void report_unknown(struct client *client, struct observe_name *entry) {
    const struct redlock_sighting sighting = {.size = sizeof(sighting),
                                              .name = entry->name,
                                              .leadership = REDLOCK_LEADER_UNKNOWN,
                                              .holder = "",
                                              .host = "",
                                              .data = "",
                                              .type = ""};
    report(client, entry, &sighting);
}

void observe_push(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    char holder[HOLDER_BYTES], host[HOLDER_BYTES], data[1025], type[TYPE_BYTES];

    if (n_tokens < 4 || tokens[1].type != RESP_BULK || !value_is(&tokens[1], "leader") ||
        tokens[2].type != RESP_BULK || tokens[3].type != RESP_MAP)
        return;
    struct observe_name *entry = find(client, tokens[2].text, tokens[2].length);
    const struct resp_token *map = tokens + 3, *state = value_get(map, n_tokens - 3, "state");
    if (!entry || !state || state->type != RESP_BULK)
        return;
    struct redlock_sighting sighting = {
        .size = sizeof(sighting),
        .name = entry->name,
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
    entry->doubtful = sighting.leadership == REDLOCK_LEADER_UNKNOWN;
    entry->retry_ns = 0;
    report(client, entry, &sighting);
}

/* --- OBSERVE again --- */

static int send_word(struct client *client, const struct observe_name *entry, const char *word,
                     struct client_reply *reply, int64_t now_ns) {
    const struct resp_token items[] = {{.text = word, .length = strlen(word)},
                                       {.text = entry->name, .length = strlen(entry->name)}};

    return client_request(client, KIND_OTHER, items, 2, NULL, reply, now_ns);
}

static void send_observe(struct client *client, struct observe_name *entry, int64_t now_ns) {
    int error = entry->stale ? send_word(client, entry, "UNOBSERVE", NULL, now_ns) : REDLOCK_OK;

    entry->reply = (struct client_reply){0};
    entry->doubtful = false;
    entry->retry_ns = 0;
    if (error == REDLOCK_OK) {
        entry->stale = false;
        error = send_word(client, entry, "OBSERVE", &entry->reply, now_ns);
    }
    entry->reply.error = error;
    entry->reply.done = error != REDLOCK_OK;
}

void observe_back(struct client *client, int64_t now_ns) {
    for (struct observe_name *entry = client->observed; entry; entry = entry->next) {
        entry->fresh = true;
        send_observe(client, entry, now_ns);
    }
}

void observe_away(struct client *client) {
    for (struct observe_name *entry = client->observed; entry; entry = entry->next)
        if (entry->accepted)
            report_unknown(client, entry);
}

static bool was_refused(const struct observe_name *entry) {
    return entry->reply.done && entry->reply.error != REDLOCK_OK;
}

/* With the reply 0 or 1 there is a subscription, whose end is pushed again: one OBSERVE for each `unknown`.
 * Until a name is accepted, redlock_observe() itself sends OBSERVE again after a refusal, or fails. */
static bool wants_observe(const struct observe_name *entry) {
    return (entry->accepted && was_refused(entry)) || (entry->doubtful && entry->reply.done);
}

/* When an agent that has sent nothing for a while is asked; INT64_MAX: a request is pending anyway. */
static int64_t ping_due_ns(const struct client *client) {
    int64_t last_ns = client->received_ns > client->pinged_ns ? client->received_ns : client->pinged_ns;

    if (!client->observed || client->gone || client->pending_count > 0)
        return INT64_MAX;
    return last_ns + PING_MS * NS_PER_MS;
}

/* Without memory for it, the next one follows at the usual time. */
static void send_ping(struct client *client, int64_t now_ns) {
    static const struct resp_token ping[] = {{.text = "PING", .length = 4}};

    client->pinged_ns = now_ns;
    (void) client_request(client, KIND_OTHER, ping, 1, NULL, NULL, now_ns);
}

void observe_tick(struct client *client, int64_t now_ns) {
    if (now_ns >= ping_due_ns(client))
        send_ping(client, now_ns);
    for (struct observe_name *entry = client->observed; entry && !client->gone; entry = entry->next) {
        if (!wants_observe(entry))
            continue;
        if (entry->retry_ns == 0) {
            report_unknown(client, entry);
            entry->retry_ns = now_ns + RETRY_MS * NS_PER_MS;
        } else if (now_ns >= entry->retry_ns) {
            send_observe(client, entry, now_ns);
        }
    }
}

int64_t observe_due_ns(const struct client *client) {
    int64_t due_ns = ping_due_ns(client);

    for (const struct observe_name *entry = client->observed; entry && !client->gone; entry = entry->next)
        if (wants_observe(entry) && entry->retry_ns < due_ns)
            due_ns = entry->retry_ns > 0 ? entry->retry_ns : 1; /* 0 disarms a timer */
    return due_ns;
}

/* --- an agent that hangs --- */

int64_t observe_silent_due_ns(const struct client *client) {
    int64_t since_ns = client_unanswered_ns(client);

    if (!client->observed || client->gone || client->silent || since_ns == INT64_MAX)
        return INT64_MAX;
    int64_t timeout_ms = client->answer_timeout_ms > PING_MS ? client->answer_timeout_ms : PING_MS;
    return since_ns + timeout_ms * NS_PER_MS;
}

void observe_silent(struct client *client, int64_t now_ns) {
    if (now_ns < observe_silent_due_ns(client))
        return;
    client->silent = true;
    observe_away(client);
}

/* The reply to an OBSERVE from before would count for the new one. */
void observe_answered(struct client *client, int64_t now_ns) {
    client->silent = false;
    for (struct observe_name *entry = client->observed; entry; entry = entry->next) {
        client_forget(client, &entry->reply);
        entry->fresh = entry->stale = true;
        send_observe(client, entry, now_ns);
    }
}

/* --- the list --- */

int observe_add(struct client *client, const char *name) {
    size_t length = strlen(name);

    if (find(client, name, length))
        return 0;
    struct observe_name *entry = calloc(1, sizeof(*entry) + length + 1);
    if (!entry)
        return REDLOCK_NO_MEMORY;
    memcpy(entry->name, name, length + 1);
    entry->reply.done = true;
    entry->next = client->observed;
    client->observed = entry;
    return 1;
}

void observe_accepted(struct client *client, const char *name) {
    struct observe_name *entry = find(client, name, strlen(name));

    if (entry)
        entry->accepted = true;
}

int observe_remove(struct client *client, const char *name) {
    struct observe_name *entry = find(client, name, strlen(name));

    if (!entry)
        return 0;
    entry_free(client, entry);
    return 1;
}
