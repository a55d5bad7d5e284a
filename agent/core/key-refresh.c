#include "core/key-refresh.h"

#include <string.h>

#include "core/lease-table.h"
#include "core/validity.h"

/* A node that lacked keys gets their leases' tokens spread over this time: each takes a call of its own. */
enum { REPAIR_MS = 30 * 1000 };

static void drop_former(struct shard *shard, struct lease *lease) {
    lease->former = shared_string_unref(&shard->texts, lease->former);
    lease->stale = 0;
}

void key_refresh_begin(struct shard *shard, struct lease *lease, const struct command *command,
                       instant_ns now_ns) {
    if (lease->state != LEASE_HELD || lease->abandoned)
        return;
    lease->hold_until_ns = command->hold_until_ns;
    if (lease->risk == 1 + REASON_MAX_HOLD)
        lease->risk = 0; /* the former holder's end no longer counts */
    lease->token = command->token;
    lease->token_more = 0; /* the front has the block */
    if (lease->former)
        return; /* a node could have a third value: the keys keep the last one until the next refresh */
    struct shared_string *text =
        shared_string_new(&shard->texts, command->text, command->head_length,
                          command->text + command->head_length, command->tail_length);
    if (!text)
        return; /* no memory: the keys name the previous holder, and the present one cannot resume */
    lease->former = lease->text;
    lease->text = text;
    memcpy(lease->former_secret, lease->secret, sizeof(lease->former_secret));
    memcpy(lease->secret, command->secret, sizeof(lease->secret));
    lease->stale = lease->maybe;
    lease->former_gone_ns = validity_key_gone_ns(now_ns, lease_state_key_ttl_ms(lease, now_ns));
    /* The outstanding answers concern the former value: the nodes are asked again. */
    lease->under_way = lease->undecided = false;
    quorum_begin(&lease->round, 0);
    lease->extend_ns = now_ns;
    lease_table_set_due(shard, lease, now_ns);
}

static uint32_t random_s(struct shard *shard, int64_t from_ms, int64_t to_ms, instant_ns now_ns) {
    return (uint32_t) ((now_ns + random_between(&shard->random, from_ms, to_ms) * NS_PER_MS) / NS_PER_S);
}

/* At a random instant: each refresh is a call of its own, and many leases may begin at once. */
void key_refresh_plan(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->token_due_s = random_s(shard, TOKEN_REFRESH_MS / 2, TOKEN_REFRESH_MS, now_ns);
}

void key_refresh_plan_soon(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    lease->token_due_s = random_s(shard, 0, TOKEN_REFRESH_MS / 2, now_ns);
}

enum operation key_refresh_operation(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    if (lease->former && now_ns >= lease->former_gone_ns)
        drop_former(shard, lease);
    bool due = lease->token != 0 && now_ns / NS_PER_S >= lease->token_due_s;
    return lease->former || due ? OPERATION_REFRESH : OPERATION_EXTEND;
}

void key_refresh_vote(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns) {
    if (vote->kind == VOTE_REPAIRED) {
        uint32_t due_s = random_s(shard, 0, REPAIR_MS, now_ns);
        if (due_s < lease->token_due_s)
            lease->token_due_s = due_s;
    }
    if (!lease->former)
        return;
    if (vote->kind == VOTE_YES || vote->kind == VOTE_REPAIRED || vote->kind == VOTE_FOREIGN)
        lease->stale &= (node_set) ~node_set_of(node);
    if (lease->stale == 0)
        drop_former(shard, lease);
}
