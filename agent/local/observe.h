/* Who observes which names (OBSERVE), and what was last told of each name's leader. Pure, owned by the front
 * thread.
 *
 * Each observed name has one entry, whatever the number of its observers. Its keeper is asked who holds it
 * (COMMAND_LOOK, as for LEADER) from time to time, at the end of the validity that was seen, and at once
 * when the registry hints at a change on this host; one question at a time. Observers are told what a
 * majority says, when it differs from what they were told. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/timer-queue.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/shared-string.h"
#include "core/event.h"

struct front_state;
struct session;
struct resp_token;

/* What is known of a name's leader. */
enum observe_leadership {
    LEADERSHIP_NEW,     /* nothing yet: nobody was told anything */
    LEADERSHIP_UNKNOWN, /* no majority has answered for a while */
    LEADERSHIP_FREE,
    LEADERSHIP_HELD,
};

struct observe_name {
    uint32_t pool_link;
    uint32_t next_in_bucket; /* index + 1 */
    uint64_t hash;
    struct shared_string *name;
    struct list observers;
    struct shared_string *value; /* LEADERSHIP_HELD: the holder's lock value, or: */
    bool foreign_type;           /* the type of what is no lock */
    int64_t token;
    instant_ns since_ns;   /* this leadership was first seen */
    instant_ns unheard_ns; /* of the first question that no majority answered; INSTANT_NEVER: none since */
    instant_ns looked_ns;  /* the last question went out */
    uint32_t hunt_ms;      /* a change was hinted at and not seen yet: to the next question; 0: none was */
    uint8_t leadership;    /* enum observe_leadership */
    bool looking;          /* a question is under way */
    bool hinted;           /* since the last question */
};

struct observe_entry {
    uint32_t pool_link;
    uint32_t entry; /* its place in the ledger */
    struct session *session;
    struct observe_name *observed;
    struct list session_link;
    struct list observed_link;
};

struct observe_table {
    struct pool names;
    struct pool observations;
    struct timer_queue due; /* names without a question under way */
    struct shared_string_pool texts;
    uint32_t *buckets; /* index + 1 */
    struct random random;
    unsigned looking; /* questions under way */
};

size_t observe_memory_bytes(void);

/* `memory`: that many zeroed bytes, aligned to 4,096, to be freed by the caller after the last use. `seed`:
 * for jitter. */
void observe_init(struct observe_table *observatory, uint64_t seed, void *memory);

/* OBSERVE and UNOBSERVE. */
void observe_command(struct session *session, struct front_state *service,
                     const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns);
void observe_command_end(struct session *session, struct front_state *service,
                         const struct resp_token *arguments, size_t n_arguments, instant_ns now_ns);

/* The session of a former process goes on observing it: it is told who leads, anew. */
void observe_restore(struct front_state *service, struct session *session, const char *name, size_t length,
                     instant_ns now_ns);

/* The session observes no more. */
void observe_end(struct session *session, struct front_state *service);

/* A request of this host has got the name, or has it no more: who leads is asked at once. */
void observe_hint(struct front_state *service, uint64_t name_hash, const char *name, size_t length);

/* Whether a report answers a question of ours, rather than LEADER's. */
bool observe_asked(uint64_t request);

/* It does: observers are told what is new. */
void observe_looked(struct front_state *service, const struct report *report, instant_ns now_ns);

/* Asks what is due. */
void observe_tick(struct front_state *service, instant_ns now_ns);

/* When observe_tick() has something to do. */
instant_ns observe_due_ns(const struct front_state *service);
