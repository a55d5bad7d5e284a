/* The line of a name: who is first, who comes forward when one leaves, and who is turned away. Pure, part of
 * the registry. */
#pragma once

#include "local/registry.h"

/* NULL: nobody. */
struct request *line_first(const struct name *name);

/* The first one asks its keeper for the name. */
void line_contend(struct registry *registry, struct request *request);

/* Leaves the line for good while the keeper has it: it is remembered until the keeper confirms. */
void line_hand_back(struct registry *registry, struct request *request, enum command_kind kind);

/* The request is over and the keeper does not have it: it leaves the line, and is gone. */
void line_leave(struct registry *registry, struct request *request);

/* Somebody holds the name, here or elsewhere. */
bool line_is_taken(const struct name *name);

/* It has found the name taken, and does not wait: it is told "held by …", and leaves. */
void line_turn_away(struct registry *registry, struct request *request, instant_ns now_ns);

/* The same for all of the line that don't wait. */
void line_turn_away_impatient(struct registry *registry, struct name *name, instant_ns now_ns);

/* Puts it behind those that asked before it, and behind who is with the keeper. */
void line_put_in_order(struct request *request);
