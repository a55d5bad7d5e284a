/* The state of a restored request until the keeper has found its lease. */
#pragma once

#include <assert.h>
#include <stdbool.h>

/* A restored request begins as UNREPORTED, REPORTED, LEFT or MOVED. All but MOVED may end as NONE, an
 * ordinary request. An abandoned lease that was LEFT becomes REPORTED when it is released:
 *
 *     UNREPORTED ──▶ NONE (granted, or it waits as any other)
 *     REPORTED ──▶ ACQUIRED ──▶ SPLIT ──▶ over, or LEFT
 *       │   │        └──▶ NONE (found)
 *       │   └──▶ VANISHED ──▶ over
 *       └──▶ NONE (found) */
enum restore_state {
    RESTORE_NONE,       /* an ordinary request */
    RESTORE_UNREPORTED, /* waits, and resumes a grant whose reply was not sent */
    RESTORE_REPORTED,   /* held: the keeper searches for the lock value of the client */
    RESTORE_ACQUIRED,   /* held: not found; the keeper searches for the acquired value (handoff.h) */
    RESTORE_VANISHED,   /* held: not found; the client may have released the lease */
    RESTORE_SPLIT,      /* held: neither value has a majority, but both together may */
    RESTORE_LEFT,       /* held: no search until its release; ends at its deadline */
    RESTORE_MOVED,      /* held: no search ever, since its keys are of a former key_format */
};

static_assert(RESTORE_MOVED < 1 << 3, "a request has three bits for the state");

static inline bool restore_state_is_left(enum restore_state state) {
    return state == RESTORE_LEFT || state == RESTORE_MOVED;
}

static inline bool restore_state_is_held(enum restore_state state) {
    return state > RESTORE_UNREPORTED;
}
