#include "core/reload-queue.h"

#include <assert.h>

void reload_queue_init(struct reload_queue *queue) {
    list_init(&queue->held);
    queue->loading = false;
}

bool reload_queue_holds(struct reload_queue *queue, struct reload_queue_entry *call) {
    assert(list_is_empty(&call->link));

    call->refused = false;
    if (queue->loading)
        list_append(&queue->held, &call->link);
    return queue->loading;
}

/* The place behind all refused calls: those that were never sent come after them. */
static struct list *behind_refused(struct reload_queue *queue) {
    struct list *at = queue->held.next;

    while (at != &queue->held && reload_queue_entry_of(at)->refused)
        at = at->next;
    return at;
}

enum reload_queue_verdict reload_queue_refused(struct reload_queue *queue, struct reload_queue_entry *call) {
    bool begins = !queue->loading;

    assert(list_is_empty(&call->link));
    if (call->refused)
        return RELOAD_ANSWER;
    call->refused = true;
    list_append(behind_refused(queue), &call->link);
    queue->loading = true;
    return begins ? RELOAD_BEGIN : RELOAD_WAIT;
}

struct reload_queue_entry *reload_queue_next(struct reload_queue *queue) {
    struct list *first = list_first(&queue->held);

    if (!first)
        return NULL;
    list_unlink(first);
    return reload_queue_entry_of(first);
}

struct reload_queue_entry *reload_queue_overtaken(struct reload_queue *queue) {
    struct list *first = list_first(&queue->held);

    return first && reload_queue_entry_of(first)->refused ? reload_queue_next(queue) : NULL;
}

void reload_queue_end(struct reload_queue *queue) {
    queue->loading = false;
}
