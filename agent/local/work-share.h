/* The work that the front does for each user, in units. While several users ask, each of them has a number
 * of units a second (max_work in redlockd.conf(5)), and WORK_SHARE_BURST at once; a user alone has no limit.
 * A user that has used its burst pauses until it has as many units again: so its requests come together, and
 * the front, the keepers and the nodes wake less often.
 *
 * Without this limit one user's requests would keep the front and the nodes busy all the time, and those of
 * others would wait for a processor: the p99 of another user's acquisitions was 2 to 22 times as long as
 * without a flood, and with the limit about twice as long at most for most kinds (tests/bench/NOTES.md).
 *
 * Units are counted, not measured: the front may lose the processor within a request. Users are accounts of
 * the quota (quota.h). Owned by the front thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/instant.h"
#include "local/quota.h"

enum {
    WORK_SHARE_BURST = 32,
    WORK_SHARE_DEBT_MS_MAX = 50,
    WORK_SHARE_OTHERS_MS = 1000, /* another user asks if it has asked within this time */

    /* The units of a request are in the table of commands (command.c). */
    WORK_SHARE_REQUEST = 1,
    WORK_SHARE_LEASE = 3, /* a request that the keeper and the nodes work on */
    /* For each WORK_SHARE_EXTENSIONS extensions a minute that its user's leases need (quota_extensions()),
     * ACQUIRE takes one unit more, up to WORK_SHARE_LEASE_MAX in all. */
    WORK_SHARE_EXTENSIONS = 128,
    WORK_SHARE_LEASE_MAX = 64,
    WORK_SHARE_LISTING = 8,  /* a request that reads tables, and again each turn of a listing (listing.c) */
    WORK_SHARE_LEASES = 32,  /* a listing of leases, beside its turns */
    WORK_SHARE_OBSERVE = 16, /* the nodes are asked, again and again */
    WORK_SHARE_QUERY = 32,   /* a request that the nodes answer for this client alone */
    WORK_SHARE_COMMANDS = 512, /* the list of commands: a client needs it once */
    WORK_SHARE_IN_VAIN = 13,   /* a RESUME that fails or ends later: beside WORK_SHARE_LEASE */
    WORK_SHARE_CONNECTION = 16,
    WORK_SHARE_RECEIVED_BYTES = 1024, /* for a unit */
    WORK_SHARE_WRITTEN_BYTES = 2048,  /* for a unit */
};

struct work_share {
    unsigned units_per_s; /* of a user; a client that acquires and releases all the time needs 16,000 */
    instant_ns paid_ns[QUOTA_ACCOUNTS]; /* when the user's share covers its work so far */
    instant_ns due_ns[QUOTA_ACCOUNTS];  /* the end of the user's latest pause, if others ask */
    instant_ns latest_ns;               /* of the latest work, which was for the user `latest` */
    instant_ns other_ns;                /* of the latest work for another user than `latest` */
    uint64_t pauses;                    /* of all users, since the start */
    uint8_t latest;
};

/* `units_per_s`: at least 1, at most 10^9; may be changed at any time. */
void work_share_init(struct work_share *share, unsigned units_per_s);

/* The account is another user's from now on, who owes nothing. */
void work_share_forget(struct work_share *share, uint8_t account);

/* The front has done so many units of work for the user; 0: work that the share does not count. */
void work_share_note(struct work_share *share, uint8_t account, unsigned units, instant_ns now_ns);

/* Whether several users have asked within WORK_SHARE_OTHERS_MS. */
bool work_share_is_shared(const struct work_share *share, instant_ns now_ns);

/* When the front may work for the user again; 0: at once. */
instant_ns work_share_due_ns(const struct work_share *share, uint8_t account, instant_ns now_ns);
