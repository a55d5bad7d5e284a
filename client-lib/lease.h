/* A lease's handle: its state, its deadline, and its end. Without I/O, as client.h; lease-events.h has what
 * the agent and time do to a lease. One thread at a time, except lease_remaining_ns(). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client.h"

enum redlock_lease_state {
    LEASE_ASKED,   /* the request was sent, or is kept while there is no agent */
    LEASE_WAITING, /* the agent has the request */
    LEASE_HELD,
    LEASE_OVER, /* lost, failed or released */
};

struct redlock_lease {
    struct redlock_lease *next; /* in the client's list */
    struct redlock *connection;
    uint64_t id;    /* 0: none yet, or not yet at the present agent */
    uint64_t fence; /* 0: none */
    enum redlock_lease_state state;
    _Atomic int64_t deadline_ns; /* the last one received, on this process's clock; 0: not held */
    /* Slot in the agent's deadline page (NULL: none), and the lease's id in that slot. Other threads read
     * both; the id is written first. */
    const void *_Atomic slot;
    _Atomic uint64_t slot_id;
    _Atomic bool seen_over;          /* a reader may have got 0: the lease never becomes valid again */
    const struct agent_clock *clock; /* converts the agent's deadlines */
    char risk[32];                   /* reason of the last at-risk push; "" since the last extension */
    int64_t refresh_ns;              /* when an event loop sends CHECK */
    struct client_reply *outcome;    /* a blocking caller waits for the grant */
    bool async;                      /* callbacks report the outcome */
    bool given;                      /* the caller has the handle, so callbacks may get it */
    bool asking;                     /* sent, and without the agent's reply, which has the id */
    bool check_under_way;
    bool orphan;          /* the handle was released; freed with its last reply */
    bool in_call;         /* a blocking call uses the handle, which is not freed meanwhile */
    bool releasing;       /* by a blocking call, which reports the end itself */
    bool resuming;        /* held, and not yet resumed at the present agent */
    bool away_reported;   /* at_risk was called since the agent went away */
    bool ask_again;       /* the request is kept for the next agent */
    char *resume_token;   /* for RESUME; NULL: the lease can't be resumed */
    size_t resume_length; /* of the token */
    int64_t resume_ns;    /* when to send RESUME again; INT64_MAX: a reply is pending */
    int64_t asked_ns;
    int64_t sent_ns;      /* when the request was last sent; once it has an id, when that came */
    int64_t sent_wait_ms; /* its WAIT then */
    int64_t waited_ns;    /* from asked_ns to a grant that came as a push; 0: the grant was the reply */
    struct redlock_options options; /* as requested; the data follow the name */
    unsigned replies_awaited;
    char name[];
};

/* A handle in LEASE_ASKED, in the client's list, with a copy of the options; NULL: no memory. */
struct redlock_lease *lease_new(struct client *client, const char *name,
                                const struct redlock_options *options, int64_t now_ns);

/* Clears and frees the resume token, if there is one. */
void lease_forget_token(struct redlock_lease *lease);

void lease_free(struct client *client, struct redlock_lease *lease);

/* Frees an orphan, unless a reply or a blocking call still needs it. */
void lease_free_orphan(struct client *client, struct redlock_lease *lease);

/* The handle was released: frees the lease now, or with its last reply. */
void lease_drop(struct client *client, struct redlock_lease *lease);

/* The lease with this id, unless it is over; NULL: none. */
struct redlock_lease *lease_find(struct client *client, int64_t id);

void lease_set_deadline(struct client *client, struct redlock_lease *lease, int64_t deadline_ns);

/* Marks the lease as held until `deadline_ns`, on the agent's clock, which the page shows in `slot`
 * (negative: nowhere). */
void lease_granted(struct client *client, struct redlock_lease *lease, int64_t deadline_ns, int64_t slot);

/* Takes a later deadline from the page, which saves a CHECK. */
void lease_read_page(struct client *client, struct redlock_lease *lease);

/* Stops reading the page of an agent that is gone, and keeps the last deadline from it. False if the page
 * shows the end of the lease. */
bool lease_leave_page(struct client *client, struct redlock_lease *lease);

/* The remaining validity, 0: expired. For a lease that was granted, 0 is final in all threads, whatever the
 * page and the agent show later (protocol.md, section 8). Thread-safe. */
int64_t lease_remaining_ns(const struct redlock_lease *lease, int64_t (*clock_ns)(void));

/* Whether the lease is valid at this instant. Unlike lease_remaining_ns() this does not end the lease for
 * redlock_valid(). */
bool lease_is_valid_at(const struct redlock_lease *lease, int64_t now_ns);

/* Whether the deadline has passed, or a reader has seen it pass. */
bool lease_has_ended(const struct redlock_lease *lease, int64_t now_ns);

/* Whether callbacks may get the handle: not before the caller has it, nor after its release. */
bool lease_is_reported(const struct redlock_lease *lease);

/* Ends the lease, and calls `lost` if it was held and its handle is in use. */
void lease_lost(struct client *client, struct redlock_lease *lease, const char *reason, const char *text);

/* lease_lost() when the agent has not reported the loss: with the reason of the last at-risk push, if any,
 * else with these. */
void lease_expired(struct client *client, struct redlock_lease *lease, const char *reason, const char *text);
