/* The bare floor: acquire and release with hiredis alone, all nodes at once, done with a majority's yes.
 * Without an agent in between, and without the further checks that a lease needs. One a process. */
#pragma once

#include "nodes.h"

struct floor_slot {
    unsigned number; /* of the operation under way: late replies to earlier ones are ignored */
    unsigned yes;
    enum phase phase;
    double begun_us;
    bool asked; /* goes out with the next floor_turn() */
    char name[32];
};

/* `decided` is called for each slot that got its majority, and may ask again. */
void floor_open(char **places, struct floor_slot *slots, unsigned n_slots,
                void (*decided)(struct floor_slot *slot));

void floor_ask(struct floor_slot *slot, enum phase phase);

/* Sends the requests, one write a node; waits, and counts replies. */
void floor_turn(void);

/* Until no node owes a reply. */
void floor_drain(void);
