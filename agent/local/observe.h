/* Observation of leaders (OBSERVE): which sessions observe which names, and the last known leader of each
 * name. Owned by the front thread.
 *
 * Each observed name has one entry for all its observers. The name's keeper is queried as for LEADER:
 * periodically, at the end of the validity that the last answer showed, and at once after a hint that the
 * leader has changed on this host; one query a name at a time. Observers get a push when the majority's
 * answer differs from the last push. The more pushes a name has caused, or a user's sessions have got, the
 * later the next query: else names with many observers, which change all the time, would keep the front
 * busy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash-table.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/timer-queue.h"
#include "core/event.h"
#include "local/quota.h"

struct call;
struct front_state;
struct session;

enum observe_leadership {
    LEADERSHIP_NEW,     /* no answer yet, no push yet */
    LEADERSHIP_UNKNOWN, /* no majority has answered for UNKNOWN_MS */
    LEADERSHIP_FREE,
    LEADERSHIP_HELD,
};

struct observe_name {
    struct hash_table_key key;
    struct list observers;
    struct shared_string *value; /* LEADERSHIP_HELD: the holder's lock value, or: */
    bool foreign_type;           /* the type of a key that is no string */
    int64_t token;
    instant_ns since_ns;        /* first answer of this leadership */
    instant_ns unanswered_ns;   /* first query in a row without a majority; INSTANT_NEVER: none */
    instant_ns changing_ns;     /* a lease's value may be changing since then; INSTANT_NEVER: it is not */
    instant_ns queried_ns;      /* last query sent, */
    instant_ns answered_ns;     /* and last answer of a majority */
    instant_ns paused_until_ns; /* for the time of its pushes so far, the next query waits */
    instant_ns due_since_ns;    /* the next query, though it may wait for its user's share; 0: not due yet */
    uint32_t chase_ms;  /* after a hint, until the change shows: delay of the next query; 0: no hint */
    uint8_t leadership; /* enum observe_leadership */
    uint8_t asker;      /* the account that has the query under way */
    uint8_t account;    /* in the quota: its oldest observer's, if it has observers */
    bool querying;      /* a query is under way */
    bool hinted;        /* since the last query was sent */
    bool owed; /* an observer got no push at first, as the last answer was old: the next answer is pushed */
};

struct observe_entry {
    uint32_t pool_link;
    uint32_t entry; /* its entry in the ledger */
    struct session *session;
    struct observe_name *observed;
    struct list session_link;
    struct list observed_link;
};

struct observe_table {
    struct hash_table names;
    struct pool entries;
    struct timer_queue due; /* names without a query under way */
    struct shared_string_pool texts;
    struct random random;
    instant_ns paused_until_ns[QUOTA_ACCOUNTS]; /* the same for the pushes to a user's sessions */
    unsigned querying;                          /* queries under way, */
    uint16_t querying_of[QUOTA_ACCOUNTS];       /* and those of each user's names */
};

size_t observe_memory_bytes(void);

/* `memory`: that many zeroed bytes, aligned to 4,096, which the caller frees after the last use. `seed`: for
 * jitter. */
void observe_init(struct observe_table *table, uint64_t seed, void *memory);

/* OBSERVE and UNOBSERVE. */
void observe_command(const struct call *call);
void observe_command_end(const struct call *call);

/* The session of a former process goes on observing the name: the leader is pushed again. */
void observe_restore(struct session *session, const char *name, size_t length, instant_ns now_ns);

/* The session's rules have changed: observations that they do not allow end, with a last push: unknown. */
void observe_review(struct session *session);

/* Ends all observations of the session. */
void observe_end(struct session *session);

/* A request of this host has acquired or released the name: its leader is queried at once. */
void observe_hint(struct front_state *front, uint64_t name_hash, const char *name, size_t length);

/* The answer to a query. */
void observe_report(struct front_state *front, const struct report *report, instant_ns now_ns);

/* Sends the queries that are due. */
void observe_tick(struct front_state *front, instant_ns now_ns);

/* When observe_tick() is due next. */
instant_ns observe_due_ns(const struct front_state *front);
