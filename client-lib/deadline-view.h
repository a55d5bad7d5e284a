/* The holder's own sight: the agent's shared page (protocol.md, §8), where it shows the deadline of each of
 * the session's leases. Reading it is no system call, from any thread, whatever the agent does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_view {
    const void *memory; /* NULL: the agent shows nothing */
    size_t bytes;
    uint32_t slots, slot_bytes, header_bytes;
    struct deadline_view_old *old; /* of agents that are gone */
};

/* Maps the page. `fd` stays the caller's. 0, or -1 when it is not a page of a version that is known: then
 * there is no sight. */
int deadline_view_open(struct deadline_view *view, int fd);

/* With all that was put away. */
void deadline_view_close(struct deadline_view *view);

/* The agent is gone, and there is no sight until another is opened. What it has shown stays mapped, for
 * another thread may look at its places until deadline_view_close(); for good without memory for that. */
void deadline_view_retire(struct deadline_view *view);

/* The place of slot number `slot`, or NULL when there is none. It stands until deadline_view_close(). */
const void *deadline_view_place(const struct deadline_view *view, int64_t slot);

/* The deadline of the lease with this id (CLOCK_BOOTTIME, ns); 0 when the place does not show it as held.
 * Thread-safe. */
int64_t deadline_view_read_ns(const void *place, uint64_t id);
