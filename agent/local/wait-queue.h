/* The line of a name: who is first, who comes forward when one leaves, and who is turned away. Pure, part of
 * the registry. */
#pragma once

#include "local/registry.h"

/* NULL: nobody. */
struct request *wait_queue_first(const struct name_table_entry *name);

/* The first one asks its keeper for the name, or is held back for a while: admission.h. */
void wait_queue_contend(struct registry *registry, struct request *request);

/* Those that were held back follow, as far as there is room. */
void wait_queue_admit(struct registry *registry);

/* Leaves the line for good while the keeper has it: it is remembered until the keeper confirms. */
void wait_queue_hand_back(struct registry *registry, struct request *request, enum command_kind kind);

/* The request is over and the keeper does not have it: it leaves the line, and is gone. */
void wait_queue_leave(struct registry *registry, struct request *request);

/* Somebody holds the name, here or elsewhere, or no majority of the nodes can tell. */
bool wait_queue_is_taken(const struct name_table_entry *name);

/* Its wait is over: it is told what is known of the name, and leaves. */
void wait_queue_reject(struct registry *registry, struct request *request, instant_ns now_ns);

/* The same for all of the line that are overdue; but one that does not wait goes on while it is with the
 * keeper. */
void wait_queue_reject_overdue(struct registry *registry, struct name_table_entry *name, instant_ns now_ns);

/* It is with the keeper, and nobody waits for it any more. */
void wait_queue_withdraw(struct registry *registry, struct request *request);

/* Whether it is known why this request does not have its name. */
bool wait_queue_knows(const struct request *request);

/* Puts it behind those that asked before it, and behind who is with the keeper. */
void wait_queue_insert(struct request *request);
