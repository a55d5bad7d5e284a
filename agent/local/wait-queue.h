/* The queue of a name: decides which request is first, which contends when another leaves, and which are
 * rejected. Part of the registry. */
#pragma once

#include "local/registry.h"

/* NULL: the queue is empty. */
struct request *wait_queue_first(const struct name_table_entry *name);

/* The request that holds the name, or NULL. An unwanted lease is released as soon as it is found, so it
 * counts as none. */
const struct request *wait_queue_holder(const struct name_table_entry *name);

/* False: as a holder the request would exceed max_leases of its rule. */
bool wait_queue_has_room(const struct registry *registry, const struct request *request);

/* The first request contends, fails soon for want of room, or is held back for a while (admission.h). */
void wait_queue_contend(struct registry *registry, struct request *request);

/* The former process's grant to this restored request has ended: it waits as any other. */
void wait_queue_wait_on(struct registry *registry, struct request *request, instant_ns now_ns);

/* The keeper has released a grant of the request that came too late, while the request waits. */
void wait_queue_contend_again(struct registry *registry, struct request *request, instant_ns now_ns);

/* Requests that were held back contend, as far as there is room. */
void wait_queue_admit(struct registry *registry);

/* The request leaves its queue, and the keeper gets this command: the request remains until the keeper
 * confirms. */
void wait_queue_hand_back(struct registry *registry, struct request *request, enum command_kind kind);

/* The request leaves its queue and is gone: the keeper does not have it. */
void wait_queue_leave(struct registry *registry, struct request *request);

/* The keeper has the request, and no session waits for it: it is withdrawn. */
void wait_queue_withdraw(struct registry *registry, struct request *request);

/* True if the name has a holder, here or elsewhere, or no majority of the nodes votes. */
bool wait_queue_is_taken(const struct name_table_entry *name);

/* True if it is known why the request does not have its name. */
bool wait_queue_knows(const struct request *request);

/* The request's wait is over: it fails with what is known of the name, and leaves. */
void wait_queue_reject(struct registry *registry, struct request *request, instant_ns now_ns);

/* The turn of this `refused` request came when its user had as much as the rule allows. If that is still so,
 * the request fails, and leaves; otherwise it contends. */
void wait_queue_end_refusal(struct registry *registry, struct request *request, instant_ns now_ns);

/* wait_queue_reject() for each overdue request of the queue; but a request that does not wait stays while
 * the keeper has it. */
void wait_queue_reject_overdue(struct registry *registry, struct name_table_entry *name, instant_ns now_ns);

/* Inserts the request behind older ones, and behind one that the keeper has. */
void wait_queue_insert(struct request *request);
