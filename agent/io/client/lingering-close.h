/* Connections that the agent ends: each stays open until the client has read the last reply, at most for
 * LINGERING_MS. With close(2) at once, a client that still writes gets EPIPE and never sees the reply. At
 * most LINGERING_MAX at a time, or an eighth of the descriptors that the process may have if that is less:
 * a further one closes the oldest. Owned by the front. */
#pragma once

#include "base/instant.h"
#include "base/list.h"
#include "io/loop/poller.h"
#include "io/client/send-buffer.h"

enum { LINGERING_MAX = 256, LINGERING_MS = 1000, LINGERING_BYTES_MAX = 64 * 1024 };

struct lingering_close {
    struct poller *poller;
    struct list open;   /* oldest first */
    struct list closed; /* freed by lingering_close_tick(), when no event is dispatched */
    unsigned n_open, max;
};

void lingering_close_init(struct lingering_close *closer, struct poller *poller);

/* The most at a time, of a process that may have so many descriptors. */
static inline unsigned lingering_close_max(uint64_t descriptors) {
    return descriptors / 8 < LINGERING_MAX ? (unsigned) (descriptors / 8) : LINGERING_MAX;
}

/* Owns the descriptor, which no poller watches, and the unsent output (NULL: none), which is empty
 * afterwards. More than LINGERING_BYTES_MAX is dropped: such a client does not read. */
void lingering_close_take(struct lingering_close *closer, int fd, struct send_buffer *output,
                          instant_ns now_ns);

/* Closes connections whose time has passed. When to call next. Not within an event's callback. */
instant_ns lingering_close_tick(struct lingering_close *closer, instant_ns now_ns);

/* Closes all. */
void lingering_close_deinit(struct lingering_close *closer);
