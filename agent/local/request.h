/* A request: its state, deadline and slot in the page, its outcomes for the session and its commands for the
 * keeper. Part of the registry, which has the queues. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/pool.h"
#include "base/shared-string.h"
#include "base/timer-queue.h"
#include "core/event.h"
#include "local/admission.h"
#include "local/deadline-page.h"
#include "local/handoff.h"
#include "local/keeper-handle.h"
#include "local/name-table.h"
#include "local/recovery/restore-state.h"

struct registry;
struct registry_ask;
struct session;

enum request_state {
    REQUEST_FREE,
    REQUEST_NEW,        /* made, not started */
    REQUEST_QUEUED,     /* behind others of this host, or held back (admission.h) */
    REQUEST_CONTENDING, /* with the keeper: first of its queue. Or resuming, which may be held back */
    REQUEST_HELD,
    REQUEST_RELEASING, /* out of its queue; the keeper has not confirmed */
};

/* The risk of a lease whose loss is reported, though the agent keeps the lease until its deadline. */
enum { REQUEST_LOST = 1 + REASON_CLOSED };

/* The random parts of a lease whose keys have another one than its grant, so that the lease may be handed
 * off (handoff.h). Few leases at a time have such secrets. */
struct request_secrets {
    uint32_t pool_link;
    uint8_t reported[SECRET_BYTES]; /* to the holder, in the grant */
    uint8_t acquired[SECRET_BYTES]; /* in the keys since the acquisition */
    int64_t token_last;             /* of the block of tokens */
    instant_ns beat_ns;             /* restored, and not found yet: the last heartbeat, or the restart */
};

struct request {
    union {
        uint32_t pool_link; /* while the slot is free */
        struct lease_terms terms;
    };
    uint32_t generation; /* of the slot; with its index it is the id */
    uint8_t state;       /* enum request_state */
    uint8_t risk;        /* 1 + enum reason while at risk; REQUEST_LOST */
    bool try_once : 1;   /* WAIT 0 */
    bool overdue : 1;    /* its wait is over: answered at the next result, or when due */
    bool tried : 1;      /* contending: an attempt has ended */
    bool async : 1;      /* the session gets outcomes as pushes */
    bool resume : 1;     /* resumes a lease that another agent granted */
    bool resumable : 1;  /* the session gets a resume token */
    bool abandoned : 1;  /* the agent closed its session: held until its deadline or its process's death */
    bool unwanted : 1;   /* restored, and released as soon as its lease is found */
    bool unread : 1;     /* its client did not read the grant in time: no more extensions */
    bool from_queue : 1; /* it contends, or holds, after others of this host */
    bool held_back : 1;  /* queued, though it could contend: admission.h */
    bool admitted : 1;   /* in its first attempt */
    bool refused : 1;    /* queued: its turn came when its user had as much as the rule allows */
    enum restore_state restore : 3;
    int16_t page_slot; /* held: in the session's page, or DEADLINE_PAGE_NO_SLOT */
    uint8_t account;   /* in the quota: its user's */
    uint8_t rule;      /* number of the policy's rule that it counts under; 0: none */
    uint32_t entry;    /* in the ledger; 0: none */
    pid_t pid;
    uid_t uid;
    uint32_t handle_slot;          /* of the keeper's handle; 0: the keeper does not know the request */
    struct session *session;       /* NULL: no session gets its outcomes */
    struct name_table_entry *name; /* NULL: out of its queue */
    struct shared_string *tail;    /* "pid:uid:data" of the lock value, until the keeper has it */
    struct list session_link;      /* in the session's list, or the registry's `leaving` */
    struct list queue_link;
    instant_ns asked_ns; /* no two requests of a process have the same */
    union {
        instant_ns wait_until_ns; /* queued or contending; of WAIT 0: the bound of its answer */
        /* Held, with a session: its client must have read the grant by then. INSTANT_NEVER: it has. */
        instant_ns read_until_ns;
        instant_ns answer_by_ns; /* Unwanted, with a session: when the reply to its release is due. */
        /* Held, without a session: lingers until then. INSTANT_NEVER: does not linger. */
        instant_ns linger_until_ns;
    };
    instant_ns deadline_ns;
    instant_ns hold_until_ns;        /* INSTANT_NEVER: no bound */
    instant_ns cooldown_until_ns;    /* held, or resumed: the name stays taken until then; 0: no cooldown */
    int64_t token;                   /* fencing token of a held or resumed lease; 0: none */
    struct request_secrets *secrets; /* held, while tenure.secret; restored; or held back; else NULL */
    union {
        struct handoff_tenure tenure; /* unless held back */
        struct list held_link;        /* held back: in the session's list */
    };
};

/* Its session's page, or NULL. */
static inline struct deadline_page *request_page(const struct request *request) {
    return request->session ? admission_requester_of(request->session)->page : NULL;
}

/* Held after its session's end. */
static inline bool request_is_lingering(const struct request *request) {
    return request->state == REQUEST_HELD && !request->session && request->linger_until_ns != INSTANT_NEVER;
}

/* Its session has ended, and registry_tick() drops it: it acquires nothing any more. */
static inline bool request_is_leaving(const struct request *request) {
    return !request->session && !list_is_empty(&request->session_link);
}

/* True for a client's RESUME. (A restored request resumes its own grant.) */
static inline bool request_is_resume(const struct request *request) {
    return request->resume && request->restore == RESTORE_NONE;
}

enum request_outcome_kind {
    OUTCOME_GRANTED, /* text: the random part for the resume token */
    OUTCOME_FAILED,  /* error, text */
    OUTCOME_AT_RISK, /* reason */
    OUTCOME_EXTENDED,
    OUTCOME_LOST, /* reason */
    OUTCOME_RELEASED,
};

struct request_outcome {
    enum request_outcome_kind kind;
    enum reason reason;
    const char *error; /* "BUSY", … */
    const char *text;  /* at-risk, lost: a sentence instead of the reason's, with its NUL; or NULL */
    size_t text_length;
    const struct round_trace *trace; /* how the nodes answered; NULL: unknown */
};

enum { REQUEST_COMMAND_TEXT_BYTES = NAME_BYTES_MAX + DATA_BYTES_MAX + 32 };

/* --- life --- */

/* A new request in the slot with this index. */
struct request *request_new(struct registry *registry, uint32_t index, uint32_t generation,
                            struct session *session, const struct registry_ask *ask,
                            struct shared_string *tail);

/* The request is out of its queue. */
void request_free(struct registry *registry, struct request *request);

void request_enter(struct registry *registry, struct request *request, enum request_state state);

/* Counts the request in its present state under its rule, or with -1 no longer. */
void request_count(struct registry *registry, const struct request *request, int sign);

/* The request counts under the rule with this number from now on. */
void request_set_rule(struct registry *registry, struct request *request, uint8_t rule);

/* The request's secrets, made zero if it has none. */
struct request_secrets *request_secrets(struct registry *registry, struct request *request);
void request_drop_secrets(struct registry *registry, struct request *request);

/* --- time --- */

/* Sets when registry_tick() treats the request next; INSTANT_NEVER: not at all. */
void request_set_due(struct registry *registry, struct request *request, instant_ns due_ns);

/* The request's wait begins, and with WAIT 0 the bound of its answer; it is due at the end. */
void request_begin_wait(struct registry *registry, struct request *request, instant_ns now_ns);

/* It is due at the end of its wait again. */
void request_continue_wait(struct registry *registry, struct request *request);

/* Its wait is over. */
void request_set_overdue(struct request *request);

/* Held, and nothing was due at `now_ns`: its deadline, the end of its linger, or the refresh of its keys. */
void request_set_held_due_after(struct registry *registry, struct request *request, instant_ns now_ns);

/* Sets the deadline in the request, the page, the ledger and the timer. */
void request_set_deadline(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* The same after an extension, but leaves the timer: its next firing sets the new time. */
void request_extend(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* Starts the time-out for reading the grant, which is sent next or was sent by a former process. */
void request_await_reading(const struct registry *registry, struct request *request, instant_ns now_ns);

/* The client has read its grant: the next process need not check. */
void request_note_read(const struct registry *registry, const struct request *request);

/* --- to the session --- */

static inline bool request_is_lost(const struct request *request) {
    return request->risk == REQUEST_LOST;
}

/* Counts the loss, and notes it in the history: once for each lease. */
void request_note_lost(struct registry *registry, struct request *request,
                       const struct request_outcome *lost, instant_ns now_ns);

/* Delivers an outcome, if there is a session. */
void request_deliver(struct registry *registry, struct request *request,
                     const struct request_outcome *outcome, instant_ns now_ns);
void request_deliver_kind(struct registry *registry, struct request *request, enum request_outcome_kind kind,
                          instant_ns now_ns);
void request_deliver_failed(struct registry *registry, struct request *request, const char *error,
                            const char *text, instant_ns now_ns);

/* The lease is at risk for this reason, and the session gets the outcome. The reason of an unread grant
 * stays: its client need not know what else happens to the lease. */
void request_set_risk(struct registry *registry, struct request *request, enum reason reason,
                      const struct round_trace *trace, instant_ns now_ns);

/* Detaches the request from its session: outcomes go nowhere. */
void request_detach(struct registry *registry, struct request *request);

/* Clears its slot in the page. */
void request_leave_page(struct request *request);

/* --- to the keeper --- */

/* A command without terms. */
void request_command_simple(struct registry *registry, struct request *request, enum command_kind kind);

/* A command with terms, name and tail, which are written to `text`. */
struct command request_command(struct registry *registry, struct request *request, enum command_kind kind,
                               char text[REQUEST_COMMAND_TEXT_BYTES]);

/* Contends, to resume the lease with this random part: for a client, or a lease of a former process. A
 * RESUME that may have been sent by a former process is a search, too (core/resume.h). */
void request_resume(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]);

/* Searches for the lease of a restored, held request by this random part, without a time limit. Heartbeats
 * count from its `secrets->beat_ns`. */
void request_search(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]);

/* Has the keeper write the holder's lock value into the keys. From now on the holder can resume the lease,
 * and the lease is not handed off. */
void request_refresh_keys(struct registry *registry, struct request *request);

/* The holder of the name has changed. */
void request_note_holder(struct registry *registry, const struct name_table_entry *name);

/* Heartbeat of the client. `now_ns` 0: the time at which the keeper gets the command. */
void request_beat(struct registry *registry, const struct request *request, instant_ns now_ns);

/* Its session has ended: the lease lingers. */
void request_linger(struct registry *registry, struct request *request, instant_ns now_ns);

/* A lingering lease gets no BEAT: the linger alone bounds it. */
void request_beat_lingering(struct registry *registry, const struct request *request, instant_ns now_ns);
