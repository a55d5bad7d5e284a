/* The polls of waiting leases, shared by users: each user has as many as the others, however many leases it
 * waits for. So one user's crowd does not make another one's poll rare. */
#pragma once

#include <assert.h>
#include <stdint.h>

struct poll_share {
    uint32_t waiting[UINT8_MAX + 1]; /* each user's waiting leases */
    uint32_t users;                  /* that have some */
};

static inline void poll_share_enter(struct poll_share *share, uint8_t user) {
    share->users += share->waiting[user]++ == 0;
}

static inline void poll_share_leave(struct poll_share *share, uint8_t user) {
    assert(share->waiting[user] > 0);
    share->users -= --share->waiting[user] == 0;
}

/* As if so many leases were waiting in all, each with the same share. */
static inline uint64_t poll_share_waiters(const struct poll_share *share, uint8_t user) {
    return (uint64_t) share->waiting[user] * share->users;
}
