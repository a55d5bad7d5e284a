#include "client.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease-events.h"
#include "lease.h"
#include "observe.h"
#include "request.h"
#include "value.h"

enum { BULK_BYTES_MAX = 256 * 1024 /* METRICS has up to 244 KiB */ };
enum { INPUT_BYTES_MIN = 4096, OUTPUT_BYTES_MIN = 512, PENDING_MIN = 16, DEPTH_MAX = 4 };
/* At most, beside the items themselves; and with the items "RELEASE" and the longest id. */
enum { ARRAY_BYTES = 16, ITEM_BYTES = 32, RELEASE_BYTES = ARRAY_BYTES + 2 * ITEM_BYTES + 7 + 20 };

struct client_pending {
    enum client_kind kind;
    struct redlock_lease *lease;
    struct client_reply *reply;
    int64_t sent_ns;
};

int client_init(struct client *client, struct redlock *connection, const struct deadline_view *view) {
    *client = (struct client){
        .connection = connection, .view = view, .answer_timeout_ms = CLIENT_ANSWER_TIMEOUT_MS};
    agent_clock_init(&client->clock);
    client->tokens = malloc(CLIENT_TOKENS_MAX * sizeof(client->tokens[0]));
    return client->tokens ? REDLOCK_OK : REDLOCK_NO_MEMORY;
}

void client_deinit(struct client *client) {
    observe_deinit(client);
    while (client->leases)
        lease_free(client, client->leases);
    free(client->pending);
    if (client->input) /* resume tokens came and went in both */
        explicit_bzero(client->input, client->input_room);
    if (client->output)
        explicit_bzero(client->output, client->output_room);
    free(client->input);
    free(client->output);
    free(client->tokens);
    client->pending = NULL;
    client->input = client->output = NULL;
    client->tokens = NULL;
}

void client_note(struct client *client, const char *format, ...) {
    va_list arguments;

    client->has_complained = false;
    va_start(arguments, format);
    (void) vsnprintf(client->error_text, sizeof(client->error_text), format, arguments);
    va_end(arguments);
}

/* --- requests --- */

/* Space for `wanted` more bytes behind `length` ones, as far as `max` allows; or NULL. A former copy, which
 * realloc(3) would leave, may have resume tokens. */
static char *room_behind(char **buffer, size_t *size, size_t length, size_t wanted, size_t min, size_t max) {
    size_t room = *size ? *size : min;

    if (*size - length >= wanted)
        return *buffer + length;
    while (room - length < wanted)
        room *= 2;
    char *larger = room > max ? NULL : malloc(room);
    if (!larger)
        return NULL;
    if (*buffer) {
        memcpy(larger, *buffer, length);
        explicit_bzero(*buffer, *size);
        free(*buffer);
    }
    *buffer = larger;
    *size = room;
    return larger + length;
}

/* Space for `wanted` more pending requests. A ring that grows begins at index 0 again. */
static bool pending_room(struct client *client, size_t wanted) {
    size_t room = client->pending_room ? client->pending_room : PENDING_MIN;

    if (client->pending_room - client->pending_count >= wanted)
        return true;
    while (room - client->pending_count < wanted)
        room *= 2;
    struct client_pending *larger = malloc(room * sizeof(*larger));
    if (!larger)
        return false;
    for (size_t i = 0, at = client->pending_first; i < client->pending_count; i++) {
        larger[i] = client->pending[at];
        at = at + 1 == client->pending_room ? 0 : at + 1;
    }
    free(client->pending);
    client->pending = larger;
    client->pending_room = room;
    client->pending_first = 0;
    return true;
}

/* Requests the deadline page with the connection's first lease, so that connections without leases cost the
 * agent no page. The page arrives before the grant. An agent without pages refuses, which is no failure. */
static void ask_for_page(struct client *client, int64_t now_ns) {
    static const struct resp_token page[] = {{.text = "PAGE", .length = 4}};

    if (!client->asked_for_page)
        client->asked_for_page =
            client_request(client, KIND_OTHER, page, 1, NULL, NULL, now_ns) == REDLOCK_OK;
}

int client_request(struct client *client, enum client_kind kind, const struct resp_token *items,
                   size_t n_items, struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns) {
    size_t wanted = ARRAY_BYTES, releases = kind == KIND_RELEASE ? 0 : client->lease_count;

    if (client->gone)
        return REDLOCK_AGENT_AWAY;
    if (kind == KIND_ACQUIRE || kind == KIND_ASYNC || kind == KIND_RESUME)
        ask_for_page(client, now_ns);
    for (size_t i = 0; i < n_items; i++)
        wanted += items[i].length + ITEM_BYTES;
    char *room = room_behind(&client->output, &client->output_room, client->output_length,
                             wanted + releases * RELEASE_BYTES, OUTPUT_BYTES_MIN, SIZE_MAX);
    if (!room || !pending_room(client, 1 + releases))
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

int64_t client_unanswered_ns(const struct client *client) {
    if (client->pending_count == 0)
        return INT64_MAX;
    int64_t sent_ns = client->pending[client->pending_first].sent_ns;
    return sent_ns > client->received_ns ? sent_ns : client->received_ns;
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

int client_acquire(struct client *client, const char *name, const struct redlock_options *options,
                   struct client_reply *reply, int64_t now_ns, struct redlock_lease **ret) {
    struct request_acquire request = {0};
    bool async = !reply || options->wait_ms != 0; /* other requests may use the connection meanwhile */
    int error = REDLOCK_OK;

    request_compose(&request, name, options, async);
    struct redlock_lease *lease = lease_new(client, name, options, now_ns);
    if (!lease)
        return REDLOCK_NO_MEMORY;
    lease->async = lease->given = !reply;
    lease->outcome = async ? reply : NULL;
    lease->ask_again = client->gone && options->wait_ms != 0;
    lease->asking = async && !lease->ask_again;
    lease->sent_ns = now_ns;
    lease->sent_wait_ms = options->wait_ms;
    if (!lease->ask_again)
        error = client_request(client, async ? KIND_ASYNC : KIND_ACQUIRE, request.items, request.n_items,
                               lease, async ? NULL : reply, now_ns);
    if (error != REDLOCK_OK) {
        lease_drop(client, lease);
        return error;
    }
    *ret = lease;
    return REDLOCK_OK;
}

/* --- replies --- */

int client_error(struct client *client, const struct resp_token *reply) {
    static const struct {
        const char *word;
        int error;
    } words[] = {
        {"BUSY", REDLOCK_BUSY},           {"TIMEOUT", REDLOCK_TIMED_OUT}, {"NOQUORUM", REDLOCK_NO_QUORUM},
        {"DENIED", REDLOCK_DENIED},       {"QUOTA", REDLOCK_QUOTA},       {"BADNAME", REDLOCK_BAD_NAME},
        {"BADARG", REDLOCK_BAD_ARGUMENT}, {"NOTHELD", REDLOCK_LOST},      {"DRAINING", REDLOCK_DRAINING},
    };
    const char *text = reply->text;
    size_t length = reply->length;
    const char *blank = length > 0 ? memchr(text, ' ', length) : NULL;
    const struct resp_token word = {.text = text, .length = blank ? (size_t) (blank - text) : length};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!value_is(&word, words[i].word))
            continue;
        client_note(client, "%.*s", blank ? (int) (length - word.length - 1) : 0, blank ? blank + 1 : "");
        return words[i].error;
    }
    client_note(client, "%.*s", (int) length, text);
    client->has_complained = true;
    return REDLOCK_PROTOCOL;
}

static void reply_hello(struct client *client, const struct client_pending *pending,
                        const struct resp_token *tokens, size_t n_tokens) {
    int64_t agent_ns = (int64_t) value_integer(value_get(tokens, n_tokens, "now"));

    if (agent_ns > 0)
        agent_clock_bound(&client->clock, agent_ns, 0, pending->sent_ns, client->now_ns);
    if (tokens[0].type == RESP_ERROR && !pending->reply) {
        client_note(client, "%.*s", (int) tokens[0].length, tokens[0].text);
        client->has_complained = true;
    }
}

static void reply_leader(struct client *client, struct client_reply *reply, const struct resp_token *tokens,
                         size_t n_tokens) {
    struct redlock_leader *leader = reply->leader;
    const struct resp_token *validity = value_get(tokens, n_tokens, "validity");

    if (tokens[0].type == RESP_NIL) {
        reply->integer = 0;
        return;
    }
    if (!validity || validity->type != RESP_INTEGER) {
        client_note(client, "the agent's reply to LEADER has no validity");
        reply->error = REDLOCK_PROTOCOL;
        return;
    }
    value_copy(value_get(tokens, n_tokens, "holder"), leader->holder, sizeof(leader->holder), NULL);
    value_copy(value_get(tokens, n_tokens, "data"), leader->data, sizeof(leader->data),
               &leader->data_length);
    value_copy(value_get(tokens, n_tokens, "type"), leader->type, sizeof(leader->type), NULL);
    leader->validity_ms = validity->integer;
    leader->fence = value_integer(value_get(tokens, n_tokens, "fence"));
    leader->since_ms = (int64_t) value_integer(value_get(tokens, n_tokens, "since"));
    leader->cooling_ms = (int64_t) value_integer(value_get(tokens, n_tokens, "cooling"));
    reply->integer = 1;
}

/* The calls return negative errors, which no number of an agent may pass for. */
static void reply_integer(struct client *client, struct client_reply *reply,
                          const struct resp_token *token) {
    if (token->integer >= 0) {
        reply->integer = token->integer;
        return;
    }
    client_note(client, "expected a number from 0 as the reply");
    reply->error = REDLOCK_PROTOCOL;
}

static void reply_other(struct client *client, struct client_reply *reply, const struct resp_token *tokens,
                        size_t n_tokens) {
    if (!reply)
        return;
    if (tokens[0].type == RESP_ERROR)
        reply->error = client_error(client, &tokens[0]);
    else if (reply->leader)
        reply_leader(client, reply, tokens, n_tokens);
    else if (reply->on_value)
        reply->on_value(reply->userdata, tokens, n_tokens);
    else
        reply_integer(client, reply, &tokens[0]);
}

static int take_reply(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    int error;

    if (client->pending_count == 0) {
        if (tokens[0].type == RESP_ERROR)
            return client_error(client, &tokens[0]); /* the reason why the agent closes the connection */
        client_note(client, "the agent sent a reply to no request");
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
        lease_events_acquired(client, pending.lease, tokens, n_tokens, &error);
        if (pending.reply)
            pending.reply->error = error;
        break;
    case KIND_ASYNC:
        lease_events_queued(client, pending.lease, tokens, n_tokens);
        break;
    case KIND_RESUME:
        lease_events_resuming(client, pending.lease, tokens, n_tokens);
        break;
    case KIND_CHECK:
    case KIND_BEAT:
        lease_events_checked(client, pending.lease, pending.kind, pending.sent_ns, pending.reply != NULL,
                             &tokens[0]);
        reply_other(client, pending.reply, tokens, n_tokens);
        break;
    case KIND_RELEASE:
    case KIND_OTHER:
        reply_other(client, pending.reply, tokens, n_tokens);
        break;
    }
    if (pending.reply)
        pending.reply->done = true;
    if (pending.lease) {
        pending.lease->replies_awaited--;
        lease_free_orphan(client, pending.lease);
    }
    return REDLOCK_OK;
}

static void take_push(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    if (n_tokens >= 2 && tokens[1].type == RESP_BULK && value_is(&tokens[1], "draining") &&
        client->callbacks.draining)
        client->callbacks.draining(client->connection, client->userdata);
    observe_push(client, tokens, n_tokens);
    lease_events_push(client, tokens, n_tokens);
}

/* --- input --- */

char *client_input_room(struct client *client, size_t wanted) {
    return room_behind(&client->input, &client->input_room, client->input_length, wanted, INPUT_BYTES_MIN,
                       CLIENT_INPUT_BYTES_MAX);
}

int client_received(struct client *client, size_t length, int64_t now_ns) {
    static const struct resp_limits limits = {
        .bulk_bytes_max = BULK_BYTES_MAX, .tokens_max = CLIENT_TOKENS_MAX, .depth_max = DEPTH_MAX};
    size_t used = 0, n_tokens;
    int error = REDLOCK_OK;

    client->now_ns = client->received_ns = now_ns;
    client->input_length += length;
    while (used < client->input_length && error == REDLOCK_OK) {
        long n = resp_parse(client->input + used, client->input_length - used, &limits, client->tokens,
                            &n_tokens);
        if (n == RESP_INCOMPLETE)
            break;
        if (n < 0) {
            client_note(client, "the agent sent bytes that are not RESP");
            return REDLOCK_PROTOCOL;
        }
        if (client->tokens[0].type == RESP_PUSH)
            take_push(client, client->tokens, n_tokens);
        else
            error = take_reply(client, client->tokens, n_tokens);
        used += (size_t) n;
    }
    client->input_length -= used;
    memmove(client->input, client->input + used, client->input_length);
    if (client->silent && error == REDLOCK_OK)
        observe_answered(client, now_ns);
    return error;
}

/* --- the connection's end and return --- */

static void fail_pending(struct client *client, int error) {
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

void client_disconnected(struct client *client, int error, const char *text, int64_t now_ns) {
    if (client->gone)
        return;
    client->gone = true;
    client->now_ns = now_ns;
    client->output_length = client->input_length = 0;
    (void) snprintf(client->broken_text, sizeof(client->broken_text), "%s", text);
    client_note(client, "%s", text);
    fail_pending(client, error);
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        lease_events_cut_off(client, lease, error);
    }
    agent_clock_init(&client->clock);
}

bool client_wants_back(const struct client *client) {
    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->ask_again || lease->resuming)
            return true;
    return client->observed != NULL;
}

/* When the waiting time of a kept request ends; INT64_MAX: never, or the request is not kept. */
static int64_t kept_until_ns(const struct redlock_lease *lease) {
    int64_t wait_ms = lease->options.wait_ms;

    if (!lease->ask_again || wait_ms <= 0 || wait_ms > (INT64_MAX - lease->asked_ns) / NS_PER_MS)
        return INT64_MAX;
    return lease->asked_ns + wait_ms * NS_PER_MS;
}

/* When a kept request has been without an agent for the answer time-out; INT64_MAX: it is not kept. */
static int64_t away_until_ns(const struct client *client, const struct redlock_lease *lease) {
    int64_t from_ns = lease->asked_ns > client->away_ns ? lease->asked_ns : client->away_ns;

    return lease->ask_again ? from_ns + client->answer_timeout_ms * NS_PER_MS : INT64_MAX;
}

/* Sends a kept request again, for the rest of its waiting time, which is not over. */
static void ask_again(struct client *client, struct redlock_lease *lease) {
    struct redlock_options options = lease->options;
    struct request_acquire request = {0};

    if (options.wait_ms > 0)
        options.wait_ms -= (client->now_ns - lease->asked_ns) / NS_PER_MS;
    request_compose(&request, lease->name, &options, true);
    lease->ask_again = client_request(client, KIND_ASYNC, request.items, request.n_items, lease, NULL,
                                      client->now_ns) != REDLOCK_OK;
    lease->asking = !lease->ask_again;
    lease->sent_ns = client->now_ns;
    lease->sent_wait_ms = options.wait_ms;
}

void client_back(struct client *client, int64_t now_ns) {
    static const struct resp_token hello[] = {{.text = "HELLO", .length = 5}, {.text = "3", .length = 1}};

    client->gone = client->asked_for_page = client->silent = false;
    client->now_ns = now_ns;
    /* Without memory for HELLO there are no pushes, which resuming and observing need. */
    bool greeted = client_request(client, KIND_HELLO, hello, 2, NULL, NULL, now_ns) == REDLOCK_OK;
    for (struct redlock_lease *lease = client->leases; lease && greeted; lease = lease->next)
        if (lease->resuming)
            lease_events_resume(client, lease);
    if (greeted)
        observe_back(client, now_ns);
    client_fail_timed_out(client, now_ns);
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease->ask_again)
            ask_again(client, lease);
}

static void fail_kept(struct client *client, struct redlock_lease *lease, int error) {
    lease->ask_again = false;
    lease_events_failed(client, lease, error);
    lease_free_orphan(client, lease);
}

void client_fail_timed_out(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        if (now_ns < kept_until_ns(lease))
            continue;
        client_note(client, "the wait ended while there was no agent");
        fail_kept(client, lease, REDLOCK_TIMED_OUT);
    }
}

void client_fail_requests(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    if (now_ns >= client->away_ns + client->answer_timeout_ms * NS_PER_MS)
        observe_away(client);
    for (struct redlock_lease *lease = client->leases, *next; lease; lease = next) {
        next = lease->next;
        if (now_ns < away_until_ns(client, lease))
            continue;
        client_note(client, "no agent took the request within the answer time-out; before, %.400s",
                    client->broken_text);
        fail_kept(client, lease, REDLOCK_AGENT_AWAY);
    }
}

void client_over(struct client *client) {
    if (client->over)
        return;
    client->gone = client->over = true;
    client_note(client, "%s", client->broken_text);
    if (client->callbacks.disconnected)
        client->callbacks.disconnected(client->connection, client->userdata);
}

/* --- time --- */

void client_tick(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    observe_tick(client, now_ns);
    observe_silent(client, now_ns);
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        lease_events_tick(client, lease);
}

/* When client_fail_timed_out() or client_fail_requests() is due while there is no agent. */
static int64_t fail_due_ns(const struct client *client) {
    int64_t due_ns = INT64_MAX;

    for (const struct redlock_lease *lease = client->gone ? client->leases : NULL; lease;
         lease = lease->next)
        due_ns =
            client_earlier_ns(due_ns, client_earlier_ns(kept_until_ns(lease), away_until_ns(client, lease)));
    return due_ns;
}

int64_t client_due_ns(const struct client *client) {
    int64_t due_ns = client_earlier_ns(observe_due_ns(client), fail_due_ns(client));

    due_ns = client_earlier_ns(due_ns, observe_silent_due_ns(client));
    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        due_ns = client_earlier_ns(due_ns, lease_events_due_ns(client, lease));
    return due_ns;
}

void client_tick_resuming(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    observe_tick(client, now_ns);
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        lease_events_tick_resuming(client, lease);
}

bool client_would_end(const struct client *client, int64_t now_ns) {
    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        if (lease_events_would_end(lease, now_ns))
            return true;
    return false;
}

void client_end_overdue(struct client *client, int64_t now_ns) {
    client->now_ns = now_ns;
    observe_silent(client, now_ns);
    for (struct redlock_lease *lease = client->leases; lease; lease = lease->next)
        lease_events_end_overdue(client, lease);
}

struct client_dues client_dues(const struct client *client) {
    struct client_dues dues = {.resume_ns = client_earlier_ns(observe_due_ns(client), fail_due_ns(client)),
                               .deadline_ns = observe_silent_due_ns(client)};

    for (const struct redlock_lease *lease = client->leases; lease; lease = lease->next) {
        dues.resume_ns = client_earlier_ns(dues.resume_ns, lease_events_resume_due_ns(lease));
        dues.deadline_ns = client_earlier_ns(dues.deadline_ns, lease_events_deadline_ns(client, lease));
    }
    return dues;
}
