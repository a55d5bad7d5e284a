#include "local/fair-queue.h"

void fair_queue_init(struct fair_queue *queue) {
    list_init(&queue->first);
    list_init(&queue->users);
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        list_init(&queue->by_account[i].turn_link);
        list_init(&queue->by_account[i].links);
    }
}

void fair_queue_add(struct fair_queue *queue, uint8_t account, struct list *link) {
    struct fair_queue_user *user = &queue->by_account[account];

    if (!list_is_empty(link))
        return;
    list_append(&user->links, link);
    if (list_is_empty(&user->turn_link))
        list_append(&queue->users, &user->turn_link);
}

void fair_queue_add_first(struct fair_queue *queue, struct list *link) {
    if (list_is_empty(link))
        list_append(&queue->first, link);
}

/* NULL: none has a session. */
static struct fair_queue_user *first_user(struct fair_queue *queue) {
    struct list *turn;

    while ((turn = list_first(&queue->users))) {
        struct fair_queue_user *user = list_entry(turn, struct fair_queue_user, turn_link);
        if (!list_is_empty(&user->links))
            return user;
        list_unlink(turn);
    }
    return NULL;
}

struct list *fair_queue_next(struct fair_queue *queue) {
    struct list *link = list_first(&queue->first);
    struct fair_queue_user *user = link ? NULL : first_user(queue);

    if (user) {
        link = list_first(&user->links);
        list_unlink(&user->turn_link);
    }
    if (link)
        list_unlink(link);
    if (user && !list_is_empty(&user->links))
        list_append(&queue->users, &user->turn_link);
    return link;
}

bool fair_queue_is_empty(struct fair_queue *queue) {
    return list_is_empty(&queue->first) && !first_user(queue);
}
