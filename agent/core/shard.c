#include "core/shard.h"

#include <assert.h>
#include <string.h>

#include "base/memory-layout.h"
#include "base/prefetch.h"
#include "core/attempt.h"
#include "core/extension-schedule.h"
#include "core/held-lease.h"
#include "core/key-refresh.h"
#include "core/leader-query.h"
#include "core/lease-table.h"
#include "core/lease.h"
#include "core/release.h"
#include "core/retry.h"
#include "core/send.h"
#include "core/ticket.h"

/* Requests, and as many undo records. */
static uint32_t leases_max(const struct shard_config *config) {
    return 2 * config->requests_max;
}

static size_t text_bytes(const struct shard_config *config) {
    return shared_string_pool_bytes(config->requests_max, SHARED_STRING_BYTES_MAX);
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
    void *ending_memory = memory_layout_next(memory, &offset, (size_t) leases * sizeof(uint32_t));
    void *trace_memory =
        memory_layout_next(memory, &offset, ROUND_TRACES * sizeof(struct round_trace_place));
    void *text_memory = memory_layout_next(memory, &offset, text_bytes(config));

    if (memory) {
        pool_init(&shard->leases, lease_memory, sizeof(struct lease), leases);
        pool_init(&shard->queries, query_memory, sizeof(struct leader_query), LEADER_QUERIES_MAX);
        timer_queue_init(&shard->due, due_memory, items);
        shard->lease_of_request = request_memory;
        shard->ending_chains = ending_memory;
        shard->traces = trace_memory;
        shared_string_pool_init(&shard->texts, text_memory, text_bytes(config));
    }
    return offset;
}

size_t shard_memory_bytes(const struct shard_config *config) {
    return lay_out(NULL, config, NULL);
}

static uint8_t turn_of(const struct shard_config *config, unsigned index) {
    uint8_t turn = 0;

    for (unsigned i = 0; i < config->nodes; i++)
        if (strcmp(config->node_names[i], config->node_names[index]) < 0)
            turn++;
    return turn;
}

void shard_init(struct shard *shard, const struct shard_config *config, const struct shard_sink *sink,
                void *memory) {
    assert(config->nodes > 0 && config->nodes <= NODES_MAX);
    assert(config->requests_max > 0 && config->max_ttl_ms > 0 && memory);

    *shard = (struct shard){.config = *config,
                            .sink = *sink,
                            .max_ttl_ms = config->max_ttl_ms,
                            .withdrawn_ns = INSTANT_LONG_AGO};
    shard->counters.extension_margin_permille = 1000;
    random_init(&shard->random, config->seed);
    shard->attempts_max = NODE_ATTEMPTS_MAX;
    shard->releases_max = NODE_RELEASES_MAX;
    list_init(&shard->lost);
    list_init(&shard->ending);
    list_init(&shard->owing);
    list_init(&shard->backlog);
    for (unsigned i = 0; i < config->nodes; i++) {
        node_init(&shard->nodes[i]);
        shard->nodes[i].turn = turn_of(config, i);
    }
    (void) lay_out(shard, config, memory);
}

/* The name and the tail of the lock value. Drops ending leases if there is no room. */
static struct shared_string *text_for(struct shard *shard, const struct command *command) {
    struct shared_string *text;

    do
        text = shared_string_new(&shard->texts, command->text, command->head_length,
                                 command->text + command->head_length, command->tail_length);
    while (!text && lease_table_drop_oldest(shard));
    return text;
}

static void begin_lease(struct shard *shard, const struct command *command, instant_ns now_ns) {
    struct lease *lease = lease_table_new(shard);
    struct shared_string *text = lease ? text_for(shard, command) : NULL;
    if (!text) {
        static const char full[] = "the agent has no room for another lease";
        shard_report(shard, &(struct report){.kind = REPORT_FAILED,
                                             .failure = FAILURE_QUOTA,
                                             .request = command->request,
                                             .text = full,
                                             .text_length = sizeof(full) - 1});
        if (lease)
            lease_table_free(shard, lease);
        return;
    }
    lease->text = text;
    lease_table_attach(shard, lease, command->request);
    lease->persist = command->persist;
    lease->spare_tokens = command->spare_tokens;
    lease->user = command->user;
    lease->token_known = command->token;
    lease->terms = command->terms;
    if (command->kind == COMMAND_CONTEND) {
        lease_begin(shard, lease, command->pause_ns, now_ns);
        return;
    }
    memcpy(lease->secret, command->secret, sizeof(lease->secret));
    lease->searches = command->kind == COMMAND_SEARCH;
    lease->beat_ns = command->beat_ns;
    lease->cooldown_until_ns = command->cooldown_until_ns;
    node_trust_outgrow(shard, lease_state_key_ttl_ms(lease, now_ns));
    lease->hold_until_ns = command->hold_until_ns;
    lease->token = command->token; /* the client's claim: only the holder relies on it */
    lease_resume(shard, lease, now_ns);
}

void shard_succeed(struct shard *shard, const struct shard_predecessors *predecessors) {
    assert(predecessors->count <= PREDECESSORS_MAX);

    shard->predecessors = *predecessors;
}

void shard_command(struct shard *shard, const struct command *command, instant_ns now_ns) {
    assert(command->request != 0);

    struct lease *lease = lease_table_find(shard, command->request);
    switch (command->kind) {
    case COMMAND_CONTEND:
    case COMMAND_RESUME:
    case COMMAND_SEARCH:
        assert(!lease);
        begin_lease(shard, command, now_ns);
        return;
    case COMMAND_QUERY:
        leader_query_begin(shard, command, now_ns);
        return;
    case COMMAND_RELEASE:
    case COMMAND_FORGET:
        if (lease && command->kind == COMMAND_FORGET)
            lease_forget(shard, lease, now_ns);
        else if (lease)
            lease_release(shard, lease, command->cooldown_until_ns, now_ns);
        else
            shard_report(shard, &(struct report){.kind = REPORT_RELEASED, .request = command->request});
        return;
    case COMMAND_ABANDON:
        if (lease)
            lease_abandon(shard, lease, command->unread, now_ns);
        return;
    case COMMAND_BEAT:
        if (lease)
            lease_beat(shard, lease, command->beat_ns != 0 ? command->beat_ns : now_ns, now_ns);
        return;
    case COMMAND_REFRESH:
        if (lease)
            key_refresh_begin(shard, lease, command, now_ns);
        return; /* otherwise the report says that the lease is lost */
    }
}

void shard_expect(const struct shard *shard, uint64_t ticket) {
    uint32_t item = ticket_slot(ticket);

    if (item >= shard->leases.capacity)
        return;
    prefetch(pool_at(&shard->leases, item), sizeof(struct lease));
    timer_queue_expect(&shard->due, item);
}

void shard_vote(struct shard *shard, unsigned node, uint64_t ticket, const struct vote *vote,
                instant_ns now_ns) {
    assert(node < shard->config.nodes);

    uint32_t item = ticket_slot(ticket), serial = ticket_serial(ticket);
    bool recovered = node_trust_answered(shard, node, vote, now_ns);

    if (vote->written)
        node_trust_wrote(shard, node);
    if (item < shard->leases.capacity) {
        struct lease *lease = pool_at(&shard->leases, item);
        if (lease->state != LEASE_FREE && lease->serial == serial)
            lease_vote(shard, lease, node, vote, now_ns);
    } else {
        struct leader_query *query = pool_at(&shard->queries, item - shard->leases.capacity);
        if (query->request != 0 && query->serial == serial)
            leader_query_vote(shard, query, node, vote);
    }
    if (recovered && shard->nodes[node].trust == NODE_TRUSTED)
        node_trust_recovered(shard, node, now_ns);
    release_backlog(shard, now_ns);
}

void shard_subscribed(struct shard *shard, unsigned node, uint64_t request, instant_ns since_ns,
                      instant_ns now_ns) {
    assert(node < shard->config.nodes);

    struct lease *lease = lease_table_find(shard, request);
    if (lease)
        attempt_subscribed(shard, lease, node, since_ns, now_ns);
}

void shard_unsubscribed(struct shard *shard, unsigned node, instant_ns now_ns) {
    assert(node < shard->config.nodes);

    for (uint32_t index = 0; index < shard->leases.touched; index++) {
        struct lease *lease = pool_at(&shard->leases, index);
        if (lease->state != LEASE_FREE && lease->listens)
            retry_unsubscribed(shard, lease, node, now_ns);
    }
}

void shard_freed(struct shard *shard, unsigned node, uint64_t request, instant_ns now_ns) {
    assert(node < shard->config.nodes);

    struct lease *lease = lease_table_find(shard, request);
    if (lease)
        attempt_freed(shard, lease, node, now_ns);
}

void shard_left(struct shard *shard, uint64_t request, instant_ns now_ns) {
    const struct lease *lease = lease_table_find(shard, request);

    if (lease)
        foreign_contender_reported(shard, lease, now_ns);
}

/* The next leases are those of the same instant: prefetches the second one's text, and the third one. */
static void prefetch_neighbours(const struct shard *shard, uint32_t item) {
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
        held_lease_extend(shard, pool_at(&shard->leases, slots[i]), now_ns);
}

void shard_tick(struct shard *shard, instant_ns now_ns) {
    extension_schedule_begin(shard);
    node_trust_tick(shard, now_ns);
    shard->released = 0;
    while (timer_queue_earliest(&shard->due) <= now_ns) {
        uint32_t item = timer_queue_first(&shard->due);
        prefetch_neighbours(shard, item);
        if (item < shard->leases.capacity)
            lease_tick(shard, pool_at(&shard->leases, item), now_ns);
        else
            leader_query_tick(shard, pool_at(&shard->queries, item - shard->leases.capacity), now_ns);
    }
    extend_early(shard, now_ns);
    release_backlog(shard, now_ns);
}

instant_ns shard_due_ns(const struct shard *shard) {
    return instant_min(timer_queue_earliest(&shard->due), node_trust_due_ns(shard));
}
