#include "io/node/keeper.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "core/lease-table.h"
#include "core/node-trust.h"
#include "core/token.h"
#include "io/loop/clock.h"
#include "io/loop/log.h"
#include "io/loop/loop.h"
#include "io/loop/poller.h"
#include "io/loop/random-bytes.h"
#include "io/loop/usdt.h"
#include "io/node/batcher.h"
#include "io/node/duplicate-nodes.h"
#include "io/node/fleet.h"
#include "io/node/keeper-message.h"
#include "io/node/node-log.h"
#include "io/node/redis.h"
#include "io/node/subscriber.h"

enum {
    MAILBOX_BYTES = 1 << 18,
    MARK_MARGIN_MS = 60 * 1000,
    IDLE_FIRING_MS = 200,      /* a timer that is so much too early is set anew, */
    IDLE_FIRING_PAUSE_MS = 20, /* at most so often */
};

struct keeper {
    struct keeper_config config;
    pthread_t thread;
    sem_t is_set_up; /* posted by the thread */
    bool started;
    struct mailbox inbox;
    struct mailbox outbox;

    /* The thread's own. */
    sd_event *event;
    sd_event_source *timer;
    struct poller *poller;
    instant_ns timer_ns; /* when the timer fires; never later than anything is due */
    instant_ns spare_ns; /* when the next idle firing may be prevented */
    struct histogram timer_delays;
    struct redis *nodes[NODES_MAX];
    const char *node_names[NODES_MAX];
    struct fleet fleets[NODES_MAX]; /* the fleet that each node should belong to */
    struct duplicate_nodes duplicates;
    struct node_log log;
    struct shard shard;
    void *memory;
    size_t memory_bytes;
    struct batcher *batcher;
    struct random_bytes random;
    struct subscriber *subscriber;
    node_set probed; /* nodes with unsent commands outside of the batcher */
    char nonce[17];  /* the name of this keeper's marks on the nodes */
    bool backlog;    /* the outbox is full */
    struct keeper_message_queue messages;
};

struct mailbox *keeper_inbox(struct keeper *keeper) {
    return &keeper->inbox;
}

struct mailbox *keeper_outbox(struct keeper *keeper) {
    return &keeper->outbox;
}

/* --- the shard's sink --- */

static void on_send(void *userdata, const struct send *send) {
    struct keeper *keeper = userdata;
    batcher_add(keeper->batcher, send);
}

static void trace_extension(const struct keeper *keeper, const struct report *report) {
    const struct lease *lease = lease_table_find(&keeper->shard, report->request);

    if (lease)
        usdt_extend(lease->text->bytes, lease->text->head_length, lease->token,
                    (clock_now_ns() - lease->started_ns) / NS_PER_US);
}

static void on_report(void *userdata, const struct report *report) {
    struct keeper *keeper = userdata;

    node_log_report(&keeper->log, report);
    if (report->kind == REPORT_EXTENDED && usdt_extend_is_traced())
        trace_extension(keeper, report);
    if (report->kind == REPORT_FOREIGN)
        return;
    keeper_message_report(&keeper->messages, report);
}

static void on_cut(void *userdata, unsigned node) {
    struct keeper *keeper = userdata;
    batcher_cut(keeper->batcher, node);
}

/* A mark must outlast a quarantine; each probe renews it. */
static int64_t mark_ms(const struct keeper *keeper) {
    return 2 * (int64_t) keeper->shard.max_ttl_ms + MARK_MARGIN_MS;
}

static void on_probe(void *userdata, unsigned node, const struct inquiry *inquiry) {
    struct keeper *keeper = userdata;

    redis_probe(keeper->nodes[node], keeper->nonce, mark_ms(keeper), inquiry);
    keeper->probed |= node_set_of(node);
}

static void on_bless(void *userdata, unsigned node, const struct blessing *blessing) {
    struct keeper *keeper = userdata;

    redis_bless(keeper->nodes[node], keeper->nonce, blessing, keeper->config.config->fence_skew_ms * 1000);
    keeper->probed |= node_set_of(node);
}

static void on_amend(void *userdata, unsigned node, const struct amendment *amendment) {
    struct keeper *keeper = userdata;

    redis_amend(keeper->nodes[node], amendment);
    keeper->probed |= node_set_of(node);
}

static void on_secret(void *userdata, uint8_t secret[SECRET_BYTES]) {
    struct keeper *keeper = userdata;

    random_bytes_take(&keeper->random, secret);
}

static void on_listen(void *userdata, uint64_t request, const struct shared_string *name, bool wanted) {
    struct keeper *keeper = userdata;
    subscriber_listen(keeper->subscriber, request, name, wanted);
}

/* --- the end of every turn --- */

static void flush_probed(struct keeper *keeper) {
    node_set probed = keeper->probed;

    keeper->probed = 0;
    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        if (probed & node_set_of(i))
            redis_flush(keeper->nodes[i]);
}

/* A due time of long ago means "at once": the timer is not late for it. */
static int set_timer(struct keeper *keeper, instant_ns at_ns) {
    keeper->timer_ns = instant_max(at_ns, clock_now_ns());
    return loop_set_timer(keeper->timer, keeper->timer_ns);
}

/* True if the timer should be moved to the later time. Most answers come long before their node time-out. A
 * firing without work costs more than setting the timer, but less than setting it after each answer. */
static bool would_fire_idle(struct keeper *keeper, instant_ns due_ns) {
    int64_t too_early_ns = due_ns - keeper->timer_ns;

    if (too_early_ns < IDLE_FIRING_MS * NS_PER_MS)
        return false;
    instant_ns now_ns = clock_now_ns();
    if (now_ns < keeper->spare_ns)
        return false;
    keeper->spare_ns = instant_max(keeper->spare_ns, now_ns - IDLE_FIRING_PAUSE_MS * NS_PER_MS * 2);
    keeper->spare_ns += IDLE_FIRING_PAUSE_MS * NS_PER_MS;
    return true;
}

static instant_ns keeper_due_ns(const struct keeper *keeper) {
    return instant_min(shard_due_ns(&keeper->shard), keeper->log.due_ns);
}

/* Sends in one write a node, wakes the front, and sets the timer. */
static int settle(void *userdata) {
    struct keeper *keeper = userdata;

    /* Flushing may break a connection, which may cause more sends. */
    while (keeper->probed != 0 || batcher_pending(keeper->batcher) ||
           subscriber_pending(keeper->subscriber)) {
        flush_probed(keeper);
        batcher_flush(keeper->batcher, keeper->nodes, &keeper->shard, clock_now_ns());
        if (subscriber_pending(keeper->subscriber))
            subscriber_flush(keeper->subscriber);
    }
    keeper->backlog = keeper_message_flush(&keeper->messages);
    instant_ns due_ns = keeper_due_ns(keeper);
    if (keeper->backlog)
        due_ns = instant_min(due_ns, clock_now_ns() + NS_PER_MS);
    if (due_ns >= keeper->timer_ns && !would_fire_idle(keeper, due_ns))
        return 0;
    return set_timer(keeper, due_ns);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct keeper *keeper = userdata;

    instant_ns now_ns = clock_now_ns();

    (void) source;
    (void) usec;
    histogram_note(&keeper->timer_delays, now_ns - keeper->timer_ns);
    shard_tick(&keeper->shard, now_ns);
    if (now_ns >= keeper->log.due_ns)
        node_log_settle(&keeper->log, now_ns);
    return set_timer(keeper, keeper_due_ns(keeper));
}

/* --- the front's commands --- */

static struct front_state_node_times node_info(struct keeper *keeper, unsigned node) {
    struct redis *redis = keeper->nodes[node];
    const struct server_info *info = redis_server_info(redis);
    struct front_state_node_times times = {
        .rtt_us = redis_rtt_us(redis),
        .rtt_p50_us = redis_rtt_percentile_us(redis, 500),
        .rtt_p99_us = redis_rtt_percentile_us(redis, 990),
        .outstanding = keeper->shard.nodes[node].outstanding,
        .rtts = *redis_rtts(redis),
        .clock_us = token_clock_ahead_us(&keeper->shard, node, clock_now_ns()),
        .until_ns = node_trust_until_ns(&keeper->shard, node),
        .evicted_keys = info->evicted_keys,
        .known = info->run_id[0] != '\0',
        .aof_enabled = info->aof_enabled,
    };

    static_assert(sizeof(times.version) == sizeof(info->version), "a version fits");
    memcpy(times.version, info->version, sizeof(times.version));
    static_assert(sizeof(times.differs) == DIFFERENCE_BYTES, "a difference fits");
    memcpy(times.differs, redis_difference(redis), sizeof(times.differs));
    return times;
}

static void survey(struct keeper *keeper, uint32_t number) {
    struct keeper_message_survey survey = {.counters = keeper->shard.counters,
                                           .timer_delays = keeper->timer_delays};

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        survey.figures[i] = node_info(keeper, i);
    keeper_message_survey(&keeper->messages, number, &survey);
}

/* After a restart a client's RESUME is a search at first. */
static bool is_resume(const struct keeper_command *command) {
    return command->kind == KEEPER_COMMAND_COMMAND &&
           (command->command.kind == COMMAND_RESUME || command->command.kind == COMMAND_SEARCH);
}

static void take_commands(void *userdata) {
    struct keeper *keeper = userdata;
    const struct keeper_command *command;
    size_t length;
    instant_ns now_ns = 0;

    for (unsigned taken = 0; (command = mailbox_next(&keeper->inbox, &length)); taken++) {
        assert(length >= sizeof(*command));
        /* One time for commands that share a script call: then they propose the same token, which the call
         * contains once. A RESUME's time is not before that of the front, which has checked its instants. */
        if (taken % BATCH_ACQUIRES_MAX == 0 || is_resume(command))
            now_ns = clock_now_ns();
        switch (command->kind) {
        case KEEPER_COMMAND_COMMAND: {
            struct command copy = command->command;
            copy.text = (const char *) (command + 1);
            shard_command(&keeper->shard, &copy, now_ns);
            break;
        }
        case KEEPER_COMMAND_SURVEY:
            survey(keeper, command->number);
            break;
        case KEEPER_COMMAND_PING:
            keeper_message_pong(&keeper->messages, command->number);
            break;
        case KEEPER_COMMAND_BLESS:
            node_trust_bless(&keeper->shard, command->node, now_ns);
            break;
        case KEEPER_COMMAND_SUCCEED: {
            struct shard_predecessors predecessors;
            memcpy(&predecessors, command + 1, sizeof(predecessors));
            shard_succeed(&keeper->shard, &predecessors);
            break;
        }
        case KEEPER_COMMAND_STOP:
            (void) loop_exit(keeper->event, 0);
            break;
        }
    }
}

static bool commands_wait(void *userdata, bool sleeping) {
    struct keeper *keeper = userdata;
    return mailbox_waits(&keeper->inbox, sleeping);
}

/* --- the nodes --- */

static void subscribe_or_poll(struct keeper *keeper, unsigned node) {
    const struct redis *redis = keeper->nodes[node];
    const struct user_rights *rights = redis_rights(redis);

    if (rights->listen)
        subscriber_node_ready(keeper->subscriber, node, redis);
    else if (rights->missing[0] != '\0')
        node_log_missing_rights(&keeper->log, node, rights->missing);
}

static void report_duplicate(struct keeper *keeper, unsigned node, unsigned other, instant_ns now_ns) {
    char reason[NODE_TROUBLE_BYTES];
    bool present = redis_state(keeper->nodes[other]) == REDIS_READY;

    (void) snprintf(reason, sizeof(reason),
                    "%s the same server as node %s: only that node votes. Give each node its own server",
                    present ? "is" : "was", keeper->node_names[other]);
    node_trust_gone(&keeper->shard, node, NODE_STATE_FAILED, reason, now_ns);
}

static void judge_twins(struct keeper *keeper, unsigned node, instant_ns now_ns) {
    unsigned other;

    if (duplicate_nodes_reject(&keeper->duplicates, node, &other))
        report_duplicate(keeper, node, other, now_ns);
    else
        node_trust_ready(&keeper->shard, node, now_ns);
    node_set parted = duplicate_nodes_part(&keeper->duplicates, node);
    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        if (parted & node_set_of(i))
            node_trust_ready(&keeper->shard, i, now_ns);
}

static void on_node_state(void *userdata, struct redis *redis, enum redis_state state, const char *reason) {
    static const enum node_state states[] = {[REDIS_CONNECTING] = NODE_STATE_CONNECTING,
                                             [REDIS_PROBING] = NODE_STATE_PROBING,
                                             [REDIS_UNFIT] = NODE_STATE_FAILED};
    struct keeper *keeper = userdata;
    unsigned node = redis_index(redis);
    instant_ns now_ns = clock_now_ns();

    if (state == REDIS_READY) {
        batcher_node_ready(keeper->batcher, node);
        subscribe_or_poll(keeper, node);
        judge_twins(keeper, node, now_ns);
    } else {
        subscriber_node_gone(keeper->subscriber, node);
        node_trust_gone(&keeper->shard, node, states[state], reason, now_ns);
    }
}

static void on_node_probe(void *userdata, struct redis *redis, const struct probe *probe) {
    struct keeper *keeper = userdata;
    unsigned node = redis_index(redis);

    node_log_difference(&keeper->log, redis_difference(redis));
    node_trust_probed(&keeper->shard, node, probe, clock_now_ns());
    redis_trust_epoch(redis, node_trust_holds(&keeper->shard, node));
}

static void on_node_reply(void *userdata, struct redis *redis, void *tag, redisReply *reply) {
    struct keeper *keeper = userdata;

    if (!batcher_answered(keeper->batcher, &keeper->shard, redis_index(redis), tag, reply, clock_now_ns()))
        redis_cut(redis, REDIS_MISFIT);
}

static void on_node_info(void *userdata, struct redis *redis) {
    struct keeper *keeper = userdata;
    bool sure;

    const char *refusal = server_info_refusal(redis_server_info(redis), &sure);
    if (redis_taken_rights(redis)[0] != '\0') {
        refusal = redis_taken_rights(redis);
        sure = true;
    }
    if (sure)
        node_trust_refuses(&keeper->shard, redis_index(redis), refusal, clock_now_ns());
}

/* Subscribes anew: the greeting of a subscription requests what the user's rights allow. */
static void on_node_rights(void *userdata, struct redis *redis) {
    struct keeper *keeper = userdata;

    subscriber_node_gone(keeper->subscriber, redis_index(redis));
    subscribe_or_poll(keeper, redis_index(redis));
}

/* All nodes are inspected in one turn, so that an idle keeper sleeps until the next. */
static void on_node_inspect(void *userdata, struct redis *redis) {
    struct keeper *keeper = userdata;

    for (unsigned i = 0; i < keeper->config.config->n_nodes; i++)
        if (redis_inspect_along(keeper->nodes[i], redis))
            keeper->probed |= node_set_of(i);
    node_trust_probe_early(&keeper->shard, INSPECT_EARLY_MS * NS_PER_MS, clock_now_ns());
    node_log_settle(&keeper->log, clock_now_ns());
}

/* --- the thread --- */

static int set_up(struct keeper *keeper) {
    static const struct poller_hooks hooks = {
        .mail = take_commands, .mail_waits = commands_wait, .settle = settle};
    static const struct redis_callbacks callbacks = {.on_state = on_node_state,
                                                     .on_probe = on_node_probe,
                                                     .on_reply = on_node_reply,
                                                     .on_server_info = on_node_info,
                                                     .on_rights = on_node_rights,
                                                     .on_inspect = on_node_inspect};
    const struct config *config = keeper->config.config;

    keeper->timer_ns = INSTANT_NEVER;
    int r = sd_event_new(&keeper->event);
    if (r >= 0)
        r = loop_add_timer(keeper->event, on_timer, keeper, &keeper->timer);
    if (r >= 0)
        r = poller_new(keeper->event, &hooks, keeper, &keeper->poller);
    if (r >= 0)
        r = mailbox_attach(&keeper->inbox, keeper->poller);
    if (r >= 0)
        r = subscriber_new(keeper->event, keeper->poller, config, &keeper->shard,
                           keeper->config.requests_max, &keeper->subscriber);
    for (unsigned i = 0; i < config->n_nodes && r >= 0; i++) {
        fleet_init(&keeper->fleets[i], config, i);
        r = redis_new(keeper->event, keeper->poller, &config->nodes[i], i, &keeper->fleets[i], &callbacks,
                      keeper, &keeper->nodes[i]);
    }
    return r;
}

static void tear_down(struct keeper *keeper) {
    for (unsigned i = 0; i < NODES_MAX; i++)
        keeper->nodes[i] = redis_free(keeper->nodes[i]);
    keeper->subscriber = subscriber_free(keeper->subscriber);
    keeper->poller = poller_free(keeper->poller);
    sd_event_source_unref(keeper->timer);
    sd_event_unref(keeper->event);
}

static void *keeper_thread(void *userdata) {
    struct keeper *keeper = userdata;
    char name[16];

    (void) snprintf(name, sizeof(name), "keeper-%u", keeper->config.index);
    (void) prctl(PR_SET_NAME, name);
    int r = set_up(keeper);
    if (r >= 0) {
        (void) sem_post(&keeper->is_set_up);
        r = poller_run(keeper->poller);
    }
    if (r < 0) {
        log_error("keeper %u failed: %s. Its leases can't be extended, so the agent ends here",
                  keeper->config.index, strerror(-r));
        _exit(EX_OSERR);
    }
    tear_down(keeper);
    return NULL;
}

static int reserve_memory(struct keeper *keeper) {
    const struct shard_sink sink = {
        .send = on_send,
        .report = on_report,
        .probe = on_probe,
        .bless = on_bless,
        .amend = on_amend,
        .cut = on_cut,
        .secret = on_secret,
        .listen = on_listen,
        .userdata = keeper,
    };
    const struct config *config = keeper->config.config;

    for (unsigned i = 0; i < config->n_nodes; i++)
        keeper->node_names[i] = config->nodes[i].name;
    struct shard_config shard_config = {
        .nodes = config->n_nodes,
        .requests_max = keeper->config.requests_max,
        .node_names = keeper->node_names,
        .max_ttl_ms = (uint32_t) config->max_ttl_ms,
        .quarantine = config->quarantine,
        .fence_skew_ms = (uint32_t) config->fence_skew_ms,
        .seed = keeper->config.seed,
    };
    lock_value_identify(&shard_config.identity, config->host, keeper->config.agent_id);
    keeper->memory_bytes = shard_memory_bytes(&shard_config);
    keeper->memory = loop_reserve(keeper->memory_bytes);
    if (!keeper->memory)
        return -ENOMEM;
    shard_init(&keeper->shard, &shard_config, &sink, keeper->memory);
    return 0;
}

int keeper_new(const struct keeper_config *config, struct keeper **ret) {
    struct keeper *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return -ENOMEM;
    keeper->config = *config;
    duplicate_nodes_init(&keeper->duplicates, keeper->nodes, config->config->n_nodes);
    node_log_init(&keeper->log, keeper->node_names, config->index == 0);
    keeper_message_queue_init(&keeper->messages, &keeper->outbox);
    (void) snprintf(keeper->nonce, sizeof(keeper->nonce), "%016llx", (unsigned long long) config->seed);
    (void) sem_init(&keeper->is_set_up, 0, 0);
    int r = mailbox_init(&keeper->inbox, MAILBOX_BYTES);
    if (r >= 0)
        r = mailbox_init(&keeper->outbox, MAILBOX_BYTES);
    if (r >= 0)
        r = reserve_memory(keeper);
    if (r >= 0)
        r = batcher_new(config->config, config->agent_id, &keeper->batcher);
    if (r >= 0)
        r = -pthread_create(&keeper->thread, NULL, keeper_thread, keeper);
    if (r < 0) {
        keeper_free(keeper);
        return r;
    }
    keeper->started = true;
    /* The sessions of a former process may take all other descriptors. */
    while (sem_wait(&keeper->is_set_up) < 0)
        ;
    *ret = keeper;
    return 0;
}

struct keeper *keeper_free(struct keeper *keeper) {
    if (!keeper)
        return NULL;
    if (keeper->started) {
        const struct keeper_command stop = {.kind = KEEPER_COMMAND_STOP};
        mailbox_post(&keeper->inbox, &stop, sizeof(stop), NULL, 0);
        while (mailbox_flush(&keeper->inbox))
            (void) usleep(1000);
        (void) pthread_join(keeper->thread, NULL);
    }
    batcher_free(keeper->batcher);
    if (keeper->memory)
        (void) munmap(keeper->memory, keeper->memory_bytes);
    mailbox_deinit(&keeper->inbox);
    mailbox_deinit(&keeper->outbox);
    (void) sem_destroy(&keeper->is_set_up);
    free(keeper);
    return NULL;
}
