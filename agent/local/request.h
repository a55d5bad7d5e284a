/* One request: its slot, its state, its deadline, its place in the page, and what goes from it to its
 * session and its keeper. For the registry, which knows the lines. */
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
    REQUEST_NEW,        /* made by registry_ask(), not started */
    REQUEST_QUEUED,     /* behind others of this host; or held back, see admission.h */
    REQUEST_CONTENDING, /* first in line, or beside one that resumes: with the keeper */
    REQUEST_HELD,
    REQUEST_RELEASING, /* out of the line; the keeper has yet to confirm */
};

/* Of a lease whose holder was told another random part of its value than stands in the keys, so that it may
 * be handed over: see handoff.h. Few leases are so at a time. */
struct request_secrets {
    uint32_t pool_link;
    uint8_t told[SECRET_BYTES];
    uint8_t standing[SECRET_BYTES]; /* as of the acquisition */
    int64_t token_last;             /* of the block of tokens: see handoff.h */
};

struct request {
    union {
        uint32_t pool_link; /* while the slot is free */
        struct lease_terms terms;
    };
    uint32_t generation; /* of the slot; with its index it is the id */
    uint8_t state;       /* enum request_state */
    uint8_t risk;        /* 1 + enum reason while at risk */
    uint8_t restore;     /* enum restore_state */
    bool try_once : 1;
    bool overdue : 1;   /* its wait is over: answered as soon as anything is known, at the latest when due */
    bool tried : 1;     /* contending: an attempt has come to an end */
    bool async : 1;     /* for the session: replies go as pushes */
    bool resume : 1;    /* takes over a lease that another agent granted */
    bool resumable : 1; /* for the session: it wants to know the secret */
    bool abandoned : 1; /* its session was closed by us: held until its deadline or its process's death */
    bool unwanted : 1;  /* restored, and released as soon as its lease is found */
    bool unread : 1;    /* its client did not read the grant in time: it is not extended */
    bool from_line : 1; /* it contends, or holds, after others of this host */
    bool held_back : 1; /* it is queued, and would contend: admission.h */
    bool admitted : 1;  /* it is in its first attempt */
    int16_t page_slot;  /* held: its place in the page, or DEADLINE_PAGE_NO_SLOT */
    uint32_t entry;     /* for the session: its place in the ledger; 0: none */
    pid_t pid;
    uid_t uid;
    struct session *session;       /* NULL: nobody waits for news */
    struct name_table_entry *name; /* NULL once out of the line */
    struct shared_string *tail;    /* "pid:uid:data" for the lock value, until the keeper has it */
    struct deadline_page *page;    /* the session's; NULL when it has none or is gone */
    uint64_t number;               /* what the keeper knows it by; 0: it does not */
    struct list session_link;
    struct list queue_link;
    instant_ns asked_ns;
    union {
        instant_ns wait_until_ns;   /* until it is held, if it waits */
        instant_ns linger_until_ns; /* held, without a session, until then; INSTANT_NEVER: with one */
    };
    instant_ns deadline_ns;
    instant_ns hold_until_ns;        /* INSTANT_NEVER: no bound */
    instant_ns read_until_ns;        /* held: by then its client has read the grant; INSTANT_NEVER: it has */
    instant_ns *kept_ns;             /* where the deadline is kept for the next process, or NULL */
    int64_t token;                   /* held, or resumed: the fencing token; 0: none */
    struct request_secrets *secrets; /* held, as long as tenure.secret; or restored; else NULL */
    union {
        struct handoff_tenure tenure; /* unless it is held back */
        struct list held_link;        /* in its session's, while it is */
    };
};

/* True for a client's RESUME. (A restored request resumes its own grant.) */
static inline bool request_is_resume(const struct request *request) {
    return request->resume && request->restore == RESTORE_NONE;
}

enum request_outcome_kind {
    OUTCOME_GRANTED, /* text: the random part of the lock value, or what it is to become */
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
    const char *text;
    size_t text_length;
};

enum { COMMAND_TEXT_BYTES = NAME_BYTES_MAX + DATA_BYTES_MAX + 32 };

/* In the slot with this index. */
struct request *request_new(struct registry *registry, uint32_t index, uint32_t generation,
                            struct session *session, const struct registry_ask *ask,
                            struct shared_string *tail);

/* It is out of its line. */
void request_free(struct registry *registry, struct request *request);

void request_enter(struct registry *registry, struct request *request, enum request_state state);

/* Its secrets, made if need be; and it is as it seems from now on. */
struct request_secrets *request_secrets(struct registry *registry, struct request *request);
void request_drop_secrets(struct registry *registry, struct request *request);

/* When registry_tick() looks at it; INSTANT_NEVER: not. */
/* Until it is held: when its wait is over; or when it must be answered, if it does not wait. */
void request_set_wait_due(struct registry *registry, struct request *request, instant_ns now_ns);

void request_set_due(struct registry *registry, struct request *request, instant_ns due_ns);

/* A held one is looked at by its deadline, the end of its lingering, or when its keeper is to be told. It
 * was at `now_ns`, and nothing was due yet. */
void request_set_held_due_after(struct registry *registry, struct request *request, instant_ns now_ns);

/* Held until then: for the page, the ledger and the timer. */
void request_set_deadline(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* The same for one that has been extended, which costs the timer nothing: when it was due before, it is
 * looked at, and set anew. */
void request_extend(struct registry *registry, struct request *request, instant_ns deadline_ns);

/* Its client is about to be told that it is held, or was by a former process. */
void request_await_reader(const struct registry *registry, struct request *request, instant_ns now_ns);

/* It is not held any more, or nobody is there to look. */
void request_leave_page(struct request *request);

/* Its session, if there is one. */
void request_tell(struct registry *registry, struct request *request, const struct request_outcome *outcome,
                  instant_ns now_ns);
void request_tell_kind(struct registry *registry, struct request *request, enum request_outcome_kind kind,
                       instant_ns now_ns);
void request_tell_failed(struct registry *registry, struct request *request, const char *error,
                         const char *text, instant_ns now_ns);

void request_command_simple(struct registry *registry, struct request *request, uint64_t hash,
                            enum command_kind kind);

/* All that the keeper is to know. `text`: where its text goes. */
struct command request_command(struct registry *registry, struct request *request, enum command_kind kind,
                               char text[COMMAND_TEXT_BYTES]);

/* Takes over what has this random part in its keys. */
void request_resume(struct registry *registry, struct request *request, const uint8_t secret[SECRET_BYTES]);

/* The same for one that is held already, for as long as it takes. */
void request_look_for(struct registry *registry, struct request *request,
                      const uint8_t secret[SECRET_BYTES]);

/* The keeper learns who holds, and the holder can resume what it has from now on. */
void request_tell_holder(struct registry *registry, struct request *request);

/* Who holds the name is another from now on. */
void request_tell_changed(struct registry *registry, const struct name_table_entry *name);

/* Its client is alive. `now_ns`: 0 for when the keeper hears of it. */
void request_beat(struct registry *registry, const struct request *request, instant_ns now_ns);

/* Its session has ended: it goes on for its linger. */
void request_linger(struct registry *registry, struct request *request, instant_ns now_ns);

/* It lingers, and no BEAT will come any more: the linger is bound enough. */
void request_beat_lingering(struct registry *registry, const struct request *request, instant_ns now_ns);

/* Nobody waits for its outcome any more. */
void request_silence(struct registry *registry, struct request *request);
