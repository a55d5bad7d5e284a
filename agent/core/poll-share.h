/* The polls of waiting leases, shared by users: each user has as many as the others, however many leases it
 * waits for. So one user's crowd does not make another one's poll rare. */
#pragma once

#include <assert.h>
#include <stdint.h>

struct poll_share {
    uint32_t waiting[UINT8_MAX + 1]; /* each user's waiting leases */
    uint32_t users;                  /* that have some */
    uint32_t total;
};

static inline void poll_share_enter(struct poll_share *share, uint8_t user) {
    share->users += share->waiting[user]++ == 0;
    share->total++;
}

static inline void poll_share_leave(struct poll_share *share, uint8_t user) {
    assert(share->waiting[user] > 0);
    share->users -= --share->waiting[user] == 0;
    share->total--;
}

/* As if so many leases were waiting in all, each with the same share. What users with few leases leave, the
 * others have: in all twice as many polls at most as without users. */
static inline uint32_t poll_share_waiters(const struct poll_share *share, uint8_t user) {
    uint64_t waiters = (uint64_t) share->waiting[user] * share->users;

    return waiters < share->total ? (uint32_t) waiters : share->total;
}
