/* What is known of the lease of a request that a former process left. */
#pragma once

#include <stdbool.h>

/* A request enters its state when it is restored. When the keeper finds its lease it becomes an ordinary
 * request:
 *
 *     UNTOLD ──▶ NONE (granted, or it waits as any other)
 *     TOLD ──▶ ACQUIRED ──▶ SPLIT ──▶ over, or LEFT
 *       │ │        └──▶ NONE (found)
 *       │ └──▶ VANISHED ──▶ over
 *       └──▶ NONE (found) */
enum restore_state {
    RESTORE_NONE,     /* an ordinary request */
    RESTORE_UNTOLD,   /* waits: it was granted, but its client doesn't know, so that grant is resumed */
    RESTORE_TOLD,     /* held: the keeper searches for the lock value that the client was told */
    RESTORE_ACQUIRED, /* held: not found; the keeper searches for the value of the acquisition (handoff.h) */
    RESTORE_VANISHED, /* held: no keys, or another session has the lease: its client may have released it */
    RESTORE_SPLIT,    /* held: neither value has a majority, but both together may */
    RESTORE_LEFT,     /* held: nothing is asked of the nodes; it ends at its deadline */
};

static inline bool restore_state_is_held(enum restore_state state) {
    return state > RESTORE_UNTOLD;
}
