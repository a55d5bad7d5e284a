/* The client's side of the protocol (protocol.md) without I/O: bytes in, callbacks out; requests in, bytes
 * out; time is an argument.
 *
 * Owns its leases (lease.h, lease-events.h) and its observed names (observe.h). These files call back into
 * client.h for requests and error texts only. A client belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent-clock.h"
#include "redlock.h"
#include "resp.h"

struct client_pending;
struct deadline_view;
struct observe_name;

/* The reply that a caller waits for. */
struct client_reply {
    bool done;
    int error; /* enum redlock_error */
    int64_t integer;
    struct redlock_leader *leader; /* filled from the reply to LEADER; NULL for other requests */
    /* Called with the tokens of any other reply that is no error; NULL: the integer suffices. */
    void (*on_value)(void *userdata, const struct resp_token *tokens, size_t n_tokens);
    void *userdata;
};

/* How the reply to a request is read. */
enum client_kind {
    KIND_HELLO,   /* the agent's clock */
    KIND_ACQUIRE, /* the grant */
    KIND_ASYNC,   /* the lease's id; the grant comes as a push */
    KIND_RESUME,  /* the same, for a lease that is resumed */
    KIND_CHECK,   /* the remaining validity */
    KIND_BEAT,    /* whether the lease is held */
    KIND_RELEASE, /* whether the lease was held, or the request waited */
    KIND_OTHER,   /* an integer, LEADER's map, or any value */
};

struct client {
    struct redlock_callbacks callbacks;
    void *userdata;
    struct redlock *connection;
    const struct deadline_view *view; /* the caller's */
    struct agent_clock clock;
    struct redlock_lease *leases;
    size_t lease_count;
    struct observe_name *observed;
    struct client_pending *pending; /* ring of requests without a reply, oldest first */
    size_t pending_first, pending_count, pending_room;
    char *input;
    size_t input_length, input_room;
    char *output;
    size_t output_length, output_room;
    struct resp_token *tokens; /* CLIENT_TOKENS_MAX */
    bool gone;                 /* disconnected: requests fail */
    bool over;                 /* disconnected for good */
    bool asked_for_page;       /* on this connection */
    int64_t now_ns;            /* of the current call */
    int64_t away_ns;           /* while disconnected: since when there is no agent */
    int64_t received_ns;       /* when the agent last sent something */
    int64_t pinged_ns;         /* when observers last asked whether the agent answers */
    bool silent;               /* the agent hangs: observers have an unknown leader */
    int64_t answer_timeout_ms;
    char error_text[512];
    bool has_complained;   /* error_text is an error reply that may be the last on this connection */
    char broken_text[512]; /* why the connection last broke */
};

enum {
    CLIENT_TOKENS_MAX = 16384,
    CLIENT_INPUT_BYTES_MAX = 2 * 1024 * 1024,
    CLIENT_ANSWER_TIMEOUT_MS = 10000, /* unless set otherwise */
};

/* REDLOCK_OK or REDLOCK_NO_MEMORY; client_deinit() is due in both cases. */
int client_init(struct client *client, struct redlock *connection, const struct deadline_view *view);

/* Frees everything, the leases included. */
void client_deinit(struct client *client);

/* Sets the error text. A failure has a text; callers clear that of an earlier call first. */
void client_note(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The enum redlock_error of an error reply; notes the reply's text. */
int client_error(struct client *client, const struct resp_token *reply);

/* Appends a request to the output. Its reply goes to `lease` (if any) and to `reply` (if any), which must
 * stay valid until it is done or client_forget() is called. REDLOCK_OK, REDLOCK_NO_MEMORY, or
 * REDLOCK_AGENT_AWAY when disconnected. The one RELEASE of a lease that was requested on this connection
 * needs no memory: requests of other kinds leave room for it. */
int client_request(struct client *client, enum client_kind kind, const struct resp_token *items,
                   size_t n_items, struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns);

/* client_request() of "WORD id". */
int client_request_id(struct client *client, enum client_kind kind, const char *word,
                      struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns);

/* Requests a lease. The outcome goes to `reply`, or to the callbacks if it is NULL. While disconnected, a
 * request that may wait is kept and sent after the reconnect. Results as client_request(), with a handle in
 * *ret on REDLOCK_OK only. */
int client_acquire(struct client *client, const char *name, const struct redlock_options *options,
                   struct client_reply *reply, int64_t now_ns, struct redlock_lease **ret);

/* Since when the agent owes a reply and has sent nothing; INT64_MAX: it owes none. */
int64_t client_unanswered_ns(const struct client *client);

/* The caller no longer waits: the reply will be ignored. */
void client_forget(struct client *client, const struct client_reply *reply);

/* Space for at least `wanted` bytes of input. NULL: no memory, or the agent sent too much. */
char *client_input_room(struct client *client, size_t wanted);

/* `length` bytes were written to that space: processes the complete replies and pushes, with callbacks.
 * REDLOCK_OK or REDLOCK_PROTOCOL. */
int client_received(struct client *client, size_t length, int64_t now_ns);

/* The first `length` bytes of output were sent. */
void client_sent(struct client *client, size_t length);

/* The connection broke, or is about to be closed. All pending replies fail with `error`. With
 * REDLOCK_AGENT_AWAY the agent is gone, and held leases stay until their deadlines; with another error it
 * lives, and releases them, so they are lost. Requests that may wait are kept; other requests fail. */
void client_disconnected(struct client *client, int error, const char *text, int64_t now_ns);

/* Whether to reconnect: a lease, a kept request or an observed name is left. A lease whose deadline has
 * passed is left until `lost` is called. */
bool client_wants_back(const struct client *client);

/* Reconnected: sends HELLO, RESUME for each held lease, OBSERVE for each observed name, and the kept
 * requests whose waiting time is not over. */
void client_back(struct client *client, int64_t now_ns);

/* Kept requests whose waiting time is over fail with REDLOCK_TIMED_OUT. */
void client_fail_timed_out(struct client *client, int64_t now_ns);

/* If no agent has returned within the answer time-out, observed names have an unknown leader, and kept
 * requests fail with REDLOCK_AGENT_AWAY: for a request that was made later, the time begins with it. */
void client_fail_requests(struct client *client, int64_t now_ns);

/* No reconnect will follow, since nothing wants one: the callback `disconnected` is called. */
void client_over(struct client *client);

/* For event loops, when the input has been read: checks leases whose known deadline is near, ends leases
 * whose deadline has passed, ends requests without an outcome in time, sends OBSERVE again, and notices an
 * agent that hangs for observers. */
void client_tick(struct client *client, int64_t now_ns);

/* When client_tick() is due, or while disconnected client_fail_timed_out() and
 * client_fail_requests(); INT64_MAX: never. */
int64_t client_due_ns(const struct client *client);

/* The same during blocking calls: only for observed names, and for leases that are being resumed, or that a
 * thread has seen expired. */
void client_tick_resuming(struct client *client, int64_t now_ns);

/* Whether that would end a lease: to be asked before, since the input may have the agent's reason. */
bool client_would_end(const struct client *client, int64_t now_ns);

/* For blocking calls: ends leases whose deadline in the page has passed, and requests without an outcome in
 * time, and notices an agent that hangs for observers. To be called once the input has been read, which may
 * have the agent's reason, or the outcome. */
void client_end_overdue(struct client *client, int64_t now_ns);

/* When a blocking call that waits has to call these two next; INT64_MAX: not at all. */
struct client_dues {
    int64_t resume_ns;   /* client_tick_resuming(), or while disconnected the two that fail requests */
    int64_t deadline_ns; /* client_end_overdue(): as last read from the page, which may show a later one by
                            now */
};
struct client_dues client_dues(const struct client *client);

static inline int64_t client_earlier_ns(int64_t a_ns, int64_t b_ns) {
    return a_ns < b_ns ? a_ns : b_ns;
}
