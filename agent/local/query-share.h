/* Queries of sessions (LEADER) that have no answer yet, those of sessions that have ended included: each
 * user has QUERIES_USER_MAX at most, because extensions and other users' requests wait at the nodes behind
 * them. A session whose query has no place pauses before this request. Owned by the front thread.
 *
 * Users are accounts of the quota (quota.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "local/quota.h"

struct query_share_user {
    uint32_t n;       /* under way */
    uint32_t n_woken; /* since the last answer */
    struct list paused;
};

struct query_share {
    struct query_share_user users[QUOTA_ACCOUNTS];
};

void query_share_init(struct query_share *share);

/* A session of the user sends a query. */
void query_share_begin(struct query_share *share, uint8_t account);

/* The query is answered, or its time is over. */
void query_share_end(struct query_share *share, uint8_t account);

/* The session of this link wants to send a query: true if the session pauses, because its user has too many
 * under way. list_unlink() ends the pause. */
bool query_share_pause(struct query_share *share, uint8_t account, struct list *link);

/* Unlinks a session whose pause is over. NULL: none. Call until then, after query_share_end(). */
struct list *query_share_next(struct query_share *share, uint8_t account);
