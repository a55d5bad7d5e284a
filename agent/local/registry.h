/* The registry: holder, contender and waiters of each name on this host. Owned by the front thread.
 *
 * Each name has a FIFO queue of requests. Only the first is with the keeper, contending or holding; the
 * others wait here: so hosts contend for a name, not processes. The registry keeps its own copy of each
 * deadline: a stuck keeper cannot delay the report of a loss.
 *
 * A request to resume a lease enters at the front of the queue, beside a contender: while the lease is
 * valid, the contender cannot win. Only one resumes at a time: of several with one resume token, one may
 * hold.
 *
 * A lease may linger when its session ends without a release: it is extended for that time, so that what its
 * holder has started can be stopped before the next holder has the name.
 *
 * A lease with a cooldown keeps its name taken for that time after its grant, and is never handed off: the
 * keeper leaves its keys until then (core/lease.h). The requests behind it contend meanwhile.
 *
 * A grant that its client does not read (the process is stopped or hangs) is withdrawn: after GRANT_READ_MS,
 * or the ttl if that is shorter, the lease is no longer extended. The next request gets the name at the
 * deadline, not before: the client may read the grant at any moment, and considers it valid until then.
 *
 * A released lease may be handed off to the next request in the queue: local/handoff.h.
 *
 * Each request is answered within a bound that is kept here, whatever keeper and nodes do. When its wait is
 * over, it is answered from what is known of the name: a holder on this host, or the result of the queue's
 * last attempt. If no attempt has ended yet, the request is *overdue*: the end of the next attempt answers
 * it, or at the latest a node time-out after its wait. A request that does not wait is overdue from the
 * start, for three node time-outs; one attempt answers all of those in the queue. What the keeper still has
 * of an answered request is released: a later grant belongs to no request. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/histogram.h"
#include "base/timer-queue.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/shared-string.h"
#include "core/event.h"
#include "local/admission.h"
#include "local/handoff.h"
#include "local/name-table.h"
#include "local/keeper-handle.h"
#include "local/latest-grants.h"
#include "local/deadline-page.h"
#include "local/quota.h"
#include "local/request.h"

struct cooling_table;
struct history;
struct ledger;
struct session;

enum { REQUESTS_MAX = 1 << 20 };

enum registry_reading {
    GRANT_UNREAD,
    GRANT_READ,
    GRANT_COUNTS_AS_READ, /* more has been sent since, so that it is not known */
};

struct registry_sink {
    /* Sends the command to the keeper of the name with this hash. */
    void (*command)(void *userdata, uint64_t name_hash, const struct command *command);
    /* Delivers the outcome to the request's session. FAILED, LOST and RELEASED are a request's last. */
    void (*outcome)(void *userdata, struct request *request, const struct request_outcome *outcome,
                    instant_ns now_ns);
    /* The lease is lost: each loss once, that the keeper has reported or the front has seen first, with or
     * without a session. May be NULL. */
    void (*lost)(void *userdata, const struct request *request, enum reason reason);
    /* The holder of this name on this host has changed; its keeper knows, or has the command. May be NULL.
     * */
    void (*changed)(void *userdata, uint64_t name_hash, const char *name, size_t length);
    /* Whether the client has read the output up to `tenure.grant_end`. NULL: always. */
    enum registry_reading (*grant_reading)(void *userdata, const struct request *request);
    /* Fresh random bytes, as good as the keepers'. NULL: no lease is handed off. */
    void (*secret)(void *userdata, uint8_t secret[SECRET_BYTES]);
    /* The session may send requests again: see admission_may_ask(). May be NULL. */
    void (*ready)(void *userdata, struct session *session);
    void *userdata;
};

struct registry {
    struct registry_sink sink;
    struct pool requests;
    struct pool secrets_pool;
    struct timer_queue due;
    instant_ns tick_ns;     /* the last registry_tick() */
    struct list leaving;    /* requests of ended sessions, for registry_tick() to drop */
    unsigned drops_at_once; /* of a session; smaller in tests */
    struct shared_string_pool texts;
    struct name_table names;
    struct keeper_handle_table handles;
    struct admission admission;
    struct quota quota;
    uint32_t requests_max;
    uint32_t limit; /* configured: requests at a time */
    uint32_t held, waiting;
    uint64_t handoffs; /* since the start, as the following */
    uint64_t losses[REASON_COUNT];
    struct histogram acquisitions; /* from the request to the grant: of immediate grants, */
    struct histogram waits;        /* and of grants after another holder or attempt */
    struct latest_grants latest;
    struct history *history;            /* NULL: none is kept */
    struct cooling_table *cooling;      /* the same */
    struct ledger *ledger;              /* NULL: no next process goes on with the sessions */
    bool restoring;                     /* until restore_end() */
    uint32_t searched_ttl_ms_max;       /* a restored lease with a longer ttl is not searched for */
    uint32_t generation;                /* ids begin above this one: those of former processes are below */
    uint32_t clock;                     /* generation of the latest instant, see registry_begin_ids() */
    instant_ns asked_from_ns, asked_ns; /* of the latest registry_ask() calls of one instant */
};

struct registry_ask {
    const char *name;
    size_t name_length;
    const char *tail; /* "pid:uid:data" */
    size_t tail_length;
    int64_t wait_ms; /* 0: one attempt; -1: without end */
    struct lease_terms terms;
    bool async;
    bool resumable;
    bool accepted;                /* by a former process: it waits on, beyond quotas and limits */
    const uint8_t *resume;        /* random part of the lock value to resume; NULL: to acquire */
    instant_ns hold_until_ns;     /* of the resumed lease */
    instant_ns cooldown_until_ns; /* of the resumed lease; 0: no cooldown */
    int64_t token;                /* of the resumed lease */
    pid_t pid;
    uid_t uid;
    uint8_t rule; /* number of the policy's rule that the request counts under; 0: none */
};

/* The number of slots for that many leases, of registry and shards: a power of two, at least
 * REQUEST_SLOTS_MIN. */
uint32_t registry_requests_max(uint32_t leases);

size_t registry_memory_bytes(uint32_t requests_max);

/* `memory`: that many zeroed bytes, aligned to 4,096, which the caller frees after the last use. */
void registry_init(struct registry *registry, const struct registry_sink *sink, uint32_t requests_max,
                   uint32_t limit, const uint64_t hash_key[2], void *memory);

/* Ids begin above all that a former process of this boot can have used, even if nothing is known of it. An
 * id is a slot's index and generation, and a generation is a time: units of 2^24 ns (17 ms) since the boot.
 * Each use of a slot takes its next generation; a slot whose generation reaches the present rests, and
 * others are used. So no id is used twice within two years. `now_ns` is CLOCK_BOOTTIME. */
void registry_begin_ids(struct registry *registry, instant_ns now_ns);

uint64_t registry_id(const struct registry *registry, const struct request *request);

/* The living request with this id, or NULL. */
struct request *registry_find(const struct registry *registry, uint64_t id);

/* The request of this host that holds the name with this hash, or NULL. */
const struct request *registry_holder(const struct registry *registry, uint64_t name_hash);

/* True if some request of this host contends for the name, waits for it or holds it. */
bool registry_is_wanted(const struct registry *registry, const char *name, size_t length);

/* True if the registry has a lease of this user that a former process granted, and that no session has: the
 * user's RESUME continues it, so it needs no more of a quota. */
bool registry_has_left_lease(const struct registry *registry, uid_t uid, const char *name, size_t length);

uint64_t registry_hash(const struct registry *registry, const char *name, size_t length);

/* True: max_leases is reached. */
bool registry_is_full(const struct registry *registry);

/* Makes a request for the session, whose first member is its struct admission_requester. NULL: the limit is
 * reached, or there is no room for the texts. registry_start() follows. */
struct request *registry_ask(struct registry *registry, struct session *session,
                             const struct registry_ask *ask, instant_ns now_ns);

/* The rules of the policy have changed: the new ones, which stay where they are, and the number of each by
 * its former number. Requests under a rule that is gone, or that is for other peers now, count under none;
 * rule_count_again() follows. */
void registry_set_rules(struct registry *registry, const struct policy_rule *rules,
                        const uint8_t numbers[RULES_MAX + 1]);

/* The number of leases and waiting requests with a ttl above this one. */
uint32_t registry_count_longer(const struct registry *registry, int64_t ttl_ms);

/* Puts the request into its queue. Its outcome may be delivered before the return, and the request may be
 * gone. */
void registry_start(struct registry *registry, struct request *request, const struct registry_ask *ask,
                    instant_ns now_ns);

/* Withdraws the request or releases its lease. OUTCOME_RELEASED follows, at once or when the keeper
 * confirms. */
void registry_release(struct registry *registry, struct request *request, instant_ns now_ns);

/* The same for a session that ends: without an outcome, and a lease with a linger lingers. */
void registry_drop(struct registry *registry, struct request *request, instant_ns now_ns);

/* The same for one of a session's requests, of which there may be very many: at once while `*room` is not 0,
 * which it counts down, then in one of the next ticks. Until then the request acquires nothing. */
enum { REGISTRY_DROPS_AT_ONCE = 64 };
void registry_drop_in_turn(struct registry *registry, struct request *request, unsigned *room,
                           instant_ns now_ns);

/* Drops the requests that ended sessions have left to the next ticks: all of them; or those at the head of
 * this name's queue, REGISTRY_DROPS_AT_ONCE at most. */
void registry_drop_leaving(struct registry *registry, instant_ns now_ns);
void registry_drop_leaving_first(struct registry *registry, const char *name, size_t length,
                                 instant_ns now_ns);

/* The agent closes the session of a held lease while its process may live: the lease is no longer extended,
 * and no key is deleted before its deadline. */
void registry_abandon(struct registry *registry, struct request *request);

void registry_beat(struct registry *registry, struct request *request, instant_ns now_ns);

/* Ends the waits and deadlines that are due, at most REGISTRY_TICK_MAX in one call, and drops as many
 * requests of ended sessions: before the next call the loop reads the extensions that have come meanwhile.
 * */
enum { REGISTRY_TICK_MAX = 256 };
void registry_tick(struct registry *registry, instant_ns now_ns);

static inline instant_ns registry_due_ns(const struct registry *registry) {
    return list_is_empty(&registry->leaving) ? timer_queue_earliest(&registry->due) : 0;
}

/* The first living request from *slot on; *slot moves behind it. NULL at the end. For listings. */
struct request *registry_next(const struct registry *registry, uint32_t *slot);

/* The living request in *slot, which moves on. NULL: none. */
struct request *registry_at(const struct registry *registry, uint32_t *slot);

/* Slots from this one on are empty. */
uint32_t registry_slots(const struct registry *registry);

/* --- for the registry's files --- */

/* Takes a slot. Returns its index and the generation of this use, which make the id; or POOL_NONE. */
uint32_t registry_slot_take(struct registry *registry, instant_ns now_ns, uint32_t *ret_generation);
void registry_slot_give(struct registry *registry, uint32_t index);
