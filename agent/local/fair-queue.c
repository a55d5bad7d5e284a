#include "local/fair-queue.h"

#include <assert.h>

void fair_queue_init(struct fair_queue *queue, const struct work_share *share) {
    queue->share = share;
    list_init(&queue->first);
    list_init(&queue->users);
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        list_init(&queue->by_account[i].turn_link);
        list_init(&queue->by_account[i].ended);
        list_init(&queue->by_account[i].links);
        queue->by_account[i].n_ended = 0;
    }
}

static void add(struct fair_queue *queue, struct fair_queue_user *user, struct list *links,
                struct list *link) {
    if (!list_is_empty(link))
        return;
    list_append(links, link);
    if (list_is_empty(&user->turn_link))
        list_append(&queue->users, &user->turn_link);
}

void fair_queue_add(struct fair_queue *queue, uint8_t account, struct list *link) {
    struct fair_queue_user *user = &queue->by_account[account];
    add(queue, user, &user->links, link);
}

void fair_queue_add_ended(struct fair_queue *queue, uint8_t account, struct list *link) {
    struct fair_queue_user *user = &queue->by_account[account];
    add(queue, user, &user->ended, link);
}

void fair_queue_add_first(struct fair_queue *queue, struct list *link) {
    if (list_is_empty(link))
        list_append(&queue->first, link);
}

static instant_ns due_ns(const struct fair_queue *queue, const struct fair_queue_user *user,
                         instant_ns now_ns) {
    if (!queue->share || !list_is_empty(&user->ended))
        return 0;
    return work_share_due_ns(queue->share, (uint8_t) (user - queue->by_account), now_ns);
}

static bool is_idle(const struct fair_queue_user *user) {
    return list_is_empty(&user->ended) && list_is_empty(&user->links);
}

/* The first user that is due at `now_ns`. NULL: none; then *ret_due_ns is when one will be. */
static struct fair_queue_user *first_user(struct fair_queue *queue, instant_ns now_ns,
                                          instant_ns *ret_due_ns) {
    *ret_due_ns = INSTANT_NEVER;
    list_for_each_safe(turn, &queue->users) {
        struct fair_queue_user *user = list_entry(turn, struct fair_queue_user, turn_link);

        if (is_idle(user)) {
            list_unlink(turn);
            continue;
        }
        *ret_due_ns = instant_min(*ret_due_ns, due_ns(queue, user, now_ns));
        if (*ret_due_ns <= now_ns)
            return user;
    }
    return NULL;
}

/* The user's next one. The turn ends with it, unless more sessions that are to be closed have room there. */
static struct list *take(struct fair_queue *queue, struct fair_queue_user *user) {
    struct list *ended = list_first(&user->ended), *link = ended ? ended : list_first(&user->links);

    assert(link);
    list_unlink(link);
    if (ended && !list_is_empty(&user->ended) && ++user->n_ended < FAIR_QUEUE_ENDED_MAX)
        return link;
    user->n_ended = 0;
    list_unlink(&user->turn_link);
    if (!is_idle(user))
        list_append(&queue->users, &user->turn_link);
    return link;
}

struct list *fair_queue_next(struct fair_queue *queue, instant_ns now_ns) {
    struct list *link = list_first(&queue->first);
    instant_ns user_due_ns;
    struct fair_queue_user *user = link ? NULL : first_user(queue, now_ns, &user_due_ns);

    if (user)
        return take(queue, user);
    if (link)
        list_unlink(link);
    return link;
}

instant_ns fair_queue_due_ns(struct fair_queue *queue, instant_ns now_ns) {
    instant_ns user_due_ns;

    if (!list_is_empty(&queue->first))
        return 0;
    (void) first_user(queue, now_ns, &user_due_ns);
    return user_due_ns;
}
