/* Requests of a former process, as its ledger has them: put back in line, looked for at the nodes, and kept
 * or ended by what is found. Pure, part of the registry. (local/recovery/ledger-writer.h reads the ledger.)
 *
 * A restored request is `restored` until its keeper has said whether its lease stands. Meanwhile it counts
 * as held until its deadline, as its client believes. One that is let go in this time is `unwanted`: its
 * keys go as soon as they are found. One whose keys are not found has `vanished`: maybe its client has let
 * go and not been answered, so its loss is told only when the sessions have had their say. */
#pragma once

#include "local/registry.h"

/* A request of a former process. */
struct restore_entry {
    uint64_t id;
    instant_ns asked_ns, wait_until_ns, deadline_ns;
    int page_slot;
    uint8_t risk;            /* 1 + enum reason: its client knows that it is at risk */
    const uint8_t *standing; /* of its keys, when it was acquired */
    uint16_t handoffs;       /* since */
    bool held;               /* until `deadline_ns`, as its client knows; otherwise it waits */
    bool untold;             /* waits, and was granted (`ask.resume`): its client has not been told */
    bool unwanted;           /* held, by nobody: its client never knew */
    bool handed;             /* it has let go, and another has it: it is yet to hear so */
    bool lingers;            /* held, by somebody who has died: it goes on for its linger */
    bool forsaken; /* held, but its client can't be reached: it may believe in it until the deadline */
};

/* Makes it again, with its id; all of them before any is started, in the order of their ids if possible.
 * NULL when there is no room, or its place is taken. `session` may be NULL. */
struct request *restore_request(struct registry *registry, struct session *session,
                                const struct registry_ask *ask, const struct restore_entry *past);

/* Puts it back in line: those that wait stand in the order in which they asked. A held one is looked for at
 * the nodes, and extended where it is found: its session hears nothing of that unless it is lost. False when
 * there is no room for the name: the request is gone. */
bool restore_queue(struct registry *registry, struct request *request, const struct registry_ask *ask,
                   const struct restore_entry *past, instant_ns now_ns);

/* All are back in line: the first of each that is not held contends. */
void restore_contend(struct registry *registry);

/* The sessions have had their say about requests that a former process left unanswered. A lease that the
 * nodes have no more was released by one of these; if it was not, its loss is told now. */
void restore_end(struct registry *registry, instant_ns now_ns);

/* For the registry. */

/* The keeper has found one that is held. */
void restore_found(struct registry *registry, struct request *request, instant_ns deadline_ns,
                   instant_ns now_ns);

/* It has not: it had ended, or was being released; or it was handed over, and its holder was told of a value
 * that is not in the keys yet. The request may be gone then. */
void restore_not_found(struct registry *registry, struct request *request, instant_ns now_ns);

/* What was granted untold does not stand any more: it goes on waiting. */
void restore_not_granted(struct registry *registry, struct request *request, instant_ns now_ns);

/* One that is held is let go. The request may be gone then. */
void restore_release(struct registry *registry, struct request *request, instant_ns now_ns);
