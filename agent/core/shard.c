#include "core/shard.h"

#include <assert.h>
#include <string.h>

#include "base/memory-layout.h"
#include "base/prefetch.h"
#include "core/extension-schedule.h"
#include "core/key-refresh.h"
#include "core/leader-query.h"
#include "core/lease.h"
#include "core/retry.h"
#include "core/token.h"
#include "core/validity.h"

/* Requests, and as many undo records. */
static uint32_t leases_max(const struct shard_config *config) {
    return 2 * config->requests_max;
}

static size_t text_bytes(const struct shard_config *config) {
    size_t worst = (size_t) config->requests_max * (SHARED_STRING_BYTES_MAX + sizeof(struct shared_string));
    return (worst / SHARED_STRING_BLOCK_BYTES + SHARED_STRING_CLASSES) * SHARED_STRING_BLOCK_BYTES;
}

static size_t lay_out(struct shard *shard, const struct shard_config *config, unsigned char *memory) {
    uint32_t leases = leases_max(config), items = leases + LEADER_QUERIES_MAX;
    size_t offset = 0;

    void *lease_memory = memory_layout_next(memory, &offset, (size_t) leases * sizeof(struct lease));
    void *query_memory =
        memory_layout_next(memory, &offset, LEADER_QUERIES_MAX * sizeof(struct leader_query));
    void *due_memory = memory_layout_next(memory, &offset, timer_queue_memory_bytes(items));
    void *request_memory =
        memory_layout_next(memory, &offset, (size_t) config->requests_max * sizeof(uint32_t));
    void *text_memory = memory_layout_next(memory, &offset, text_bytes(config));

    if (memory) {
        pool_init(&shard->leases, lease_memory, sizeof(struct lease), leases);
        pool_init(&shard->queries, query_memory, sizeof(struct leader_query), LEADER_QUERIES_MAX);
        timer_queue_init(&shard->due, due_memory, items);
        shard->lease_of_request = request_memory;
        shared_string_pool_init(&shard->texts, text_memory, text_bytes(config));
    }
    return offset;
}

size_t shard_memory_bytes(const struct shard_config *config) {
    return lay_out(NULL, config, NULL);
}

void shard_init(struct shard *shard, const struct shard_config *config, const struct shard_sink *sink,
                void *memory) {
    assert(config->nodes > 0 && config->nodes <= NODES_MAX);
    assert(config->requests_max > 0 && config->max_ttl_ms > 0 && memory);

    *shard = (struct shard){.config = *config, .sink = *sink, .max_ttl_ms = config->max_ttl_ms};
    shard->counters.extension_margin_permille = 1000;
    random_init(&shard->random, config->seed);
    shard->attempts_max = NODE_ATTEMPTS_MAX;
    shard->releases_max = NODE_RELEASES_MAX;
    list_init(&shard->ending);
    list_init(&shard->owing);
    list_init(&shard->backlog);
    for (unsigned i = 0; i < config->nodes; i++)
        node_init(&shard->nodes[i]);
    (void) lay_out(shard, config, memory);
}

static uint32_t lease_index(const struct shard *shard, const struct lease *lease) {
    return pool_index(&shard->leases, struct lease, lease);
}

static uint32_t *request_slot(const struct shard *shard, uint64_t request) {
    return &shard->lease_of_request[request % shard->config.requests_max];
}

/* The record that has been owed for longest. What is left of its keys is left to their ttl. */
static bool drop_oldest(struct shard *shard) {
    struct list *first = list_first(&shard->owing);

    if (!first)
        first = list_first(&shard->backlog);
    if (!first)
        return false;
    struct lease *lease = list_entry(first, struct lease, ending_link);
    if (lease->request != 0)
        shard_report(shard, &(struct report){.kind = REPORT_RELEASED, .request = lease->request});
    shard_lease_free(shard, lease);
    return true;
}

struct lease *shard_lease_new(struct shard *shard) {
    if (shard->leases.taken == shard->leases.capacity)
        (void) drop_oldest(shard);
    uint32_t index = pool_take(&shard->leases);
    if (index == POOL_NONE)
        return NULL;
    struct lease *lease = pool_at(&shard->leases, index);
    uint32_t serial = lease->serial;
    assert(lease->state == LEASE_FREE);
    *lease = (struct lease){.serial = serial + 1};
    return lease;
}

void shard_lease_leave_attempts(struct shard *shard, struct lease *lease) {
    assert(lease_is_past_attempts(lease));

    retry_stop(shard, lease);
    lease->seen = shared_string_unref(&shard->texts, lease->seen);
    lease->former = NULL;
    lease->former_gone_ns = lease->extend_ns = lease->beat_until_ns = 0;
    lease->failures = lease->risk = 0;
    lease->stale = lease->strangers = lease->confirmed = 0;
    list_init(&lease->ending_link);
}

void shard_lease_detach(struct shard *shard, struct lease *lease) {
    if (lease->request == 0)
        return;
    uint32_t *slot = request_slot(shard, lease->request);
    if (*slot == lease_index(shard, lease) + 1)
        *slot = 0;
    lease->request = 0;
    if (lease->state == LEASE_RELEASING && !lease->held_back) {
        list_unlink(&lease->ending_link);
        list_append(&shard->owing, &lease->ending_link);
    }
}

void shard_lease_free(struct shard *shard, struct lease *lease) {
    uint32_t index = lease_index(shard, lease);

    assert(lease->state != LEASE_FREE);
    shard_lease_detach(shard, lease);
    if (lease_is_past_attempts(lease)) {
        list_unlink(&lease->ending_link);
        lease->former = shared_string_unref(&shard->texts, lease->former);
    } else {
        lease->seen = shared_string_unref(&shard->texts, lease->seen);
    }
    lease->text = shared_string_unref(&shard->texts, lease->text);
    lease->state = LEASE_FREE;
    lease->serial++;
    timer_queue_remove(&shard->due, index);
    pool_give(&shard->leases, index);
}

static bool has_secret(const struct list *leases, const uint8_t secret[SECRET_BYTES]) {
    for (const struct list *at = leases->next; at != leases; at = at->next)
        if (memcmp(list_entry(at, const struct lease, ending_link)->secret, secret, SECRET_BYTES) == 0)
            return true;
    return false;
}

bool shard_is_ending(const struct shard *shard, const uint8_t secret[SECRET_BYTES]) {
    return has_secret(&shard->ending, secret) || has_secret(&shard->owing, secret) ||
           has_secret(&shard->backlog, secret);
}

static struct lease *lease_of(const struct shard *shard, uint64_t request) {
    uint32_t slot = *request_slot(shard, request);
    if (slot == 0)
        return NULL;
    struct lease *lease = pool_at(&shard->leases, slot - 1);
    return lease->request == request ? lease : NULL;
}

void shard_report(struct shard *shard, const struct report *report) {
    shard->sink.report(shard->sink.userdata, report);
}

void shard_set_due(struct shard *shard, struct lease *lease, instant_ns due_ns) {
    timer_queue_set(&shard->due, lease_index(shard, lease), due_ns);
}

instant_ns shard_lease_due_ns(const struct shard *shard, const struct lease *lease) {
    return timer_queue_at(&shard->due, lease_index(shard, lease));
}

node_set shard_askable(const struct shard *shard) {
    node_set set = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (node_can_be_asked(&shard->nodes[i]))
            set |= node_set_of(i);
    return set;
}

bool shard_may_gain_quorum(const struct shard *shard) {
    unsigned quorum = quorum_of(shard->config.nodes), askable = node_set_count(shard_askable(shard));
    unsigned unknown = 0;

    for (unsigned i = 0; i < shard->config.nodes; i++)
        unknown += !shard->nodes[i].known;
    return askable < quorum && askable + unknown >= quorum;
}

/* Tickets tell leases from queries by their slot, and rounds by their serial. */
static uint64_t ticket_of(uint32_t item, uint32_t serial) {
    return (uint64_t) serial << 32 | item;
}

static void send_to(struct shard *shard, const struct send *send, instant_ns now_ns) {
    assert((send->nodes & shard_askable(shard)) == send->nodes);

    for (unsigned i = 0; i < shard->config.nodes; i++)
        if (send->nodes & node_set_of(i))
            node_sent(&shard->nodes[i], now_ns);
    if (send->nodes != 0)
        shard->sink.send(shard->sink.userdata, send);
}

void shard_send(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
                instant_ns now_ns) {
    lease->serial++;
    quorum_begin(&lease->round, 0);
    shard_send_again(shard, lease, operation, nodes, now_ns);
}

void shard_send_again(struct shard *shard, struct lease *lease, enum operation operation, node_set nodes,
                      instant_ns now_ns) {
    bool has_former = lease_is_past_attempts(lease) && lease->former;
    struct send send = {
        .operation = operation,
        .orphan = lease->orphan,
        .nodes = nodes,
        .quiet = lease->quiet,
        .ttl_ms = lease->ttl_ms,
        .ticket = ticket_of(lease_index(shard, lease), lease->serial),
        .secret = lease->secret,
        .text = lease->text,
        .token = lease->token,
        .token_last = token_last(lease),
        .former = has_former ? lease->former_secret : NULL,
        .former_text = has_former ? lease->former : NULL,
    };
    assert(!(lease->round.asked & nodes));

    lease->round.asked |= nodes;
    send_to(shard, &send, now_ns);
}

void shard_send_query(struct shard *shard, struct leader_query *query, uint32_t item, node_set nodes,
                      instant_ns now_ns) {
    struct send send = {
        .operation = OPERATION_LOOK,
        .nodes = nodes,
        .token = query->fencing,
        .ticket = ticket_of(item, query->serial),
        .text = query->text,
    };
    send_to(shard, &send, now_ns);
}

/* Its text; records that are owed give way to it, too. */
static struct shared_string *text_for(struct shard *shard, const struct command *command) {
    struct shared_string *text;

    do
        text = shared_string_new(&shard->texts, command->text, command->head_length,
                                 command->text + command->head_length, command->tail_length);
    while (!text && drop_oldest(shard));
    return text;
}

/* A new lease for the front's request. */
static void take_on(struct shard *shard, const struct command *command, instant_ns now_ns) {
    struct lease *lease = shard_lease_new(shard);
    struct shared_string *text = lease ? text_for(shard, command) : NULL;
    if (!text) {
        static const char full[] = "the agent has no room for another lease";
        shard_report(shard, &(struct report){.kind = REPORT_FAILED,
                                             .failure = FAILURE_QUOTA,
                                             .request = command->request,
                                             .text = full,
                                             .text_length = sizeof(full) - 1});
        if (lease) {
            lease->state = LEASE_WAITING;
            shard_lease_free(shard, lease);
        }
        return;
    }
    lease->text = text;
    lease->request = command->request;
    lease->persist = command->persist;
    lease->fencing = command->fencing;
    lease->spare_tokens = command->spare_tokens;
    lease->token_known = command->token;
    lease->ttl_ms = command->ttl_ms;
    lease->node_timeout_ms = command->node_timeout_ms;
    lease->heartbeat_ms = command->heartbeat_ms;
    lease->max_hold_ms = command->max_hold_ms;
    *request_slot(shard, command->request) = lease_index(shard, lease) + 1;
    if (command->kind == COMMAND_CONTEND) {
        lease_begin(shard, lease, command->pause_ns, now_ns);
        return;
    }
    memcpy(lease->secret, command->secret, sizeof(lease->secret));
    node_trust_outgrow(shard, command->ttl_ms);
    lease->hold_until_ns = command->hold_until_ns;
    lease->token = command->token; /* of the holder's own word: nothing but the holder relies on it */
    lease_resume(shard, lease, now_ns);
}

void shard_succeed(struct shard *shard, const struct shard_predecessor *predecessor) {
    assert(predecessor->identity.length < sizeof(predecessor->identity.bytes));

    shard->predecessor = *predecessor;
}

void shard_command(struct shard *shard, const struct command *command, instant_ns now_ns) {
    assert(command->request != 0);

    struct lease *lease = lease_of(shard, command->request);
    switch (command->kind) {
    case COMMAND_CONTEND:
    case COMMAND_RESUME:
        assert(!lease);
        take_on(shard, command, now_ns);
        return;
    case COMMAND_LOOK:
        leader_query_begin(shard, command, now_ns);
        return;
    case COMMAND_RELEASE:
    case COMMAND_FORGET:
        if (lease && command->kind == COMMAND_FORGET)
            lease_forget(shard, lease, now_ns);
        else if (lease)
            lease_release(shard, lease, now_ns);
        else
            shard_report(shard, &(struct report){.kind = REPORT_RELEASED, .request = command->request});
        return;
    case COMMAND_ABANDON:
        if (lease)
            lease_abandon(shard, lease, now_ns);
        return;
    case COMMAND_BEAT:
        if (lease)
            lease_beat(shard, lease, command->beat_ns != 0 ? command->beat_ns : now_ns, now_ns);
        return;
    case COMMAND_HAND_OVER:
        if (lease)
            key_refresh_begin(shard, lease, command, now_ns);
        return; /* otherwise it is lost, and the front about to hear it */
    }
}

void shard_expect(const struct shard *shard, uint64_t ticket) {
    uint32_t item = (uint32_t) ticket;

    if (item >= shard->leases.capacity)
        return;
    prefetch(pool_at(&shard->leases, item), sizeof(struct lease));
    timer_queue_expect(&shard->due, item);
}

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns) {
    uint32_t item = (uint32_t) ticket, serial = (uint32_t) (ticket >> 32);
    bool recovered = node_trust_answered(shard, node, vote, now_ns);

    if (item < shard->leases.capacity) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state != LEASE_FREE && lease->serial == serial)
            lease_vote(shard, lease, node, vote, now_ns);
    } else {
        struct leader_query *query = pool_at(&shard->queries, item - shard->leases.capacity);
        if (query->request != 0 && query->serial == serial)
            leader_query_vote(shard, query, node, vote);
    }
    if (recovered && node_can_be_asked(&shard->nodes[node]))
        node_trust_recovered(shard, node, now_ns);
    lease_release_backlog(shard, now_ns);
}

void shard_listening(struct shard *shard, unsigned node, uint64_t request, instant_ns since_ns,
                     instant_ns now_ns) {
    assert(node < shard->config.nodes);

    struct lease *lease = lease_of(shard, request);
    if (lease)
        lease_listening(shard, lease, node, since_ns, now_ns);
}

void shard_deaf(struct shard *shard, unsigned node, instant_ns now_ns) {
    assert(node < shard->config.nodes);

    for (uint32_t index = 0; index < shard->leases.touched; index++) {
        struct lease *lease = pool_at(&shard->leases, index);
        if (lease->state != LEASE_FREE && lease->listens)
            retry_deaf(shard, lease, node, now_ns);
    }
}

void shard_freed(struct shard *shard, unsigned node, uint64_t request, instant_ns now_ns) {
    assert(node < shard->config.nodes);

    struct lease *lease = lease_of(shard, request);
    if (lease)
        lease_freed(shard, lease, node, now_ns);
}

/* Those due at the same instant come next: the second one's text, and the third one. */
static void expect_neighbours(const struct shard *shard, uint32_t item) {
    uint32_t second = timer_queue_neighbour(&shard->due, item),
             third = timer_queue_neighbour(&shard->due, second);

    if (second >= shard->leases.capacity || third >= shard->leases.capacity)
        return;
    const struct lease *next = pool_at(&shard->leases, second);
    prefetch(next->text, SHARED_STRING_USUAL_BYTES);
    prefetch(pool_at(&shard->leases, third), sizeof(struct lease));
}

/* Leases that are due soon share the calls of those that were due. */
static void extend_early(struct shard *shard, instant_ns now_ns) {
    uint32_t slots[EXTENSION_TURN_NAMES];
    uint32_t count = extension_schedule_fill(shard, slots, now_ns);

    for (uint32_t i = 0; i < count; i++)
        lease_extend(shard, pool_at(&shard->leases, slots[i]), now_ns);
}

void shard_tick(struct shard *shard, instant_ns now_ns) {
    extension_schedule_begin(shard);
    node_trust_tick(shard, now_ns);
    while (timer_queue_earliest(&shard->due) <= now_ns) {
        uint32_t item = timer_queue_first(&shard->due);
        expect_neighbours(shard, item);
        if (item < shard->leases.capacity)
            lease_tick(shard, pool_at(&shard->leases, item), now_ns);
        else
            leader_query_tick(shard, pool_at(&shard->queries, item - shard->leases.capacity));
    }
    extend_early(shard, now_ns);
    lease_release_backlog(shard, now_ns);
}

instant_ns shard_due_ns(const struct shard *shard) {
    return instant_min(timer_queue_earliest(&shard->due), node_trust_due_ns(shard));
}
