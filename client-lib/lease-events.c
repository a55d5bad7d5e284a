#include "lease-events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "value.h"

#define DURATION_MS_MAX (INT64_C(1) << 40) /* fits int64_t in ns */

enum { RESUME_RETRY_MS = 50 };

/* --- grants --- */

/* Byte by byte: memcpy(3) leaves what it copies in vector registers, and the dynamic linker saves these on
 * the stack at the first call of a function. */
static void copy_secret(volatile char *to, const volatile char *from, size_t length) {
    for (size_t i = 0; i < length; i++)
        to[i] = from[i];
}

/* Without memory for the token the lease can't be resumed. */
static void take_resume_token(struct redlock_lease *lease, const struct resp_token *token) {
    if (!token || token->type != RESP_BULK || token->length == 0)
        return;
    char *copy = malloc(token->length);
    if (!copy)
        return;
    copy_secret(copy, token->text, token->length);
    lease_forget_token(lease);
    lease->resume_token = copy;
    lease->resume_length = token->length;
}

/* Id, fencing token, deadline and resume token. False: not a grant. */
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
    agent_clock_bound_grant(&client->clock, deadline_ns, validity_ms, lease->asked_ns, client->now_ns);
    lease->id = (uint64_t) id;
    lease->fence = value_integer(value_get(tokens, n_tokens, "fence"));
    take_resume_token(lease, value_get(tokens, n_tokens, "secret"));
    lease_granted(client, lease, deadline_ns, slot && slot->type == RESP_INTEGER ? slot->integer : -1);
    return true;
}

/* Releases what was granted after the handle was released. */
static void give_back(struct client *client, struct redlock_lease *lease) {
    (void) client_request_id(client, KIND_RELEASE, "RELEASE", lease, NULL, client->now_ns);
}

void lease_events_acquired(struct client *client, struct redlock_lease *lease,
                           const struct resp_token *tokens, size_t n_tokens, int *ret_error) {
    int error = REDLOCK_OK;

    if (tokens[0].type == RESP_ERROR)
        error = client_error(client, &tokens[0]);
    else if (!take_grant(client, lease, tokens, n_tokens))
        error = REDLOCK_PROTOCOL;
    if (error == REDLOCK_PROTOCOL && tokens[0].type != RESP_ERROR)
        client_note(client, "the agent's reply to ACQUIRE is no lease");
    if (error != REDLOCK_OK)
        lease->state = LEASE_OVER;
    else if (lease->orphan)
        give_back(client, lease);
    *ret_error = error;
}

void lease_events_failed(struct client *client, struct redlock_lease *lease, int error) {
    lease->state = LEASE_OVER;
    if (lease->outcome) {
        lease->outcome->error = error;
        lease->outcome->done = true;
        lease->outcome = NULL;
        return;
    }
    if (lease->orphan || !lease->async || !client->callbacks.failed)
        return; /* without the callback the caller still releases the handle */
    client->callbacks.failed(lease, (enum redlock_error) error, client->error_text, client->userdata);
    lease->orphan = true;
}

void lease_events_queued(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens) {
    lease->asking = false;
    if (tokens[0].type == RESP_ERROR) {
        lease_events_failed(client, lease, client_error(client, &tokens[0]));
        return;
    }
    if (n_tokens != 3 || tokens[2].type != RESP_INTEGER) {
        client_note(client, "the agent's reply to ACQUIRE ASYNC has no id");
        lease_events_failed(client, lease, REDLOCK_PROTOCOL);
        return;
    }
    lease->id = (uint64_t) tokens[2].integer;
    if (lease->state != LEASE_OVER) { /* else it failed for lack of an answer */
        lease->state = LEASE_WAITING;
        lease->sent_ns = client->now_ns;
    }
    if ((lease->orphan && !lease->releasing) || lease->state == LEASE_OVER)
        give_back(client, lease);
}

/* --- resuming --- */

/* The lease is lost, unless the agent may still resume it: then RESUME is sent again until the deadline. */
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

void lease_events_resuming(struct client *client, struct redlock_lease *lease,
                           const struct resp_token *tokens, size_t n_tokens) {
    bool named = n_tokens == 3 && tokens[2].type == RESP_INTEGER;

    if (named)
        lease->id = (uint64_t) tokens[2].integer;
    if (named && (lease->orphan || lease->state != LEASE_HELD))
        give_back(client, lease); /* the deadline passed first */
    else if (!named && lease->state == LEASE_HELD)
        resume_failed(client, lease, client_error(client, &tokens[0]));
}

void lease_events_resume(struct client *client, struct redlock_lease *lease) {
    int64_t left_ms = (lease->deadline_ns - client->now_ns) / NS_PER_MS;
    char wait[24];
    int length = snprintf(wait, sizeof(wait), "%lld", (long long) (left_ms > 0 ? left_ms : 0));
    const struct resp_token items[] = {
        {.text = "RESUME", .length = 6},
        {.text = lease->name, .length = strlen(lease->name)},
        {.text = lease->resume_token, .length = lease->resume_length},
        {.text = "WAIT", .length = 4},
        {.text = wait, .length = (size_t) length},
        {.text = "ASYNC", .length = 5},
    };

    lease->resume_ns = INT64_MAX;
    if (client_request(client, KIND_RESUME, items, 6, lease, NULL, client->now_ns) != REDLOCK_OK)
        lease->resume_ns = client->now_ns + RESUME_RETRY_MS * NS_PER_MS;
}

static void push_resumed(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                         size_t n_tokens) {
    bool warned = lease->away_reported || lease->risk[0];

    if (!take_grant(client, lease, tokens, n_tokens)) /* which clears the risk */
        return;
    if (lease->seen_over) /* a reader saw the deadline pass; the next tick ends the lease */
        return;
    if (strcmp(client->error_text, client->broken_text) == 0)
        client->error_text[0] = '\0';
    lease->away_reported = false;
    if (warned && lease_is_reported(lease) && client->callbacks.extended)
        client->callbacks.extended(lease, client->userdata);
}

/* --- the end --- */

/* Ends the lease without the agent's word. The agent may still hold it, so it is released there. */
static void end_lease(struct client *client, struct redlock_lease *lease, const char *reason,
                      const char *text) {
    if (lease->id != 0 && !client->gone)
        give_back(client, lease);
    lease_expired(client, lease, reason, text);
}

/* NOTHELD, or no validity. The agent pushes `lost` before that, except in the lease's last millisecond. */
static bool is_refusal(const struct resp_token *token) {
    static const char not_held[] = "NOTHELD";

    if (token->type == RESP_ERROR)
        return token->length >= strlen(not_held) && memcmp(token->text, not_held, strlen(not_held)) == 0;
    return token->type == RESP_INTEGER && token->integer <= 0;
}

/* The validity counts from the sending of the request, so it is never too long. A caller that gets 0 has
 * lost the lease. If only the library asked, the lease goes on until the deadline, before which the agent's
 * reason may arrive. */
void lease_events_checked(struct client *client, struct redlock_lease *lease, enum client_kind kind,
                          int64_t sent_ns, bool asked, const struct resp_token *token) {
    int64_t deadline_ns = lease->deadline_ns;

    if (kind == KIND_CHECK)
        lease->check_under_way = false;
    if (lease->state != LEASE_HELD)
        return;
    if (is_refusal(token) && asked) {
        end_lease(client, lease, "lost", "the agent no longer holds the lease for this process");
    } else if (is_refusal(token)) {
        if (!lease->slot && deadline_ns > sent_ns + NS_PER_MS)
            deadline_ns = sent_ns + NS_PER_MS;
        lease_set_deadline(client, lease, deadline_ns);
        lease->refresh_ns = deadline_ns;
    } else if (kind == KIND_CHECK && token->type == RESP_INTEGER && token->integer <= DURATION_MS_MAX) {
        int64_t checked_ns = sent_ns + token->integer * NS_PER_MS;
        lease_set_deadline(client, lease, checked_ns > deadline_ns ? checked_ns : deadline_ns);
    }
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
    /* The RELEASE of an orphan was already sent. */
    if (lease_is_reported(lease) && client->callbacks.granted)
        client->callbacks.granted(lease, client->userdata);
}

static void push_failed(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                        size_t n_tokens) {
    if (lease->resuming && n_tokens >= 4)
        resume_failed(client, lease, client_error(client, &tokens[3]));
    if (lease->state != LEASE_WAITING || n_tokens < 4)
        return;
    lease_events_failed(client, lease, client_error(client, &tokens[3]));
    lease_free_orphan(client, lease);
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
    int64_t left_ms = tokens[3].integer > 0 ? tokens[3].integer : 0;
    value_copy(&tokens[4], lease->risk, sizeof(lease->risk), NULL);
    memcpy(reason, lease->risk, sizeof(reason));
    if (lease_is_reported(lease) && client->callbacks.at_risk)
        client->callbacks.at_risk(lease, left_ms, reason, client->userdata);
}

static void push_extended(struct client *client, struct redlock_lease *lease,
                          const struct resp_token *tokens, size_t n_tokens) {
    if (n_tokens < 5 || tokens[4].type != RESP_INTEGER || lease->state != LEASE_HELD)
        return;
    int64_t deadline_ns = agent_clock_here_ns(&client->clock, tokens[4].integer);
    if (deadline_ns > lease->deadline_ns)
        lease_set_deadline(client, lease, deadline_ns);
    lease->risk[0] = '\0';
    if (lease_is_reported(lease) && client->callbacks.extended)
        client->callbacks.extended(lease, client->userdata);
}

void lease_events_push(struct client *client, const struct resp_token *tokens, size_t n_tokens) {
    static const struct {
        const char *word;
        void (*take)(struct client *client, struct redlock_lease *lease, const struct resp_token *tokens,
                     size_t n_tokens);
    } pushes[] = {
        {"granted", push_granted}, {"failed", push_failed},     {"lost", push_lost},
        {"at-risk", push_at_risk}, {"extended", push_extended},
    };

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

/* --- the connection's end, and time --- */

/* The agent lives, and releases the lease when the library ends the connection. */
static void lose_with_connection(struct client *client, struct redlock_lease *lease) {
    char text[sizeof(client->error_text) + 80];

    (void) snprintf(text, sizeof(text),
                    "the library ends the connection, and the agent then releases the lease: %s",
                    client->error_text);
    if (lease->releasing) /* no callback gets a handle that is being released */
        lease->orphan = true;
    lease_lost(client, lease, "lost", text);
}

/* The next agent assigns new ids. */
void lease_events_cut_off(struct client *client, struct redlock_lease *lease, int error) {
    bool asked = lease->state == LEASE_ASKED || lease->state == LEASE_WAITING;

    if (error != REDLOCK_AGENT_AWAY && lease->state == LEASE_HELD)
        lose_with_connection(client, lease);
    if (!lease_leave_page(client, lease))
        lease_expired(
            client, lease, "lost",
            "the agent's page shows that the lease is over; the agent ended before it sent the reason");
    lease->asking = lease->check_under_way = false;
    lease->resuming = lease->state == LEASE_HELD && lease->resume_token && !lease->orphan;
    lease->resume_ns = INT64_MAX;
    lease->ask_again = asked && !lease->orphan && lease->options.wait_ms != 0;
    if (lease->resuming || lease->ask_again)
        lease->id = 0;
    if (lease->ask_again)
        lease->state = LEASE_ASKED;
    else if (asked)
        lease_events_failed(client, lease, error);
    lease_free_orphan(client, lease);
}

/* When `at_risk` is to be called while there is no agent; INT64_MAX: not (again). */
static int64_t away_due_ns(const struct redlock_lease *lease) {
    return lease->resuming && !lease->away_reported && !lease->releasing ? lease->refresh_ns : INT64_MAX;
}

static void report_away(struct client *client, struct redlock_lease *lease) {
    lease->away_reported = true;
    if (lease_is_reported(lease) && client->callbacks.at_risk)
        client->callbacks.at_risk(lease, (lease->deadline_ns - client->now_ns) / NS_PER_MS, "agent-away",
                                  client->userdata);
}

static void deadline_passed(struct client *client, struct redlock_lease *lease) {
    end_lease(client, lease, "expired",
              client->gone ? "its deadline passed while the agent was away"
                           : "its deadline passed before the agent reported anything");
}

/* When an asynchronous request fails for lack of an outcome; INT64_MAX: not. For a request without an id,
 * the time starts again whenever the agent sends anything: the agent may be busy with earlier requests.
 * While there is no agent, client_fail_requests() ends requests. */
static int64_t outcome_due_ns(const struct client *client, const struct redlock_lease *lease) {
    int64_t from_ns = lease->sent_ns;
    bool asked = lease->state == LEASE_ASKED, waits = lease->state == LEASE_WAITING;

    if (!(asked || waits) || !lease->async || lease->orphan || lease->ask_again || lease->sent_wait_ms < 0)
        return INT64_MAX;
    if (asked && client->received_ns > from_ns)
        from_ns = client->received_ns;
    return from_ns + (lease->sent_wait_ms + client->answer_timeout_ms) * NS_PER_MS;
}

/* A grant that still comes is released: at once, or when the id comes. */
static void fail_late(struct client *client, struct redlock_lease *lease) {
    if (client->now_ns < outcome_due_ns(client, lease))
        return;
    client_note(client, "the agent did not answer the request for %s in time: stopped or overloaded",
                lease->name);
    if (lease->id != 0)
        give_back(client, lease);
    lease_events_failed(client, lease, REDLOCK_NO_ANSWER);
}

void lease_events_tick(struct client *client, struct redlock_lease *lease) {
    int64_t now_ns = client->now_ns;

    fail_late(client, lease);
    if (lease->state != LEASE_HELD || lease->orphan)
        return;
    if (now_ns >= lease->refresh_ns)
        lease_read_page(client, lease);
    if (lease_has_ended(lease, now_ns)) {
        deadline_passed(client, lease);
        return;
    }
    if (now_ns >= away_due_ns(lease))
        report_away(client, lease);
    if (client->gone)
        return;
    if (lease->resuming && now_ns >= lease->resume_ns)
        lease_events_resume(client, lease);
    else if (!lease->resuming && now_ns >= lease->refresh_ns && !lease->check_under_way)
        lease->check_under_way =
            client_request_id(client, KIND_CHECK, "CHECK", lease, NULL, now_ns) == REDLOCK_OK;
}

int64_t lease_events_due_ns(const struct client *client, const struct redlock_lease *lease) {
    int64_t due_ns = client_earlier_ns(lease->deadline_ns, away_due_ns(lease));

    if (lease->state != LEASE_HELD || lease->orphan)
        return outcome_due_ns(client, lease);
    if (lease->resuming && !client->gone)
        due_ns = client_earlier_ns(due_ns, lease->resume_ns);
    if (!lease->resuming && !lease->check_under_way && !client->gone)
        due_ns = client_earlier_ns(due_ns, lease->refresh_ns);
    return due_ns;
}

/* Those whose end a blocking call reports without the page. */
static bool is_resuming_or_seen(const struct redlock_lease *lease) {
    return lease->state == LEASE_HELD && !lease->orphan && (lease->resuming || lease->seen_over);
}

bool lease_events_would_end(const struct redlock_lease *lease, int64_t now_ns) {
    return is_resuming_or_seen(lease) && lease_has_ended(lease, now_ns);
}

void lease_events_tick_resuming(struct client *client, struct redlock_lease *lease) {
    if (!is_resuming_or_seen(lease))
        return;
    if (lease_has_ended(lease, client->now_ns)) {
        deadline_passed(client, lease);
        return;
    }
    if (client->now_ns >= away_due_ns(lease))
        report_away(client, lease);
    if (!client->gone && client->now_ns >= lease->resume_ns)
        lease_events_resume(client, lease);
}

int64_t lease_events_resume_due_ns(const struct redlock_lease *lease) {
    if (!lease->resuming || lease->orphan)
        return INT64_MAX;
    return client_earlier_ns(client_earlier_ns(lease->deadline_ns, lease->resume_ns), away_due_ns(lease));
}

void lease_events_end_overdue(struct client *client, struct redlock_lease *lease) {
    fail_late(client, lease);
    if (client->now_ns < lease_events_deadline_ns(client, lease))
        return;
    lease_read_page(client, lease);
    if (lease_has_ended(lease, client->now_ns))
        deadline_passed(client, lease);
}

/* INT64_MAX without a page, too: then only the reply to a CHECK shows what the agent has extended. */
int64_t lease_events_deadline_ns(const struct client *client, const struct redlock_lease *lease) {
    if (lease->state != LEASE_HELD)
        return outcome_due_ns(client, lease);
    return !lease->orphan && !lease->releasing && lease->slot ? lease->deadline_ns : INT64_MAX;
}
