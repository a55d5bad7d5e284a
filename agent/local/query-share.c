#include "local/query-share.h"

#include <assert.h>

void query_share_init(struct query_share *share) {
    for (unsigned i = 0; i < QUOTA_ACCOUNTS; i++) {
        share->users[i].n = share->users[i].n_woken = 0;
        list_init(&share->users[i].paused);
    }
}

void query_share_begin(struct query_share *share, uint8_t account) {
    share->users[account].n++;
}

void query_share_end(struct query_share *share, uint8_t account) {
    struct query_share_user *user = &share->users[account];

    assert(user->n > 0);
    user->n--;
    user->n_woken = 0;
}

bool query_share_pause(struct query_share *share, uint8_t account, struct list *link) {
    struct query_share_user *user = &share->users[account];

    if (user->n < QUERIES_USER_MAX)
        return false;
    list_append(&user->paused, link);
    return true;
}

/* A session that goes on need not send its query, whose end would let others go on: its user may have lost
 * the right. So all go on when the user has no query under way. */
struct list *query_share_next(struct query_share *share, uint8_t account) {
    struct query_share_user *user = &share->users[account];
    struct list *link = list_first(&user->paused);

    if (!link || (user->n > 0 && user->n + user->n_woken >= QUERIES_USER_MAX))
        return NULL;
    user->n_woken++;
    list_unlink(link);
    return link;
}
