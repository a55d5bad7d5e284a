/* Connections that the agent ends: each stays open until its client has read what was said last, at most for
 * a second. Closed at once, the client would lose it: its next write fails with EPIPE before it has read
 * why. At most LINGERING_MAX at a time; when there is one more, the oldest is closed. Owned by the front. */
#pragma once

#include "base/instant.h"
#include "base/list.h"
#include "io/loop/poller.h"
#include "io/client/send-buffer.h"

enum { LINGERING_MAX = 256, LINGERING_MS = 1000, LINGERING_BYTES_MAX = 64 * 1024 };

struct lingering_close {
    struct poller *poller;
    struct list open;   /* oldest first */
    struct list closed; /* to be freed by lingering_close_tick(): an event of theirs may be under way */
    unsigned n_open;
};

void lingering_close_init(struct lingering_close *closer, struct poller *poller);

/* Takes the descriptor over, which no poller watches, and what is still to be sent there (NULL: nothing),
 * which is empty afterwards. More than LINGERING_BYTES_MAX is dropped: such a client does not read. */
void lingering_close_take(struct lingering_close *closer, int fd, struct send_buffer *output,
                          instant_ns now_ns);

/* Closes those whose time is over; when to call next. Not within an event's callback. */
instant_ns lingering_close_tick(struct lingering_close *closer, instant_ns now_ns);

/* Closes all. */
void lingering_close_deinit(struct lingering_close *closer);
