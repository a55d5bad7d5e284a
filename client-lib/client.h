/* The client's side of the protocol without I/O: bytes in, events out; requests in, bytes out; the time is
 * an argument. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent-clock.h"
#include "redlock.h"
#include "resp.h"

enum redlock_lease_state {
    LEASE_ASKED,   /* the request is on its way */
    LEASE_WAITING, /* the agent has it */
    LEASE_HELD,
    LEASE_OVER, /* lost, failed or released */
};

struct redlock_lease {
    struct redlock_lease *next; /* in the client's list */
    struct redlock *connection;
    uint64_t id;    /* 0 until the agent gave one */
    uint64_t fence; /* 0: none */
    enum redlock_lease_state state;
    _Atomic int64_t deadline_ns; /* as told, by our clock; 0 while it is not held */
    /* In the agent's page, see deadline-view.h, and under which id; NULL: not there. Read by other threads
     * too: the id is set before. */
    const void *_Atomic place;
    _Atomic uint64_t place_id;
    _Atomic bool seen_over;          /* somebody may have been told that it has ended: so it has */
    const struct agent_clock *clock; /* of the deadlines that the agent tells and shows */
    char risk[32];                   /* why the agent called it at risk, last; "": it is not */
    int64_t refresh_ns;              /* when an event loop asks for news */
    struct client_reply *outcome;    /* a caller waits for it to be granted */
    bool async;                      /* its outcome is told by callbacks */
    bool check_under_way;
    bool orphan;    /* its handle was given back: freed at its last reply */
    bool resuming;  /* held, and the agent that granted it is gone: another is asked to take it over */
    bool away_told; /* at_risk was called since */
    bool ask_again; /* asked or waiting, to be asked for when there is an agent again */
    char *secret;   /* to resume it; NULL: can't be resumed */
    size_t secret_length;
    int64_t resume_ns; /* when to try again; INT64_MAX: an answer is awaited */
    int64_t asked_ns;
    int64_t waited_ns;              /* from then until the grant came as a push; else 0 */
    struct redlock_options options; /* what was asked for; its data stands behind the name */
    unsigned replies_awaited;
    char name[];
};

/* What a caller that waits for one reply gets. */
struct client_reply {
    bool done;
    int error; /* enum redlock_error */
    int64_t integer;
    struct redlock_leader *leader; /* where LEADER's answer goes; NULL otherwise */
    /* For listings: called with the tokens of the reply. */
    void (*on_value)(void *userdata, const struct resp_token *tokens, size_t n_tokens);
    void *userdata;
};

/* What the reply to a request means. */
enum client_kind {
    KIND_HELLO,   /* the agent's clock */
    KIND_ACQUIRE, /* the lease's grant */
    KIND_ASYNC,   /* the lease's id; the outcome comes as a push */
    KIND_RESUME,  /* the same, for a lease that is resumed */
    KIND_CHECK,   /* the lease's validity */
    KIND_BEAT,    /* whether it is held */
    KIND_RELEASE, /* whether it was held or waited for */
    KIND_OTHER,   /* an integer, LEADER's map, or any value */
};

struct client_pending;
struct client_watch;

struct client {
    struct redlock_callbacks callbacks;
    void *userdata;
    struct redlock *connection;
    const struct deadline_view *view; /* the caller's */
    struct agent_clock clock;
    struct redlock_lease *leases;
    struct client_watch *watches;   /* names that are observed */
    struct client_pending *pending; /* a ring */
    size_t pending_first, pending_count, pending_room;
    char *input;
    size_t input_length, input_room;
    char *output;
    size_t output_length, output_room;
    struct resp_token *tokens;
    bool gone;           /* the connection: no requests now */
    bool over;           /* and it won't come back */
    bool asked_for_page; /* on this connection */
    int64_t now_ns;      /* of the call that is under way */
    char error_text[512];
};

enum {
    CLIENT_TOKENS_MAX = 16384,
    CLIENT_INPUT_BYTES_MAX = 2 * 1024 * 1024,
};

/* 0 or REDLOCK_NO_MEMORY. */
int client_init(struct client *client, struct redlock *connection, const struct deadline_view *view);

/* Frees everything, the leases too. */
void client_deinit(struct client *client);

/* Appends one request whose reply goes to `reply` (which must stay until done or client_forget()) and, if
 * `lease`, to it. REDLOCK_OK, REDLOCK_NO_MEMORY, or REDLOCK_AGENT_AWAY when the connection is gone. */
int client_request(struct client *client, enum client_kind kind, const struct resp_token *items,
                   size_t n_items, struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns);

/* The same for "WORD id". */
int client_request_id(struct client *client, enum client_kind kind, const char *word,
                      struct redlock_lease *lease, struct client_reply *reply, int64_t now_ns);

/* The caller waits no longer: the reply will be passed over. */
void client_forget(struct client *client, const struct client_reply *reply);

/* Room of at least `wanted` bytes for input; NULL when there is no memory or the agent sends too much. */
char *client_input_room(struct client *client, size_t wanted);

/* `length` bytes were put there: works on what is complete. REDLOCK_OK or REDLOCK_PROTOCOL. May call
 * callbacks. */
int client_received(struct client *client, size_t length, int64_t now_ns);

/* The first `length` bytes of output were sent. */
void client_sent(struct client *client, size_t length);

/* The connection is gone: every reply that is awaited fails with `error`. Leases that are held stay until
 * their deadlines, and requests that wait are marked to be asked again; others fail. */
void client_disconnected(struct client *client, int error, const char *text, int64_t now_ns);

/* Whether there is something for which to connect again. */
bool client_wants_back(const struct client *client, int64_t now_ns);

/* It is connected again: greets, and asks to resume what is held. */
void client_back(struct client *client, int64_t now_ns);

/* It has been away for long: requests that were to be asked again fail, who leads is not known. */
void client_fail_requests(struct client *client);

/* It won't be: requests fail. Calls `disconnected`. */
void client_over(struct client *client);

/* Asks for news of leases whose known deadline comes near, and tells the end of those whose deadline has
 * passed. Only for event loops: blocking users ask themselves. */
void client_tick(struct client *client, int64_t now_ns);

/* When client_tick() has something to do; INT64_MAX: never. */
int64_t client_due_ns(const struct client *client);

/* The same for leases alone that are being resumed, or that somebody was told to have ended: blocking calls
 * look after these. */
void client_tick_resuming(struct client *client, int64_t now_ns);
int64_t client_resume_due_ns(const struct client *client);

/* Sets the error text. */
void client_note(struct client *client, const char *format, ...) __attribute__((format(printf, 2, 3)));
