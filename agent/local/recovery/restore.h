/* Restores the requests of a former process: queues them again, and searches for their leases at the nodes.
 * Part of the registry; recovery/recovery.h reads the ledger.
 *
 * A restored lease counts as held until the keeper's report, or until its deadline: its client may consider
 * the lease valid. A release that comes before the report marks the lease as `unwanted`: its keys are
 * deleted when the search finds them, and its reply waits for that, for a node time-out at most. (Without a
 * search, the release of an abandoned lease begins one.) When the search finds no keys, an unanswered
 * request of the former process may be the release: the loss is reported after all of these requests
 * (restore_end). */
#pragma once

#include "local/recovery/restore-state.h"
#include "local/registry.h"

/* A request of a former process. */
struct restore_entry {
    uint64_t id;
    enum restore_state state;
    bool unwanted;  /* held, and no client uses the lease: delete its keys */
    bool abandoned; /* left, since its client is out of reach, or the agent closed the session; or unread */
    bool unread;    /* abandoned, because the client did not read its grant in time */
    bool read;      /* held, and the client has read the grant */
    uint8_t risk;   /* 1 + enum reason: the client got `at-risk` */
    uint16_t handoffs;
    int page_slot;
    instant_ns asked_ns, wait_until_ns;
    instant_ns deadline_ns;  /* held: the client's deadline */
    const uint8_t *acquired; /* the random part in the keys at the acquisition */
};

/* Makes the request again, with its id; restore_start() starts it. `ask->resume` is the random part in the
 * client's grant. `session` may be NULL. Returns NULL without room, or if the slot is taken; ascending ids
 * avoid that. */
struct request *restore_request(struct registry *registry, struct session *session,
                                const struct registry_ask *ask, const struct restore_entry *entry);

/* Starts all requests: queues waiting ones in the order of their arrival, and searches for held leases at
 * the nodes, which extends them. Sessions get no push for that; only a holder whose lease is not extended
 * any more gets `at-risk`. The keepers must know the former processes (shard_succeed), and the next process
 * must know this one: the new ledger must be published. */
void restore_start(struct registry *registry, instant_ns now_ns);

/* The unanswered requests of the former process are served. */
void restore_end(struct registry *registry, instant_ns now_ns);

/* --- for the registry --- */

static inline bool restore_is_searching(const struct request *request) {
    return request->restore == RESTORE_REPORTED || request->restore == RESTORE_ACQUIRED;
}

/* The sentence for the holder when the lease ends at its deadline; NULL: that of the reason. */
const char *restore_loss_text(const struct request *request);

/* The search found the lease. */
void restore_found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                   instant_ns now_ns);

/* A try of the search got no majority, and the keeper tries again: the holder gets `at-risk`. */
void restore_search_failed(struct registry *registry, struct request *request,
                           const struct round_trace *trace, instant_ns now_ns);

/* The search did not find the lease. May free the request. */
void restore_not_found(struct registry *registry, struct request *request, instant_ns now_ns);

/* A restored lease is released. May free the request. */
void restore_release(struct registry *registry, struct request *request, instant_ns now_ns);

/* The reply to the release is due, found or not: no session waits for the deletion of the keys any more. */
void restore_answer_release(struct registry *registry, struct request *request, instant_ns now_ns);

/* A lease of a former process whose connection could not be restored: its client may resume it. */
bool restore_may_be_resumed(const struct request *request);

/* A client has resumed the lease of this name: its keys are those of the resumed one. So what the agent kept
 * of it since the restart ends, without a loss. */
void restore_end_left(struct registry *registry, const struct request *resumed);

/* The agent closed the session of a restored lease. */
void restore_abandon(struct request *request);
