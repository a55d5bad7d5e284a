#include "core/foreign-key.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/secret.h"
#include "core/lock-value.h"
#include "core/lease-table.h"
#include "core/release.h"

/* The record that deletes this value already, or NULL. */
static struct lease *find_among(const struct list *leases, const struct lease *lease, const uint8_t *secret,
                                const char *rest, size_t length) {
    for (struct list *at = leases->next; at != leases; at = at->next) {
        struct lease *orphan = list_entry(at, struct lease, ending_link);
        const struct shared_string *text = orphan->text;
        if (orphan->orphan && secret_equal(orphan->secret, secret, SECRET_BYTES) &&
            bytes_equal(shared_string_tail(text), text->tail_length, rest, length) &&
            bytes_equal(text->bytes, text->head_length, lease->text->bytes, lease->text->head_length))
            return orphan;
    }
    return NULL;
}

static struct lease *find_orphan(const struct shard *shard, const struct lease *lease, const uint8_t *secret,
                                 const char *rest, size_t length) {
    struct lease *orphan = find_among(&shard->owing, lease, secret, rest, length);
    return orphan ? orphan : find_among(&shard->backlog, lease, secret, rest, length);
}

static struct lease *orphan_new(struct shard *shard, const struct lease *lease, const uint8_t *secret,
                                const char *rest, size_t length, instant_ns now_ns) {
    struct lease *orphan = lease_table_new(shard);

    if (!orphan)
        return NULL;
    orphan->text =
        shared_string_new(&shard->texts, lease->text->bytes, lease->text->head_length, rest, length);
    if (!orphan->text) {
        lease_table_free(shard, orphan);
        return NULL;
    }
    memcpy(orphan->secret, secret, sizeof(orphan->secret));
    orphan->orphan = true;
    orphan->terms = lease->terms;
    orphan->started_ns = now_ns;
    return orphan;
}

/* The former process of this agent that set the value, or NULL. `ret_secret` has its random part. */
static const struct shard_predecessor *predecessor_of(const struct shard_predecessors *predecessors,
                                                      const struct vote *vote, instant_ns now_ns,
                                                      uint8_t ret_secret[SECRET_BYTES]) {
    for (unsigned i = 0; i < predecessors->count; i++) {
        const struct shard_predecessor *one = &predecessors->all[i];
        if (now_ns < one->until_ns &&
            lock_value_is_of(vote->text, vote->text_length, &one->identity, ret_secret))
            return one;
    }
    return NULL;
}

/* `secret`: memory for the random part. */
static bool is_orphan(struct shard *shard, const struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns, uint8_t secret[SECRET_BYTES]) {
    if (vote->foreign_type || now_ns < shard->predecessors.from_ns)
        return false;
    const struct shard_predecessor *predecessor = predecessor_of(&shard->predecessors, vote, now_ns, secret);
    if (!predecessor || predecessor->spared)
        return false;
    const char *rest = vote->text + LOCK_VALUE_HEX_BYTES;
    size_t length = vote->text_length - LOCK_VALUE_HEX_BYTES;
    if (lease->text->head_length + length > SHARED_STRING_BYTES_MAX)
        return false;
    struct lease *orphan = find_orphan(shard, lease, secret, rest, length);
    if (orphan) {
        release_add_node(shard, orphan, node, now_ns);
        return true;
    }
    orphan = orphan_new(shard, lease, secret, rest, length, now_ns);
    if (!orphan)
        return false;
    orphan->maybe = node_set_of(node);
    release_begin(shard, orphan, now_ns);
    return true;
}

bool foreign_key_is_orphan(struct shard *shard, const struct lease *lease, unsigned node,
                           const struct vote *vote, instant_ns now_ns) {
    uint8_t secret[SECRET_BYTES];
    bool found = is_orphan(shard, lease, node, vote, now_ns, secret);

    secret_clear(secret, sizeof(secret));
    return found;
}

bool foreign_key_was_deleted(const struct vote *vote) {
    return vote->foreign_type && bytes_equal(vote->text, vote->text_length, "none", 4);
}

/* A lease watches one foreign value: four bits are for 1 + its node, the others for a hash of the value. */
enum { WATCH_NODE = 0xf };

static_assert((int) NODES_MAX <= (int) WATCH_NODE, "a watch has room for each node");

static uint16_t watch_of(unsigned node, const struct vote *vote) {
    const uint64_t key[2] = {vote->foreign_type, 0};
    uint64_t hash = hash_bytes(key, vote->text, vote->text_length);

    return (uint16_t) ((hash & ~(uint64_t) WATCH_NODE) | (node + 1));
}

static bool watches(const struct lease *lease, unsigned node) {
    return (lease->foreign_watch & WATCH_NODE) == node + 1;
}

/* A node that was not asked in this round is not watched: another one may be. */
static bool is_watching(const struct lease *lease) {
    unsigned watched = lease->foreign_watch & WATCH_NODE;

    return watched != 0 && ((lease->round.asked | lease->round.foreign) & node_set_of(watched - 1));
}

/* True if this node had this value at the extension before, too. Another value ends the watch, so that
 * contenders' values on one node hide no other node. */
static bool stays(struct lease *lease, unsigned node, const struct vote *vote) {
    uint16_t met = watch_of(node, vote);

    if (!is_watching(lease)) {
        lease->foreign_watch = met;
        return false;
    }
    if (!watches(lease, node))
        return false;
    bool was_met = lease->foreign_watch == met;
    lease->foreign_watch = 0;
    return was_met;
}

void foreign_key_seen(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
                      instant_ns now_ns) {
    node_set bit = node_set_of(node);
    uint8_t secret[SECRET_BYTES];

    if (vote->kind != VOTE_FOREIGN && watches(lease, node))
        lease->foreign_watch = 0;
    if (vote->kind == VOTE_YES)
        lease->foreign_reported &= (node_set) ~bit;
    if (vote->kind != VOTE_FOREIGN || (lease->foreign_reported & bit))
        return;
    if (!lease->extends)
        return; /* the previous holder may have released it since */
    bool is_predecessors = predecessor_of(&shard->predecessors, vote, now_ns, secret);
    secret_clear(secret, sizeof(secret));
    if (is_predecessors || !stays(lease, node, vote))
        return; /* an orphan, or this lease's; or likely a contender's, which its agent deletes soon */
    lease->foreign_reported |= bit;
    shard_report(shard, &(struct report){.kind = REPORT_FOREIGN,
                                         .node = node,
                                         .text = lease->text->bytes,
                                         .text_length = lease->text->head_length});
}
