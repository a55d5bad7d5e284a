/* Restoring requests of a former process: they are queued again, their leases are searched for at the nodes,
 * and kept or ended by the result. Part of the registry; recovery/recovery.h reads the ledger.
 *
 * Until the keeper has reported on it, a restored lease counts as held until its deadline, as its client
 * may consider it valid. A lease that is released meanwhile is `unwanted`: its keys are deleted as soon as
 * they are found. A lease whose keys are not found may have been released by a request that the former
 * process left unanswered: so its loss is reported only after those requests were served (restore_end). */
#pragma once

#include "local/recovery/restore-state.h"
#include "local/registry.h"

/* A request of a former process. */
struct restore_entry {
    uint64_t id;
    enum restore_state state;
    bool unwanted; /* held, but no client knows: its keys are deleted */
    bool left;     /* held, but the agent cannot reach its client, or must not extend it */
    uint8_t risk;  /* 1 + enum reason: its client knows that it is at risk */
    uint16_t handoffs;
    int page_slot;
    instant_ns asked_ns, wait_until_ns;
    instant_ns deadline_ns;  /* held: its client considers it valid until then */
    const uint8_t *acquired; /* the random part in the keys when the lease was acquired */
};

/* Makes the request again, with its id, but does not start it. All requests are made before any is started,
 * in the order of their slots if possible. `ask->resume` is the random part that the client was told.
 * NULL: no room, or the slot is taken. `session` may be NULL. */
struct request *restore_request(struct registry *registry, struct session *session,
                                const struct registry_ask *ask, const struct restore_entry *entry);

/* Starts all requests that were made: waiting ones are queued in the order in which they asked; held ones
 * are searched for at the nodes and extended where they are found, of which their sessions hear nothing. */
void restore_start(struct registry *registry, instant_ns now_ns);

/* The sessions have been served what a former process left unanswered. */
void restore_end(struct registry *registry, instant_ns now_ns);

/* --- for the registry --- */

/* True if the keeper searches for the lease. */
static inline bool restore_is_searching(const struct request *request) {
    return request->restore == RESTORE_TOLD || request->restore == RESTORE_ACQUIRED;
}

/* The keeper has found the lease. */
void restore_found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                   instant_ns now_ns);

/* The keeper has not found it. The request may be gone on return. */
void restore_not_found(struct registry *registry, struct request *request, instant_ns now_ns);

/* The grant in RESTORE_UNTOLD has ended: the request waits as any other. */
void restore_not_granted(struct registry *registry, struct request *request, instant_ns now_ns);

/* A held one is released. The request may be gone on return. */
void restore_release(struct registry *registry, struct request *request, instant_ns now_ns);

/* The agent has closed its session. */
void restore_abandon(struct request *request);
