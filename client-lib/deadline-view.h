/* A read-only view of the agent's deadline page (protocol.md, section 8), where the agent keeps the deadline
 * of each of the session's leases. Reading needs no system call and no answer from the agent, from any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_view {
    const void *memory; /* NULL: no page */
    size_t bytes;
    uint32_t slots, slot_bytes, header_bytes;
    struct deadline_view_old *old; /* pages of earlier agents */
};

/* Maps the page. `fd` stays the caller's. 0, or -1 if it is no page of a known version; then the view is
 * unchanged. */
int deadline_view_open(struct deadline_view *view, int fd);

/* Unmaps all pages. */
void deadline_view_close(struct deadline_view *view);

/* The agent is gone. Its page stays mapped until deadline_view_close(), because another thread may be
 * reading it; without memory to note that, the mapping leaks. */
void deadline_view_retire(struct deadline_view *view);

/* The address of slot `index`, valid until deadline_view_close(); NULL: there is no such slot. */
const void *deadline_view_slot(const struct deadline_view *view, int64_t index);

/* The deadline (agent's CLOCK_BOOTTIME, ns) of the lease with this id; 0: the slot does not show it as held.
 * Thread-safe. */
int64_t deadline_view_read_ns(const void *address, uint64_t id);
