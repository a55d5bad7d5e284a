/* The calls of one connection while its node lacks the scripts: after NOSCRIPT they are held back, and sent
 * in their order when the scripts are loaded again. The order matters: a call may be the release of a key
 * that an earlier one would set.
 *
 * The owner embeds the entries in its calls, loads the scripts, and sends and answers the calls. An entry
 * that is handed out is in no list. Nothing here calls back, allocates or fails. One thread. */
#pragma once

#include <stdbool.h>

#include "base/list.h"

struct reload_queue_entry {
    struct list link; /* the owner's while the call is not held back */
    bool refused;     /* the node lacked the scripts when the call came: it is sent once more, and no more */
};

struct reload_queue {
    struct list held; /* refused calls come first */
    bool loading;
};

static inline struct reload_queue_entry *reload_queue_entry_of(struct list *link) {
    return list_entry(link, struct reload_queue_entry, link);
}

void reload_queue_init(struct reload_queue *queue);

/* A new call, which is in no list, is to be sent. True: it is held back, since the scripts are being
 * loaded. */
bool reload_queue_holds(struct reload_queue *queue, struct reload_queue_entry *call);

enum reload_queue_verdict {
    RELOAD_ANSWER, /* the call has been repeated before: NOSCRIPT is its answer */
    RELOAD_WAIT,   /* it is held back */
    RELOAD_BEGIN,  /* the same, and the owner is to load the scripts */
};

/* The node answered a call, which is in no list, by NOSCRIPT. */
enum reload_queue_verdict reload_queue_refused(struct reload_queue *queue, struct reload_queue_entry *call);

/* The node answered a call, which was sent behind all refused ones, and may have executed it: then somebody
 * else has loaded the scripts. Returns the next refused call, which must not be repeated any more: the owner
 * answers it as cut off, and asks again until NULL. */
struct reload_queue_entry *reload_queue_overtaken(struct reload_queue *queue);

/* The scripts are loaded, or the connection has ended: calls are held back no longer. */
void reload_queue_end(struct reload_queue *queue);

/* The next call that was held back, to be sent or answered as cut off; NULL: there is none. */
struct reload_queue_entry *reload_queue_next(struct reload_queue *queue);
