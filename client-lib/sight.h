/* The holder's own sight: the agent's shared page (protocol.md, §8), where it shows the deadline of each of
 * the session's leases. Reading it is no system call, from any thread, whatever the agent does. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sight {
    const void *memory; /* NULL: the agent shows nothing */
    size_t bytes;
    uint32_t slots, slot_bytes, header_bytes;
    struct old_sight *old; /* of agents that are gone */
};

/* Maps the page. `fd` stays the caller's. 0, or -1 when it is not a page of a version that is known: then
 * there is no sight. */
int sight_open(struct sight *sight, int fd);

/* With all that was put away. */
void sight_close(struct sight *sight);

/* The agent is gone, and there is no sight until another is opened. What it has shown stays mapped, for
 * another thread may look at its places until sight_close(); for good without memory for that. */
void sight_put_away(struct sight *sight);

/* The place of slot number `slot`, or NULL when there is none. It stands until sight_close(). */
const void *sight_place(const struct sight *sight, int64_t slot);

/* The deadline of the lease with this id (CLOCK_BOOTTIME, ns); 0 when the place does not show it as held.
 * Thread-safe. */
int64_t sight_deadline_ns(const void *place, uint64_t id);
