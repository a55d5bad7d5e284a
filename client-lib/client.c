#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "observe.h"
#include "value.h"

#define NS_PER_MS INT64_C(1000000)

enum { INPUT_BYTES_MIN = 4096, OUTPUT_BYTES_MIN = 512, PENDING_MIN = 16, DEPTH_MAX = 4 };
enum { RESUME_RETRY_MS = 50 };
#define DURATION_MS_MAX (INT64_C(1) << 40)

struct client_pending {
    enum client_kind kind;
    struct redlock_lease *lease;
    struct client_reply *reply;
    int64_t sent_ns;
};

int client_init(struct client *client, struct redlock *connection, const struct deadline_view *view) {
    *client = (struct client){.connection = connection, .view = view};
    agent_clock_init(&client->clock);
    client->tokens = malloc(CLIENT_TOKENS_MAX * sizeof(client->tokens[0]));
    return client->tokens ? REDLOCK_OK : REDLOCK_NO_MEMORY;
}

void client_deinit(struct client *client) {
    observe_deinit(client);
    while (client->leases) {
        struct redlock_lease *next = client->leases->next;
        free(client->leases->secret);
        free(client->leases);
        client->leases = next;
    }
    free(client->pending);
    free(client->input);
    free(client->output);
    free(client->tokens);
    client->pending = NULL;
    client->input = client->output = NULL;
    client->tokens = NULL;
}

void client_note(struct client *client, const char *format, ...) {
    va_list arguments;

    va_start(arguments, format);
    (void) vsnprintf(client->error_text, sizeof(client->error_text), format, arguments);
    va_end(arguments);
}

/* --- requests --- */

static char *output_room(struct client *client, size_t wanted) {
    size_t room = client->output_room ? client->output_room : OUTPUT_BYTES_MIN;

    if (client->output_room - client->output_length >= wanted)
        return client->output + client->output_length;
    while (room - client->output_length < wanted)
        room *= 2;
    char *larger = realloc(client->output, room);
    if (!larger)
        return NULL;
    client->output = larger;
    client->output_room = room;
    return larger + client->output_length;
}

/* Room for one more awaited reply; the ring is straightened when it grows. */
static bool pending_room(struct client *client) {
    if (client->pending_count < client->pending_room)
        return true;
    size_t room = client->pending_room ? 2 * client->pending_room : PENDING_MIN;
    struct client_pending *larger = malloc(room * sizeof(*larger));
    if (!larger)
        return false;
    for (size_t i = 0; i < client->pending_count; i++)
        larger[i] = client->pending[(client->pending_first + i) % client->pending_room];
    free(client->pending);
    client->pending = larger;
    client->pending_room = room;
    client->pending_first = 0;
    return true;
}

/* Asks for the page with the first lease: who wants none costs the agent none. It comes with the reply,
 * before the lease's. An agent that has none is no failure: then the deadlines are those that were told. */
static void ask_for_page(struct client *client, int64_t now_ns) {
    static const struct resp_token page[] = {{.text = "PAGE", .length = 4}};

    if (!client->asked_for_page)
        client->asked_for_page =
            client_request(client, KIND_OTHER, page, 1, NULL, NULL, now_ns) == REDLOCK_OK;
}

int client_request(struct client *client, enum client_kind kind, const struct resp_token *items,
                   size_t n_items, struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns) {
    size_t wanted = 16;

    if (client->gone)
        return REDLOCK_AGENT_AWAY;
    if (kind == KIND_ACQUIRE || kind == KIND_ASYNC || kind == KIND_RESUME)
        ask_for_page(client, now_ns);
    for (size_t i = 0; i < n_items; i++)
        wanted += items[i].length + 32;
    char *room = output_room(client, wanted);
    if (!room || !pending_room(client))
        return REDLOCK_NO_MEMORY;
    struct resp_writer writer = {.buffer = room, .size = wanted};
    resp_put_array(&writer, n_items);
    for (size_t i = 0; i < n_items; i++)
        resp_put_bulk(&writer, items[i].text, items[i].length);
    client->output_length += writer.length;
    client->pending[(client->pending_first + client->pending_count++) % client->pending_room] =
        (struct client_pending){.kind = kind, .lease = lease, .reply = reply, .sent_ns = now_ns};
    if (lease)
        lease->replies_awaited++;
    return REDLOCK_OK;
}

int client_request_id(struct client *client, enum client_kind kind, const char *word,
                      struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns) {
    char id[24];
    int length = snprintf(id, sizeof(id), "%llu", (unsigned long long) lease->id);
    const struct resp_token items[] = {
        {.text = word, .length = strlen(word)},
        {.text = id, .length = (size_t) length},
    };
    return client_request(client, kind, items, 2, lease, reply, now_ns);
}

void client_forget(struct client *client, const struct client_reply *reply) {
    for (size_t i = 0; i < client->pending_count; i++) {
        struct client_pending *pending =
            &client->pending[(client->pending_first + i) % client->pending_room];
        if (pending->reply == reply)
            pending->reply = NULL;
    }
}

void client_sent(struct client *client, size_t length) {
    client->output_length -= length;
    memmove(client->output, client->output + length, client->output_length);
}

/* --- replies --- */

/* An error's first word to our code; the text without that word is noted. */
static int error_of(struct client *client, const char *text, size_t length) {
    static const struct {
        const char *word;
        int error;
    } words[] = {
        {"BUSY", REDLOCK_BUSY},           {"TIMEOUT", REDLOCK_TIMED_OUT}, {"NOQUORUM", REDLOCK_NO_QUORUM},
        {"DENIED", REDLOCK_DENIED},       {"QUOTA", REDLOCK_QUOTA},       {"BADNAME", REDLOCK_BAD_NAME},
        {"BADARG", REDLOCK_BAD_ARGUMENT}, {"NOTHELD", REDLOCK_LOST},      {"DRAINING", REDLOCK_DRAINING},
    };
    const char *blank = length > 0 ? memchr(text, ' ', length) : NULL;
    const struct resp_token word = {.text = text, .length = blank ? (size_t) (blank - text) : length};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!value_is(&word, words[i].word))
            continue;
        client_note(client, "%.*s", blank ? (int) (length - word.length - 1) : 0, blank ? blank + 1 : "");
        return words[i].error;
    }
    client_note(client, "%.*s", (int) length, text);
    return REDLOCK_PROTOCOL;
}

/* What a later agent wants to know; without memory for it the lease can't be resumed. */
static void take_secret(struct redlock_lease *lease, const struct resp_token *secret) {
    if (!secret || secret->type != RESP_BULK || secret->length == 0)
        return;
    char *copy = malloc(secret->length);
    if (!copy)
        return;
    memcpy(copy, secret->text, secret->length);
    free(lease->secret);
    lease->secret = copy;
    lease->secret_length = secret->length;
}

/* Takes the grant's id, token, deadline and secret over. */
static bool take_grant(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                       size_t n_tokens) {
    const struct resp_token *slot = value_get(tokens, n_tokens, "slot");
    int64_t id = (int64_t) value_integer(value_get(tokens, n_tokens, "id")),
            deadline_ns = (int64_t) value_integer(value_get(tokens, n_tokens, "deadline")),
            validity_ms = (int64_t) value_integer(value_get(tokens, n_tokens, "validity"));

    if (id == 0 || deadline_ns == 0 || validity_ms == 0 || validity_ms > DURATION_MS_MAX)
        return false;
    if (lease->state == LEASE_WAITING)
        lease->waited_ns = client->now_ns - lease->asked_ns;
    agent_clock_granted(&client->clock, deadline_ns, validity_ms, lease->asked_ns, client->now_ns);
    lease->id = (uint64_t) id;
    lease->fence = value_integer(value_get(tokens, n_tokens, "fence"));
    take_secret(lease, value_get(tokens, n_tokens, "secret"));
    lease_granted(client, lease, deadline_ns, slot && slot->type == RESP_INTEGER ? slot->integer : -1);
    return true;
}

/* A handle that was given back meanwhile lets go of what it just got. */
static void give_back(struct client *client, struct redlock_lease *lease, int64_t now_ns) {
    (void) client_request_id(client, KIND_RELEASE, "RELEASE", lease, NULL, now_ns);
}

static void reply_acquire(struct client *client, struct redlock_lease *lease, struct client_reply *reply,
                          const struct resp_token *tokens, size_t n_tokens, int64_t now_ns) {
    int error = REDLOCK_OK;

    if (tokens[0].type == RESP_ERROR)
        error = error_of(client, tokens[0].text, tokens[0].length);
    else if (!take_grant(client, lease, tokens, n_tokens))
        error = REDLOCK_PROTOCOL;
    if (error != REDLOCK_OK)
        lease->state = LEASE_OVER;
    else if (lease->orphan)
        give_back(client, lease, now_ns);
    if (reply)
        reply->error = error;
}

/* The request ended without a lease: told to the caller who waits, or by the callback, after which the
 * handle is gone. */
static void request_failed(struct client *client, struct redlock_lease *lease, int error) {
    lease->state = LEASE_OVER;
    if (lease->outcome) {
        lease->outcome->error = error;
        lease->outcome->done = true;
        lease->outcome = NULL;
        return;
    }
    if (lease->orphan || !lease->async)
        return;
    if (client->callbacks.failed)
        client->callbacks.failed(lease, (enum redlock_error) error, client->error_text, client->userdata);
    lease->orphan = true;
}

static void reply_async(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                        size_t n_tokens, int64_t now_ns) {
    if (tokens[0].type == RESP_ERROR) {
        request_failed(client, lease, error_of(client, tokens[0].text, tokens[0].length));
        return;
    }
    if (n_tokens != 3 || tokens[2].type != RESP_INTEGER) {
        client_note(client, "ACQUIRE ASYNC was not answered with an id");
        request_failed(client, lease, REDLOCK_PROTOCOL);
        return;
    }
    lease->id = (uint64_t) tokens[2].integer;
    lease->state = LEASE_WAITING;
    if (lease->orphan)
        give_back(client, lease, now_ns);
}

/* --- resuming --- */

/* The agent holds it for us no more, or can't; or it could not tell, and is asked again until the deadline.
 */
static void resume_failed(struct client *client, struct redlock_lease *lease, int error) {
    char text[sizeof(client->error_text)];

    lease->id = 0;
    lease->resume_ns = client->now_ns + RESUME_RETRY_MS * NS_PER_MS;
    if (error == REDLOCK_NO_QUORUM || error == REDLOCK_BUSY || error == REDLOCK_QUOTA ||
        error == REDLOCK_DRAINING)
        return;
    (void) snprintf(text, sizeof(text), "%s", client->error_text);
    lease_lost(client, lease, "lost", text);
}

/* Should the deadline pass before the outcome: what it may still get is released. */
static void reply_resume(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens, int64_t now_ns) {
    bool named = n_tokens == 3 && tokens[2].type == RESP_INTEGER;

    if (named)
        lease->id = (uint64_t) tokens[2].integer;
    if (named && (lease->orphan || lease->state != LEASE_HELD))
        give_back(client, lease, now_ns);
    else if (!named && lease->state == LEASE_HELD)
        resume_failed(client, lease, error_of(client, tokens[0].text, tokens[0].length));
}

static void ask_to_resume(struct client *client, struct redlock_lease *lease, int64_t now_ns) {
    int64_t left_ms = (lease->deadline_ns - now_ns) / NS_PER_MS;
    char wait[24];
    int length = snprintf(wait, sizeof(wait), "%lld", (long long) (left_ms > 0 ? left_ms : 0));
    const struct resp_token items[] = {
        {.text = "RESUME", .length = 6},
        {.text = lease->name, .length = strlen(lease->name)},
        {.text = lease->secret, .length = lease->secret_length},
        {.text = "WAIT", .length = 4},
        {.text = wait, .length = (size_t) length},
        {.text = "ASYNC", .length = 5},
    };

    lease->resume_ns = INT64_MAX;
    if (client_request(client, KIND_RESUME, items, 6, lease, NULL, now_ns) != REDLOCK_OK)
        lease->resume_ns = now_ns + RESUME_RETRY_MS * NS_PER_MS;
}

static void push_resumed(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens) {
    if (!take_grant(client, lease, tokens, n_tokens))
        return;
    if (lease->seen_over) /* somebody was told that it had ended, meanwhile */
        return;
    client->error_text[0] = '\0'; /* that the connection broke is of no interest any more */
    if (!lease->away_told)
        return;
    lease->away_told = false;
    if (!lease->orphan && client->callbacks.extended)
        client->callbacks.extended(lease, client->userdata);
}

/* By our own knowledge. The agent may hold it still: then no longer. */
static void end_lease(struct client *client, struct redlock_lease *lease, const char *reason,
                      const char *text) {
    if (lease->id != 0 && !client->gone)
        give_back(client, lease, client->now_ns);
    lease_expired(client, lease, reason, text);
}

/* Whether the agent does not hold it for us; told `lost` before, unless its last millisecond is not over. */
static bool is_refusal(const struct resp_token *token) {
    static const char not_held[] = "NOTHELD";

    if (token->type == RESP_ERROR)
        return token->length >= strlen(not_held) && memcmp(token->text, not_held, strlen(not_held)) == 0;
    return token->type == RESP_INTEGER && token->integer <= 0;
}

/* The validity counts from before the question was sent: that is never too long. The caller who is told that
 * there is none has lost the lease; by itself the library goes on until the deadline, with which the agent's
 * reason may come. */
static void reply_check(struct client *client, struct redlock_lease *lease,
                        const struct client_pending *pending, const struct resp_token *token) {
    int64_t deadline_ns = lease->deadline_ns;

    if (pending->kind == KIND_CHECK)
        lease->check_under_way = false;
    if (lease->state != LEASE_HELD)
        return;
    if (is_refusal(token) && pending->reply) {
        end_lease(client, lease, "lost", "the agent no longer holds it for us");
    } else if (is_refusal(token)) {
        if (!lease->place && deadline_ns > pending->sent_ns + NS_PER_MS)
            deadline_ns = pending->sent_ns + NS_PER_MS;
        lease_set_deadline(client, lease, deadline_ns);
        lease->refresh_ns = deadline_ns;
    } else if (pending->kind == KIND_CHECK && token->type == RESP_INTEGER &&
               token->integer <= DURATION_MS_MAX) {
        int64_t checked_ns = pending->sent_ns + token->integer * NS_PER_MS;
        lease_set_deadline(client, lease, checked_ns > deadline_ns ? checked_ns : deadline_ns);
    }
}

static void reply_hello(struct client *client, const struct client_pending *pending,
                        const struct resp_token *tokens, size_t n_tokens) {
    int64_t agent_ns = (int64_t) value_integer(value_get(tokens, n_tokens, "now"));

    if (agent_ns > 0)
        agent_clock_told(&client->clock, agent_ns, 0, pending->sent_ns, client->now_ns);
}

static void reply_leader(struct client_reply *reply, const struct resp_token *tokens, size_t n_tokens) {
    struct redlock_leader *leader = reply->leader;
    const struct resp_token *validity = value_get(tokens, n_tokens, "validity");

    if (tokens[0].type == RESP_NIL) {
        reply->integer = 0;
        return;
    }
    if (!validity || validity->type != RESP_INTEGER) {
        reply->error = REDLOCK_PROTOCOL;
        return;
    }
    value_copy(value_get(tokens, n_tokens, "holder"), leader->holder, sizeof(leader->holder), NULL);
    value_copy(value_get(tokens, n_tokens, "data"), leader->data, sizeof(leader->data),
               &leader->data_length);
    value_copy(value_get(tokens, n_tokens, "type"), leader->type, sizeof(leader->type), NULL);
    leader->validity_ms = validity->integer;
    leader->fence = value_integer(value_get(tokens, n_tokens, "fence"));
    reply->integer = 1;
}

static void reply_other(struct client *client, struct client_reply *reply, const struct resp_token *tokens,
                        size_t n_tokens) {
    if (!reply)
        return;
    if (tokens[0].type == RESP_ERROR)
        reply->error = error_of(client, tokens[0].text, tokens[0].length);
    else if (reply->leader)
        reply_leader(reply, tokens, n_tokens);
    else if (reply->on_value)
        reply->on_value(reply->userdata, tokens, n_tokens);
    else
        reply->integer = tokens[0].integer;
}

static int take_reply(struct client *client, const struct resp_token *tokens, size_t n_tokens,
                      int64_t now_ns) {
    if (client->pending_count == 0) {
        if (tokens[0].type == RESP_ERROR)
            return error_of(client, tokens[0].text, tokens[0].length); /* why it is about to close */
        client_note(client, "the agent answered what was not asked");
        return REDLOCK_PROTOCOL;
    }
    struct client_pending pending = client->pending[client->pending_first];
    client->pending_first = (client->pending_first + 1) % client->pending_room;
    client->pending_count--;
    switch (pending.kind) {
    case KIND_HELLO:
        reply_hello(client, &pending, tokens, n_tokens);
        reply_other(client, pending.reply, tokens, n_tokens);
        break;
    case KIND_ACQUIRE:
        reply_acquire(client, pending.lease, pending.reply, tokens, n_tokens, now_ns);
        break;
    case KIND_ASYNC:
        reply_async(client, pending.lease, tokens, n_tokens, now_ns);
        break;
    case KIND_RESUME:
        reply_resume(client, pending.lease, tokens, n_tokens, now_ns);
        break;
    case KIND_CHECK:
    case KIND_BEAT:
        reply_check(client, pending.lease, &pending, &tokens[0]);
        reply_other(client, pending.reply, tokens, n_tokens);
        break;
    case KIND_RELEASE:
    case KIND_OTHER:
        reply_other(client, pending.reply, tokens, n_tokens);
        break;
    }
    if (pending.reply)
        pending.reply->done = true;
    if (pending.lease && --pending.lease->replies_awaited == 0 && pending.lease->orphan)
        lease_free(client, pending.lease);
    return REDLOCK_OK;
}

/* --- pushes --- */

static void push_granted(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens) {
    if (lease->resuming && n_tokens >= 4) {
        push_resumed(client, lease, tokens + 3, n_tokens - 3);
        return;
    }
    if (lease->state != LEASE_WAITING || n_tokens < 4 ||
        !take_grant(client, lease, tokens + 3, n_tokens - 3))
        return;
    if (lease->outcome) {
        lease->outcome->done = true;
        lease->outcome = NULL;
        return;
    }
    /* An orphan's RELEASE is on its way. */
    if (!lease->orphan && client->callbacks.granted)
        client->callbacks.granted(lease, client->userdata);
}

static void push_failed(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                        size_t n_tokens) {
    if (lease->resuming && n_tokens >= 4)
        resume_failed(client, lease, error_of(client, tokens[3].text, tokens[3].length));
    if (lease->state != LEASE_WAITING || n_tokens < 4)
        return;
    request_failed(client, lease, error_of(client, tokens[3].text, tokens[3].length));
    if (lease->orphan && lease->replies_awaited == 0)
        lease_free(client, lease);
}

static void push_lost(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                      size_t n_tokens) {
    char reason[32], text[256];

    if (n_tokens < 5)
        return;
    value_copy(&tokens[3], reason, sizeof(reason), NULL);
    value_copy(&tokens[4], text, sizeof(text), NULL);
    lease_lost(client, lease, reason, text);
}

static void push_at_risk(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens) {
    char reason[32];

    if (n_tokens < 5 || tokens[3].type != RESP_INTEGER || lease->state != LEASE_HELD || lease->orphan)
        return;
    value_copy(&tokens[4], lease->risk, sizeof(lease->risk), NULL);
    memcpy(reason, lease->risk, sizeof(reason));
    if (client->callbacks.at_risk)
        client->callbacks.at_risk(lease, tokens[3].integer, reason, client->userdata);
}

static void push_extended(struct client *client, struct redlock_lease *lease,
                          const struct resp_token *tokens, size_t n_tokens) {
    if (n_tokens < 5 || tokens[4].type != RESP_INTEGER || lease->state != LEASE_HELD)
        return;
    int64_t deadline_ns = agent_clock_here_ns(&client->clock, tokens[4].integer);
    if (deadline_ns > lease->deadline_ns)
        lease_set_deadline(client, lease, deadline_ns);
    lease->risk[0] = '\0';
    if (!lease->orphan && client->callbacks.extended)
        client->callbacks.extended(lease, client->userdata);
}

/* Unknown pushes are passed over: newer agents may have more. */
static void take_push(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    static const struct {
        const char *word;
        void (*take)(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                     size_t n_tokens);
    } pushes[] = {
        {"granted", push_granted}, {"failed", push_failed},     {"lost", push_lost},
        {"at-risk", push_at_risk}, {"extended", push_extended},
    };

    if (n_tokens >= 2 && tokens[1].type == RESP_BULK && value_is(&tokens[1], "draining") &&
        client->callbacks.draining)
        client->callbacks.draining(client->connection, client->userdata);
    observe_push(client, tokens, n_tokens);
    if (n_tokens < 3 || tokens[1].type != RESP_BULK || tokens[2].type != RESP_INTEGER)
        return;
    struct redlock_lease *lease = lease_find(client, tokens[2].integer);
    for (size_t i = 0; lease && i < sizeof(pushes) / sizeof(pushes[0]); i++) {
        if (value_is(&tokens[1], pushes[i].word)) {
            pushes[i].take(client, lease, tokens, n_tokens);
            return;
        }
    }
}

/* --- input --- */

char *client_input_room(struct client *client, size_t wanted) {
    size_t room = client->input_room ? client->input_room : INPUT_BYTES_MIN;

    if (client->input_room - client->input_length >= wanted)
        return client->input + client->input_length;
    while (room - client->input_length < wanted)
        room *= 2;
    if (room > CLIENT_INPUT_BYTES_MAX)
        return NULL;
    char *larger = realloc(client->input, room);
    if (!larger)
        return NULL;
    client->input = larger;
    client->input_room = room;
    return larger + client->input_length;
}

int client_received(struct client *client, size_t length, int64_t now_ns) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = 64 * 1024, .tokens_max = CLIENT_TOKENS_MAX, .depth_max = DEPTH_MAX};
    size_t used = 0, n_tokens;
    int error = REDLOCK_OK;

    client->now_ns = now_ns;
    client->input_length += length;
    while (used < client->input_length && error == REDLOCK_OK) {
        long n = resp_parse(client->input + used, client->input_length - used, &limits, client->tokens,
                            &n_tokens);
        if (n == RESP_INCOMPLETE)
            break;
        if (n < 0) {
            client_note(client, "the agent sent what is not the protocol");
            return REDLOCK_PROTOCOL;
        }
        if (client->tokens[0].type == RESP_PUSH)
            take_push(client, client->tokens, n_tokens);
        else
            error = take_reply(client, client->tokens, n_tokens, now_ns);
        used += (size_t) n;
    }
    client->input_length -= used;
    memmove(client->input, client->input + used, client->input_length);
    return error;
}

/* --- the connection's end and return --- */

static void replies_lost(struct client *client, int error) {
    for (size_t i = 0; i < client->pending_count; i++) {
        struct client_pending *pending =
            &client->pending[(client->pending_first + i) % client->pending_room];
        if (pending->reply) {
            pending->reply->error = error;
            pending->reply->done = true;
        }
        if (pending->lease)
            pending->lease->replies_awaited--;
    }
    client->pending_count = 0;
}

/* Ids were those of the agent that has gone: the next one gives its own. */
static void lease_cut_off(struct client *client, struct redlock_lease *lease, int error) {
    bool asked = lease->state == LEASE_ASKED || lease->state == LEASE_WAITING;

    if (!lease_leave_page(client, lease))
        lease_expired(client, lease, "lost", "so its agent's page shows, which had no time to tell more");
    lease->check_under_way = false;
    lease->resuming = lease->state == LEASE_HELD && lease->secret;
    lease->resume_ns = INT64_MAX;
    lease->ask_again = asked && !lease->orphan && lease->options.wait_ms != 0;
    if (lease->resuming || lease->ask_again)
        lease->id = 0;
    if (lease->ask_again)
        lease->state = LEASE_ASKED;
    else if (asked)
        request_failed(client, lease, error);
    if (lease->orphan)
        lease_free(client, lease);
}

void client_disconnected(struct client *client, int error, const char *text, int64_t now_ns) {
    if (client->gone)
        return;
    client->gone = true;
    client->now_ns = now_ns;
    client->output_length = client->input_length = 0;
    client_note(client, "%s", text);
    replies_lost(client, error);
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        lease_cut_off(client, lease, error);
    }
    agent_clock_init(&client->clock);
}

bool client_wants_back(const struct client *client, int64_t now_ns) {
    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->ask_again || (lease->resuming && now_ns < lease->deadline_ns))
            return true;
    return client->watches != NULL;
}

void client_back(struct client *client, int64_t now_ns) {
    static const struct resp_token hello[] = {{.text = "HELLO", .length = 5}, {.text = "3", .length = 1}};

    client->gone = client->asked_for_page = false;
    client->now_ns = now_ns;
    if (client_request(client, KIND_HELLO, hello, 2, NULL, NULL, now_ns) != REDLOCK_OK)
        return; /* no memory: without pushes nothing is resumed */
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->resuming)
            ask_to_resume(client, lease, now_ns);
    observe_back(client, now_ns);
}

void client_fail_requests(struct client *client) {
    observe_away(client);
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        if (!lease->ask_again)
            continue;
        lease->ask_again = false;
        request_failed(client, lease, REDLOCK_AGENT_AWAY);
        if (lease->orphan)
            lease_free(client, lease);
    }
}

void client_over(struct client *client) {
    if (client->over)
        return;
    client->gone = client->over = true;
    client_fail_requests(client);
    if (client->callbacks.disconnected)
        client->callbacks.disconnected(client->connection, client->userdata);
}

/* --- time --- */

/* A lease that could have been extended by now and was not is at risk. */
static void tell_away(struct client *client, struct redlock_lease *lease, int64_t now_ns) {
    lease->away_told = true;
    if (client->callbacks.at_risk)
        client->callbacks.at_risk(lease, (lease->deadline_ns - now_ns) / NS_PER_MS, "agent-away",
                                  client->userdata);
}

static void deadline_passed(struct client *client, struct redlock_lease *lease) {
    end_lease(client, lease, "expired",
              client->gone ? "its deadline passed while the agent was away"
                           : "its deadline passed without news from the agent");
}

void client_tick(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    observe_tick(client, now_ns);
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        if (lease->state != LEASE_HELD || lease->orphan)
            continue;
        if (now_ns >= lease->refresh_ns)
            lease_look(client, lease);
        if (lease_has_ended(lease, now_ns)) {
            deadline_passed(client, lease);
            continue;
        }
        if (lease->resuming && now_ns >= lease->refresh_ns && !lease->away_told)
            tell_away(client, lease, now_ns);
        if (client->gone)
            continue;
        if (lease->resuming && now_ns >= lease->resume_ns)
            ask_to_resume(client, lease, now_ns);
        else if (!lease->resuming && now_ns >= lease->refresh_ns && !lease->check_under_way)
            lease->check_under_way =
                client_request_id(client, KIND_CHECK, "CHECK", lease, NULL, now_ns) == REDLOCK_OK;
    }
}

void client_tick_resuming(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        if (lease->state != LEASE_HELD || lease->orphan || !(lease->resuming || lease->seen_over))
            continue;
        if (lease_has_ended(lease, now_ns))
            deadline_passed(client, lease);
        else if (!client->gone && now_ns >= lease->resume_ns)
            ask_to_resume(client, lease, now_ns);
    }
}

static int64_t earlier(int64_t a_ns, int64_t b_ns) {
    return a_ns < b_ns ? a_ns : b_ns;
}

int64_t client_due_ns(const struct client *client) {
    int64_t due_ns = observe_due_ns(client);

    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next) {
        if (lease->state != LEASE_HELD || lease->orphan)
            continue;
        due_ns = earlier(due_ns, lease->deadline_ns);
        if (lease->resuming && !client->gone)
            due_ns = earlier(due_ns, lease->resume_ns);
        if (lease->resuming ? !lease->away_told : !lease->check_under_way && !client->gone)
            due_ns = earlier(due_ns, lease->refresh_ns);
    }
    return due_ns;
}

int64_t client_resume_due_ns(const struct client *client) {
    int64_t due_ns = INT64_MAX;

    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->resuming && !lease->orphan)
            due_ns = earlier(due_ns, earlier(lease->deadline_ns, lease->resume_ns));
    return due_ns;
}
