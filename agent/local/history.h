/* The history: the last events of the leases of this host, for people: who had a name, why an acquisition
 * took so long, why a lease was lost. Always on. Owned by the front thread; gone with the process.
 *
 * A fixed amount of memory: HISTORY_SETS sets of HISTORY_SET_EVENTS events. The hash of a name chooses its
 * set, so an event is written without a search, and a flood of events of one name leaves all other sets
 * alone. In a full set the oldest event gives way; but a user with half of the set or more loses the oldest
 * of its own: so a flood of other names by one user leaves each other user up to half of every set. Of
 * HISTORY_ASKED events, which many waiters make at once, a set has HISTORY_SET_ASKED at most; and that of a
 * request without another one before it gives its place to its outcome, if that is the next event: the
 * outcome has the time since then.
 *
 * Events have no lock values and no resume tokens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/instant.h"
#include "core/event.h"

enum { HISTORY_SETS = 256, HISTORY_SET_EVENTS = 32, HISTORY_SET_ASKED = 8, HISTORY_TEXT_BYTES = 80 };
enum { HISTORY_AHEAD_MAX = 8 /* requests that are counted */ };

enum history_kind {
    HISTORY_ASKED,
    HISTORY_GRANTED,
    HISTORY_HANDED_OFF, /* granted, by the holder before it on this host */
    HISTORY_RESUMED,    /* granted to a RESUME, or found again after a restart of the agent */
    HISTORY_CONTENDED,  /* an attempt failed; the request waits on */
    HISTORY_FAILED,     /* the request got an error */
    HISTORY_WITHDRAWN,  /* the session ended, or released the request, before the grant */
    HISTORY_AT_RISK,
    HISTORY_EXTENDED, /* no longer at risk */
    HISTORY_LOST,
    HISTORY_LINGERING, /* the session ended, the lease lingers */
    HISTORY_RELEASED,
    HISTORY_COOLING, /* the lease has ended; the name stays taken for `left_ms` */
    HISTORY_KIND_COUNT
};

/* The requests before a request in its queue when it was made. */
struct history_ahead {
    int64_t wait_ms; /* the request's: 0: it does not wait; -1: without limit */
    uint32_t uid;    /* of the first of the queue */
    int32_t pid;     /* 0: none */
    uint8_t n;       /* of all before it, at most HISTORY_AHEAD_MAX */
    bool holds;      /* the first holds the name */
};

struct history_event {
    uint64_t name_hash; /* 0: no event */
    instant_ns at_ns;
    instant_ns asked_ns; /* when its request was made */
    int64_t token;
    uint64_t id;
    int32_t pid;
    uint32_t left_ms; /* until the deadline, or the end of the cooldown */
    uint8_t kind;     /* enum history_kind */
    uint8_t reason;   /* at-risk, lost: enum reason */
    uint8_t text_length;
    bool traced; /* `trace` is known */
    union {
        struct round_trace trace;   /* how the nodes answered */
        struct history_ahead ahead; /* asked */
    };
    char word[12];                 /* contended, failed: the error's */
    char text[HISTORY_TEXT_BYTES]; /* last: bytes behind text_length are undefined */
};

struct history {
    struct history_set *sets; /* HISTORY_SETS */
};

size_t history_memory_bytes(void);

/* `memory`: that many zeroed bytes, aligned to 4,096, which the caller frees after the last use. */
void history_init(struct history *history, void *memory);

/* Adds an event of this user. */
void history_add(struct history *history, const struct history_event *event, uint32_t uid);

/* The sentence of a failure, or one of a risk or a loss that is not its reason's; cut where a character
 * ends, with "…" then. */
void history_set_text(struct history_event *event, const char *text, size_t length);

/* The keeper explains a loss that the front has noted by its own copy of the deadline. */
void history_explain_loss(struct history *history, uint64_t name_hash, uint64_t id,
                          const struct round_trace *trace);

struct history_view {
    const struct history_event *event;
    uint32_t uid;
};

/* The events of the name with this hash, of `uid` alone unless `all`, the oldest first. Returns how many:
 * the last `max`. */
size_t history_list(const struct history *history, uint64_t name_hash, bool all, uint32_t uid, size_t max,
                    struct history_view ret[HISTORY_SET_EVENTS]);
