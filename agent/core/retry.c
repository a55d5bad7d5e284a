#include "core/retry.h"

#include <assert.h>

#include "base/hash.h"
#include "core/foreign-contender.h"
#include "core/lock-value.h"
#include "core/lease-table.h"

/* Delays between attempts: random, so that the contenders of several hosts drift apart. Polling delays are
 * long compared to a round trip. Delays after a split begin short, and grow. */
enum {
    POLL_MS_MIN = 25,
    POLL_MS_MAX = 75,
    POLL_PER_WAITER_US =
        250, /* for each waiter: a keeper polls 4,000 to 8,000 times a second (poll-share.h) */
    POLL_RARE_MS_MIN = 300, /* while an event starts the next attempt: a message, or a node's return */
    POLL_RARE_MS_MAX = 700,
    POLL_RARE_PER_WAITER_US = 1000,
    SPLIT_MS_MIN = 2,
    SPLIT_MS_STEP = 8,
    GRACE_US_MIN = 100, /* one to two round trips after the first message, for the others to arrive */
    GRACE_US_MAX = 2000,
    TRIP_WEIGHT = 8,
    SEEN_BYTES_MAX = 200,
};

int64_t retry_ordinary_ns(struct shard *shard) {
    return random_between(&shard->random, POLL_MS_MIN * NS_PER_MS, POLL_MS_MAX * NS_PER_MS);
}

void retry_begin_attempt(struct lease *lease) {
    lease->covered = lease->listening;
    lease->freed = 0;
    for (unsigned i = 0; i < LEASE_LEAST_LEFT; i++)
        lease->least_left_ms[i] = UINT16_MAX;
}

void retry_note_trip(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    int64_t trip_ns = now_ns - lease->started_ns;

    shard->trip_ns =
        shard->trip_ns == 0 ? trip_ns : shard->trip_ns + (trip_ns - shard->trip_ns) / TRIP_WEIGHT;
}

static void note_time_left(struct lease *lease, int64_t left_ms) {
    for (unsigned i = 0; i < LEASE_LEAST_LEFT; i++) {
        if (left_ms >= lease->least_left_ms[i])
            continue;
        uint16_t next_ms = lease->least_left_ms[i];
        lease->least_left_ms[i] = (uint16_t) left_ms;
        left_ms = next_ms;
    }
}

void retry_met(struct shard *shard, struct lease *lease, unsigned node, const struct vote *vote,
               instant_ns now_ns) {
    static const uint64_t key[2] = {0, 0};
    size_t length = vote->text_length < SEEN_BYTES_MAX ? vote->text_length : SEEN_BYTES_MAX;

    lease->seen_hash[node] = (uint16_t) hash_bytes(key, vote->text, vote->text_length);
    lease->maybe &= (node_set) ~node_set_of(node);
    if (vote->ttl_left_ms > lease->seen_ttl_ms)
        lease->seen_ttl_ms = vote->ttl_left_ms;
    if (vote->ttl_left_ms >= 0)
        note_time_left(lease, vote->ttl_left_ms);
    if (vote->foreign_type || !lock_value_is_agents(vote->text, vote->text_length))
        foreign_contender_met(shard, lease, now_ns);
    if (lease->seen)
        return;
    lease->seen_type = vote->foreign_type;
    lease->seen = shared_string_new(&shard->texts, vote->text, length, NULL, 0);
}

/* The number of nodes that have the most frequent foreign value. */
static unsigned most_alike(const struct shard *shard, const struct lease *lease) {
    unsigned most = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < shard->config.nodes; j++)
            if ((lease->round.foreign & node_set_of(j)) && lease->seen_hash[j] == lease->seen_hash[i])
                same++;
        if ((lease->round.foreign & node_set_of(i)) && same > most)
            most = same;
    }
    return most;
}

enum retry_obstacle retry_obstacle(const struct shard *shard, const struct lease *lease, bool timed_out) {
    unsigned quorum = quorum_of(shard->config.nodes),
             open = timed_out ? 0 : node_set_count(lease->round.asked);
    unsigned voted = node_set_count(lease->round.yes | lease->round.foreign);
    /* The answers to a raise have no foreign values. */
    unsigned alike = lease->raises > 0 ? node_set_count(lease->round.foreign) : most_alike(shard, lease);

    if (alike >= quorum)
        return OBSTACLE_HOLDER;
    if (lease->round.foreign == 0 || voted + open < quorum)
        return OBSTACLE_NO_QUORUM;
    if (lease->raises == 0 && (alike + open >= quorum || voted < quorum))
        return OBSTACLE_UNKNOWN;
    return OBSTACLE_SPLIT;
}

static bool met_holder(const struct lease *lease) {
    return lease->failure == 1 + FAILURE_BUSY && !lease->split;
}

/* Only an agent's release publishes. */
static bool met_agent(const struct lease *lease) {
    return met_holder(lease) && lease->seen && !lease->seen_type &&
           lock_value_is_agents(lease->seen->bytes, lease->seen->head_length);
}

/* The time until so many of the met keys have expired that an attempt may win; until all have, if more keys
 * must expire than are remembered. */
static int64_t time_left_ms(const struct shard *shard, const struct lease *lease) {
    unsigned hoped = node_set_count(lease->round.yes | lease->round.asked);
    unsigned quorum = quorum_of(shard->config.nodes);
    unsigned missing = quorum > hoped ? quorum - hoped : 1;

    if (missing > LEASE_LEAST_LEFT)
        return lease->seen_ttl_ms >= 0 ? lease->seen_ttl_ms : INT64_MAX;
    return lease->least_left_ms[missing - 1];
}

/* True if a majority is covered; or if no majority can be asked (attempt_node_back()), and the front knows
 * that. */
static bool awaits_event(const struct shard *shard, const struct lease *lease) {
    if (lease->failure == 1 + FAILURE_NO_QUORUM)
        return lease->reported_failure == lease->failure && !shard_has_quorum(shard);
    return met_agent(lease) && shard_is_majority(shard, lease->covered);
}

static int64_t poll_delay_ns(struct shard *shard, const struct lease *lease) {
    bool rare = awaits_event(shard, lease);
    int64_t delay_ns =
        rare ? random_between(&shard->random, POLL_RARE_MS_MIN * NS_PER_MS, POLL_RARE_MS_MAX * NS_PER_MS)
             : retry_ordinary_ns(shard);
    int64_t left_ms = lease->failure == 1 + FAILURE_BUSY ? time_left_ms(shard, lease) : INT64_MAX;

    delay_ns += (int64_t) poll_share_waiters(&shard->polls, lease->user) *
                (rare ? POLL_RARE_PER_WAITER_US : POLL_PER_WAITER_US) * NS_PER_US;
    /* A millisecond later, since PTTL is rounded. */
    if (left_ms < TTL_MS_MAX)
        delay_ns =
            instant_min(delay_ns, (left_ms + 1) * NS_PER_MS + random_between(&shard->random, 0, NS_PER_MS));
    return delay_ns;
}

/* The obstacle ends soon: an epoch is being read, or an orphan deleted. */
static int64_t short_delay_ns(struct shard *shard, const struct lease *lease) {
    int64_t timeout_ns = (int64_t) lease->terms.node_timeout_ms * NS_PER_MS;

    return random_between(&shard->random, timeout_ns / 4, timeout_ns / 2);
}

/* Contenders that cancelled each other out drift apart by random delays. A request that does not wait has
 * three node time-outs for all of its attempts. */
static int64_t split_delay_ns(struct shard *shard, const struct lease *lease) {
    int64_t least_ns = SPLIT_MS_MIN * NS_PER_MS;
    int64_t most_ns = least_ns + SPLIT_MS_STEP * NS_PER_MS * (lease->splits < 8 ? lease->splits : 8);
    int64_t timeout_ns = (int64_t) lease->terms.node_timeout_ms * NS_PER_MS;

    if (!lease->persist) {
        least_ns = instant_min(least_ns, timeout_ns / 4);
        most_ns = instant_min(most_ns, timeout_ns);
    }
    return random_between(&shard->random, least_ns, most_ns);
}

static int64_t grace_ns(struct shard *shard) {
    int64_t trip_ns =
        instant_max(GRACE_US_MIN * NS_PER_US, instant_min(shard->trip_ns, GRACE_US_MAX * NS_PER_US));

    return random_between(&shard->random, trip_ns, 2 * trip_ns);
}

/* A name that an agent released is left free for polling lock clients. A name that such a client released is
 * not. */
static bool leaves_pause(const struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    return met_agent(lease) && foreign_contender_is_near(shard, lease, now_ns);
}

/* Where our own attempt has set a key, or may have, the message may be that of its deletion: keyspace
 * notifications have no author. The attempt met the holder elsewhere. */
static node_set freed_by_holder(const struct lease *lease) {
    return lease->freed & (node_set) ~(lease->round.yes | lease->round.asked);
}

/* True if a majority of the nodes is free. Once a majority is subscribed, a node whose subscription is
 * younger than the attempt counts as free, since its key may have been deleted before; and an attempt is due
 * if only a minority has older ones. */
static bool is_due(const struct shard *shard, const struct lease *lease) {
    node_set free = lease->freed | lease->round.yes;

    if (!met_holder(lease))
        return false;
    if (shard_is_majority(shard, lease->listening)) {
        if (!shard_is_majority(shard, lease->covered))
            return true;
        free |= lease->listening & (node_set) ~lease->covered;
    }
    return shard_is_majority(shard, free);
}

/* Until an attempt that is due. */
static int64_t pause_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    return leaves_pause(shard, lease, now_ns) ? retry_ordinary_ns(shard) : 0;
}

/* After messages that are no majority, or that start no attempt. */
static int64_t freed_delay_ns(struct shard *shard, const struct lease *lease, instant_ns now_ns) {
    return leaves_pause(shard, lease, now_ns) ? retry_ordinary_ns(shard) : grace_ns(shard);
}

void retry_by(struct shard *shard, struct lease *lease, instant_ns at_ns) {
    assert(lease->state == LEASE_WAITING);

    lease_table_set_due(shard, lease, instant_min(lease_table_due_ns(shard, lease), at_ns));
}

void retry_failed(struct shard *shard, struct lease *lease, instant_ns now_ns) {
    assert(lease->state == LEASE_WAITING);

    if (lease->persist && lease->failure == 1 + FAILURE_BUSY && !lease->listens) {
        lease->listens = true;
        shard->sink.listen(shard->sink.userdata, lease->request, lease->text, true);
    }
    if (is_due(shard, lease))
        lease_table_set_due(shard, lease, now_ns + pause_ns(shard, lease, now_ns));
    else if (met_holder(lease) && freed_by_holder(lease) != 0)
        lease_table_set_due(shard, lease, now_ns + freed_delay_ns(shard, lease, now_ns));
    else if (lease->failure == 1 + FAILURE_BUSY && lease->split)
        lease_table_set_due(shard, lease, now_ns + split_delay_ns(shard, lease));
    else if (!lease->persist)
        lease_table_set_due(shard, lease, now_ns + short_delay_ns(shard, lease));
    else
        lease_table_set_due(shard, lease, now_ns + poll_delay_ns(shard, lease));
}

/* `before`: the nodes of earlier messages that count. */
static void bring_forward(struct shard *shard, struct lease *lease, node_set before, instant_ns now_ns) {
    if ((freed_by_holder(lease) & (node_set) ~before) == 0)
        return;
    if (before == 0 || !leaves_pause(shard, lease, now_ns))
        retry_by(shard, lease, now_ns + freed_delay_ns(shard, lease, now_ns));
}

bool retry_freed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    if (!lease->listens)
        return false;
    node_set before = freed_by_holder(lease);
    lease->freed |= node_set_of(node);
    if (lease->state != LEASE_WAITING || !met_holder(lease))
        return false;
    if (is_due(shard, lease) && !leaves_pause(shard, lease, now_ns))
        return true;
    bring_forward(shard, lease, before, now_ns);
    return false;
}

void retry_answered_late(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    if (is_due(shard, lease))
        retry_by(shard, lease, now_ns + pause_ns(shard, lease, now_ns));
    else if (met_holder(lease))
        bring_forward(shard, lease, freed_by_holder(lease) & (node_set) ~node_set_of(node), now_ns);
}

bool retry_subscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns since_ns,
                      instant_ns now_ns) {
    if (!lease->listens)
        return false;
    bool covered = shard_is_majority(shard, lease->covered);
    lease->listening |= node_set_of(node);
    if (since_ns <= lease->started_ns)
        lease->covered |= node_set_of(node);
    else
        lease->covered &= (node_set) ~node_set_of(node);
    if (lease->state != LEASE_WAITING)
        return false;
    if (!covered && shard_is_majority(shard, lease->covered) && met_agent(lease) &&
        freed_by_holder(lease) == 0)
        lease_table_set_due(shard, lease, now_ns + poll_delay_ns(shard, lease));
    if (!is_due(shard, lease))
        return false;
    int64_t delay_ns = pause_ns(shard, lease, now_ns);
    if (delay_ns > 0)
        retry_by(shard, lease, now_ns + delay_ns);
    return delay_ns == 0;
}

void retry_unsubscribed(struct shard *shard, struct lease *lease, unsigned node, instant_ns now_ns) {
    bool covered = shard_is_majority(shard, lease->covered);

    lease->listening &= (node_set) ~node_set_of(node);
    lease->covered &= (node_set) ~node_set_of(node);
    if (covered && !shard_is_majority(shard, lease->covered) && lease->state == LEASE_WAITING &&
        !lease->undecided)
        retry_by(shard, lease, now_ns + poll_delay_ns(shard, lease));
}
