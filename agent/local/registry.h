/* Who holds, contends for and waits for each name on this host. Pure, owned by the front thread.
 *
 * Each name has a queue of requests in the order in which they asked. Only the first one is with the keeper,
 * contending or holding; the others wait here. So the hosts contend for a name, not the processes. Every
 * deadline is kept here too: a stuck keeper can't delay the news of a loss.
 *
 * A request to resume a lease goes to the front of the line, beside one that contends already: while the
 * lease stands, that one can't win. One at a time: of several with one secret, one may hold.
 *
 * A lease may linger when its session ends without a release: it goes on as if it were held, so that what
 * its holder has started can be stopped before another one has the name.
 *
 * A grant that its client does not read, since the process is stopped or hangs, is taken back: after
 * GRANT_READ_MS, or the ttl if that is less, the lease is extended no more, and the next one has the name
 * when it ends. Not before: the client may read the grant at any moment, and believes in its deadline then.
 *
 * A lease that is let go may be handed over to the next in line without its keeper: local/handoff.h.
 *
 * Every request has a bound that is kept here, whatever the keeper and the nodes do. When its wait is over
 * it is answered by what is known of the name: a holder of this host, or what the last attempt of the first
 * in line has met. If no attempt has come to an end yet, it is *overdue*: answered by the next one that
 * does, at the latest a node time-out after its wait. A request that does not wait is overdue from the
 * start, for three node time-outs; one attempt answers all of those that stand in line. What the keeper
 * still has of a request that was answered is released: a grant that comes later is nobody's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/timer-queue.h"
#include "base/list.h"
#include "base/pool.h"
#include "base/shared-string.h"
#include "core/event.h"
#include "local/admission.h"
#include "local/handoff.h"
#include "local/name-table.h"
#include "local/keeper-handle.h"
#include "local/deadline-page.h"
#include "local/request.h"

struct session;

enum { REQUESTS_MAX = 1 << 20 };

struct registry_sink {
    /* Send this to the keeper of the name with this hash. */
    void (*command)(void *userdata, uint64_t name_hash, const struct command *command);
    /* Tell the request's session. After FAILED, LOST and RELEASED the request is gone when this returns. */
    void (*outcome)(void *userdata, struct request *request, const struct request_outcome *outcome,
                    instant_ns now_ns);
    /* A request has got this name, or has it no more: its keeper knows, or is told already. May be NULL. */
    void (*changed)(void *userdata, uint64_t name_hash, const char *name, size_t length);
    /* Whether the request's session has read what it was told up to `tenure.told_at`. NULL: it always has.
     */
    bool (*has_read)(void *userdata, const struct request *request);
    /* Fresh random bytes, as the keepers have them. NULL: no lease is handed over. */
    void (*secret)(void *userdata, uint8_t secret[SECRET_BYTES]);
    /* The session may ask for more again: see registry_may_ask(). May be NULL. */
    void (*ready)(void *userdata, struct session *session);
    void *userdata;
};

struct registry {
    struct registry_sink sink;
    struct pool requests;
    struct pool secrets_pool;
    struct timer_queue due;
    struct shared_string_pool texts;
    struct name_table names;
    struct keeper_handle_table numbers;
    struct admission admission;
    uint32_t requests_max;
    uint32_t limit; /* configured: at most this many at a time */
    uint32_t held, waiting;
    uint64_t handoffs;   /* since the start */
    bool kept;           /* there is a ledger: see handoff.h */
    bool restoring;      /* until restore_end() */
    uint32_t generation; /* ids of requests are above that of any former process's */
    uint32_t clock;      /* the latest instant's generation, see registry_begin_ids() */
};

struct registry_ask {
    const char *name;
    size_t name_length;
    const char *tail; /* "pid:uid:data" */
    size_t tail_length;
    int64_t wait_ms; /* 0: one try, -1: for ever */
    struct lease_terms terms;
    bool async;
    bool resumable;
    const uint8_t *resume;    /* the random part of the value to take over; NULL: to acquire */
    instant_ns hold_until_ns; /* of what is resumed */
    int64_t token;            /* the same */
    pid_t pid;
    uid_t uid;
    struct deadline_page
        *page; /* where its deadline is shown, or NULL; it outlives the session's requests */
};

/* The smallest power of two that holds `leases`, but at least REQUEST_SLOTS_MIN: the range of slots that
 * registry and shards share. */
uint32_t registry_requests_max(uint32_t leases);

size_t registry_memory_bytes(uint32_t requests_max);

/* `memory`: that many zeroed bytes, aligned to 4,096, to be freed by the caller after the registry's last
 * use. */
void registry_init(struct registry *registry, const struct registry_sink *sink, uint32_t requests_max,
                   uint32_t limit, const uint64_t hash_key[2], void *memory);

/* Ids begin here: above all that a former process of this boot can have given, also if nothing is known of
 * it. An id is a slot's index and its generation, and a generation is a time: the 2^24 ns (17 ms) since the
 * boot. Each use of a slot takes the next one; a slot whose generation has caught up with the time rests,
 * and others are used meanwhile. So no id is given again before two years have passed. `now_ns` is
 * CLOCK_BOOTTIME. */
void registry_begin_ids(struct registry *registry, instant_ns now_ns);

uint64_t registry_id(const struct registry *registry, const struct request *request);

/* The living request with this id, or NULL. */
struct request *registry_find(const struct registry *registry, uint64_t id);

uint64_t registry_hash(const struct registry *registry, const char *name, size_t length);

/* Makes a request for the session, which begins with its struct admission_requester; NULL when the limit is
 * reached. Nothing happens before registry_start(). */
struct request *registry_ask(struct registry *registry, struct session *session,
                             const struct registry_ask *ask, instant_ns now_ns);

/* False: it has so many requests on the way that nothing more is to be taken from it, whatever it is. The
 * sink's ready() follows. */
bool registry_may_ask(struct registry *registry, struct session *session, uid_t uid);

/* Puts it in line. May call the sink with its outcome before it returns; the request may be gone then. False
 * when the registry has no room for the name: the request is gone, without an outcome. */
bool registry_start(struct registry *registry, struct request *request, const struct registry_ask *ask,
                    instant_ns now_ns);

/* Withdraws it or gives the lease up; OUTCOME_RELEASED follows, at once or when the keeper confirms. */
void registry_release(struct registry *registry, struct request *request, instant_ns now_ns);

/* The same without an outcome: nobody is there to hear it. A lease that is to linger goes on for that time.
 */
void registry_drop(struct registry *registry, struct request *request, instant_ns now_ns);

/* The session was closed by us while its process lives: no more extensions, nothing is deleted before the
 * deadline. A request that is not held is dropped. Returns true while the request stays. */
bool registry_abandon(struct registry *registry, struct request *request, instant_ns now_ns);

void registry_beat(struct registry *registry, struct request *request);

/* A keeper's word about a request. Reports about requests that are gone change nothing. */
void registry_report(struct registry *registry, const struct report *report, instant_ns now_ns);

/* The same for many extensions. */
void registry_extended(struct registry *registry, const struct extension *extensions, uint32_t count,
                       instant_ns now_ns);

/* Does what is due: waits that end, deadlines that pass. */
void registry_tick(struct registry *registry, instant_ns now_ns);

static inline instant_ns registry_due_ns(const struct registry *registry) {
    return timer_queue_earliest(&registry->due);
}

/* The first living request in a slot from *slot on, which is moved behind it; NULL at the end. For listings.
 */
struct request *registry_next(const struct registry *registry, uint32_t *slot);

/* --- for the registry's files --- */

/* Takes a slot. Returns its index and the generation of this use, which make the id; or POOL_NONE. */
uint32_t registry_slot_take(struct registry *registry, instant_ns now_ns, uint32_t *ret_generation);
void registry_slot_give(struct registry *registry, uint32_t index);
