/* How many leases count as waiting, for the polls of each user's leases. */

#include "core/poll-share.h"
#include "tap.h"

enum { ONE = 1, OTHER = 2 };

static void test_shares(void) {
    struct poll_share share = {0};

    is_int(poll_share_waiters(&share, ONE), 0, "nobody waits");
    for (unsigned i = 0; i < 3; i++)
        poll_share_enter(&share, ONE);
    is_int(poll_share_waiters(&share, ONE), 3, "one user's leases share all polls");
    poll_share_enter(&share, OTHER);
    is_int(poll_share_waiters(&share, OTHER), 2, "a lease of one of two users has half of the polls");
    is_int(poll_share_waiters(&share, ONE), 4, "and nobody has less than if all shared alike");
    poll_share_leave(&share, ONE);
    is_int(poll_share_waiters(&share, ONE), 3, "two leases of a user count as that user");
    poll_share_leave(&share, OTHER);
    is_int(poll_share_waiters(&share, ONE), 2, "a user without leases has no share");
    poll_share_enter(&share, OTHER);
    is_int(poll_share_waiters(&share, OTHER), 2, "until it waits again");
}

int main(void) {
    test_shares();
    return done_testing();
}
